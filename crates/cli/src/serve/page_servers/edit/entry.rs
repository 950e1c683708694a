//! The entry of a server in the configuration file, as the form edits it.

use serde_json::{Map, Value};
use toolwire_gateway::page::{ServerChangeError, ServerChangeErrorKind};
use toolwire_hub::Config;
use toolwire_page::servers::form::{Draft, HIDDEN, ServerKind};

use super::invalid;

/// The keys of an entry that belong to one kind of server only.
const COMMAND_KEYS: [&str; 5] = ["command", "args", "env", "envFile", "cwd"];
const URL_KEYS: [&str; 3] = ["url", "headers", "oauth"];

type Changes = Vec<(String, Option<Value>)>;

/// Returns the keys of the entry that a form changes. Fields that are as in the stored entry change nothing.
pub(super) fn changes(draft: &Draft, stored: Option<&Value>) -> Result<Changes, ServerChangeError> {
    let before = stored.map(fields).transpose()?.unwrap_or_default();
    let value = |key: &str| stored.and_then(|stored| Config::raw_value(stored, key));
    let mut changes = Changes::new();
    let mut change = |key: &str, is_changed: bool, value: Option<Value>| {
        if is_changed {
            changes.push((key.to_owned(), value));
        }
    };
    let other_keys: &[&str] = match draft.kind {
        ServerKind::Command => {
            let command = draft.command.trim();
            if command.is_empty() {
                return Err(invalid("command", "the server needs a command"));
            }
            change("command", command != before.command, Some(command.into()));
            let arguments: Vec<&str> = draft.arguments.lines().filter(|line| !line.is_empty()).collect();
            let arguments = (!arguments.is_empty()).then(|| arguments.into());
            change("args", draft.arguments.trim_end() != before.arguments, arguments);
            let environment = pairs("environment", &draft.environment, '=', value("env"))?;
            change("env", draft.environment.trim_end() != before.environment, environment);
            &URL_KEYS
        }
        ServerKind::Url => {
            let url = draft.url.trim();
            if url.is_empty() {
                return Err(invalid("url", "the server needs a URL"));
            }
            change("url", url != before.url, Some(url.into()));
            let headers = pairs("headers", &draft.headers, ':', value("headers"))?;
            change("headers", draft.headers.trim_end() != before.headers, headers);
            &COMMAND_KEYS
        }
    };
    for key in other_keys {
        change(key, value(key).is_some(), None);
    }
    // The type of a program is `stdio`, and goose requires it.
    let is_program = value("type").is_some_and(|kind| kind == "stdio");
    change("type", value("type").is_some() && is_program != (draft.kind == ServerKind::Command), None);
    Ok(changes)
}

/// Reads lines with names and values. The value [`HIDDEN`] is replaced by the stored one.
fn pairs(
    field: &'static str,
    text: &str,
    separator: char,
    stored: Option<&Value>,
) -> Result<Option<Value>, ServerChangeError> {
    let mut pairs = Map::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Some((name, value)) = line.split_once(separator).filter(|(name, _)| !name.trim().is_empty())
        else {
            return Err(invalid(field, format!("`{line}` is not a name, `{separator}` and a value")));
        };
        let (name, value) = (name.trim(), value.trim());
        let value = match (value == HIDDEN, stored.and_then(|stored| stored.get(name))) {
            (false, _) => Value::from(value),
            (true, Some(stored)) => stored.clone(),
            (true, None) => return Err(invalid(field, format!("there is no stored value of `{name}`"))),
        };
        pairs.insert(name.to_owned(), value);
    }
    Ok((!pairs.is_empty()).then_some(Value::Object(pairs)))
}

/// Returns the fields of a stored entry. Values that may be secret are hidden.
pub(super) fn fields(entry: &Value) -> Result<Draft, ServerChangeError> {
    let value = |key: &str| Config::raw_value(entry, key);
    let text = |key: &str| value(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let in_editor = |message: &str| {
        ServerChangeError::new(ServerChangeErrorKind::Invalid, message)
            .with_hint("change the server in an editor")
    };
    // Zed writes an object, and opencode an array with the arguments.
    if value("command").is_some_and(|command| !command.is_string()) {
        return Err(in_editor("the command of the server is not a text, which the form cannot express"));
    }
    let mut arguments = Vec::new();
    for argument in value("args").and_then(Value::as_array).into_iter().flatten() {
        let argument = argument.as_str().map_or_else(|| argument.to_string(), str::to_owned);
        if argument.is_empty() || argument.contains(['\n', '\r']) {
            return Err(in_editor(
                "an argument of the server is empty or has several lines, which the form cannot express",
            ));
        }
        arguments.push(argument);
    }
    let lines = |key: &str, separator: &str| {
        let members = value(key).and_then(Value::as_object).into_iter().flatten();
        let line = |(name, value): (&String, &Value)| format!("{name}{separator}{}", displayed(value));
        members.map(line).collect::<Vec<_>>().join("\n")
    };
    Ok(Draft {
        kind: if value("url").is_some() { ServerKind::Url } else { ServerKind::Command },
        command: text("command"),
        arguments: arguments.join("\n"),
        environment: lines("env", "="),
        url: text("url"),
        headers: lines("headers", ": "),
        ..Draft::default()
    })
}

/// Returns a value that only refers to variables; others are hidden.
pub(in crate::serve::page_servers) fn displayed(value: &Value) -> &str {
    let text = value.as_str().unwrap_or_default();
    let reference = text.strip_prefix("Bearer ").unwrap_or(text);
    let is_reference = reference
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        // A default value may be secret.
        .is_some_and(|name| {
            name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        });
    if is_reference { text } else { HIDDEN }
}

pub(super) fn without_secrets(mut entry: Value) -> Value {
    for (key, values) in entry.as_object_mut().into_iter().flatten() {
        let is_secret = ["env", "headers"].iter().any(|name| Config::is_spelling(key, name));
        for value in values.as_object_mut().filter(|_| is_secret).into_iter().flat_map(Map::values_mut) {
            *value = displayed(value).into();
        }
    }
    entry
}
