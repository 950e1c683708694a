//! Anthropic Messages.

mod client_request;
mod client_response;
mod request;
mod response;

use super::FamilyFormat;
use crate::Dialect;
use crate::output::{OutputMethod, OutputRules};
use crate::request::{EffortFormat, FamilyRules, GenerationFormat, UserFormat};
use crate::verbatim::VerbatimFormat;

pub(super) const FORMAT: FamilyFormat = FamilyFormat {
    rules: FamilyRules { alternates_roles: true, ..FamilyRules::DEFAULT },
    new_reader: || Box::<response::AnthropicReader>::default(),
    read_usage: |reported| response::USAGE.read(reported),
    user_limits: |_, _| request::LIMITS,
    generation: |_| GenerationFormat {
        stop: Some("stop_sequences"),
        top_p: Some("top_p"),
        top_k: Some("top_k"),
        effort: EffortFormat::OutputConfig,
        has_parallel_calls: true,
        user: UserFormat::Metadata,
        max_temperature: Some(1.0),
        ..GenerationFormat::NONE
    },
    output: |_| OutputRules {
        method: OutputMethod::Schema,
        requires_strict: true,
        ..OutputRules::none(Dialect::Anthropic)
    },
    write_request: request::write_request,
    write_calls: request::write_calls,
    read_client_request: Some(client_request::read_request),
    client_writer: Some(|head| Box::new(client_response::MessageWriter::new(head))),
    write_results: request::write_results,
    verbatim: Some(VerbatimFormat {
        items: "messages",
        dialects: [Dialect::Anthropic, Dialect::AnthropicStrict],
        add_instructions: request::add_instructions,
        continue_response: request::continue_response,
    }),
};
