//! Random strings for a pattern, a format and a length.

use std::cell::RefCell;
use std::collections::HashMap;

use proptest::strategy::{SBoxedStrategy, Strategy, ValueTree};
use proptest::string::string_regex;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value};

use crate::support::random::Random;

/// Plain texts, and some that look like another type.
const WORDS: [&str; 16] = [
    "word",
    "Another one",
    "a",
    "x-1",
    "null",
    "5",
    "true",
    "{\"a\":1}",
    "[1,2]",
    "ünï — 名前",
    "2024-01-31",
    "a@example.com",
    "https://example.com/a?b=c#d",
    "0.5",
    "New York",
    "line\nbreak \"quoted\" \\",
];

const KEYS: [&str; 8] = ["key", "other", "a b", "$x", "名前", "default", "0", "type"];

pub(super) fn draw(node: &Map<String, Value>, random: &mut Random) -> Option<Value> {
    let length = |keyword: &str| node.get(keyword).and_then(Value::as_u64).map(|count| count as usize);
    let (min_length, max_length) =
        (length("minLength").unwrap_or(0), length("maxLength").unwrap_or(usize::MAX));
    if min_length > max_length || min_length > 200_000 {
        return None;
    }
    if let Some(pattern) = node.get("pattern").and_then(Value::as_str) {
        let mut drawn = None;
        for _ in 0..4 {
            drawn = from_pattern(pattern, random);
            if drawn.as_ref().is_some_and(|text| (min_length..=max_length).contains(&text.chars().count())) {
                break;
            }
        }
        return drawn.or_else(|| Some(word(random))).map(Value::String);
    }
    let text = match node.get("format").and_then(Value::as_str).and_then(examples) {
        Some(examples) => (*random.pick(examples)?).to_owned(),
        None if min_length == 0 && random.chance(6) => String::new(),
        None => word(random),
    };
    Some(Value::String(with_length(text, min_length, max_length)))
}

/// Returns a key for an object that accepts any key.
pub(super) fn key(random: &mut Random) -> String {
    let key = random.pick(&KEYS).copied().unwrap_or("key");
    if random.chance(40) { format!("{key}{}", random.below(100)) } else { key.to_owned() }
}

fn word(random: &mut Random) -> String {
    random.pick(&WORDS).copied().unwrap_or("word").to_owned()
}

fn with_length(text: String, min_length: usize, max_length: usize) -> String {
    let length = text.chars().count();
    if length > max_length {
        return text.chars().take(max_length).collect();
    }
    let mut text = text;
    text.extend(std::iter::repeat_n('y', min_length.saturating_sub(length)));
    text
}

thread_local! {
    /// A cache, because parsing a pattern costs far more than drawing from it.
    static PARSED_PATTERNS: RefCell<HashMap<String, Option<SBoxedStrategy<String>>>> = RefCell::default();
}

/// Returns a text that `pattern` most likely matches.
pub(super) fn from_pattern(pattern: &str, random: &mut Random) -> Option<String> {
    let strategy = PARSED_PATTERNS.with_borrow_mut(|patterns| {
        let parse = || string_regex(&without_anchors(pattern)).ok().map(Strategy::sboxed);
        patterns.entry(pattern.to_owned()).or_insert_with(parse).clone()
    })?;
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&random.next().to_le_bytes());
    let generator = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), generator);
    strategy.new_tree(&mut runner).ok().map(|tree| tree.current())
}

/// Returns the pattern without anchors, and with class escapes limited to ASCII as in ECMA.
fn without_anchors(pattern: &str) -> String {
    let mut text = String::new();
    let mut in_class = false;
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('d') => text.push_str("[0-9]"),
                Some('w') => text.push_str("[A-Za-z0-9_]"),
                Some('s') => text.push_str("[ ]"),
                Some('S') => text.push_str("[!-~]"),
                Some('/') => text.push('/'),
                Some(other) => {
                    text.push('\\');
                    text.push(other);
                }
                None => text.push('\\'),
            },
            '^' if !in_class => {}
            '$' if !in_class => {}
            '.' if !in_class => text.push_str("[a-z]"),
            '[' => {
                in_class = true;
                text.push('[');
                // A negated class would draw from all of Unicode; printable ASCII is enough.
                if characters.clone().next() == Some('^') {
                    characters.next();
                    text.push_str("[!-~]&&[^");
                    for character in characters.by_ref() {
                        text.push(character);
                        if character == ']' {
                            break;
                        }
                    }
                    text.push(']');
                    in_class = false;
                }
            }
            ']' => {
                in_class = false;
                text.push(']');
            }
            other => text.push(other),
        }
    }
    text
}

fn examples(format: &str) -> Option<&'static [&'static str]> {
    Some(match format {
        "date-time" => &["2024-02-29T12:30:00Z", "1999-12-31T23:59:59.123+02:00"],
        "date" => &["2024-02-29", "1999-12-31"],
        "time" => &["12:30:00Z", "23:59:59+02:00"],
        "duration" => &["P1DT12H", "PT30M"],
        "email" | "idn-email" => &["someone@example.com", "a.b@example.org"],
        "hostname" | "idn-hostname" => &["example.com", "a-b.example.org"],
        "ipv4" => &["192.0.2.1", "127.0.0.1"],
        "ipv6" => &["2001:db8::1", "::1"],
        "uri" | "url" | "iri" => &["https://example.com/a?b=c#d", "urn:isbn:0451450523"],
        "uri-reference" | "iri-reference" => &["/a/b", "https://example.com"],
        "uuid" => &["f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "00000000-0000-4000-8000-000000000000"],
        "json-pointer" => &["/a/0", ""],
        "regex" => &["^a+$", "[0-9]"],
        _ => return None,
    })
}
