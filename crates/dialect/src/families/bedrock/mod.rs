//! AWS Bedrock Converse.

mod request;
mod response;

use super::FamilyFormat;
use crate::Dialect;
use crate::output::OutputRules;
use crate::request::{FamilyRules, GenerationFormat};

pub(super) const FORMAT: FamilyFormat = FamilyFormat {
    rules: FamilyRules { alternates_roles: true, can_forbid_calls: false, ..FamilyRules::DEFAULT },
    new_reader: || Box::<response::BedrockReader>::default(),
    read_usage: |reported| response::USAGE.read(reported),
    user_limits: |_, _| request::LIMITS,
    generation: |_| GenerationFormat {
        container: Some("inferenceConfig"),
        stop: Some("stopSequences"),
        top_p: Some("topP"),
        max_temperature: Some(1.0),
        ..GenerationFormat::NONE
    },
    // Only some models support the field for schemas, so it is not the default.
    output: |_| OutputRules { requires_strict: true, ..OutputRules::none(Dialect::Anthropic) },
    write_request: request::write_request,
    write_calls: request::write_calls,
    read_client_request: None,
    client_writer: None,
    write_results: request::write_results,
    verbatim: None,
};
