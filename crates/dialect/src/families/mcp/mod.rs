//! MCP itself as a dialect: messages in the form of sampling with tools.

mod request;
mod response;

use super::FamilyFormat;
use crate::output::OutputRules;
use crate::request::{FamilyRules, GenerationFormat};

pub(super) const FORMAT: FamilyFormat = FamilyFormat {
    rules: FamilyRules { accepts_assistant_media: true, has_named_choice: false, ..FamilyRules::DEFAULT },
    new_reader: || Box::<response::McpReader>::default(),
    read_usage: |_| None,
    user_limits: |_, _| request::LIMITS,
    generation: |_| GenerationFormat { stop: Some("stopSequences"), ..GenerationFormat::NONE },
    output: OutputRules::none,
    write_request: request::write_request,
    write_calls: request::write_calls,
    read_client_request: None,
    client_writer: None,
    write_results: request::write_results,
    verbatim: None,
};
