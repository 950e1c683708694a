//! The options of one request: headers `x-toolwire-*`, or the key `toolwire` of the body or of its
//! `metadata`.

use http::HeaderMap;
use serde_json::{Map, Value};
use toolwire_contract::text::nearest_names;

use crate::response::Failure;
use crate::tools::ToolSelection;

/// The options of one request. They can only restrict what the gateway does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestOptions {
    pub(crate) selection: ToolSelection,
    /// The header or the field that selects the servers, and that for the tools.
    pub(crate) servers_parameter: String,
    pub(crate) tools_parameter: String,
    pub(crate) max_steps: Option<u32>,
    /// Whether the response shows the calls of servers' tools.
    pub(crate) show_calls: bool,
}

const SERVERS: &str = "servers";
const TOOLS: &str = "tools";
const MAX_STEPS: &str = "max-steps";
const SHOW_CALLS: &str = "show-calls";

/// The maximum number of names in a list: each of them is compared with all tools.
const MAX_PATTERNS: usize = 1_024;

/// The start of the names of the headers with options.
const HEADER_PREFIX: &str = "x-toolwire-";

impl RequestOptions {
    /// Reads the headers, and removes the key `toolwire` from the body. A header has precedence.
    pub(crate) fn take(
        headers: &HeaderMap,
        body: &mut Map<String, Value>,
    ) -> Result<RequestOptions, Failure> {
        let mut fields = Map::new();
        if let Some(Value::Object(metadata)) = body.get_mut("metadata")
            && let Some(found) = metadata.shift_remove("toolwire")
        {
            fields.extend(read_object("metadata.toolwire", found)?);
        }
        if let Some(found) = body.shift_remove("toolwire").filter(|found| !found.is_null()) {
            fields.extend(read_object("toolwire", found)?);
        }
        let mut options = RequestOptions::default();
        for (key, value) in fields {
            let name = format!("toolwire.{key}");
            match key.as_str() {
                SERVERS => {
                    options.selection.servers = Some(patterns(&name, &value)?);
                    options.servers_parameter = name;
                }
                TOOLS => {
                    options.selection.tools = Some(patterns(&name, &value)?);
                    options.tools_parameter = name;
                }
                "max_steps" | "maxSteps" | MAX_STEPS => {
                    options.max_steps = Some(steps(&name, &text_of(&value))?)
                }
                "show_calls" | "showCalls" | SHOW_CALLS => {
                    options.show_calls = flag(&name, &text_of(&value))?
                }
                _ => return Err(Failure::invalid(&name, format!("unknown key `{name}`"))),
            }
        }
        check_header_names(headers)?;
        let header = |key: &str| -> Result<Option<(String, String)>, Failure> {
            let name = format!("{HEADER_PREFIX}{key}");
            let invalid = || Failure::invalid(&name, format!("the header `{name}` is not plain text"));
            let values = headers.get_all(&name).iter().map(|value| value.to_str().map_err(|_| invalid()));
            let values: Vec<&str> = values.collect::<Result<_, _>>()?;
            // A header with a list can be sent in several parts.
            Ok((!values.is_empty()).then(|| (name.clone(), values.join(","))))
        };
        if let Some((name, text)) = header(SERVERS)? {
            options.selection.servers = Some(split(&text));
            options.servers_parameter = name;
        }
        if let Some((name, text)) = header(TOOLS)? {
            options.selection.tools = Some(split(&text));
            options.tools_parameter = name;
        }
        if let Some((name, text)) = header(MAX_STEPS)? {
            options.max_steps = Some(steps(&name, &text)?);
        }
        if let Some((name, text)) = header(SHOW_CALLS)? {
            options.show_calls = flag(&name, &text)?;
        }
        Ok(options)
    }
}

/// Rejects unknown headers: one with a wrong name would otherwise silently not restrict the request.
fn check_header_names(headers: &HeaderMap) -> Result<(), Failure> {
    const OPTIONS: [&str; 4] = [SERVERS, TOOLS, MAX_STEPS, SHOW_CALLS];
    let mut keys = headers.keys().filter_map(|name| name.as_str().strip_prefix(HEADER_PREFIX));
    let Some(key) = keys.find(|key| !OPTIONS.contains(key)) else { return Ok(()) };
    let name = format!("{HEADER_PREFIX}{key}");
    let hint = match nearest_names(key, OPTIONS).first() {
        Some(nearest) => format!("; hint: did you mean `{HEADER_PREFIX}{nearest}`?"),
        None => String::new(),
    };
    Err(Failure::invalid(&name, format!("unknown header `{name}`{hint}")))
}

/// Reads an object, or a string with its JSON: values in OpenAI's `metadata` can only be strings.
fn read_object(name: &str, value: Value) -> Result<Map<String, Value>, Failure> {
    let value = match value {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::Null),
        other => other,
    };
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err(Failure::invalid(name, format!("`{name}` must be an object"))),
    }
}

fn split(text: &str) -> Vec<String> {
    text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn patterns(name: &str, value: &Value) -> Result<Vec<String>, Failure> {
    let invalid = || Failure::invalid(name, format!("`{name}` must be an array of names or patterns"));
    let patterns: Vec<String> = match value {
        Value::String(text) => split(text),
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(invalid)?,
        _ => return Err(invalid()),
    };
    match patterns.len() {
        count if count > MAX_PATTERNS => {
            let message = format!("`{name}` contains {count} names, and the maximum is {MAX_PATTERNS}");
            Err(Failure::invalid(name, message))
        }
        _ => Ok(patterns),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn steps(name: &str, text: &str) -> Result<u32, Failure> {
    let number = text.trim().parse::<u64>().ok().filter(|number| *number > 0);
    let number =
        number.ok_or_else(|| Failure::invalid(name, format!("`{name}` must be a positive integer")))?;
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

fn flag(name: &str, text: &str) -> Result<bool, Failure> {
    match text.trim() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Failure::invalid(name, format!("`{name}` must be `true` or `false`"))),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn take(headers: &[(&'static str, &'static str)], body: &mut Value) -> Result<RequestOptions, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let body = body.as_object_mut().expect("an object");
        RequestOptions::take(&map, body).map_err(|failure| failure.error.message)
    }

    #[test]
    fn headers_have_precedence_over_the_body() {
        let mut body = json!({
            "model": "m", "toolwire": {"servers": ["a", "b*"], "max_steps": 3},
            "metadata": {"team": "t", "toolwire": "{\"tools\": \"x, y\", \"servers\": [\"c\"]}"}
        });
        let options = take(&[("x-toolwire-max-steps", "2")], &mut body).expect("options");
        assert_eq!(options.selection.servers, Some(vec!["a".to_owned(), "b*".to_owned()]));
        assert_eq!(options.selection.tools, Some(vec!["x".to_owned(), "y".to_owned()]));
        assert_eq!(options.max_steps, Some(2));
        assert_eq!(body, json!({"model": "m", "metadata": {"team": "t"}}));
        let parts = [("x-toolwire-servers", "a, b"), ("x-toolwire-servers", "c")];
        let lists = take(&parts, &mut json!({})).expect("options");
        assert_eq!(lists.selection.servers, Some(["a", "b", "c"].map(str::to_owned).to_vec()));
        let none = take(&[("x-toolwire-servers", "none")], &mut json!({})).expect("options");
        assert!(none.selection.is_none());
    }

    #[test]
    fn invalid_options_are_named() {
        for (headers, body, expected) in [
            (
                &[("x-toolwire-max-steps", "0")][..],
                json!({}),
                "`x-toolwire-max-steps` must be a positive integer",
            ),
            // A header with one value cannot be sent twice.
            (
                &[("x-toolwire-max-steps", "2"), ("x-toolwire-max-steps", "5")],
                json!({}),
                "`x-toolwire-max-steps` must be a positive integer",
            ),
            (
                &[("x-toolwire-server", "a")],
                json!({}),
                "unknown header `x-toolwire-server`; hint: did you mean `x-toolwire-servers`?",
            ),
            (&[("x-toolwire-url", "a")], json!({}), "unknown header `x-toolwire-url`"),
            (&[], json!({"toolwire": {"max_steps": -1}}), "`toolwire.max_steps` must be a positive integer"),
            (&[], json!({"toolwire": {"api_base": "x"}}), "unknown key `toolwire.api_base`"),
            (&[], json!({"toolwire": 1}), "`toolwire` must be an object"),
            (
                &[],
                json!({"toolwire": {"servers": [1]}}),
                "`toolwire.servers` must be an array of names or patterns",
            ),
            (
                &[],
                json!({"toolwire": {"tools": vec!["a*"; 1_025]}}),
                "`toolwire.tools` contains 1025 names, and the maximum is 1024",
            ),
        ] {
            let mut body = body;
            assert_eq!(take(headers, &mut body), Err(expected.to_owned()));
        }
    }
}
