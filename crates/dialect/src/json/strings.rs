//! Escapes in JSON strings.

use bumpalo::Bump;

/// Returns the first index at or after `start` of a quote, a backslash, a control character or the end.
///
/// It looks at eight bytes at a time, because most strings are short. In a long string, such as a
/// description, it continues with larger blocks that the compiler vectorizes.
pub(super) fn find_special(bytes: &[u8], start: usize) -> usize {
    const LONG_STRING: usize = 24;
    const BLOCK: usize = 32;
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    const fn zeros(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word & HIGHS
    }
    let mut at = start;
    while let Some(chunk) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("the chunk has eight bytes"));
        let quotes = zeros(word ^ (ONES * b'"' as u64));
        let backslashes = zeros(word ^ (ONES * b'\\' as u64));
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let found = quotes | backslashes | controls;
        if found != 0 {
            // The lowest set bit is exact: a borrow can only affect bytes above a real match.
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
        if at == start + LONG_STRING {
            while bytes
                .get(at..at + BLOCK)
                .is_some_and(|chunk| chunk.iter().fold(true, |all, byte| all & is_plain(*byte)))
            {
                at += BLOCK;
            }
        }
    }
    while bytes.get(at).is_some_and(|byte| is_plain(*byte)) {
        at += 1;
    }
    at
}

const fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

pub(super) fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |unit, digit| Some(unit * 16 + (*digit as char).to_digit(16)?))
}

/// Decodes a well-formed escaped string. Unpaired surrogates become U+FFFD.
pub(super) fn unescape<'b>(raw: &str, arena: &'b Bump) -> &'b str {
    let mut text = bumpalo::collections::String::with_capacity_in(raw.len(), arena);
    let mut rest = raw;
    while let Some(index) = rest.find('\\') {
        text.push_str(&rest[..index]);
        let escape = rest.as_bytes().get(index + 1).copied().unwrap_or(b'\\');
        rest = rest.get(index + 2..).unwrap_or_default();
        text.push(match escape {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = take_unit(&mut rest);
                let pair = match unit {
                    0xd800..0xdc00 => rest.strip_prefix("\\u").and_then(|mut low| {
                        let low_unit = take_unit(&mut low);
                        (0xdc00..0xe000).contains(&low_unit).then_some((low_unit, low))
                    }),
                    _ => None,
                };
                match pair {
                    Some((low_unit, after)) => {
                        rest = after;
                        char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low_unit - 0xdc00))
                    }
                    None => char::from_u32(unit),
                }
                .unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            other => other as char,
        });
    }
    text.push_str(rest);
    text.into_bump_str()
}

fn take_unit(rest: &mut &str) -> u32 {
    let unit = rest.as_bytes().get(..4).and_then(hex).unwrap_or(0xfffd);
    *rest = rest.get(4..).unwrap_or_default();
    unit
}

/// Appends `text`, escaped for use between the quotes of a JSON string.
pub(super) fn escape_into(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let mut copied = 0;
    loop {
        let index = find_special(bytes, copied);
        out.push_str(&text[copied..index]);
        let Some(byte) = bytes.get(index) else { return };
        copied = index + 1;
        match *byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            control => out.push_str(&format!("\\u{control:04x}")),
        }
    }
}
