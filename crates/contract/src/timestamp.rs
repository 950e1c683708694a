//! Dates of the Gregorian calendar, in UTC.

use core::fmt;

use crate::conversation::Timestamp;

const DAY_MILLISECONDS: u64 = 24 * 60 * 60 * 1_000;

/// A date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Date {
    year: u64,
    month: u64,
    day: u64,
}

impl Timestamp {
    /// Returns the start of a day that is written as `2026-11-19`; `None` if there is no such day.
    pub fn from_date(text: &str) -> Option<Timestamp> {
        let mut parts = text.split('-');
        let mut part = |length: usize| {
            let text = parts.next().filter(|text| text.len() == length)?;
            text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?
        };
        let date = Date { year: part(4)?, month: part(2)?, day: part(2)? };
        if parts.next().is_some() || date.year < 1970 || !(1..=12).contains(&date.month) || date.day == 0 {
            return None;
        }
        let start = Timestamp(days_before(date) * DAY_MILLISECONDS);
        // A day that does not exist, such as February 30, was computed as a day of the next month.
        (start.date() == date).then_some(start)
    }

    /// Returns the month, such as `2026-11`.
    pub fn month(self) -> String {
        let Date { year, month, .. } = self.date();
        format!("{year:04}-{month:02}")
    }

    /// Returns the start of the next month.
    #[must_use]
    pub fn next_month(self) -> Timestamp {
        let Date { year, month, .. } = self.date();
        let (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        Timestamp(days_before(Date { year, month, day: 1 }) * DAY_MILLISECONDS)
    }

    /// Returns the time in the format of RFC 3339, such as `2026-11-19T04:40:00.000Z`.
    pub fn rfc_3339(self) -> impl fmt::Display {
        let Date { year, month, day } = self.date();
        let (hours, minutes) = (self.0 / 3_600_000 % 24, self.0 / 60_000 % 60);
        let (seconds, milliseconds) = (self.0 / 1_000 % 60, self.0 % 1_000);
        format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}Z")
    }

    /// Computes the date in years that begin on March 1, so that the leap day is the last day of a year.
    fn date(self) -> Date {
        // 719,468 days from 0000-03-01 to 1970-01-01; an era has 400 years and 146,097 days.
        let days = self.0 / DAY_MILLISECONDS + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        Date { year, month, day }
    }
}

/// Returns the number of days from 1970-01-01 to a date that is not earlier.
fn days_before(Date { year, month, day }: Date) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29", 951_782_400),
            ("2026-11-19", 1_795_046_400),
            ("2100-03-01", 4_107_542_400),
        ] {
            let time = Timestamp::from_date(text).expect("a date");
            assert_eq!(time, Timestamp(seconds * 1_000), "{text}");
            assert_eq!(
                Timestamp(time.0 + DAY_MILLISECONDS - 1).rfc_3339().to_string(),
                format!("{text}T23:59:59.999Z")
            );
        }
        for text in
            ["", "2026-11", "2026-02-30", "2026-13-01", "2026-00-01", "26-01-01", "2026-1-1", "2026-+1-01"]
        {
            assert_eq!(Timestamp::from_date(text), None, "{text}");
        }
        for day in 0..100_000 {
            let time = Timestamp(day * DAY_MILLISECONDS);
            let text = time.rfc_3339().to_string();
            assert_eq!(Timestamp::from_date(&text[..10]), Some(time), "{text}");
        }
    }

    #[test]
    fn a_month_ends_with_the_next_one() {
        let time = Timestamp::from_date("2026-12-31").expect("a date");
        assert_eq!(time.month(), "2026-12");
        assert_eq!(time.next_month().month(), "2027-01");
        assert_eq!(time.next_month(), Timestamp(time.0 + DAY_MILLISECONDS));
    }
}
