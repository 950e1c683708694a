//! Times and durations. The script displays times in the time zone of the browser.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use maud::{Markup, html};

/// The format in which the script displays a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Time,
    Date,
    /// The time that has passed since then.
    Ago,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Time => "time",
            Format::Date => "date",
            Format::Ago => "ago",
        }
    }
}

/// Returns an element with a time. Without JavaScript, the time is in UTC.
pub fn time(at: SystemTime, format: Format) -> Markup {
    let at = DateTime::<Utc>::from(at);
    let text = match format {
        Format::Time => at.format("%H:%M").to_string(),
        Format::Date | Format::Ago => at.format("%Y-%m-%d %H:%M").to_string(),
    };
    html! { time datetime=(iso(at)) data-format=(format.name()) { (text) } }
}

/// Returns a time in ISO 8601, in UTC, with milliseconds.
pub fn iso(at: impl Into<DateTime<Utc>>) -> String {
    at.into().to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Returns a duration with two significant digits: `12 ms`, `0.2 s`, `3.1 s`, `2 min`, `3 h`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        _ if seconds < 0.009_95 => format!("{:.1} ms", seconds * 1e3),
        _ if seconds < 0.0995 => format!("{} ms", duration.as_millis()),
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        _ if seconds < 90.0 => format!("{seconds:.0} s"),
        _ if seconds < 90.0 * 60.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 48.0 * 3600.0 => format!("{:.0} h", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let text = |milliseconds| duration(Duration::from_millis(milliseconds));
        assert_eq!(duration(Duration::from_micros(1_230)), "1.2 ms");
        assert_eq!(text(12), "12 ms");
        assert_eq!(text(200), "0.2 s");
        assert_eq!(text(3_140), "3.1 s");
        assert_eq!(text(42_000), "42 s");
        assert_eq!(text(150_000), "2 min");
        assert_eq!(text(3 * 3_600_000), "3 h");
        assert_eq!(text(72 * 3_600_000), "3 days");
    }

    #[test]
    fn a_time_is_in_utc_without_javascript() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        assert_eq!(
            time(at, Format::Time).into_string(),
            r#"<time datetime="2023-11-14T22:13:20.123Z" data-format="time">22:13</time>"#
        );
    }
}
