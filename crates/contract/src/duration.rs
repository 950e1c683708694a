//! Durations as users write them.

use core::time::Duration;

/// A longer duration is most likely a mistake, such as milliseconds without a unit.
const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// Parses a duration such as `30`, `30s`, `500ms`, `2m` or `1h`; a number without a unit is seconds. Returns
/// `None` for other text, and for durations that are not positive or longer than a day.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit_start =
        text.find(|letter: char| letter.is_ascii_alphabetic() && letter != 'e').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_start);
    let unit_seconds = match unit.trim() {
        "ms" => 0.001,
        "" | "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        _ => return None,
    };
    let number: f64 = number.trim().parse().ok()?;
    let duration = Duration::try_from_secs_f64(number * unit_seconds).ok()?;
    (duration > Duration::ZERO && duration <= MAX_DURATION).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units_are_parsed() {
        let cases = [
            ("30", Some(30_000)),
            ("0.5", Some(500)),
            ("1e1", Some(10_000)),
            ("30s", Some(30_000)),
            (" 30 s ", Some(30_000)),
            ("500ms", Some(500)),
            ("2m", Some(120_000)),
            ("1.5h", Some(5_400_000)),
            ("2 minutes", Some(120_000)),
            ("24h", Some(86_400_000)),
            ("25h", None),
            ("0", None),
            ("-1", None),
            ("", None),
            ("s", None),
            ("soon", None),
            ("30 seconds ago", None),
            ("1e400", None),
            ("inf", None),
            ("NaN", None),
            ("30S", None),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(parse_duration(text), milliseconds.map(Duration::from_millis), "{text:?}");
        }
    }
}
