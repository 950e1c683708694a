//! Finds the lines of a server in YAML, and writes new ones.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::super::ConfigError;
use super::super::formats::Positions;
use super::super::hosts::{named_servers, server_collections};
use super::super::parse::with_root;
use super::super::yaml::yaml_to_json;
use super::Servers;

/// The place and the style of the lines of a server.
struct ServerLines {
    name: String,
    /// Counted from 0.
    lines: Range<usize>,
    /// The number of spaces before the key, or before the `-` of a list.
    indent: usize,
    is_item: bool,
    /// Whether it is in the `extensions` of goose, which have keys of their own.
    is_extension: bool,
}

/// Writes the server as it is in `servers`, or removes it if `servers` does not contain it. Returns `None` if
/// its lines are unknown.
pub(super) fn edit_server(
    text: &str,
    file: &Path,
    name: &str,
    servers: &Servers,
) -> Result<Option<String>, ConfigError> {
    let entries = match text.trim().is_empty() {
        true => Vec::new(),
        false => entries(text, file)?,
    };
    let server = servers.iter().rev().find(|(known, _)| known == name).map(|(_, server)| server);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let known = entries.iter().rfind(|entry| entry.name == name);
    let sibling = entries.last();
    let (place, new) = match (known, server) {
        (Some(entry), Some(server)) => (entry.lines.clone(), entry.text(server)),
        // Without its last member, the mapping would be `null`.
        (Some(_), None) if entries.len() == 1 => return Ok(None),
        (Some(entry), None) => (entry.lines.clone(), String::new()),
        (None, Some(server)) => match sibling {
            Some(sibling) => {
                let new = ServerLines { name: name.to_owned(), lines: 0..0, ..*sibling };
                (sibling.lines.end..sibling.lines.end, new.text(server))
            }
            None => {
                let new = ServerLines {
                    name: name.to_owned(),
                    lines: 0..0,
                    indent: 2,
                    is_item: false,
                    is_extension: false,
                };
                (lines.len()..lines.len(), format!("mcpServers:\n{}", new.text(server)))
            }
        },
        (None, None) => return Ok(None),
    };
    let (Some(before), Some(after)) = (lines.get(..place.start), lines.get(place.end..)) else {
        return Ok(None);
    };
    let before = before.concat();
    let line_break = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    Ok(Some(format!("{before}{line_break}{new}{}", after.concat())))
}

/// Returns the servers of the file that have lines of their own.
fn entries(text: &str, file: &Path) -> Result<Vec<ServerLines>, ConfigError> {
    with_root(text, file, &|_| None, |parser, root| {
        let folder = std::env::current_dir().ok();
        let collections = server_collections(root, folder.as_deref());
        let position = |offset| match &parser.positions {
            Positions::Mapped(map) => map.line_and_column(offset),
            _ => None,
        };
        let mut entries = Vec::new();
        for collection in &collections {
            let is_item = collection.items().is_some();
            for (name, offset, _) in named_servers(collection) {
                let Some((name, (line, column))) = name.zip(position(offset)) else { continue };
                entries.extend(ServerLines::find(
                    text,
                    name,
                    line - 1,
                    column - 1,
                    is_item,
                    &collection.at.key,
                ));
            }
        }
        entries
    })
}

impl ServerLines {
    /// Finds the lines of a server whose key, or whose first key in a list, is at a position.
    fn find(
        text: &str,
        name: &str,
        line: usize,
        column: usize,
        is_item: bool,
        collection: &str,
    ) -> Option<ServerLines> {
        let lines: Vec<&str> = text.lines().collect();
        let before: String = lines.get(line)?.chars().take(column).collect();
        let indent = match is_item {
            true => before.find('-').filter(|_| before.trim() == "-")?,
            false => Some(column).filter(|_| before.trim().is_empty())?,
        };
        let mut end = line + 1;
        for (number, next) in lines.iter().enumerate().skip(line + 1) {
            let text = next.trim_start();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if next.len() - text.len() <= indent {
                break;
            }
            end = number + 1;
        }
        let is_extension = collection == "extensions";
        Some(ServerLines { name: name.to_owned(), lines: line..end, indent, is_item, is_extension })
    }

    /// Returns the lines of a server in the style of this place.
    fn text(&self, server: &Value) -> String {
        let server = server.as_object().cloned().unwrap_or_default();
        let server = if self.is_extension { extension(&self.name, server) } else { server };
        let indent = " ".repeat(self.indent);
        if !self.is_item {
            let key = scalar(&self.name);
            return format!("{indent}{key}:\n{}", block(&server, self.indent + 2));
        }
        let mut members = Map::new();
        members.insert("name".to_owned(), self.name.as_str().into());
        members.extend(server);
        let block = block(&members, self.indent + 2);
        format!("{indent}- {}", block.trim_start())
    }
}

/// Returns a server with the keys of goose, which requires a type.
fn extension(name: &str, server: Map<String, Value>) -> Map<String, Value> {
    let mut extension = Map::new();
    if !server.contains_key("type") {
        let kind = if server.contains_key("url") { "streamable_http" } else { "stdio" };
        for (key, value) in [("name", json!(name)), ("type", json!(kind)), ("enabled", json!(true))] {
            extension.insert(key.to_owned(), value);
        }
    }
    for (key, value) in server {
        let theirs = match key.as_str() {
            "command" => "cmd",
            "env" => "envs",
            "url" => "uri",
            other => other,
        };
        extension.insert(theirs.to_owned(), value);
    }
    extension
}

/// Returns members as lines.
fn block(members: &Map<String, Value>, indent: usize) -> String {
    let spaces = " ".repeat(indent);
    let mut lines = String::new();
    for (key, value) in members {
        // Writing to a string does not fail.
        let _ = match value {
            Value::Object(inner) if !inner.is_empty() => {
                writeln!(lines, "{spaces}{}:\n{}", scalar(key), block(inner, indent + 2).trim_end())
            }
            Value::Array(items)
                if items.iter().all(|item| !item.is_object() && !item.is_array()) && !items.is_empty() =>
            {
                let items = items.iter().map(|item| format!("\n{spaces}  - {}", value_text(item)));
                writeln!(lines, "{spaces}{}:{}", scalar(key), items.collect::<String>())
            }
            value => writeln!(lines, "{spaces}{}: {}", scalar(key), value_text(value)),
        };
    }
    lines
}

/// Returns a value on one line. JSON is also YAML.
fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        value => value.to_string(),
    }
}

/// Returns a text without quotes if YAML reads it as the same text.
fn scalar(text: &str) -> String {
    let expected = json!({"a": text}).to_string();
    let is_plain = text
        .starts_with(|first: char| first.is_ascii_alphanumeric() || first == '/' || first == '_')
        && text.chars().all(|character| character.is_ascii_alphanumeric() || "_-./@=+~:".contains(character))
        && yaml_to_json(&format!("{{a: {text}}}")).is_ok_and(|yaml| yaml.json == expected);
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::super::ServerEdit;
    use super::*;
    use crate::Config;

    #[track_caller]
    fn check(text: &str, name: &str, changes: Option<Value>, expected: &str) {
        let file = Path::new("config.yaml");
        let changes: Option<Vec<(String, Option<Value>)>> = changes.map(|changes| {
            let changes = changes.as_object().expect("an object").clone();
            changes
                .into_iter()
                .map(|(key, value)| (key, Some(value).filter(|value| !value.is_null())))
                .collect()
        });
        let edit = changes.as_deref().map_or(ServerEdit::Remove, ServerEdit::Set);
        assert_eq!(Config::edit_server_lines(text, file, name, edit).as_deref(), Ok(expected));
        assert!(Config::edit_server(text, file, name, edit).is_err(), "the file is not written");
    }

    const GOOSE: &str = "# mine\nextensions:\n  files: # reads\n    type: stdio\n    cmd: uvx\n    args: [mcp-files]\n    envs: {}\n\n  # web\n  web:\n    type: sse\n    uri: https://a.example/mcp\nGOOSE_MODEL: x\n";

    #[test]
    fn the_lines_of_a_server_are_replaced() {
        check(
            GOOSE,
            "files",
            Some(json!({"command": "npx", "env": {"A": "1", "B": "x: y"}})),
            &GOOSE.replace(
                "  files: # reads\n    type: stdio\n    cmd: uvx\n    args: [mcp-files]\n    envs: {}\n",
                "  files:\n    type: stdio\n    cmd: npx\n    args:\n      - mcp-files\n    envs:\n      A: \"1\"\n      B: \"x: y\"\n",
            ),
        );
        check(
            GOOSE,
            "web",
            None,
            &GOOSE.replace("  web:\n    type: sse\n    uri: https://a.example/mcp\n", ""),
        );
    }

    #[test]
    fn a_server_is_added_in_the_style_of_the_others() {
        check(
            GOOSE,
            "time",
            Some(json!({"command": "uvx", "args": ["mcp-time"]})),
            &GOOSE.replace(
                "GOOSE_MODEL",
                "  time:\n    name: time\n    type: stdio\n    enabled: true\n    cmd: uvx\n    args:\n      - mcp-time\nGOOSE_MODEL",
            ),
        );
        let list = "mcpServers:\n  - name: a\n    command: x\nmodels: []\n";
        check(
            list,
            "b",
            Some(json!({"command": "y", "env": {"K": "true"}})),
            "mcpServers:\n  - name: a\n    command: x\n  - name: b\n    command: y\n    env:\n      K: \"true\"\nmodels: []\n",
        );
        check("", "a", Some(json!({"command": "x"})), "mcpServers:\n  a:\n    command: x\n");
    }

    #[test]
    fn a_place_without_lines_of_its_own_is_not_changed() {
        for text in ["mcpServers: {a: {command: x}, b: {command: y}}\n", "mcpServers:\n  a: {command: x}\n"] {
            let edit = Config::edit_server_lines(text, Path::new("a.yaml"), "a", ServerEdit::Remove);
            assert!(edit.is_err(), "{edit:?}");
        }
    }
}
