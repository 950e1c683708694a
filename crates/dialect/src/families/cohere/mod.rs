//! Cohere v2: calls in the format of Chat Completions, events and results in its own.

mod request;
mod response;

use super::FamilyFormat;
use crate::output::{OutputMethod, OutputRules};
use crate::request::{EffortFormat, FamilyRules, GenerationFormat};

pub(super) const FORMAT: FamilyFormat = FamilyFormat {
    rules: FamilyRules { has_named_choice: false, ..FamilyRules::DEFAULT },
    new_reader: || Box::<response::CohereReader>::default(),
    read_usage: response::read_usage,
    user_limits: |_, _| request::USER_LIMITS,
    generation: |_| GenerationFormat {
        stop: Some("stop_sequences"),
        top_p: Some("p"),
        top_k: Some("k"),
        seed: Some("seed"),
        frequency_penalty: Some("frequency_penalty"),
        presence_penalty: Some("presence_penalty"),
        effort: EffortFormat::TokenBudget,
        ..GenerationFormat::NONE
    },
    output: |dialect| OutputRules {
        method: OutputMethod::Schema,
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
