//! Adds servers to the text of a JSON configuration.

use std::path::Path;

use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::common::Ranged;
use serde_json::Value;

use super::super::ConfigError;
use super::super::formats::Positions;
use super::super::json::strip_byte_order_mark;
use super::super::parse::with_root;
use super::super::problem::Problem;

pub(in crate::config) fn insert_servers(
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
