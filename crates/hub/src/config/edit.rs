//! Changes the text of a configuration, and keeps its comments and its order.

mod insert;
#[cfg(feature = "toml")]
mod toml;
#[cfg(feature = "yaml")]
mod yaml_lines;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::{Map, Value};

use super::ConfigError;
use super::hosts::is_spelling_of;
use super::json::strip_byte_order_mark;
use super::parse::with_root;
use super::problem::Problem;
pub(super) use insert::insert_servers;

/// A change of one server in a configuration file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ServerEdit<'a> {
    /// Sets keys, and removes those without a value. A server that does not exist is added.
    Set(&'a [(String, Option<Value>)]),
    Remove,
}

/// The servers of a file, in the order of the file.
type Servers = Vec<(String, Value)>;

pub(super) fn edit_server(
    text: &str,
    file: &Path,
    name: &str,
    edit: ServerEdit<'_>,
) -> Result<String, ConfigError> {
    let text = strip_byte_order_mark(text);
    let format = Format::of(file);
    let text = if text.trim().is_empty() && format == Format::Json { "{}\n" } else { text };
    if !format.is_writable() {
        return Err(error_at_root(text, file, Problem::ReadOnlyFormat));
    }
    let before = read(text, file)?;
    let is_edited = |changed: &String| is_edited(changed, file, &before, name, edit);
    let changed = match format {
        #[cfg(feature = "toml")]
        Format::Toml => toml::edit_server(text, name, edit),
        _ => edit_json(text, file, name, edit),
    };
    if let Some(changed) = changed.filter(is_edited) {
        return Ok(changed);
    }
    // The server is not a member of an object: it may be in the list of another host. It is written to
    // `mcpServers`, where it replaces the other one.
    let after = edited(&before, name, edit);
    let replacement = match (format, after.iter().rev().find(|(known, _)| known == name)) {
        (Format::Json, Some((_, server))) => {
            insert_servers(text, file, &[(name.to_owned(), server.clone())]).ok()
        }
        _ => None,
    };
    replacement
        .filter(is_edited)
        .ok_or_else(|| error_at_root(text, file, Problem::UnknownPlace { name: name.to_owned() }))
}

/// Returns the text in which the lines of a server are replaced. Its comments and its style are lost, so this
/// is only a proposal for a person.
pub(super) fn edit_server_lines(
    text: &str,
    file: &Path,
    name: &str,
    edit: ServerEdit<'_>,
) -> Result<String, ConfigError> {
    let text = strip_byte_order_mark(text);
    if Format::of(file) != Format::Yaml {
        return Err(error_at_root(text, file, Problem::ReadOnlyFormat));
    }
    let before = read(text, file)?;
    #[cfg(feature = "yaml")]
    let changed = yaml_lines::edit_server(text, file, name, &edited(&before, name, edit))?;
    // Never reached: without the feature, `read` fails.
    #[cfg(not(feature = "yaml"))]
    let changed: Option<String> = None;
    changed
        .filter(|changed| is_edited(changed, file, &before, name, edit))
        .ok_or_else(|| error_at_root(text, file, Problem::UnknownPlace { name: name.to_owned() }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Toml,
    Yaml,
}

impl Format {
    fn of(file: &Path) -> Format {
        match file.extension().and_then(OsStr::to_str) {
            Some("toml") => Format::Toml,
            Some("yaml" | "yml") => Format::Yaml,
            _ => Format::Json,
        }
    }

    fn is_writable(self) -> bool {
        self != Format::Yaml
    }
}

/// Whether the servers of a file can be changed without losing its comments.
pub(super) fn is_writable(file: &Path) -> bool {
    Format::of(file).is_writable()
}

fn error_at_root(text: &str, file: &Path, problem: Problem) -> ConfigError {
    let error = with_root(text, file, &|_| None, |parser, root| parser.error(&root.at, problem));
    match error {
        Ok(problem) => ConfigError(vec![problem]),
        Err(error) => error,
    }
}

fn read(text: &str, file: &Path) -> Result<Servers, ConfigError> {
    match text.trim().is_empty() {
        true => Ok(Vec::new()),
        false => super::parse::raw_servers(text, file),
    }
}

/// Returns the servers after a change. The server keeps the spelling of its keys.
fn edited(before: &Servers, name: &str, edit: ServerEdit<'_>) -> Servers {
    let mut servers = before.clone();
    let changes = match edit {
        ServerEdit::Remove => {
            servers.retain(|(known, _)| known != name);
            return servers;
        }
        ServerEdit::Set(changes) => changes,
    };
    let position = servers.iter().rposition(|(known, _)| known == name).unwrap_or_else(|| {
        servers.push((name.to_owned(), Value::Object(Map::new())));
        servers.len() - 1
    });
    let mut server = servers[position].1.as_object().cloned().unwrap_or_default();
    for (key, value) in changes {
        let key = spelling(server.keys().map(String::as_str), key);
        match value {
            Some(value) => server.insert(key, value.clone()),
            None => server.shift_remove(&key),
        };
    }
    servers[position].1 = Value::Object(server);
    servers
}

/// Returns the spelling of `key` among the existing keys, which may be an alias of another host; `key` itself
/// if there is none.
fn spelling<'k>(mut keys: impl Iterator<Item = &'k str>, key: &str) -> String {
    keys.find(|known| is_spelling_of(known, key)).unwrap_or(key).to_owned()
}

/// Returns the value of a key of a server, or of an alias of the key.
pub(super) fn raw_value<'v>(server: &'v Value, key: &str) -> Option<&'v Value> {
    let mut members = server.as_object()?.iter();
    members.find(|(known, _)| is_spelling_of(known, key)).map(|(_, value)| value)
}

/// Whether a text has the servers that a change of one server requires. A new server may have more keys,
/// which the file of another host needs.
fn is_edited(text: &str, file: &Path, before: &Servers, name: &str, edit: ServerEdit<'_>) -> bool {
    let Ok(after) = read(text, file) else { return false };
    let (mut before, mut after) = (by_name(before), by_name(&after));
    let (server_before, server) = (before.remove(name), after.remove(name));
    let is_as_wanted = match (edit, server) {
        (ServerEdit::Remove, server) => server.is_none(),
        (ServerEdit::Set(_), None) => false,
        (ServerEdit::Set(changes), Some(server)) => {
            changes.iter().all(|(key, value)| raw_value(server, key) == value.as_ref())
                && server_before.is_none_or(|before| without(before, changes) == without(server, changes))
        }
    };
    is_as_wanted && before == after
}

/// Of servers with the same name, the last one counts.
fn by_name(servers: &Servers) -> BTreeMap<&str, &Value> {
    servers.iter().map(|(name, server)| (name.as_str(), server)).collect()
}

/// Returns the keys of a server that a change does not concern.
fn without<'v>(server: &'v Value, changes: &[(String, Option<Value>)]) -> BTreeMap<&'v str, &'v Value> {
    let members = server.as_object().into_iter().flatten();
    let is_kept = |key: &str| !changes.iter().any(|(changed, _)| is_spelling_of(key, changed));
    members.filter(|(key, _)| is_kept(key)).map(|(key, value)| (key.as_str(), value)).collect()
}

/// Changes a server and keeps all comments. Returns `None` if the server is not in an object.
fn edit_json(text: &str, file: &Path, name: &str, edit: ServerEdit<'_>) -> Option<String> {
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
    let object = root.object_value()?;
    let known = collections(&object).into_iter().filter_map(|servers| last(&servers, name)).next_back();
    match (known, edit) {
        (Some(property), ServerEdit::Remove) => property.remove(),
        (None, ServerEdit::Remove) => return None,
        (Some(property), ServerEdit::Set(changes)) => {
            let server = property.object_value()?;
            for (key, value) in changes {
                let names: Vec<String> =
                    server.properties().into_iter().filter_map(|member| member.decoded_name()).collect();
                set(&server, &spelling(names.iter().map(String::as_str), key), value.as_ref());
            }
        }
        (None, ServerEdit::Set(changes)) => {
            let set = changes.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
            return insert_servers(text, file, &[(name.to_owned(), Value::Object(set.collect()))]).ok();
        }
    }
    Some(root.to_string())
}

/// Returns the objects with servers.
fn collections(root: &CstObject) -> Vec<CstObject> {
    let object = |object: &CstObject, key: &str| last(object, key)?.object_value();
    let mut found: Vec<CstObject> = ["mcpServers", "servers", "context_servers", "mcp_servers", "extensions"]
        .iter()
        .filter_map(|key| object(root, key))
        .collect();
    if let Some(mcp) = object(root, "mcp") {
        found.push(object(&mcp, "servers").unwrap_or(mcp));
    }
    let folder = std::env::current_dir().ok();
    let project = || object(&object(root, "projects")?, folder.as_deref()?.to_str()?);
    found.extend(project().and_then(|project| object(&project, "mcpServers")));
    found
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_change(text: &str, changes: Value, expected: &str) {
        let changes: Vec<(String, Option<Value>)> = changes
            .as_object()
            .expect("an object")
            .iter()
            .map(|(key, value)| (key.clone(), Some(value.clone()).filter(|value| !value.is_null())))
            .collect();
        let changed = edit_server(text, Path::new("mcp.json"), "a", ServerEdit::Set(&changes));
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
        let no_variables = [("env".to_owned(), None)];
        let removed =
            edit_server(text, Path::new("mcp.json"), "a", ServerEdit::Set(&no_variables)).expect("valid");
        let servers = crate::Config::raw_servers(&removed, Path::new("mcp.json")).expect("valid");
        assert_eq!(servers[0].1, json!({"command": "x", "timeout": 5}));
        for comment in ["// top", "// first", "// program", "/* slow */", "// last"] {
            assert!(removed.contains(comment), "{comment}: {removed}");
        }
    }

    #[test]
    fn an_unknown_server_is_added() {
        let changes = [("command".to_owned(), Some(json!("n"))), ("url".to_owned(), None)];
        let add = |text: &str| edit_server(text, Path::new("mcp.json"), "new", ServerEdit::Set(&changes));
        assert_eq!(add(""), add("{}\n"));
        let added = add("{\"mcpServers\": {}} // end\n").expect("valid");
        assert_eq!(
            added,
            "{\"mcpServers\": {\n    \"new\": {\n      \"command\": \"n\"\n    }\n  }} // end\n"
        );
    }

    #[track_caller]
    fn check_removal(text: &str, expected: &str) {
        let removed = edit_server(text, Path::new("mcp.json"), "a", ServerEdit::Remove);
        assert_eq!(removed.as_deref(), Ok(expected));
    }

    #[test]
    fn a_server_is_removed_with_its_line() {
        check_removal(
            "{\n  // top\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"},\n    \"b\": {\"command\": \"y\"} // last\n  }\n}\n",
            "{\n  // top\n  \"mcpServers\": {\n    \"b\": {\"command\": \"y\"} // last\n  }\n}\n",
        );
        check_removal("{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}", "{\"mcpServers\": {}}");
        let unknown = edit_server("{\"mcpServers\": {}}", Path::new("mcp.json"), "a", ServerEdit::Remove);
        assert!(unknown.is_err(), "{unknown:?}");
    }

    #[test]
    fn servers_of_other_hosts_are_changed_where_they_are() {
        let zed = "{\"context_servers\": {\"a\": {\"command\": \"x\"} /* one */}}";
        check_change(zed, json!({"command": "z"}), &zed.replace("\"x\"", "\"z\""));
        let code = "{\"mcp\": {\"servers\": {\"a\": {\"command\": \"x\"}, \"b\": {\"url\": \"u\"}}}}";
        check_removal(code, "{\"mcp\": {\"servers\": { \"b\": {\"url\": \"u\"}}}}");
        let gemini = "{\"mcpServers\": {\"a\": {\"httpUrl\": \"https://a\"}}}";
        check_change(gemini, json!({"url": "https://b"}), &gemini.replace("//a", "//b"));
    }
}
