//! Responses that must match a schema: properties of the tool results, by their names.

use serde_json::{Map, Value};
use toolwire_contract::model::{ModelError, ModelRequest, OutputFormat, RequestPart};
use toolwire_contract::{ToolCall, ToolResult};
use toolwire_dialect::arguments::Checker;

use super::Demo;
use super::describe::results;
use super::select::select_calls;

/// Returns the final response of a request that requires JSON; `None` if the request does not, or if tools
/// must be called first.
pub(super) fn respond(request: &ModelRequest) -> Option<Result<Value, ModelError>> {
    if request.output.is_text() {
        return None;
    }
    let results = results(&request.messages);
    let question = super::last_text(&request.messages);
    if results.is_empty() && !select_calls(&request.tools, &question, &request.tool_choice).calls.is_empty() {
        return None;
    }
    Some(fill(&request.output, &results).ok_or_else(|| ModelError::Unusable {
        model: Demo::NAME.to_owned(),
        problem: "it is not a language model, and the tool results do not have the properties that the schema requires"
            .to_owned(),
        hint: Some("use a language model: `-m anthropic/…`".to_owned()),
        part: Some(RequestPart::Output),
    }))
}

/// Fills the properties of the schema from results and arguments that have them.
fn fill(format: &OutputFormat, results: &[(Option<&ToolCall>, &ToolResult)]) -> Option<Value> {
    let mut structured = results.iter().filter_map(|(_, result)| result.structured_content.as_ref());
    let arguments = results.iter().filter_map(|(call, _)| call.as_ref()?.arguments.as_ref());
    let OutputFormat::Schema { schema, .. } = format else {
        return structured.find(|value| value.is_object()).cloned();
    };
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let structured: Vec<&Value> = structured.collect();
    let arguments: Vec<&Map<String, Value>> = arguments.collect();
    let found = |name: &str| {
        let in_results = structured.iter().find_map(|value| find(value, name));
        in_results.or_else(|| arguments.iter().find_map(|arguments| arguments.get(name)))
    };
    let filled: Map<String, Value> =
        properties.keys().filter_map(|name| Some((name.clone(), found(name)?.clone()))).collect();
    if filled.is_empty() {
        return None;
    }
    let checked = Checker::new(schema).check("response", &Value::Object(filled)).ok()?;
    Some(Value::Object(checked.arguments))
}

/// Finds a property in an object or in the objects that it contains.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let fields = value.as_object()?;
    fields.get(name).or_else(|| fields.values().find_map(|inner| find(inner, name)))
}
