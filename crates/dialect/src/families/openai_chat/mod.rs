//! OpenAI Chat Completions, and the many APIs with the same format.

mod client_request;
mod client_response;
mod functions;
mod request;
mod response;
mod results;

use super::FamilyFormat;
use crate::Dialect;
use crate::request::FamilyRules;
use crate::verbatim::VerbatimFormat;

pub(super) const FORMAT: FamilyFormat = FamilyFormat {
    rules: FamilyRules { has_done_marker: true, ..FamilyRules::DEFAULT },
    new_reader: || Box::<response::ChatReader>::default(),
    read_usage: response::read_usage,
    user_limits: request::user_limits,
    generation: request::generation,
    output: request::output,
    write_request: request::write_request,
    write_calls: request::write_calls,
    read_client_request: Some(client_request::read_request),
    client_writer: Some(|head| Box::new(client_response::ChatWriter::new(head))),
    write_results: results::write_results,
    verbatim: Some(VerbatimFormat {
        items: "messages",
        // The other APIs of this family reject some fields of OpenAI's.
        dialects: [Dialect::OpenAi, Dialect::OpenAiStrict],
        add_instructions: request::add_instructions,
        continue_response: |_, _| {},
    }),
};
