//! Ollama's own API: complete calls with object arguments, results by the tool's name.

mod request;
mod response;

use super::FamilyFormat;
use crate::request::FamilyRules;

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
    write_request: request::write_request,
    write_calls: request::write_calls,
    write_results: request::write_results,
};
