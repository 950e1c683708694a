//! The places where two definitions of a tool differ.

use serde_json::Value;

use super::DefinitionPart;

/// If a part has more differences, it is compared as a whole.
const MAX_CHANGES_PER_PART: usize = 200;

/// If two texts have more words than this, their common words are only found at the start and the end.
const MAX_COMPARED_WORDS: usize = 1_000;

/// A place in the definition of a tool that differs from the accepted definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefinitionChange {
    pub part: DefinitionPart,
    /// The place within the part, as a JSON pointer.
    pub pointer: String,
    /// The accepted value; `None` if the place is new.
    pub before: Option<Value>,
    /// The current value; `None` if the place was removed.
    pub after: Option<Value>,
}

/// Words of the accepted or the current text that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    pub text: String,
    /// Whether the accepted text has them.
    pub is_before: bool,
    /// Whether the current text has them.
    pub is_after: bool,
}

impl DefinitionChange {
    /// Returns the words of the accepted and of the current text, in order; `None` unless both values are
    /// texts.
    pub fn words(&self) -> Option<Vec<Words>> {
        let (Some(Value::String(before)), Some(Value::String(after))) = (&self.before, &self.after) else {
            return None;
        };
        Some(compare_words(before, after))
    }
}

/// Returns the differences of one part, in the order of the accepted definition.
pub(super) fn compare(
    part: DefinitionPart,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Vec<DefinitionChange> {
    let mut changes = Vec::new();
    compare_at(part, String::new(), before, after, &mut changes);
    if changes.len() > MAX_CHANGES_PER_PART {
        changes = vec![change(part, String::new(), before, after)];
    }
    changes
}

fn compare_at(
    part: DefinitionPart,
    pointer: String,
    before: Option<&Value>,
    after: Option<&Value>,
    changes: &mut Vec<DefinitionChange>,
) {
    if changes.len() > MAX_CHANGES_PER_PART {
        return;
    }
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            for (key, value) in before {
                compare_at(part, child(&pointer, key), Some(value), after.get(key), changes);
            }
            for (key, value) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
                compare_at(part, child(&pointer, key), None, Some(value), changes);
            }
        }
        // Lists of simple values, such as `enum` and `required`, are easier to read as a whole.
        (Some(Value::Array(before)), Some(Value::Array(after)))
            if before.len() == after.len() && before.iter().chain(after).all(Value::is_object) =>
        {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                compare_at(part, format!("{pointer}/{index}"), Some(before), Some(after), changes);
            }
        }
        (before, after) if before == after => {}
        (before, after) => changes.push(change(part, pointer, before, after)),
    }
}

fn change(
    part: DefinitionPart,
    pointer: String,
    before: Option<&Value>,
    after: Option<&Value>,
) -> DefinitionChange {
    DefinitionChange { part, pointer, before: before.cloned(), after: after.cloned() }
}

fn child(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn compare_words(before: &str, after: &str) -> Vec<Words> {
    let (before, after) = (split_words(before), split_words(after));
    let start = before.iter().zip(&after).take_while(|(before, after)| before == after).count();
    let (before_rest, after_rest) = (&before[start..], &after[start..]);
    let reversed = before_rest.iter().rev().zip(after_rest.iter().rev());
    let end = reversed.take_while(|(before, after)| before == after).count();
    let mut words = WordList::default();
    before[..start].iter().for_each(|word| words.push(word, true, true));
    let before_middle = &before_rest[..before_rest.len() - end];
    let after_middle = &after_rest[..after_rest.len() - end];
    if before_middle.len().max(after_middle.len()) > MAX_COMPARED_WORDS {
        before_middle.iter().for_each(|word| words.push(word, true, false));
        after_middle.iter().for_each(|word| words.push(word, false, true));
    } else {
        push_middle(before_middle, after_middle, &mut words);
    }
    before[before.len() - end..].iter().for_each(|word| words.push(word, true, true));
    words.0
}

/// Adds the words of two texts so that as many as possible are common.
fn push_middle(before: &[&str], after: &[&str], words: &mut WordList) {
    // The length of the longest common sequence of the words from each pair of positions.
    let mut common = vec![vec![0u32; after.len() + 1]; before.len() + 1];
    for (row, old) in before.iter().enumerate().rev() {
        for (column, new) in after.iter().enumerate().rev() {
            common[row][column] = match old == new {
                true => common[row + 1][column + 1] + 1,
                false => common[row + 1][column].max(common[row][column + 1]),
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    while row < before.len() || column < after.len() {
        let has_both = row < before.len() && column < after.len();
        if has_both && before[row] == after[column] {
            words.push(before[row], true, true);
            (row, column) = (row + 1, column + 1);
        } else if column >= after.len()
            || (row < before.len() && common[row + 1][column] >= common[row][column + 1])
        {
            words.push(before[row], true, false);
            row += 1;
        } else {
            words.push(after[column], false, true);
            column += 1;
        }
    }
}

#[derive(Default)]
struct WordList(Vec<Words>);

impl WordList {
    fn push(&mut self, word: &str, is_before: bool, is_after: bool) {
        match self.0.last_mut() {
            Some(last) if last.is_before == is_before && last.is_after == is_after => {
                last.text.push_str(word)
            }
            _ => self.0.push(Words { text: word.to_owned(), is_before, is_after }),
        }
    }
}

/// Splits a text into words, white space and single other characters. Together they are the text.
fn split_words(text: &str) -> Vec<&str> {
    let kind = |character: char| match character {
        _ if character.is_alphanumeric() || character == '_' => 0,
        _ if character.is_whitespace() => 1,
        _ => 2,
    };
    let mut words = Vec::new();
    let mut start = 0;
    let mut previous = None;
    for (position, character) in text.char_indices() {
        let kind = kind(character);
        if previous.is_some_and(|previous| previous != kind || kind == 2) {
            words.push(&text[start..position]);
            start = position;
        }
        previous = Some(kind);
    }
    if start < text.len() {
        words.push(&text[start..]);
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(before: Value, after: Value, expected: Value) {
        let changes = compare(DefinitionPart::InputSchema, Some(&before), Some(&after));
        let changes: Vec<Value> =
            changes.iter().map(|change| json!([change.pointer, change.before, change.after])).collect();
        assert_eq!(Value::from(changes), expected);
    }

    #[test]
    fn changes_are_found_at_their_places() {
        check(json!({"a": 1, "b": {"c": 2}}), json!({"b": {"c": 2}, "a": 1}), json!([]));
        check(
            json!({"a": 1, "b": {"c": 2, "d/e": 3}}),
            json!({"b": {"c": 4, "f~": [1]}}),
            json!([["/a", 1, null], ["/b/c", 2, 4], ["/b/d~1e", 3, null], ["/b/f~0", null, [1]]]),
        );
        check(json!({"enum": ["a"]}), json!({"enum": ["a", "b"]}), json!([["/enum", ["a"], ["a", "b"]]]));
        check(
            json!({"anyOf": [{"type": "string"}, {"minimum": 1}]}),
            json!({"anyOf": [{"type": "string"}, {"minimum": 2}]}),
            json!([["/anyOf/1/minimum", 1, 2]]),
        );
        check(json!(true), json!({}), json!([["", true, {}]]));
    }

    #[test]
    fn a_part_with_very_many_changes_is_compared_as_a_whole() {
        let schema = |value: u32| -> Value {
            (0..=MAX_CHANGES_PER_PART).map(|key| (key.to_string(), json!(value))).collect()
        };
        let (before, after) = (schema(1), schema(2));
        check(before.clone(), after.clone(), json!([["", before, after]]));
    }

    #[track_caller]
    fn check_words(before: &str, after: &str, expected: &[&str]) {
        let words = compare_words(before, after);
        let text = |words: &Words| match (words.is_before, words.is_after) {
            (true, true) => words.text.clone(),
            (true, false) => format!("-{}", words.text),
            _ => format!("+{}", words.text),
        };
        assert_eq!(words.iter().map(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn only_changed_words_are_marked() {
        check_words(
            "Delete one file",
            "Delete one file. Always recursive",
            &["Delete one file", "+. Always recursive"],
        );
        check_words("Reads a file.", "Reads any file.", &["Reads ", "-a", "+any", " file."]);
        check_words("a b c d", "a x c y d", &["a ", "-b", "+x", " c", "+ y", " d"]);
        check_words("", "new", &["+new"]);
        check_words("same", "same", &["same"]);
    }

    proptest! {
        #[test]
        fn the_words_of_each_side_are_its_text(before in "[a-c .ä]{0,40}", after in "[a-c .ä]{0,40}") {
            let words = compare_words(&before, &after);
            let side = |is_side: fn(&Words) -> bool| -> String {
                words.iter().filter(|words| is_side(words)).map(|words| words.text.as_str()).collect()
            };
            prop_assert_eq!(side(|words| words.is_before), before);
            prop_assert_eq!(side(|words| words.is_after), after);
        }
    }

    #[test]
    fn very_long_texts_are_compared_quickly() {
        let (before, after) = ("a ".repeat(500_000), "b ".repeat(500_000));
        let words = compare_words(&before, &after);
        // Without the common words in the middle.
        assert_eq!(words.len(), 3);
    }
}
