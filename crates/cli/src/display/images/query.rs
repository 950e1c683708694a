//! Asks the terminal for its capabilities.

/// Asks the terminal whether it draws sixels. Also returns the text that the user typed meanwhile.
#[cfg(unix)]
pub(crate) fn has_sixel() -> (bool, String) {
    use std::io::Write;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use crate::chat::terminal_modes::{NoEcho, typed_text};

    /// The maximum time to wait for the reply, which may come from a distant terminal.
    const TIMEOUT: Duration = Duration::from_secs(2);

    let _no_echo = NoEcho::enable();
    let mut stdout = std::io::stdout();
    if stdout.write_all(b"\x1b[c").and_then(|()| stdout.flush()).is_err() {
        return (false, String::new());
    }
    let stdin = std::io::stdin();
    let deadline = Instant::now() + TIMEOUT;
    let mut received = Vec::new();
    loop {
        if let Some((attributes, typed)) = split_reply(&received) {
            return (attributes.contains(&4), typed_text(&typed));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let tv_sec = left.as_secs().try_into().unwrap_or_default();
        let timeout = Timespec { tv_sec, tv_nsec: left.subsec_nanos().into() };
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        if left.is_zero() || poll(&mut ready, Some(&timeout)).unwrap_or(0) == 0 {
            return (false, typed_text(&received));
        }
        let mut buffer = [0; 256];
        match rustix::io::read(&stdin, &mut buffer[..]) {
            Ok(count @ 1..) => received.extend_from_slice(&buffer[..count]),
            _ => return (false, typed_text(&received)),
        }
    }
}

#[cfg(not(unix))]
pub(crate) fn has_sixel() -> (bool, String) {
    (false, String::new())
}

/// Separates the terminal's reply, `ESC [ ? 62 ; 4 c`, from typed keys. Returns its numbers and the keys.
#[cfg_attr(not(unix), allow(dead_code))]
fn split_reply(received: &[u8]) -> Option<(Vec<u32>, Vec<u8>)> {
    let start = received.windows(3).position(|window| window == b"\x1b[?")?;
    let body = &received[start + 3..];
    let length = body.iter().position(|byte| !byte.is_ascii_digit() && *byte != b';')?;
    if body[length] != b'c' {
        return None;
    }
    let numbers = str::from_utf8(&body[..length]).ok()?.split(';').filter_map(|number| number.parse().ok());
    Some((numbers.collect(), [&received[..start], &body[length + 1..]].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_is_separated_from_typed_keys() {
        assert_eq!(split_reply(b"he\x1b[?62;4;22cllo"), Some((vec![62, 4, 22], b"hello".to_vec())));
        for incomplete in [&b""[..], b"hello", b"\x1b[?62;4", b"\x1b[?62h"] {
            assert_eq!(split_reply(incomplete), None);
        }
    }
}
