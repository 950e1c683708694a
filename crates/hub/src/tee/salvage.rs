//! What can still be told of a message that cannot be read.

/// The `id` among the outermost keys of a JSON object of which only both ends are known.
///
/// Servers write it before the `result` or after it, so one of the ends has it: the head up to the first nested value,
/// the tail after the last one.
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

/// The beginning of a text, short enough for a message.
pub(crate) fn excerpt(text: &[u8]) -> String {
    const LONGEST: usize = 200;
    let cut = &text[..text.len().min(LONGEST)];
    let shown = String::from_utf8_lossy(cut);
    let shown = shown.trim().trim_end_matches(char::REPLACEMENT_CHARACTER);
    if text.len() > LONGEST { format!("{shown}…") } else { shown.to_owned() }
}
