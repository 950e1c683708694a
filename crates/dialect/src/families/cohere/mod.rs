//! Cohere v2: calls in the format of Chat Completions, events and results in its own.

mod request;
mod response;

use super::FamilyFormat;
use crate::request::FamilyRules;

pub(super) const FORMAT: FamilyFormat = FamilyFormat {
    rules: FamilyRules { has_named_choice: false, ..FamilyRules::DEFAULT },
    new_reader: || Box::<response::CohereReader>::default(),
    read_usage: response::read_usage,
    user_limits: |_, _| request::USER_LIMITS,
    write_request: request::write_request,
    write_calls: request::write_calls,
    write_results: request::write_results,
};
