//! Ollama's own API: complete calls with object arguments, results by the tool's name.

mod request;
mod response;

use super::FamilyFormat;
use crate::Dialect;
use crate::output::{OutputMethod, OutputRules};
use crate::request::{EffortFormat, FamilyRules, GenerationFormat};

pub(super) const FORMAT: FamilyFormat = FamilyFormat {
    rules: FamilyRules {
        requires_call_ids: false,
        has_named_choice: false,
        can_forbid_calls: false,
        ..FamilyRules::DEFAULT
    },
    new_reader: || Box::<response::OllamaReader>::default(),
    read_usage: |reported| response::USAGE.read(reported),
    user_limits: |_, _| request::LIMITS,
    generation: |_| GenerationFormat {
        container: Some("options"),
        stop: Some("stop"),
        top_p: Some("top_p"),
        top_k: Some("top_k"),
        seed: Some("seed"),
        frequency_penalty: Some("frequency_penalty"),
        presence_penalty: Some("presence_penalty"),
        effort: EffortFormat::Switch,
        ..GenerationFormat::NONE
    },
    output: |_| OutputRules {
        method: OutputMethod::Schema,
        allows_tools: false,
        has_json: true,
        hides_schema: true,
        // Unlike those of tools, these schemas are not reduced to a few keywords.
        ..OutputRules::none(Dialect::OpenAi)
    },
    write_request: request::write_request,
    write_calls: request::write_calls,
    read_client_request: None,
    client_writer: None,
    write_results: request::write_results,
    verbatim: None,
};
