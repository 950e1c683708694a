//! Tools that a provider runs itself, such as a web search. Only the provider's own API has them.

use crate::Family;

/// The starts of the types of these tools. Most types end with a date.
const ANTHROPIC: [&str; 5] =
    ["web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "advisor_"];
const OPENAI: [&str; 5] =
    ["web_search", "file_search", "code_interpreter", "image_generation", "programmatic_tool_calling"];

/// Whether tools of this type, as clients write it in `tools`, are run by the provider of the API.
pub fn runs_at_provider(family: Family, type_name: &str) -> bool {
    let starts = match family {
        Family::Anthropic => &ANTHROPIC,
        Family::OpenAiChat | Family::OpenAiResponses => &OPENAI,
        _ => return false,
    };
    starts.iter().any(|start| type_name.starts_with(start))
}

#[cfg(test)]
mod tests {
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
}
