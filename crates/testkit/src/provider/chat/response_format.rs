//! The format of the response that a Chat Completions request requires.
//!
//! Rules in `docs/providers.md`: `openai-chat/response-format`, `groq/response-format`,
//! `deepseek/response-format`, `vllm/response-format`, `llama-cpp/response-format`.

use serde_json::Value;

use super::flavour::ChatFlavour;
use crate::provider::check::Rejection;
use crate::provider::json::{flag, list, present, text};
use crate::provider::schema;
use crate::provider::{Api, openai_errors};

pub(super) fn check(flavour: &ChatFlavour, body: &Value) -> Result<(), Rejection> {
    let Some(format) = present(body, "response_format") else { return Ok(()) };
    let path = "response_format";
    let kind = text(format, "type").ok_or_else(|| flavour.missing("response_format.type"))?;
    let has_tools = !list(body, "tools").is_empty();
    match (flavour.api, kind) {
        (_, "text") => return Ok(()),
        (Api::DeepSeek, "json_schema") => {
            return Err(flavour.reject("This response_format type is unavailable now", None, None));
        }
        (Api::Groq, _) if has_tools => {
            return Err(flavour.reject(
                "json mode cannot be combined with tool/function calling",
                None,
                None,
            ));
        }
        (Api::Groq, "json_schema") if flag(body, "stream") => {
            return Err(flavour.reject("response_format json_schema does not support streaming", None, None));
        }
        (Api::Vllm, "json_schema") if has_tools => {
            let message = "You can only use one kind of constraint for guided decoding.";
            return Err(flavour.reject(message, None, None));
        }
        (Api::LlamaCpp, "json_schema") if has_tools => {
            return Err(flavour.reject("Cannot use custom grammar constraints with tools.", None, None));
        }
        _ => {}
    }
    match kind {
        "json_object" if flavour.is_openai() || flavour.api == Api::DeepSeek => {
            let mentions = list(body, "messages")
                .iter()
                .any(|message| message["content"].to_string().to_ascii_lowercase().contains("json"));
            if !mentions {
                let message = "'messages' must contain the word 'json' in some form, to use 'response_format' of type \
                               'json_object'.";
                return Err(flavour.reject(message, Some("messages"), None));
            }
            Ok(())
        }
        "json_object" => Ok(()),
        "json_schema" => check_schema(flavour, format),
        other => {
            let supported = ["json_object", "json_schema", "text"];
            Err(flavour.unsupported_value(&format!("{path}.type"), other, &supported))
        }
    }
}

fn check_schema(flavour: &ChatFlavour, format: &Value) -> Result<(), Rejection> {
    let path = "response_format.json_schema";
    flavour.check_keys(format, &["type", "json_schema"], &[], Some("response_format"))?;
    let nested = present(format, "json_schema").ok_or_else(|| flavour.missing(path))?;
    flavour.check_keys(nested, &["name", "description", "schema", "strict"], &[], Some(path))?;
    let name = text(nested, "name").ok_or_else(|| flavour.missing(&format!("{path}.name")))?;
    super::tools::check_name(flavour, &format!("{path}.name"), name)?;
    let schema_path = format!("{path}.schema");
    let schema = present(nested, "schema").ok_or_else(|| flavour.missing(&schema_path))?;
    let problem = match flavour.api {
        Api::OpenAiChat | Api::Azure | Api::Dial | Api::Groq if flag(nested, "strict") => {
            schema::openai_strict_problem(schema)
        }
        Api::OpenAiChat | Api::Azure | Api::Dial => schema::openai_problem(schema),
        Api::Mistral if !schema::is_draft7(schema) => Some("not a valid JSON schema".to_owned()),
        _ => None,
    };
    match problem {
        Some(problem) => Err(flavour.reject_at(path, openai_errors::invalid_format(name, &problem))),
        None => Ok(()),
    }
}
