//! Finds the marks of a client for the provider's cache. Only a request that is sent as the client wrote it
//! has them.

use serde_json::Value;

use super::RequestFields;

/// The names of the marks in Anthropic's API and in those of OpenAI.
const MARKS: [&str; 2] = ["cache_control", "prompt_cache_breakpoint"];

/// The fields of a request, and of their parts, that can have marks.
const MARKED: [&str; 4] = ["system", "messages", "input", "tools"];
const NESTED: [&str; 3] = ["content", "output", "function"];

/// Returns the names of the marks that the messages and tools of a request have.
pub(super) fn find(body: &RequestFields) -> Vec<String> {
    let mut found = [false; MARKS.len()];
    for value in MARKED.iter().filter_map(|key| body.peek(key)) {
        find_in(value, &mut found);
    }
    let names = MARKS.iter().zip(found).filter(|(_, is_found)| *is_found);
    names.map(|(name, _)| (*name).to_owned()).collect()
}

fn find_in(value: &Value, found: &mut [bool; MARKS.len()]) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| find_in(value, found)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match MARKS.iter().position(|mark| mark == key) {
                    Some(position) => found[position] |= !value.is_null(),
                    None if NESTED.contains(&key.as_str()) => find_in(value, found),
                    None => {}
                }
            }
        }
        _ => {}
    }
}
