//! Changes servers in TOML, as Codex writes them.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Key, Table, TableLike, Value as TomlValue};

use super::{ServerEdit, spelling};

/// The keys with servers. A new server is added to the first that exists.
const COLLECTIONS: [&str; 4] = ["mcp_servers", "mcpServers", "servers", "context_servers"];

/// Changes a server and keeps all comments. Returns `None` if the server is not in a table of servers, or if
/// TOML cannot express the change.
pub(super) fn edit_server(text: &str, name: &str, edit: ServerEdit<'_>) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let has_server = |key: &&&str| {
        let servers = document.get(key).and_then(Item::as_table_like);
        servers.is_some_and(|servers| servers.contains_key(name))
    };
    let known = COLLECTIONS.iter().rev().find(has_server).copied();
    match (known, edit) {
        (Some(collection), ServerEdit::Remove) => {
            let servers = document.get_mut(collection)?;
            servers.as_table_like_mut()?.remove(name)?;
            // Without its last server, the file must still have the key.
            if let Some(table) = servers.as_table_mut().filter(|table| table.is_empty()) {
                table.set_implicit(false);
            }
        }
        (None, ServerEdit::Remove) => return None,
        (Some(collection), ServerEdit::Set(changes)) => {
            let servers = document.get_mut(collection)?.as_table_like_mut()?;
            set_all(servers.get_mut(name)?.as_table_like_mut()?, changes)?;
        }
        (None, ServerEdit::Set(changes)) => {
            let collection = COLLECTIONS.iter().find(|key| document.contains_key(key)).copied();
            let servers = document.entry(collection.unwrap_or(COLLECTIONS[0])).or_insert_with(|| {
                let mut servers = Table::new();
                servers.set_implicit(true);
                Item::Table(servers)
            });
            let servers = servers.as_table_like_mut()?;
            let is_first = servers.is_empty() && collection.is_none() && text.trim().is_empty();
            let mut server = Table::new();
            set_all(&mut server, changes)?;
            server.decor_mut().set_prefix(if is_first { "" } else { "\n" });
            let server = match servers.iter().any(|(_, server)| server.is_value()) {
                true => Item::Value(TomlValue::InlineTable(server.into_inline_table())),
                false => Item::Table(server),
            };
            servers.insert(name, server);
        }
    }
    Some(document.to_string())
}

fn set_all(server: &mut dyn TableLike, changes: &[(String, Option<Value>)]) -> Option<()> {
    for (key, value) in changes {
        let known: Vec<String> = server.iter().map(|(key, _)| key.to_owned()).collect();
        set(server, &spelling(known.iter().map(String::as_str), key), value.as_ref())?;
    }
    Some(())
}

/// Sets or removes a key. The members of a table are set one by one, so that its comments stay.
fn set(table: &mut dyn TableLike, key: &str, value: Option<&Value>) -> Option<()> {
    let Some(value) = value else {
        table.remove(key);
        return Some(());
    };
    match (table.get_mut(key), value) {
        (Some(item), Value::Object(members)) if item.is_table_like() => {
            let item = item.as_table_like_mut()?;
            let known: Vec<String> = item.iter().map(|(key, _)| key.to_owned()).collect();
            for removed in known.iter().filter(|name| !members.contains_key(*name)) {
                item.remove(removed);
            }
            for (name, value) in members {
                set(item, name, Some(value))?;
            }
        }
        (Some(Item::Value(known)), value) => {
            let mut new = toml_value(value)?;
            if json(known) != json(&new) {
                *new.decor_mut() = known.decor().clone();
                *known = new;
            }
        }
        (_, value) => {
            let key = Key::new(key);
            table.insert(key.get(), Item::Value(toml_value(value)?));
        }
    }
    Some(())
}

/// Returns the text of a value without comments and spaces around it.
fn json(value: &TomlValue) -> String {
    value.clone().decorated("", "").to_string()
}

/// Converts a value to TOML. Returns `None` for `null`, which TOML does not have.
fn toml_value(value: &Value) -> Option<TomlValue> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => TomlValue::from(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(number) => TomlValue::from(number),
            None => TomlValue::from(number.as_f64()?),
        },
        Value::String(text) => TomlValue::from(text.as_str()),
        Value::Array(items) => TomlValue::Array(items.iter().map(toml_value).collect::<Option<Array>>()?),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| Some((Key::new(key), toml_value(value)?)));
            TomlValue::InlineTable(members.collect::<Option<InlineTable>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::Config;

    const TEXT: &str = r#"# my settings
model = "gpt-5.2" # the model

# reads files
[mcp_servers.files]
command = "uvx" # the program
args = ["mcp-files", "/home/me"]
startup_timeout_sec = 20

[mcp_servers.files.env]
# two variables
ONE = "1" # one
TWO = "2"

# the weather
[mcp_servers.weather]
url = "https://weather.example/mcp"
http_headers = { "X-Key" = "k" } # a key
# end
"#;

    #[track_caller]
    fn check(text: &str, name: &str, changes: &Value, expected: &str) {
        let changes: Vec<(String, Option<Value>)> = changes
            .as_object()
            .expect("an object")
            .iter()
            .map(|(key, value)| (key.clone(), Some(value.clone()).filter(|value| !value.is_null())))
            .collect();
        let changed = Config::edit_server(text, Path::new("config.toml"), name, ServerEdit::Set(&changes));
        assert_eq!(changed.as_deref(), Ok(expected));
    }

    #[test]
    fn only_the_changed_keys_are_written() {
        check(TEXT, "files", &json!({}), TEXT);
        let same =
            json!({"command": "uvx", "args": ["mcp-files", "/home/me"], "env": {"ONE": "1", "TWO": "2"}});
        check(TEXT, "files", &same, TEXT);
        check(TEXT, "files", &json!({"command": "npx"}), &TEXT.replace("\"uvx\"", "\"npx\""));
        let variables = json!({"env": {"ONE": "a \"b\"", "TWO": "2", "NEW": "3"}});
        let expected = TEXT
            .replace("ONE = \"1\"", "ONE = 'a \"b\"'")
            .replace("TWO = \"2\"\n", "TWO = \"2\"\nNEW = \"3\"\n");
        check(TEXT, "files", &variables, &expected);
    }

    #[test]
    fn keys_are_written_as_the_host_writes_them() {
        let headers = json!({"headers": {"X-Key": "new"}});
        check(TEXT, "weather", &headers, &TEXT.replace("\"k\"", "\"new\""));
    }

    #[test]
    fn a_server_is_added_after_the_others() {
        let changes = json!({"command": "uvx", "args": ["mcp-time"], "env": {"ZONE": "UTC"}, "url": null});
        let new =
            "\n[mcp_servers.time]\ncommand = \"uvx\"\nargs = [\"mcp-time\"]\nenv = { ZONE = \"UTC\" }\n";
        check(TEXT, "time", &changes, &TEXT.replace("# end\n", &format!("{new}# end\n")));
        check("", "time", &changes, new.trim_start());
        let inline = "mcp_servers = { a = { command = \"x\" } }\n";
        check(
            inline,
            "b",
            &json!({"command": "y"}),
            "mcp_servers = { a = { command = \"x\" } , b = { command = \"y\" } }\n",
        );
    }

    #[test]
    fn a_server_is_removed_with_its_tables() {
        let remove = |name| Config::edit_server(TEXT, Path::new("config.toml"), name, ServerEdit::Remove);
        let (start, end) =
            (TEXT.find("\n# reads").expect("there"), TEXT.find("\n# the weather").expect("there"));
        let expected = format!("{}{}", &TEXT[..start], &TEXT[end..]);
        assert_eq!(remove("files"), Ok(expected));
        assert!(remove("unknown").is_err());
        let one = "a = 1 # one\n\n[mcp_servers.x]\ncommand = \"x\"\n";
        let removed = Config::edit_server(one, Path::new("config.toml"), "x", ServerEdit::Remove);
        assert_eq!(removed.as_deref(), Ok("a = 1 # one\n\n[mcp_servers]\n"));
        let removed = remove("weather").expect("removed");
        assert!(removed.contains("# two variables") && removed.contains("# end"), "{removed}");
    }
}
