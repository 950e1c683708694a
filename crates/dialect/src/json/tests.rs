//! Compares the reader and the writer with `serde_json`: both must accept the same texts and read the same
//! values.

use bumpalo::Bump;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value;

use super::{JsonReader, JsonWriter, to_value};
use crate::Layout;

fn read(text: &str) -> Option<Value> {
    let arena = Bump::new();
    let mut reader = JsonReader::new(text, &arena);
    let node = reader.value().ok()?;
    reader.end().ok()?;
    let mut writer = JsonWriter::new(Layout::Compact, text.len()).reading_from(text);
    writer.node(node);
    // `serde_json` normalizes `1e3` to `1e+3` and this reader preserves the digits, so both are parsed once
    // more.
    let value: Value = serde_json::from_str(&to_value(node, &arena).to_string()).expect("valid JSON");
    // The written text has the same value, regardless of how the nodes were borrowed.
    let written: Value = serde_json::from_str(&writer.out).expect("valid JSON");
    assert_eq!(written, value, "{text}");
    Some(value)
}

#[track_caller]
fn check(text: &str) {
    // The reader skips a byte order mark at the start; `serde_json` does not.
    let without_mark = text.strip_prefix('\u{feff}').unwrap_or(text);
    assert_eq!(read(text), serde_json::from_str(without_mark).ok(), "{text:?}");
}

/// Generates JSON text with white space and escapes, some of it invalid.
fn json() -> impl Strategy<Value = String> {
    let space = prop::sample::select(vec!["", " ", "\n", "\t\r\n "]);
    let text = prop::collection::vec(
        prop::sample::select(vec![
            "a",
            "\\n",
            "\\\"",
            "\\\\",
            "\\/",
            "\\u0041",
            "\\ud83d\\ude00",
            "é",
            "😀",
            "\u{7f}",
            "\u{1}",
            "\"",
            "\\x",
            "~",
            "/",
        ]),
        0..6,
    )
    .prop_map(|parts| format!("\"{}\"", parts.concat()));
    let number = prop::sample::select(vec![
        "0",
        "-0",
        "1",
        "-12.50",
        "1e3",
        "1E+2",
        "1e-7",
        "12345678901234567890",
        "0.1",
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "NaN",
    ])
    .prop_map(str::to_owned);
    let literal =
        prop::sample::select(vec!["true", "false", "null", "tru", "nul", "True"]).prop_map(str::to_owned);
    let leaf = prop_oneof![text.clone(), number, literal];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let item =
            (space.clone(), inner.clone(), space.clone()).prop_map(|(a, item, b)| format!("{a}{item}{b}"));
        let member = (space.clone(), text.clone(), space.clone(), item.clone())
            .prop_map(|(a, key, b, value)| format!("{a}{key}{b}:{value}"));
        prop_oneof![
            prop::collection::vec(item, 0..5).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
}

#[test]
fn an_unpaired_surrogate_becomes_a_replacement_character() {
    assert_eq!(read(r#""a\ud83db""#), Some(Value::String("a\u{fffd}b".to_owned())));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(11),
        ..ProptestConfig::default()
    })]

    #[test]
    fn both_read_the_same_values(text in json()) {
        check(&text);
    }

    #[test]
    fn both_accept_or_reject_damaged_texts(text in json(), at in any::<prop::sample::Index>(), replacement in any::<char>()) {
        let mut characters: Vec<char> = text.chars().collect();
        let at = at.index(characters.len());
        characters[at] = replacement;
        // The reader replaces an unpaired surrogate; `serde_json` rejects it.
        if text.contains("\\ud83d") {
            return Ok(());
        }
        check(&characters.iter().collect::<String>());
        characters.remove(at);
        check(&characters.iter().collect::<String>());
        check(&characters[..at].iter().collect::<String>());
    }
}
