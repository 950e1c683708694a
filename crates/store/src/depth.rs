//! Keeps out what could not be read back.

use toolwire_contract::StoreError;

/// How many levels of arrays and objects a message may have. Readers of JSON stop at 128, so as not to be led too deep,
/// and an export puts some around each message.
const MOST: usize = 120;

/// Refuses JSON that is nested too deeply: kept once, it would make the whole conversation unreadable.
pub(crate) fn check(text: &str, place: &str) -> Result<(), StoreError> {
    let levels = levels(text);
    if levels > MOST {
        let problem = format!(
            "a message has {levels} levels of arrays and objects, and at most {MOST} can be read back"
        );
        return Err(StoreError::Refused { place: place.to_owned(), problem });
    }
    Ok(())
}

/// How deep well-formed JSON is nested.
fn levels(text: &str) -> usize {
    let (mut level, mut deepest) = (0_usize, 0);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                level += 1;
                deepest = deepest.max(level);
            }
            b'}' | b']' => level = level.saturating_sub(1),
            b'"' => skip_text(&mut bytes),
            _ => {}
        }
    }
    deepest
}

fn skip_text(bytes: &mut impl Iterator<Item = u8>) {
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
    fn brackets_in_texts_are_no_levels() {
        assert_eq!(levels("1"), 0);
        assert_eq!(levels(r#"{"a":[{"b":1},[]],"c":{}}"#), 3);
        assert_eq!(levels(r#"["[[[\"[[[\\",{"{{":"}"}]"#), 2);
    }
}
