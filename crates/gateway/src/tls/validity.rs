//! Reads when a certificate expires. The TLS library does not report this for the server's own certificate.

use std::time::{Duration, SystemTime};

const SEQUENCE: u8 = 0x30;
/// The version of a certificate, which is absent in the first version of the format.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Returns the end of the validity of a certificate (RFC 5280, section 4.1).
pub(super) fn not_after(certificate: &[u8]) -> Option<SystemTime> {
    let (tag, certificate, _) = element(certificate)?;
    let (inner_tag, mut fields, _) = element(certificate)?;
    if (tag, inner_tag) != (SEQUENCE, SEQUENCE) {
        return None;
    }
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.2;
    }
    // The serial number, the algorithm and the issuer.
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (_, validity, _) = element(fields)?;
    let (_, _, rest) = element(validity)?;
    let (tag, text, _) = element(rest)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    match tag {
        GENERALIZED_TIME => time(text.get(..4)?.parse().ok()?, text.get(4..)?),
        UTC_TIME => {
            let year: i64 = text.get(..2)?.parse().ok()?;
            time(if year >= 50 { 1900 + year } else { 2000 + year }, text.get(2..)?)
        }
        _ => None,
    }
}

/// Returns the tag and the content of the first DER element, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// Returns a time from its year and `MMDDhhmmss`.
fn time(year: i64, rest: &str) -> Option<SystemTime> {
    let part = |start: usize| rest.get(start..start + 2)?.parse::<i64>().ok();
    let (month, day) = (part(0)?, part(2)?);
    let (hour, minute, second) = (part(4)?, part(6)?, part(8)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970, with years that begin in March, so that the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(year: i64, rest: &str) -> Option<u64> {
        Some(time(year, rest)?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (year, rest, expected) in [
            (1970, "0101000000", 0),
            (2000, "0229000000", 951_782_400),
            (2001, "0301000000", 983_404_800),
            (2026, "1119041500", 1_795_061_700),
            (2049, "1231235959", 2_524_607_999),
            (9999, "1231235959", 253_402_300_799),
        ] {
            assert_eq!(seconds(year, rest), Some(expected), "{year} {rest}");
        }
        assert_eq!(seconds(2026, "1319041500"), None);
        assert_eq!(seconds(2026, "11"), None);
    }

    #[test]
    fn damaged_certificates_have_no_expiry() {
        for bytes in [&[][..], &[0x30], &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], &[0x30, 0x02, 0x30, 0x00]] {
            assert_eq!(not_after(bytes), None, "{bytes:?}");
        }
    }
}
