//! The words of a result: cleaned, measured, cut, and compared with its structured twin.

use serde_json::{Number, Value};

/// What stands where a tool gave nothing. An empty text is refused by some APIs.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// What stands where everything is meant for the user alone.
pub(crate) const FOR_USER_ONLY: &str = "(the output is meant for the user only)";

/// NUL is legal in JSON and yet refused, or a cut, in much of what lies behind an API. (A lone surrogate, the other such
/// character, cannot exist in a Rust string.)
pub(crate) fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// [`clean`] for every text in a value, keys too.
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

/// A number of bytes, for people and models.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", (bytes + 500) / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// Cuts texts, in their order, so that all together fit into `budget` characters with the mark of the cut.
pub(crate) fn cut<'a>(texts: impl Iterator<Item = &'a mut String> + 'a, budget: usize) {
    let mut texts: Vec<&mut String> = texts.collect();
    let total: usize = texts.iter().map(|text| text.chars().count()).sum();
    if total <= budget {
        return;
    }
    let mark_length = mark(total).chars().count();
    let mut left = budget.saturating_sub(mark_length);
    let mark = mark(total - left);
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
            text.push_str(&mark);
            is_marked = true;
        }
    }
}

fn mark(characters: usize) -> String {
    format!("\n[… {characters} more characters cut]")
}

/// Which of `texts` say what the structured content says.
///
/// A server with structured content repeats it as JSON text. Some wrap what is no object as `{"result": …}` and write
/// the bare value as text, a list as one text per item.
pub(crate) fn twins(structured: &Value, texts: &[&str]) -> Vec<usize> {
    let same = |text: &str, value: &Value| {
        serde_json::from_str::<Value>(text).is_ok_and(|parsed| is_same(&parsed, value))
    };
    if let Some(position) = texts.iter().position(|text| same(text, structured)) {
        return vec![position];
    }
    let wrapped =
        structured.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("result"));
    let Some(wrapped) = wrapped else { return Vec::new() };
    let says = |text: &str, value: &Value| value.as_str() == Some(text) || same(text, value);
    if let Some(position) = texts.iter().position(|text| says(text, wrapped)) {
        return vec![position];
    }
    match wrapped.as_array() {
        Some(items)
            if !items.is_empty()
                && items.len() == texts.len()
                && items.iter().zip(texts).all(|(item, text)| says(text, item)) =>
        {
            (0..texts.len()).collect()
        }
        _ => Vec::new(),
    }
}

/// Equal as JSON: the order of keys and the spelling of a number do not count.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (is_double(one) && is_double(other) && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| is_same(value, other)))
        }
        _ => one == other,
    }
}

/// Whether a number survives as a double, to the digit: it has at most 15 of them and is no overflow.
fn is_double(number: &Number) -> bool {
    let text = number.to_string();
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let is_zero = digits.bytes().all(|digit| digit == b'0');
    let survives = number.as_f64().is_some_and(|double| double.is_finite() && (is_zero || double != 0.0));
    digits.trim_start_matches('0').len() <= 15 && survives
}

/// Whether every number in a value survives as a double. APIs on protobuf's `Struct` keep no others.
pub(crate) fn has_plain_numbers(value: &Value) -> bool {
    match value {
        Value::Number(number) => is_double(number),
        Value::Array(items) => items.iter().all(has_plain_numbers),
        Value::Object(fields) => fields.values().all(has_plain_numbers),
        _ => true,
    }
}

/// Whether a key called `$ref` stands anywhere in a value.
pub(crate) fn has_ref_key(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_ref_key),
        Value::Object(fields) => fields.contains_key("$ref") || fields.values().any(has_ref_key),
        _ => false,
    }
}

/// A value as JSON text, with long base64 replaced by its size: no model reads it, and it costs like prose.
pub(crate) fn readable(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > 256 && text.bytes().all(is_base64) => {
            Value::String(format!("[{}, not shown]", size(text.len() / 4 * 3)))
        }
        Value::Array(items) => items.iter().map(readable).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), readable(value))).collect::<Value>()
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
    fn check_cut(texts: &[&str], budget: usize, expected: &[&str]) {
        let mut texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        cut(texts.iter_mut(), budget);
        assert_eq!(texts, expected);
    }

    #[test]
    fn texts_are_cut_between_characters_and_say_so() {
        check_cut(&["ab", "cd"], 4, &["ab", "cd"]);
        let long = "ä😀".repeat(30);
        check_cut(&["ab", &long, "z"], 34, &["ab", "ä😀ä😀ä\n[… 56 more characters cut]", ""]);
        check_cut(&[&long], 3, &["\n[… 60 more characters cut]"]);
        check_cut(&[&long], 0, &["\n[… 60 more characters cut]"]);
    }

    #[test]
    fn twins_are_found_by_value() {
        let check = |structured: Value, texts: &[&str], expected: &[usize]| {
            assert_eq!(twins(&structured, texts), expected, "{structured} {texts:?}");
        };
        check(json!({"a": 1, "b": [2]}), &["hi", r#"{ "b": [2.0], "a": 1e0 }"#], &[1]);
        check(json!({"a": 1}), &[r#"{"a": 2}"#], &[]);
        check(json!({"result": "x"}), &["x"], &[0]);
        check(json!({"result": [1, "b"]}), &["1", "b"], &[0, 1]);
        check(json!({"result": [1, "b"]}), &["1", "c"], &[]);
        check(json!(null), &["null"], &[0]);
        let big = |text: &str| serde_json::from_str::<Value>(text).expect("the case is JSON");
        check(big("12345678901234567890"), &["12345678901234567891"], &[]);
    }

    #[test]
    fn numbers_that_no_double_holds_are_known() {
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
            let value: Value = serde_json::from_str(text).expect("the case is JSON");
            assert_eq!(has_plain_numbers(&value), expected, "{text}");
        }
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [1, 999, 1_000, 12_345, 999_499, 5_242_880].map(size);
        assert_eq!(sizes, ["1 byte", "999 bytes", "1 kB", "12 kB", "999 kB", "5.2 MB"]);
    }
}
