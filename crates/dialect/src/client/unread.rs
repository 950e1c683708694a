//! Finds the fields of tools, messages and their parts that no type represents. Only a request that is sent
//! as the client wrote it has them.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::RequestFields;
use crate::Family;

/// The fields of a kind of object that are read, or that have no meaning in a request.
struct Known {
    /// The types of the objects; without types, all objects at this place.
    types: &'static [&'static str],
    fields: &'static [&'static str],
}

const CACHE_MARKS: [&str; 2] = ["cache_control", "prompt_cache_breakpoint"];

const CHAT_MESSAGE: Known = Known {
    types: &[],
    fields: &[
        "role",
        "content",
        "refusal",
        "tool_calls",
        "tool_call_id",
        "function_call",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
    ],
};
const CHAT_PARTS: [Known; 5] = [
    Known { types: &["text"], fields: &["type", "text"] },
    Known { types: &["refusal"], fields: &["type", "refusal"] },
    Known { types: &["image_url"], fields: &["type", "image_url"] },
    Known { types: &["input_audio"], fields: &["type", "input_audio"] },
    Known { types: &["file"], fields: &["type", "file"] },
];
const CHAT_TOOL: Known = Known { types: &[], fields: &["type", "function", "custom"] };
const CHAT_FUNCTION: Known = Known { types: &[], fields: &["name", "description", "parameters", "strict"] };

const RESPONSES_ITEM: Known =
    Known { types: &["message"], fields: &["type", "role", "content", "id", "status", "phase"] };
const RESPONSES_PARTS: [Known; 5] = [
    Known { types: &["input_text", "text"], fields: &["type", "text"] },
    Known { types: &["output_text"], fields: &["type", "text", "logprobs"] },
    Known { types: &["refusal"], fields: &["type", "refusal"] },
    Known { types: &["input_image"], fields: &["type", "image_url", "file_id", "detail"] },
    Known { types: &["input_file"], fields: &["type", "file_data", "file_id", "file_url", "filename"] },
];
const RESPONSES_TOOL: Known =
    Known { types: &["function"], fields: &["type", "name", "description", "parameters", "strict"] };

const ANTHROPIC_MESSAGE: Known = Known { types: &[], fields: &["role", "content"] };
const ANTHROPIC_PARTS: [Known; 5] = [
    Known { types: &["text"], fields: &["type", "text"] },
    Known { types: &["image"], fields: &["type", "source"] },
    Known { types: &["document"], fields: &["type", "source", "title"] },
    Known { types: &["tool_use"], fields: &["type", "id", "name", "input"] },
    Known { types: &["tool_result"], fields: &["type", "tool_use_id", "content", "is_error"] },
];
const ANTHROPIC_TOOL: Known =
    Known { types: &["custom"], fields: &["type", "name", "description", "input_schema", "strict"] };

/// Returns the paths of the fields, without indexes, such as `messages.name`.
pub(super) fn find(family: Family, body: &RequestFields) -> Vec<String> {
    let mut search = Search::default();
    match family {
        Family::OpenAiChat => {
            for message in search.objects(body.peek("messages"), "messages", &[CHAT_MESSAGE], true) {
                search.objects(message.get("content"), "messages.content", &CHAT_PARTS, false);
            }
            for tool in search.objects(body.peek("tools"), "tools", &[CHAT_TOOL], true) {
                if let Some(function) = tool.get("function").and_then(Value::as_object) {
                    search.fields(function, "tools", &CHAT_FUNCTION);
                }
            }
        }
        Family::OpenAiResponses => {
            for item in search.objects(body.peek("input"), "input", &[RESPONSES_ITEM], true) {
                search.objects(item.get("content"), "input.content", &RESPONSES_PARTS, false);
            }
            search.objects(body.peek("tools"), "tools", &[RESPONSES_TOOL], true);
        }
        Family::Anthropic => {
            search.objects(body.peek("system"), "system", &ANTHROPIC_PARTS, false);
            for message in search.objects(body.peek("messages"), "messages", &[ANTHROPIC_MESSAGE], true) {
                search.objects(message.get("content"), "messages.content", &ANTHROPIC_PARTS, false);
            }
            search.objects(body.peek("tools"), "tools", &[ANTHROPIC_TOOL], true);
        }
        _ => {}
    }
    search.found
}

#[derive(Default)]
struct Search {
    found: Vec<String>,
    /// The same paths. A client may send very many of them.
    known: HashSet<String>,
}

impl Search {
    /// Looks at the objects of an array, and returns them. Objects of other types are not known here;
    /// `has_default` says whether those without a type are of the first kind.
    fn objects<'v>(
        &mut self,
        array: Option<&'v Value>,
        place: &str,
        known: &[Known],
        has_default: bool,
    ) -> Vec<&'v Map<String, Value>> {
        let values = array.and_then(Value::as_array).into_iter().flatten();
        let objects: Vec<&Map<String, Value>> = values.filter_map(Value::as_object).collect();
        for object in &objects {
            let kind = object.get("type").and_then(Value::as_str);
            let is_kind = |known: &&Known| match kind {
                _ if known.types.is_empty() => true,
                Some(kind) => known.types.contains(&kind),
                None => has_default,
            };
            if let Some(known) = known.iter().find(is_kind) {
                self.fields(object, place, known);
            }
        }
        objects
    }

    fn fields(&mut self, object: &Map<String, Value>, place: &str, known: &Known) {
        for (name, value) in object {
            let name = name.as_str();
            let is_default = name == "allowed_callers" && *value == json!(["direct"]);
            let is_listed = known.fields.contains(&name)
                || CACHE_MARKS.contains(&name)
                || is_default
                || has_no_meaning(value);
            let path = format!("{place}.{name}");
            if !is_listed && self.known.insert(path.clone()) {
                self.found.push(path);
            }
        }
    }
}

/// Whether a value is the same as no value. Clients send back such fields of a response.
fn has_no_meaning(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name is not compared with all others: otherwise, this test would take very long.
    #[test]
    fn very_many_fields_are_listed_once() {
        let fields: Map<String, Value> =
            (0..150_000).map(|number| (format!("f{number}"), json!(1))).collect();
        let body = json!({"messages": [fields, fields]});
        let body = RequestFields::new("", body).expect("an object");
        let found = find(Family::OpenAiChat, &body);
        assert_eq!((found.len(), found[1].as_str()), (150_000, "messages.f1"));
    }
}
