//! Parses an invalid JSON message piece by piece.
//!
//! An unpaired surrogate, a byte that is not UTF-8, `NaN` or a schema with 300 levels makes a complete
//! message unreadable for a JSON parser, even if all of its tools but one are valid. Here only the outer
//! structure of the message is scanned, and each piece is parsed alone.

use std::ops::Range;

use serde_json::{Map, Value, json};

/// The key that marks a tool that cannot be parsed. Its value is the reason; the tool's `name` is next to it
/// if that can be parsed.
pub(crate) const UNREADABLE: &str = "toolwire/unreadable";

/// Returns the messages of a batch, or one message, of a text that is not valid JSON; `None` if the text does
/// not have the structure of a message.
pub(super) fn parse(text: &[u8]) -> Option<Vec<Value>> {
    match text.trim_ascii_start().first()? {
        b'[' => Some(items(text)?.into_iter().filter_map(|item| message(&text[item])).collect()),
        _ => message(text).map(|message| vec![message]),
    }
}

fn message(text: &[u8]) -> Option<Value> {
    if let Ok(message) = serde_json::from_slice(text) {
        return Some(message);
    }
    let fields = fields(text)?;
    if !fields.iter().any(|(key, _)| key == "result") {
        return parse_repaired(text).ok();
    }
    let mut message = Map::new();
    for (key, value) in fields {
        let value = &text[value];
        let parsed = if key == "result" { result(value) } else { parse_repaired(value).ok() };
        message.insert(key, parsed?);
    }
    Some(Value::Object(message))
}

fn result(text: &[u8]) -> Option<Value> {
    let mut result = Map::new();
    let mut errors: Vec<String> = Vec::new();
    for (key, value) in fields(text)? {
        let value = &text[value];
        let parsed = match key.as_str() {
            "tools" => items(value).map(|tools| tools.into_iter().map(|item| tool(&value[item])).collect()),
            "content" => {
                items(value).map(|blocks| blocks.into_iter().map(|item| block(&value[item])).collect())
            }
            _ => None,
        };
        match parsed.map_or_else(|| parse_repaired(value), Ok) {
            Ok(parsed) => {
                result.insert(key, parsed);
            }
            Err(_) if key == "_meta" => {}
            Err(reason) => errors.push(format!("`{key}` cannot be parsed: {reason}")),
        }
    }
    match result.get_mut("content") {
        _ if errors.is_empty() => {}
        // The reader of the content should know that something is missing.
        Some(Value::Array(content)) => content.extend(errors.into_iter().map(note)),
        // A tool list without its `nextCursor` would look complete.
        _ => return None,
    }
    Some(Value::Object(result))
}

/// Parses a tool without any repair, because a repaired name or schema would be a different tool.
fn tool(text: &[u8]) -> Value {
    let error = match serde_json::from_slice::<Value>(text) {
        Ok(tool) => return tool,
        Err(error) => error,
    };
    let name = fields(text).and_then(|fields| {
        let (_, name) = fields.into_iter().find(|(key, _)| key == "name")?;
        serde_json::from_slice::<String>(&text[name]).ok()
    });
    let mut tool = json!({ UNREADABLE: parse_error(text, &error) });
    if let Some(name) = name {
        tool["name"] = name.into();
    }
    tool
}

/// Parses a content block, repaired if necessary, because the caller waits for it.
fn block(text: &[u8]) -> Value {
    parse_repaired(text).unwrap_or_else(|reason| note(format!("a content block cannot be parsed: {reason}")))
}

fn note(text: String) -> Value {
    json!({ "type": "text", "text": format!("[{text}]") })
}

/// Parses a value after replacing invalid characters with the replacement character.
fn parse_repaired(text: &[u8]) -> Result<Value, String> {
    let error = match serde_json::from_slice(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let repaired = replace_unpaired_surrogates(&String::from_utf8_lossy(text));
    serde_json::from_str(&repaired).map_err(|_| parse_error(text, &error))
}

/// Describes the error with its position in the piece; a position in the complete message would not help.
fn parse_error(text: &[u8], error: &serde_json::Error) -> String {
    if std::str::from_utf8(text).is_err() {
        return "not valid UTF-8".to_owned();
    }
    error.to_string().replace(" at line 1 column ", " at byte ")
}

fn replace_unpaired_surrogates(text: &str) -> String {
    let mut repaired = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        repaired.push_str(before);
        let length = match (code_unit(escape), escape.get(6..).and_then(code_unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                repaired.push('\u{fffd}');
                rest = &escape[6..];
                continue;
            }
            (Some(_), _) => 6,
            // The backslash and the escaped character.
            (None, _) => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        repaired.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    repaired.push_str(rest);
    repaired
}

/// Returns the code unit of a `\u` escape with four digits at the beginning of `text`.
fn code_unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

/// Returns the fields of an object and the ranges of their values.
fn fields(text: &[u8]) -> Option<Vec<(String, Range<usize>)>> {
    let mut fields = Vec::new();
    for item in elements(text, b'{', b'}')? {
        let key_end = after_value(text, item.start)?;
        let key = serde_json::from_slice(&text[item.start..key_end]).ok()?;
        let colon = after_space(text, key_end);
        if text.get(colon) != Some(&b':') {
            return None;
        }
        fields.push((key, after_space(text, colon + 1)..item.end));
    }
    Some(fields)
}

/// Returns the ranges of the items of an array.
fn items(text: &[u8]) -> Option<Vec<Range<usize>>> {
    elements(text, b'[', b']')
}

/// Returns the ranges between the commas of the outermost brackets, which must enclose the complete text.
fn elements(text: &[u8], opening: u8, closing: u8) -> Option<Vec<Range<usize>>> {
    let mut at = after_space(text, 0);
    if text.get(at) != Some(&opening) {
        return None;
    }
    let mut found = Vec::new();
    loop {
        let start = after_space(text, at + 1);
        if found.is_empty() && text.get(start) == Some(&closing) {
            at = start;
            break;
        }
        let mut end = start;
        while !matches!(text.get(end)?, b',' | b'}' | b']') {
            end = after_space(text, after_value(text, end)?);
            if text.get(end) == Some(&b':') {
                end = after_space(text, end + 1);
            }
        }
        found.push(start..end);
        at = end;
        if text[at] != b',' {
            break;
        }
    }
    (text[at] == closing && after_space(text, at + 1) == text.len()).then_some(found)
}

/// Returns the end of the string, object, array or literal that begins at `start`.
fn after_value(text: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = start;
    loop {
        match text.get(at)? {
            b'"' => at = after_string(text, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            _ if depth > 0 => {
                at += 1;
                continue;
            }
            _ => {
                let literal = text[at..].iter().take_while(|byte| !b",:{}[]\" \t\r\n".contains(byte)).count();
                return (literal > 0).then_some(at + literal);
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

fn after_string(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn after_space(text: &[u8], start: usize) -> usize {
    start + text[start..].iter().take_while(|byte| b" \t\r\n".contains(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], expected: Value) {
        assert_eq!(parse(text), Some(vec![expected]), "{}", String::from_utf8_lossy(text));
    }

    fn list(tool: &[u8]) -> Vec<u8> {
        let before = br#" {"jsonrpc":"2.0", "id" : 7,"result":{"tools":[ {"name":"a"} , "#;
        [before, tool, br#",{"name":"b}]\\\"","inputSchema":{}}],"nextCursor":"c"}} "#].concat()
    }

    #[track_caller]
    fn check_tool(tool: &[u8], expected: Value) {
        let tools = json!([{"name": "a"}, expected, {"name": "b}]\\\"", "inputSchema": {}}]);
        let result = json!({"tools": tools, "nextCursor": "c"});
        check(&list(tool), json!({"jsonrpc": "2.0", "id": 7, "result": result}));
    }

    #[test]
    fn an_invalid_tool_does_not_affect_other_tools() {
        check_tool(
            br#"{"name":"x","description":"\ud83d"}"#,
            json!({"name": "x", UNREADABLE: "unexpected end of hex escape at byte 34"}),
        );
        check_tool(
            b"{\"name\":\"x\",\"title\":\"\xff\"}",
            json!({"name": "x", UNREADABLE: "not valid UTF-8"}),
        );
        check_tool(
            br#"{"inputSchema":{"maximum":NaN},"name":"x"}"#,
            json!({"name": "x", UNREADABLE: "expected value at byte 27"}),
        );
        check_tool(br#"{"title":Infinity}"#, json!({UNREADABLE: "expected value at byte 10"}));
        let deep =
            format!(r#"{{"name":"x","inputSchema":{}{{}}{}}}"#, r#"{"not":"#.repeat(300), "}".repeat(300));
        check_tool(deep.as_bytes(), json!({"name": "x", UNREADABLE: "recursion limit exceeded at byte 909"}));
    }

    #[test]
    fn invalid_characters_in_a_result_are_replaced() {
        check(
            b"{\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\\ud83d \\\\ud83d \\ud83d\\ude00 \xff\"}]}}",
            json!({"id": 1, "result": {"content": [{"type": "text", "text": "a\u{fffd} \\ud83d \u{1f600} \u{fffd}"}]}}),
        );
        check(
            br#"{"id":1,"result":{"structuredContent":{"a":NaN},"content":[{"type":NaN},{"type":"text","text":"b"}]}}"#,
            json!({"id": 1, "result": {"content": [
                {"type": "text", "text": "[a content block cannot be parsed: expected value at byte 9]"},
                {"type": "text", "text": "b"},
                {"type": "text", "text": "[`structuredContent` cannot be parsed: expected value at byte 6]"},
            ]}}),
        );
        check(
            br#"{"id":1,"error":{"code":1,"message":"\udc00"}}"#,
            json!({"id": 1, "error": {"code": 1, "message": "\u{fffd}"}}),
        );
    }

    #[test]
    fn the_other_messages_of_a_batch_are_parsed() {
        assert_eq!(
            parse(br#"[{"id":1,"result":{}}, {"id":NaN}, {"id":2,"result":{"tools":[NaN]}}]"#),
            Some(vec![
                json!({"id": 1, "result": {}}),
                json!({"id": 2, "result": {"tools": [{UNREADABLE: "expected value at byte 1"}]}}),
            ])
        );
    }

    #[test]
    fn text_without_the_structure_of_a_message_is_rejected() {
        for text in [
            "",
            "2026-01-01 12:00:00 INFO listening",
            r#"{"id":1,"result":{"tools":[NaN]}"#,
            r#"{"id":1,"result":{"tools":[NaN}]}"#,
            r#"{"id":1,"result":{"tools":[NaN]}} and more"#,
            r#"{"id":1,"result":{"a" "b"}}"#,
            r#"{"id":1,,"result":{}}"#,
            r#"{"id":1,"result":{"tools":[],"nextCursor":NaN}}"#,
            r#"{"id":1,"result":"#,
            r#"{"id":1,"result":"\"#,
            "{\"a\":\u{7f}",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_handled_without_a_panic(text: Vec<u8>, at in 0usize..80, byte: u8) {
            let _ = parse(&text);
            let mut text = list(br#"{"name":"x","description":"\ud83d"}"#);
            text[at] = byte;
            let _ = parse(&text);
        }

        #[test]
        fn valid_json_is_parsed_unchanged(value in json()) {
            let text = serde_json::to_vec(&value).expect("a value can be serialized");
            proptest::prop_assert_eq!(parse_by_fields(&text), value);
        }
    }

    /// Parses objects field by field, although they are valid JSON.
    fn parse_by_fields(text: &[u8]) -> Value {
        let Some(fields) = fields(text) else {
            return serde_json::from_slice(text).expect("valid JSON");
        };
        let fields = fields.into_iter().map(|(key, value)| (key, parse_by_fields(&text[value])));
        Value::Object(fields.collect())
    }

    fn json() -> impl proptest::strategy::Strategy<Value = Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(".*", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }
}
