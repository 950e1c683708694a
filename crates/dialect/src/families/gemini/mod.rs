//! Google Gemini, on the Developer API and on Vertex.

mod request;
mod response;
mod streamed_arguments;

use super::FamilyFormat;
use crate::output::{OutputMethod, OutputRules};
use crate::request::{EffortFormat, FamilyRules, GenerationFormat};

pub(super) const FORMAT: FamilyFormat = FamilyFormat {
    rules: FamilyRules {
        requires_call_ids: false,
        alternates_roles: true,
        accepts_assistant_media: true,
        signs_empty_text: true,
        ..FamilyRules::DEFAULT
    },
    new_reader: || Box::<response::GeminiReader>::default(),
    read_usage: |reported| response::USAGE.read(reported),
    user_limits: |_, _| request::USER_LIMITS,
    generation: |_| GenerationFormat {
        container: Some("generationConfig"),
        stop: Some("stopSequences"),
        top_p: Some("topP"),
        top_k: Some("topK"),
        seed: Some("seed"),
        frequency_penalty: Some("frequencyPenalty"),
        presence_penalty: Some("presencePenalty"),
        effort: EffortFormat::ThinkingBudget,
        ..GenerationFormat::NONE
    },
    output: |dialect| OutputRules {
        method: OutputMethod::Schema,
        // Only Gemini 3 and later models allow tools together with structured output.
        allows_tools: false,
        has_json: true,
        ..OutputRules::none(dialect)
    },
    write_request: request::write_request,
    write_calls: request::write_calls,
    read_client_request: None,
    client_writer: None,
    write_results: request::write_results,
    verbatim: None,
};
