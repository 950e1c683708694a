//! The text of a result: cleaned, truncated, and compared with the structured content.

use serde_json::{Number, Value};
use toolwire_contract::text::format_size;

/// The text for a result without content. Some APIs reject an empty text.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// The text for a result whose content is all meant for the user only.
pub(crate) const FOR_USER_ONLY: &str = "(the output is meant for the user only)";

/// Replaces NUL, which is valid in JSON but rejected by many APIs or treated as the end of the text. (An
/// unpaired surrogate, the other such character, cannot exist in a Rust string.)
pub(crate) fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Applies [`clean`] to every string in a value, including keys.
pub(crate) fn clean_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(text)),
        Value::Array(items) => items.iter().map(clean_value).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (clean(key), clean_value(value))).collect::<Value>()
        }
        other => other.clone(),
    }
}

/// Truncates texts, in their order, so that all of them together have at most `budget` characters. A marker
/// at the cut reports how many characters are missing.
pub(crate) fn truncate_all<'a>(texts: impl Iterator<Item = &'a mut String> + 'a, budget: usize) {
    let mut texts: Vec<&mut String> = texts.collect();
    let total: usize = texts.iter().map(|text| text.chars().count()).sum();
    if total <= budget {
        return;
    }
    let marker_length = marker(total).chars().count();
    let mut left = budget.saturating_sub(marker_length);
    let marker = marker(total - left);
    let mut is_marked = false;
    for text in &mut texts {
        let length = text.chars().count();
        if length <= left && !is_marked {
            left -= length;
            continue;
        }
        let end = text.char_indices().nth(left).map_or(text.len(), |(at, _)| at);
        text.truncate(end);
        left = 0;
        if !is_marked {
            text.push_str(&marker);
            is_marked = true;
        }
    }
}

fn marker(characters: usize) -> String {
    format!("\n[… {characters} characters truncated]")
}

/// Returns the indexes of `texts` that repeat the structured content.
///
/// Servers repeat structured content as JSON text. Some wrap a value that is not an object as `{"result": …}`
/// and write the bare value as text, or an array as one text per item.
pub(crate) fn duplicates(structured: &Value, texts: &[&str]) -> Vec<usize> {
    let same = |text: &str, value: &Value| {
        serde_json::from_str::<Value>(text).is_ok_and(|parsed| is_equal(&parsed, value))
    };
    if let Some(position) = texts.iter().position(|text| same(text, structured)) {
        return vec![position];
    }
    let wrapped =
        structured.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("result"));
    let Some(wrapped) = wrapped else { return Vec::new() };
    let repeats = |text: &str, value: &Value| value.as_str() == Some(text) || same(text, value);
    if let Some(position) = texts.iter().position(|text| repeats(text, wrapped)) {
        return vec![position];
    }
    match wrapped.as_array() {
        Some(items)
            if !items.is_empty()
                && items.len() == texts.len()
                && items.iter().zip(texts).all(|(item, text)| repeats(text, item)) =>
        {
            (0..texts.len()).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether two values are equal as JSON: the order of keys and the notation of numbers do not matter.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (is_exact_double(one) && is_exact_double(other) && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| is_equal(value, other)))
        }
        _ => one == other,
    }
}

/// Whether a number keeps all its digits as a double: it has at most 15 of them and does not overflow.
fn is_exact_double(number: &Number) -> bool {
    let text = number.to_string();
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let is_zero = digits.bytes().all(|digit| digit == b'0');
    let is_in_range = number.as_f64().is_some_and(|double| double.is_finite() && (is_zero || double != 0.0));
    digits.trim_start_matches('0').len() <= 15 && is_in_range
}

/// Whether every number in a value keeps its digits as a double. APIs built on protobuf's `Struct` store only
/// doubles.
pub(crate) fn has_exact_numbers(value: &Value) -> bool {
    match value {
        Value::Number(number) => is_exact_double(number),
        Value::Array(items) => items.iter().all(has_exact_numbers),
        Value::Object(fields) => fields.values().all(has_exact_numbers),
        _ => true,
    }
}

/// Whether a value contains a key `$ref`.
pub(crate) fn has_ref_key(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_ref_key),
        Value::Object(fields) => fields.contains_key("$ref") || fields.values().any(has_ref_key),
        _ => false,
    }
}

/// Replaces long base64 in a value with its size: models cannot read it, and it uses many tokens.
pub(crate) fn without_base64(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > 256 && text.bytes().all(is_base64) => {
            Value::String(format!("[{}, omitted]", format_size(text.len() / 4 * 3)))
        }
        Value::Array(items) => items.iter().map(without_base64).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), without_base64(value))).collect::<Value>()
        }
        other => other.clone(),
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=-_\r\n".contains(&byte)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_truncated(texts: &[&str], budget: usize, expected: &[&str]) {
        let mut texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        truncate_all(texts.iter_mut(), budget);
        assert_eq!(texts, expected);
    }

    #[test]
    fn texts_are_truncated_between_characters_and_marked() {
        check_truncated(&["ab", "cd"], 4, &["ab", "cd"]);
        let long = "ä😀".repeat(30);
        check_truncated(&["ab", &long, "z"], 35, &["ab", "ä😀ä😀ä\n[… 56 characters truncated]", ""]);
        check_truncated(&[&long], 3, &["\n[… 60 characters truncated]"]);
        check_truncated(&[&long], 0, &["\n[… 60 characters truncated]"]);
    }

    #[test]
    fn duplicates_are_found_by_value() {
        let check = |structured: Value, texts: &[&str], expected: &[usize]| {
            assert_eq!(duplicates(&structured, texts), expected, "{structured} {texts:?}");
        };
        check(json!({"a": 1, "b": [2]}), &["hi", r#"{ "b": [2.0], "a": 1e0 }"#], &[1]);
        check(json!({"a": 1}), &[r#"{"a": 2}"#], &[]);
        check(json!({"result": "x"}), &["x"], &[0]);
        check(json!({"result": [1, "b"]}), &["1", "b"], &[0, 1]);
        check(json!({"result": [1, "b"]}), &["1", "c"], &[]);
        check(json!(null), &["null"], &[0]);
        let parse = |text: &str| serde_json::from_str::<Value>(text).expect("valid JSON");
        check(parse("12345678901234567890"), &["12345678901234567891"], &[]);
    }

    #[test]
    fn numbers_that_a_double_cannot_represent_are_detected() {
        for (text, expected) in [
            ("1", true),
            ("-0.5", true),
            ("0.1", true),
            ("9007199254740993", false),
            ("1e400", false),
            ("1e-400", false),
            ("0.0", true),
            ("[[12345678901234567890]]", false),
        ] {
            let value: Value = serde_json::from_str(text).expect("valid JSON");
            assert_eq!(has_exact_numbers(&value), expected, "{text}");
        }
    }
}
