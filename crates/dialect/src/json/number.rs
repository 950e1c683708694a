//! Exact decimal numbers of any length, so that bounds and enum values are compared without rounding.

use std::cmp::Ordering;

/// A decimal number as a sign, significant digits and a power of ten: `0.d₁d₂… × 10^scale`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Decimal {
    negative: bool,
    /// Without leading or trailing zeros; empty for zero.
    digits: Vec<u8>,
    scale: i64,
}

impl Decimal {
    /// Parses a JSON number. Any other text is parsed as zero.
    pub(crate) fn of(text: &str) -> Decimal {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().unwrap_or(saturated(exponent))),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).filter(u8::is_ascii_digit).collect();
        let leading = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..leading);
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        if digits.is_empty() {
            return Decimal { negative: false, digits, scale: 0 };
        }
        let scale = exponent.saturating_add(whole.len() as i64).saturating_sub(leading as i64);
        Decimal { negative, digits, scale }
    }

    pub(crate) fn is_integer(&self) -> bool {
        self.digits.is_empty() || self.scale >= self.digits.len() as i64
    }

    /// Returns all digits of an integer, if there are at most `max`.
    pub(crate) fn integer_digits(&self, max: usize) -> Option<String> {
        let length = usize::try_from(self.scale).ok().filter(|length| *length <= max)?;
        let zeros = length.checked_sub(self.digits.len())?;
        let sign = if self.negative { "-" } else { "" };
        let digits = if self.digits.is_empty() { "0" } else { std::str::from_utf8(&self.digits).ok()? };
        Some(format!("{sign}{digits}{}", "0".repeat(zeros)))
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.negative
    }
}

/// Returns the value used for an exponent that does not fit an `i64`.
fn saturated(exponent: &str) -> i64 {
    if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |number: &Decimal| match (number.digits.is_empty(), number.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let (a, b) = (sign(self), sign(other));
        if a != b || a == 0 {
            return a.cmp(&b);
        }
        let magnitude = self.scale.cmp(&other.scale).then_with(|| self.digits.cmp(&other.digits));
        if self.negative { magnitude.reverse() } else { magnitude }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(a: &str, b: &str, expected: Ordering) {
        assert_eq!(Decimal::of(a).cmp(&Decimal::of(b)), expected, "{a} and {b}");
        assert_eq!(Decimal::of(b).cmp(&Decimal::of(a)), expected.reverse(), "{b} and {a}");
    }

    #[test]
    fn numbers_compare_by_value() {
        check("1", "1.0", Ordering::Equal);
        check("1e2", "100", Ordering::Equal);
        check("-0", "0", Ordering::Equal);
        check("0.001", "1e-3", Ordering::Equal);
        check("9007199254740993", "9007199254740992", Ordering::Greater);
        check("-2", "-10", Ordering::Greater);
        check("0.1", "0.09", Ordering::Greater);
        check("1e400", "1e399", Ordering::Greater);
        check("-1", "0", Ordering::Less);
    }

    #[test]
    fn integers_are_recognized_by_value() {
        for (text, expected) in
            [("1", true), ("1.0", true), ("1.5", false), ("15e-1", false), ("1.5e1", true), ("0", true)]
        {
            assert_eq!(Decimal::of(text).is_integer(), expected, "{text}");
        }
    }
}
