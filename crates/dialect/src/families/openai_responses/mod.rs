//! OpenAI Responses.

mod client_request;
mod client_response;
mod item_names;
mod request;
mod response;

use super::FamilyFormat;
use crate::Dialect;
use crate::output::{OutputMethod, OutputRules};
use crate::request::{EffortFormat, FamilyRules, GenerationFormat, UserFormat};
use crate::verbatim::VerbatimFormat;

pub(super) const FORMAT: FamilyFormat = FamilyFormat {
    rules: FamilyRules::DEFAULT,
    new_reader: || Box::<response::ResponsesReader>::default(),
    read_usage: |reported| response::USAGE.read(reported),
    user_limits: |_, _| request::LIMITS,
    generation: |_| GenerationFormat {
        top_p: Some("top_p"),
        effort: EffortFormat::Reasoning,
        has_parallel_calls: true,
        user: UserFormat::Key,
        ..GenerationFormat::NONE
    },
    output: |_| OutputRules {
        method: OutputMethod::Schema,
        has_json: true,
        ..OutputRules::none(Dialect::Responses)
    },
    write_request: request::write_request,
    write_calls: request::write_calls,
    read_client_request: Some(client_request::read_request),
    client_writer: Some(|head| Box::new(client_response::ItemWriter::new(head))),
    write_results: request::write_results,
    verbatim: Some(VerbatimFormat {
        items: "input",
        dialects: [Dialect::Responses, Dialect::ResponsesStrict],
        add_instructions: request::add_instructions,
        continue_response: |_, _| {},
    }),
};
