//! Random numbers between bounds, without rounding.

use serde_json::{Map, Number, Value};

use crate::support::random::Random;

/// The scale of fixed-point numbers: six decimals.
const SCALE: i128 = 1_000_000;

pub(super) fn draw(node: &Map<String, Value>, is_integer: bool, random: &mut Random) -> Option<Value> {
    let bound = |keyword: &str| node.get(keyword).and_then(scaled);
    let step = match bound("multipleOf") {
        Some(step) if step > 0 && !is_integer => step,
        Some(step) if step > 0 => least_common_multiple(step, SCALE)?,
        _ if is_integer => SCALE,
        _ => 0,
    };
    let unit = if step == 0 { SCALE / 4 } else { step };
    let mut low = bound("minimum");
    if let Some(exclusive) = bound("exclusiveMinimum") {
        low = Some(low.map_or(exclusive + 1, |low| low.max(exclusive + 1)));
    }
    let mut high = bound("maximum");
    if let Some(exclusive) = bound("exclusiveMaximum") {
        high = Some(high.map_or(exclusive - 1, |high| high.min(exclusive - 1)));
    }
    let (low, high) = match (low, high) {
        (Some(low), Some(high)) => (low, high),
        (Some(low), None) => (low, low + unit * 100),
        (None, Some(high)) => (high - unit * 100, high),
        (None, None) => {
            // More than a double can represent, to check that digits are preserved.
            if is_integer && step == SCALE && random.chance(8) {
                return Some(Value::Number("9007199254740993".parse::<Number>().ok()?));
            }
            (-unit * 3, unit * 1000)
        }
    };
    let (first, last) = if step == 0 {
        (low, high)
    } else {
        (low.div_euclid(step) + i128::from(low.rem_euclid(step) != 0), high.div_euclid(step))
    };
    if first > last {
        return None;
    }
    let span = (last - first).unsigned_abs();
    let offset = match random.below(5) {
        0 => 0,
        1 => span,
        _ => u128::from(random.next()) % (span + 1),
    };
    let chosen = first + i128::try_from(offset).ok()?;
    let value = if step == 0 { maybe_rounded(chosen, low, high, random) } else { chosen * step };
    Some(Value::Number(to_decimal(value).parse::<Number>().ok()?))
}

/// Rounds half of the numbers to integers, if the integer is within the bounds.
fn maybe_rounded(value: i128, low: i128, high: i128, random: &mut Random) -> i128 {
    let whole = value.div_euclid(SCALE) * SCALE;
    if random.chance(50) && whole >= low && whole <= high { whole } else { value }
}

fn scaled(value: &Value) -> Option<i128> {
    let text = value.as_number()?.to_string();
    if text.contains(['e', 'E']) {
        let float: f64 = text.parse().ok()?;
        return (float.abs() < 1e18).then_some((float * SCALE as f64) as i128);
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
    let negative = whole.starts_with('-');
    let whole: i128 = whole.parse().ok()?;
    if whole.abs() > i128::from(u64::MAX) {
        return None;
    }
    let fraction: i128 = digits.parse().ok()?;
    Some(whole * SCALE + if negative { -fraction } else { fraction })
}

fn to_decimal(value: i128) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let (whole, fraction) = (value.unsigned_abs() / SCALE as u128, value.unsigned_abs() % SCALE as u128);
    if fraction == 0 {
        return format!("{sign}{whole}");
    }
    let fraction = format!("{fraction:06}");
    format!("{sign}{whole}.{}", fraction.trim_end_matches('0'))
}

fn least_common_multiple(one: i128, other: i128) -> Option<i128> {
    let (mut a, mut b) = (one, other);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (one / a).checked_mul(other)
}
