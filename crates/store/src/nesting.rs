//! Rejects messages that could not be parsed again.

use toolwire_contract::conversations::StoreError;

/// The deepest nesting that a stored message may have. JSON parsers stop at 128 levels, and an export adds
/// some levels around each message.
const MAX_DEPTH: usize = 120;

/// Rejects JSON that is nested too deeply: once stored, it would make the complete conversation unreadable.
pub(crate) fn check(text: &str, place: &str) -> Result<(), StoreError> {
    let depth = nesting_depth(text);
    if depth > MAX_DEPTH {
        let problem = format!("a message is nested {depth} levels deep; the maximum is {MAX_DEPTH}");
        return Err(StoreError::Refused { place: place.to_owned(), problem });
    }
    Ok(())
}

/// Returns the nesting depth of well-formed JSON text, without parsing it into values.
fn nesting_depth(text: &str) -> usize {
    let (mut level, mut deepest) = (0_usize, 0);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                level += 1;
                deepest = deepest.max(level);
            }
            b'}' | b']' => level = level.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    deepest
}

fn skip_string(bytes: &mut impl Iterator<Item = u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_strings_do_not_count() {
        assert_eq!(nesting_depth("1"), 0);
        assert_eq!(nesting_depth(r#"{"a":[{"b":1},[]],"c":{}}"#), 3);
        assert_eq!(nesting_depth(r#"["[[[\"[[[\\",{"{{":"}"}]"#), 2);
    }
}
