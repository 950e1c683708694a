//! Finds the id of a response that cannot be parsed.

/// Returns the `id` among the outermost keys of a JSON object of which only both ends are known.
///
/// Servers write it before or after the `result`, so one of the ends contains it: the head up to the first
/// nested value, or the tail after the last one.
pub(super) fn top_level_id(head: &[u8], tail: &[u8]) -> Option<i64> {
    let head = head.trim_ascii_start().strip_prefix(b"{")?;
    let nested = head.iter().position(|byte| matches!(byte, b'{' | b'[')).unwrap_or(head.len());
    id_in(&head[..nested]).or_else(|| {
        let tail = tail.trim_ascii_end().strip_suffix(b"}")?;
        let nested = tail.iter().rposition(|byte| matches!(byte, b'}' | b']')).map_or(0, |at| at + 1);
        id_in(&tail[nested..])
    })
}

fn id_in(keys: &[u8]) -> Option<i64> {
    let at = keys.windows(4).position(|window| window == b"\"id\"")?;
    let value = keys[at + 4..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&value[..digits]).ok()?.parse().ok()
}
