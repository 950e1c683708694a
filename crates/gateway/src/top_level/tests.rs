use proptest::prelude::*;

use super::*;

fn fields(body: &str) -> Result<Vec<(String, String)>, InvalidBody> {
    let scanned = TopLevel::scan(body.as_bytes(), usize::MAX)?;
    let field = |field: &Field| {
        assert_eq!(body[field.key.clone()], field.name);
        (field.name.clone(), body[field.value.clone()].to_owned())
    };
    Ok(scanned.fields.iter().map(field).collect())
}

#[test]
fn keys_are_sorted() {
    assert!(KEYS.is_sorted());
}

#[test]
fn values_are_found_with_their_exact_bytes() {
    let body = " {\"model\" : \"a\\\"}b\", \"n\":-1.5e3,\"messages\":[{\"x\":\"]\"},[ ]], \"s\":true }\n";
    let expected =
        [("model", "\"a\\\"}b\""), ("n", "-1.5e3"), ("messages", "[{\"x\":\"]\"},[ ]]"), ("s", "true")];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(fields(body), Ok(expected.to_vec()));
    assert_eq!(fields("{}"), Ok(Vec::new()));
}

#[test]
fn keys_with_two_meanings_are_refused() {
    let duplicate = |key: &str| Err(InvalidBody::DuplicateKey(key.to_owned()));
    assert_eq!(fields(r#"{"model":"a","model":"b"}"#), duplicate("model"));
    let other = |key: &str, plain: &str| Err(InvalidBody::OtherSpelling(key.to_owned(), plain.to_owned()));
    assert_eq!(fields(r#"{"model":"a","Model":"b"}"#), other("Model", "model"));
    assert_eq!(fields(r#"{"Messages":[]}"#), other("Messages", "messages"));
    assert_eq!(fields("{\"tool\u{17f}\":[]}"), other("tool\u{17f}", "tools"));
    assert_eq!(fields(r#"{"later":1,"Later":2}"#), duplicate("Later"));
    assert!(fields(r#"{"enableThinking":true}"#).is_ok());
    assert_eq!(fields(r#"{"\u006dodel":"a"}"#), Err(InvalidBody::EscapedKey));
}

#[test]
fn other_bodies_are_refused() {
    for body in [
        "",
        " ",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{} {}",
        "{\"a\":[}",
        "\u{feff}{}",
        "{\"a\":\"b}",
    ] {
        assert!(matches!(fields(body), Err(InvalidBody::Syntax(_))), "{body}");
    }
    for body in ["[]", "1", "\"a\"", "null"] {
        assert_eq!(fields(body), Err(InvalidBody::NotAnObject), "{body}");
    }
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(fields(&nested(126)).is_ok());
    assert_eq!(fields(&nested(127)), Err(InvalidBody::TooDeep));
    assert!(serde_json::from_str::<serde_json::Value>(&nested(126)).is_ok());
    assert!(matches!(TopLevel::scan(b"{\"a\":\"\xff\"}", MAX_VALUES), Err(InvalidBody::Syntax(_))));
}

/// Returns the number of values and keys.
fn count(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        serde_json::Value::Object(map) => 1 + map.values().map(|value| 1 + count(value)).sum::<usize>(),
        _ => 1,
    }
}

#[test]
fn values_and_keys_are_counted() {
    for (body, values) in [
        ("{}", 1),
        (r#"{"a":1}"#, 3),
        (r#"{"a":"b", "c": [ ] , "d":{}}"#, 7),
        (r#" {"a" :[0,-1.5e+3, true ,null,"x\"y"],"b":[[],{"c":{"d":[1]}}]} "#, 17),
    ] {
        let found = |max: usize| TopLevel::scan(body.as_bytes(), max).map(|scanned| scanned.values());
        assert_eq!(found(values), Ok(values), "{body}");
        assert_eq!(count(&serde_json::from_str(body).expect("JSON")), values, "{body}");
        assert_eq!(found(values - 1), Err(InvalidBody::TooManyValues(values - 1)), "{body}");
    }
}

#[test]
fn a_request_has_at_most_a_million_values() {
    // The body, its key and the array are counted too.
    let scan = |elements: usize| {
        let body = format!("{{\"a\":[{}]}}", vec!["0"; elements].join(","));
        TopLevel::scan(body.as_bytes(), MAX_VALUES).map(|scanned| scanned.values())
    };
    assert_eq!(scan(999_997), Ok(1_000_000));
    assert_eq!(scan(999_998), Err(InvalidBody::TooManyValues(1_000_000)));
}

proptest! {
    #[test]
    fn what_a_parser_accepts_is_read_in_the_same_way(text in "[{}\\[\\]\",:a1 \\\\]{0,24}") {
        if let Ok(serde_json::Value::Object(map)) = serde_json::from_str(&text)
            && let Ok(found) = fields(&text)
        {
            let keys: Vec<&String> = map.keys().collect();
            prop_assert_eq!(keys, found.iter().map(|(key, _)| key).collect::<Vec<_>>());
            for (key, value) in &found {
                let value: serde_json::Value = serde_json::from_str(value).expect("valid JSON");
                prop_assert_eq!(&map[key], &value);
            }
            // The parser keeps one of several equal keys.
            let scanned = TopLevel::scan(text.as_bytes(), usize::MAX).map_or(0, |scanned| scanned.values());
            prop_assert!(scanned >= count(&serde_json::Value::Object(map)));
        }
    }
}
