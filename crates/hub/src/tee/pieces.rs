//! A message that cannot be read as a whole, read piece by piece.
//!
//! A lone surrogate, a byte that is no UTF-8, `NaN` or a schema of 300 levels makes a whole message unreadable for a JSON
//! parser, though all but one of its tools are good. Here the shape of the message is found without looking into it, and each
//! piece is read for itself.

use std::ops::Range;

use serde_json::{Map, Value, json};

/// In place of a tool that cannot be read: why not, and its `name` if that can.
pub(crate) const UNREADABLE: &str = "toolwire/unreadable";

/// What is left of `text`, which is no JSON: the messages of a batch, or one message. Nothing if it has not even the shape.
pub(super) fn read(text: &[u8]) -> Option<Vec<Value>> {
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
        return mended(text).ok();
    }
    let mut message = Map::new();
    for (key, value) in fields {
        let value = &text[value];
        let read = if key == "result" { result(value) } else { mended(value).ok() };
        message.insert(key, read?);
    }
    Some(Value::Object(message))
}

fn result(text: &[u8]) -> Option<Value> {
    let mut result = Map::new();
    let mut lost: Vec<String> = Vec::new();
    for (key, value) in fields(text)? {
        let value = &text[value];
        let read = match key.as_str() {
            "tools" => items(value).map(|tools| tools.into_iter().map(|item| tool(&value[item])).collect()),
            "content" => {
                items(value).map(|blocks| blocks.into_iter().map(|item| block(&value[item])).collect())
            }
            _ => None,
        };
        match read.map_or_else(|| mended(value), Ok) {
            Ok(read) => {
                result.insert(key, read);
            }
            Err(_) if key == "_meta" => {}
            Err(why) => lost.push(format!("`{key}` cannot be read: {why}")),
        }
    }
    match result.get_mut("content") {
        _ if lost.is_empty() => {}
        // Whoever reads the content should know that there was more.
        Some(Value::Array(content)) => content.extend(lost.into_iter().map(note)),
        // A list without its `nextCursor` would look whole.
        _ => return None,
    }
    Some(Value::Object(result))
}

/// A tool as it was sent, to the letter, or none: a name or a schema that was mended is another one.
fn tool(text: &[u8]) -> Value {
    let error = match serde_json::from_slice::<Value>(text) {
        Ok(tool) => return tool,
        Err(error) => error,
    };
    let name = fields(text).and_then(|fields| {
        let (_, name) = fields.into_iter().find(|(key, _)| key == "name")?;
        serde_json::from_slice::<String>(&text[name]).ok()
    });
    let mut tool = json!({ UNREADABLE: why(text, &error) });
    if let Some(name) = name {
        tool["name"] = name.into();
    }
    tool
}

/// A block of content, which somebody waits for: what can be mended is.
fn block(text: &[u8]) -> Value {
    mended(text).unwrap_or_else(|why| note(format!("a part of the answer cannot be read: {why}")))
}

fn note(words: String) -> Value {
    json!({ "type": "text", "text": format!("[{words}]") })
}

/// The value, with a replacement character wherever there is none.
fn mended(text: &[u8]) -> Result<Value, String> {
    let error = match serde_json::from_slice(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let readable = with_whole_pairs(&String::from_utf8_lossy(text));
    serde_json::from_str(&readable).map_err(|_| why(text, &error))
}

/// Where in a message something is wrong helps nobody; where in the piece it is may.
fn why(text: &[u8], error: &serde_json::Error) -> String {
    if std::str::from_utf8(text).is_err() {
        return "it is not UTF-8".to_owned();
    }
    error.to_string().replace(" at line 1 column ", " at byte ")
}

/// Replaces each escape of half a surrogate pair.
fn with_whole_pairs(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        whole.push_str(before);
        let length = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                whole.push('\u{fffd}');
                rest = &escape[6..];
                continue;
            }
            (Some(_), _) => 6,
            // The backslash, and what it escapes.
            (None, _) => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        whole.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    whole.push_str(rest);
    whole
}

/// The code unit that an escape with `\u` and four digits at the beginning of `text` stands for.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

/// The fields of an object and the places of their values.
fn fields(text: &[u8]) -> Option<Vec<(String, Range<usize>)>> {
    let mut fields = Vec::new();
    for item in inside(text, b'{', b'}')? {
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

/// The places of the items of an array.
fn items(text: &[u8]) -> Option<Vec<Range<usize>>> {
    inside(text, b'[', b']')
}

/// What stands between the commas of the outermost brackets, which must be all there is.
fn inside(text: &[u8], opening: u8, closing: u8) -> Option<Vec<Range<usize>>> {
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

/// The end of the string, object, array or word that begins at `start`.
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
                let word = text[at..].iter().take_while(|byte| !b",:{}[]\" \t\r\n".contains(byte)).count();
                return (word > 0).then_some(at + word);
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
        assert_eq!(read(text), Some(vec![expected]), "{}", String::from_utf8_lossy(text));
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
    fn one_tool_that_is_no_json_costs_that_tool_alone() {
        check_tool(
            br#"{"name":"x","description":"\ud83d"}"#,
            json!({"name": "x", UNREADABLE: "unexpected end of hex escape at byte 34"}),
        );
        check_tool(
            b"{\"name\":\"x\",\"title\":\"\xff\"}",
            json!({"name": "x", UNREADABLE: "it is not UTF-8"}),
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
    fn the_text_of_an_answer_is_mended() {
        check(
            b"{\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\\ud83d \\\\ud83d \\ud83d\\ude00 \xff\"}]}}",
            json!({"id": 1, "result": {"content": [{"type": "text", "text": "a\u{fffd} \\ud83d \u{1f600} \u{fffd}"}]}}),
        );
        check(
            br#"{"id":1,"result":{"structuredContent":{"a":NaN},"content":[{"type":NaN},{"type":"text","text":"b"}]}}"#,
            json!({"id": 1, "result": {"content": [
                {"type": "text", "text": "[a part of the answer cannot be read: expected value at byte 9]"},
                {"type": "text", "text": "b"},
                {"type": "text", "text": "[`structuredContent` cannot be read: expected value at byte 6]"},
            ]}}),
        );
        check(
            br#"{"id":1,"error":{"code":1,"message":"\udc00"}}"#,
            json!({"id": 1, "error": {"code": 1, "message": "\u{fffd}"}}),
        );
    }

    #[test]
    fn the_other_messages_of_a_batch_are_read() {
        assert_eq!(
            read(br#"[{"id":1,"result":{}}, {"id":NaN}, {"id":2,"result":{"tools":[NaN]}}]"#),
            Some(vec![
                json!({"id": 1, "result": {}}),
                json!({"id": 2, "result": {"tools": [{UNREADABLE: "expected value at byte 1"}]}}),
            ])
        );
    }

    #[test]
    fn what_has_not_the_shape_of_a_message_is_none() {
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
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_not(text: Vec<u8>, at in 0usize..80, byte: u8) {
            let _ = read(&text);
            let mut text = list(br#"{"name":"x","description":"\ud83d"}"#);
            text[at] = byte;
            let _ = read(&text);
        }

        #[test]
        fn what_is_json_is_read_as_it_is(value in json()) {
            let text = serde_json::to_vec(&value).expect("it is JSON");
            proptest::prop_assert_eq!(result_of(&text), value);
        }
    }

    /// Through the pieces, although it could be read whole.
    fn result_of(text: &[u8]) -> Value {
        let Some(fields) = fields(text) else { return serde_json::from_slice(text).expect("it is JSON") };
        let fields = fields.into_iter().map(|(key, value)| (key, result_of(&text[value])));
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
