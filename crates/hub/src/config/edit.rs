//! Changes the text of a configuration, and keeps its comments and its order.

use std::path::Path;

use jsonc_parser::ParseOptions;
use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::{Map, Value};

use super::ConfigError;
use super::formats::Positions;
use super::json::strip_byte_order_mark;
use super::parse::with_root;
use super::problem::Problem;

pub(super) fn insert_servers(
    text: &str,
    file: &Path,
    servers: &[(String, Value)],
) -> Result<String, ConfigError> {
    let text = strip_byte_order_mark(text);
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    servers.iter().try_fold(text.to_owned(), |text, (name, server)| {
        with_root(&text, file, &|_| None, |parser, root| {
            let checked = match parser.positions {
                Positions::OfFile => parser.check_object(root),
                _ => Err(parser.error(&root.at, Problem::ReadOnlyFormat)),
            };
            parser.record(checked);
            match parser.problems.is_empty() {
                true => insert_server(&text, root.node, name, server),
                false => String::new(),
            }
        })
    })
}

pub(super) fn change_server(
    text: &str,
    file: &Path,
    name: &str,
    changes: &[(String, Option<Value>)],
) -> Result<String, ConfigError> {
    let text = strip_byte_order_mark(text);
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let current = super::parse::raw_servers(text, file)?;
    let Some((_, current)) = current.into_iter().find(|(known, _)| known == name) else {
        let set = changes.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
        return insert_servers(text, file, &[(name.to_owned(), Value::Object(set.collect()))]);
    };
    let mut changed = current.as_object().cloned().unwrap_or_default();
    for (key, value) in changes {
        match value {
            Some(value) => changed.insert(key.clone(), value.clone()),
            None => changed.shift_remove(key),
        };
    }
    match change_in_place(text, name, changes) {
        Some(text) => Ok(text),
        // Another place than the keys of an object, such as a file in the format of another host.
        None => insert_servers(text, file, &[(name.to_owned(), Value::Object(changed))]),
    }
}

/// Changes keys of a server with all comments around them. Returns `None` if there is no such server in the
/// objects that [`insert_servers`] changes.
fn change_in_place(text: &str, name: &str, changes: &[(String, Option<Value>)]) -> Option<String> {
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
    let object = root.object_value()?;
    let mut servers = ["mcpServers", "servers"].iter().filter_map(|key| last(&object, key)?.object_value());
    let server = servers.find_map(|servers| last(&servers, name)?.object_value())?;
    for (key, value) in changes {
        set(&server, key, value.as_ref());
    }
    Some(root.to_string())
}

/// Returns the last property of a name, which is the one that counts.
fn last(object: &CstObject, name: &str) -> Option<jsonc_parser::cst::CstObjectProp> {
    let is_named =
        |property: &jsonc_parser::cst::CstObjectProp| property.decoded_name().as_deref() == Some(name);
    object.properties().into_iter().rev().find(is_named)
}

/// Sets or removes a key. The members of an object are set one by one, so that its comments stay.
fn set(object: &CstObject, key: &str, value: Option<&Value>) {
    match (last(object, key), value) {
        (Some(property), None) => property.remove(),
        (Some(property), Some(Value::Object(new))) if property.object_value().is_some() => {
            let Some(known) = property.object_value() else { return };
            let names = known.properties().into_iter().filter_map(|member| member.decoded_name());
            for removed in names.filter(|name| !new.contains_key(name)).collect::<Vec<_>>() {
                set(&known, &removed, None);
            }
            for (name, value) in new {
                set(&known, name, Some(value));
            }
        }
        (Some(property), Some(value)) => {
            let is_same =
                property.value().and_then(|known| serde_json::from_str::<Value>(&known.to_string()).ok());
            if is_same.as_ref() != Some(value) {
                property.set_value(input(value));
            }
        }
        (None, Some(value)) => {
            object.append(key, input(value));
        }
        (None, None) => {}
    }
}

fn input(value: &Value) -> CstInputValue {
    let object =
        |object: &Map<String, Value>| object.iter().map(|(key, value)| (key.clone(), input(value))).collect();
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => CstInputValue::Object(object(members)),
    }
}

fn insert_server(text: &str, root: &Node<'_>, name: &str, server: &Value) -> String {
    let Node::Object(root) = root else { return text.to_owned() };
    let servers = ["mcpServers", "servers"].iter().find_map(|key| root.get_object(key));
    match servers {
        Some(servers) => set_member(text, servers, name, server, 2),
        None => {
            let servers = Value::Object([(name.to_owned(), server.clone())].into_iter().collect());
            set_member(text, root, "mcpServers", &servers, 1)
        }
    }
}

/// Replaces the value of a key of `object`, or adds the key at its end. `depth` is that of the key.
fn set_member(text: &str, object: &Object<'_>, key: &str, value: &Value, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let value = serde_json::to_string_pretty(value).unwrap_or_default().replace('\n', &format!("\n{indent}"));
    if let Some(member) = object.get(key) {
        let range = member.value.range();
        return format!("{}{value}{}", &text[..range.start], &text[range.end..]);
    }
    let close = object.range.end - 1;
    let last = object.properties.last().map_or(object.range.start + 1, |member| member.range.end);
    // Comments after the last member stay there.
    let comma = if object.properties.is_empty() || has_comma(&text[last..close]) { "" } else { "," };
    let (before, outer) = (text[last..close].trim_end(), "  ".repeat(depth - 1));
    let key = Value::from(key);
    format!("{}{comma}{before}\n{indent}{key}: {value}\n{outer}{}", &text[..last], &text[close..])
}

/// Whether there is a comma outside of comments.
fn has_comma(mut text: &str) -> bool {
    while let Some(start) = text.find([',', '/']) {
        let rest = &text[start..];
        let end = match rest.get(..2) {
            Some("//") => rest.find('\n'),
            Some("/*") => rest.find("*/").map(|end| end + 2),
            _ => return rest.starts_with(','),
        };
        text = end.map_or("", |end| &rest[end..]);
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let servers = [("new".to_owned(), json!({"command": "n"}))];
        let inserted = insert_servers(text, Path::new("mcp.json"), &servers);
        assert_eq!(inserted.as_deref(), Ok(expected));
        let again = insert_servers(expected, Path::new("mcp.json"), &servers);
        assert_eq!(again.as_deref(), Ok(expected), "a second time changes nothing");
    }

    #[test]
    fn servers_are_added_at_the_end() {
        let new = "    \"new\": {\n      \"command\": \"n\"\n    }\n  }";
        check("", &format!("{{\n  \"mcpServers\": {{\n{new}\n}}\n").replace("\n    \"new", "\n    \"new"));
        check(r#"{"mcpServers": {}}"#, &format!("{{\"mcpServers\": {{\n{new}}}"));
        check(
            "{\"servers\": {\n    \"a\": {} // one, two\n    /* , */\n  }}",
            &format!("{{\"servers\": {{\n    \"a\": {{}}, // one, two\n    /* , */\n{new}}}"),
        );
        check(
            "// top\n{\"mcpServers\": {\"a\": {}, // last\n}, \"toolwire\": {}}",
            &format!("// top\n{{\"mcpServers\": {{\"a\": {{}}, // last\n{new}, \"toolwire\": {{}}}}"),
        );
        check("{\"toolwire\": {}}", &format!("{{\"toolwire\": {{}},\n  \"mcpServers\": {{\n{new}\n}}"));
    }

    proptest! {
        /// Whatever commas and comments a file has, the other servers and the comments stay.
        #[test]
        fn nothing_else_changes(
            gaps in prop::collection::vec("( |\n|/\\*[a,}]*\\*/|//[a,}/*]*\n){0,4}", 9),
            members in 0..3usize,
            has_trailing_comma: bool,
        ) {
            let gap = |index: usize| gaps[index].as_str();
            let mut text = format!("{}{{{}\"mcpServers\":{}{{", gap(0), gap(1), gap(2));
            for member in 0..members {
                let comma = if member + 1 < members || has_trailing_comma { "," } else { "" };
                let _ = write!(text, "{}\"s{member}\":{}{{}}{}{comma}", gap(3), gap(4), gap(5));
            }
            let _ = write!(text, "{}}}{}}}{}", gap(6), gap(7), gap(8));
            let file = Path::new("mcp.json");
            let mut expected = crate::Config::raw_servers(&text, file).expect("valid");
            expected.push(("new".to_owned(), json!({"command": "n"})));
            let inserted = insert_servers(&text, file, &expected[members..]).expect("valid");
            prop_assert_eq!(crate::Config::raw_servers(&inserted, file).expect("still valid"), expected);
            let without_space = |text: &str| text.split_whitespace().collect::<String>();
            for gap in &gaps {
                prop_assert!(members == 0 || without_space(&inserted).contains(&without_space(gap)));
            }
        }
    }

    #[track_caller]
    fn check_change(text: &str, changes: Value, expected: &str) {
        let changes: Vec<(String, Option<Value>)> = changes
            .as_object()
            .expect("an object")
            .iter()
            .map(|(key, value)| (key.clone(), Some(value.clone()).filter(|value| !value.is_null())))
            .collect();
        let changed = change_server(text, Path::new("mcp.json"), "a", &changes);
        assert_eq!(changed.as_deref(), Ok(expected));
    }

    #[test]
    fn only_the_keys_of_one_server_change() {
        let text = "// top\n{\n  \"mcpServers\": {\n    // first\n    \"a\": {\n      \"command\": \"x\", // program\n      \
                    // why\n      \"env\": {\n        \"ONE\": \"1\", // one\n        \"TWO\": \"2\"\n      },\n      \
                    \"timeout\": 5 /* slow */\n    },\n    \"b\": {\"command\": \"y\"} // last\n  },\n}\n";
        check_change(text, json!({}), text);
        check_change(text, json!({"command": "x", "env": {"ONE": "1", "TWO": "2"}}), text);
        check_change(text, json!({"command": "z"}), &text.replace("\"x\"", "\"z\""));
        check_change(
            text,
            json!({"env": {"ONE": "quote\" back\\ line\n", "TWO": "2"}}),
            &text.replace("\"1\"", r#""quote\" back\\ line\n""#),
        );
        let added = text.replace("\"TWO\": \"2\"\n", "\"TWO\": \"2\",\n        \"NEW\": \"3\"\n");
        check_change(text, json!({"env": {"ONE": "1", "TWO": "2", "NEW": "3"}}), &added);
        let removed =
            change_server(text, Path::new("mcp.json"), "a", &[("env".to_owned(), None)]).expect("valid");
        let servers = crate::Config::raw_servers(&removed, Path::new("mcp.json")).expect("valid");
        assert_eq!(servers[0].1, json!({"command": "x", "timeout": 5}));
        for comment in ["// top", "// first", "// program", "/* slow */", "// last"] {
            assert!(removed.contains(comment), "{comment}: {removed}");
        }
    }

    #[test]
    fn an_unknown_server_is_added() {
        let changes = [("command".to_owned(), Some(json!("n"))), ("url".to_owned(), None)];
        assert_eq!(
            change_server("", Path::new("mcp.json"), "new", &changes),
            change_server("{}\n", Path::new("mcp.json"), "new", &changes),
        );
        let text = "{\"mcpServers\": {}} // end\n";
        let added = change_server(text, Path::new("mcp.json"), "new", &changes).expect("valid");
        assert_eq!(
            added,
            "{\"mcpServers\": {\n    \"new\": {\n      \"command\": \"n\"\n    }\n  }} // end\n"
        );
    }

    #[test]
    fn a_server_of_the_same_name_is_replaced() {
        let text = "{\"mcpServers\": {\n    // mine\n    \"new\": {\"url\": \"x\"}, \"b\": {}\n}}";
        let expected =
            "{\"mcpServers\": {\n    // mine\n    \"new\": {\n      \"command\": \"n\"\n    }, \"b\": {}\n}}";
        check(text, expected);
    }

    #[test]
    fn a_file_that_is_not_an_object_is_not_changed() {
        for text in ["[]", "{", "1"] {
            assert!(insert_servers(text, Path::new("mcp.json"), &[("a".to_owned(), json!({}))]).is_err());
        }
        for (file, text, expected) in [
            ("a.toml", "a = 1\n", "a.toml: only a JSON file can be changed"),
            ("a.yaml", "\na: 1\n", "a.yaml:2:1: only a JSON file can be changed"),
        ] {
            let inserted = insert_servers(text, Path::new(file), &[("a".to_owned(), json!({}))]);
            assert_eq!(inserted.map_err(|error| error.to_string()), Err(expected.to_owned()));
        }
    }
}
