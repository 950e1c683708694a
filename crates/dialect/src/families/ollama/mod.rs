//! Ollama's own API: complete calls with object arguments, results by the tool's name.

mod request;
mod response;

use super::FamilyFormat;
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
    write_request: request::write_request,
    write_calls: request::write_calls,
    read_client_request: None,
    client_writer: None,
    write_results: request::write_results,
};
