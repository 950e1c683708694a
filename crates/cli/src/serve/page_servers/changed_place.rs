//! The places where a definition differs from the accepted one, with the words that changed.

use serde_json::Value;
use toolwire_hub::pins::DefinitionChange;
use toolwire_page::servers::{ChangedPlace, Words};

/// If two texts have more words than this, their common words are only found at the start and the end.
const MAX_COMPARED_WORDS: usize = 1_000;

/// Returns a place with the accepted and the current text, or both values as JSON if they are not texts.
pub(super) fn changed_place(change: &DefinitionChange) -> ChangedPlace {
    let words = match (&change.before, &change.after) {
        (Some(Value::String(before)), Some(Value::String(after))) => compare_words(before, after),
        (before, after) => {
            let side = |value: &Option<Value>, is_before| {
                let text = value.as_ref().map(|value| match value {
                    Value::String(text) => text.clone(),
                    value => serde_json::to_string_pretty(value).unwrap_or_default(),
                });
                text.map(|text| Words { text, is_before, is_after: !is_before })
            };
            side(before, true).into_iter().chain(side(after, false)).collect()
        }
    };
    let separator = if change.pointer.is_empty() { "" } else { " " };
    ChangedPlace {
        place: format!("{}{separator}{}", change.part.name(), change.pointer),
        words,
        has_before: change.before.is_some(),
        has_after: change.after.is_some(),
    }
}

/// Returns the words of two texts, in order.
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

    use super::*;

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
