//! Tools that a provider runs itself, such as a web search. Only the provider's own API has them.

use serde_json::Value;

use crate::Family;

/// The starts of the types of these tools. Most types end with a date.
const ANTHROPIC: [&str; 5] =
    ["web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "advisor_"];
const OPENAI: [&str; 5] =
    ["web_search", "file_search", "code_interpreter", "image_generation", PROGRAMMATIC_CALLS];

/// The tool of OpenAI whose programs call the client's tools.
const PROGRAMMATIC_CALLS: &str = "programmatic_tool_calling";

/// Whether tools of this type, as clients write it in `tools`, are run by the provider of the API.
pub fn runs_at_provider(family: Family, type_name: &str) -> bool {
    let starts = match family {
        Family::Anthropic => &ANTHROPIC,
        Family::OpenAiChat | Family::OpenAiResponses => &OPENAI,
        _ => return false,
    };
    starts.iter().any(|start| type_name.starts_with(start))
}

/// Whether a tool with this definition lets programs at the provider call the client's tools. Such calls have
/// fields that the types of `toolwire-contract` do not represent.
pub fn has_programmatic_calls(definition: &Value) -> bool {
    let callers = definition.get("allowed_callers").and_then(Value::as_array).into_iter().flatten();
    let is_program = |caller: &Value| caller.as_str().is_some_and(|name| name != "direct");
    definition.get("type").is_some_and(|kind| kind == PROGRAMMATIC_CALLS)
        || callers.into_iter().any(is_program)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_of_providers_are_known_by_their_types() {
        for (family, type_name, expected) in [
            (Family::Anthropic, "web_search_20250305", true),
            (Family::Anthropic, "tool_search_tool_bm25_20251119", true),
            (Family::Anthropic, "custom", false),
            (Family::Anthropic, "bash_20250124", false),
            (Family::Anthropic, "mcp_toolset", false),
            (Family::OpenAiResponses, "web_search_preview", true),
            (Family::OpenAiResponses, "code_interpreter", true),
            (Family::OpenAiResponses, "local_shell", false),
            (Family::OpenAiResponses, "mcp", false),
            (Family::OpenAiChat, "function", false),
            (Family::Gemini, "web_search", false),
        ] {
            assert_eq!(runs_at_provider(family, type_name), expected, "{type_name}");
        }
    }

    #[test]
    fn programs_are_known_by_their_tool_and_by_those_that_they_call() {
        for (definition, expected) in [
            (json!({"type": "programmatic_tool_calling"}), true),
            (json!({"name": "a", "allowed_callers": ["code_execution_20250825"]}), true),
            (json!({"name": "a", "allowed_callers": ["direct", "programmatic"]}), true),
            (json!({"name": "a", "allowed_callers": ["direct"]}), false),
            (json!({"type": "web_search"}), false),
        ] {
            assert_eq!(has_programmatic_calls(&definition), expected, "{definition}");
        }
    }
}
