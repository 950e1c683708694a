//! Times as people write them.

use core::time::Duration;

/// Longer is a mistake, or milliseconds.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// A time such as `30`, `"30s"`, `"500ms"`, `"2m"` or `"1h"`; a number alone is seconds. `None` if it is none of these, is
/// not positive, or is more than a day.
pub fn read_time(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits =
        text.find(|letter: char| letter.is_ascii_alphabetic() && letter != 'e').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim() {
        "ms" => 0.001,
        "" | "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        _ => return None,
    };
    let number: f64 = number.trim().parse().ok()?;
    let time = Duration::try_from_secs_f64(number * seconds).ok()?;
    (time > Duration::ZERO && time <= LONGEST).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
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
            assert_eq!(read_time(text), milliseconds.map(Duration::from_millis), "{text:?}");
        }
    }
}
