//! Call ids in the format that each API accepts.

use crate::{Dialect, Family};

/// Returns the id of a call and its result in a request of `dialect`.
///
/// An id that the API accepts is unchanged. Any other is replaced by an id that depends only on the old one,
/// so calls and results match in every request of a conversation without a map.
///
/// ```
/// use toolwire_dialect::Dialect;
/// use toolwire_dialect::request::wire_id;
///
/// assert_eq!(wire_id(Dialect::OpenAi, "functions.get:0"), "functions.get:0");
/// assert_eq!(wire_id(Dialect::Mistral, "functions.get:0").len(), 9);
/// ```
pub fn wire_id(dialect: Dialect, id: &str) -> String {
    let is_alphanumeric_or = |extra: &'static str| {
        move |character: char| character.is_ascii_alphanumeric() || extra.contains(character)
    };
    if dialect == Dialect::Mistral {
        let is_legal = id.len() == 9 && id.chars().all(is_alphanumeric_or(""));
        return if is_legal { id.to_owned() } else { nine_characters(id) };
    }
    let is_legal = match dialect.family() {
        Family::OpenAiChat | Family::OpenAiResponses => id.chars().count() <= 64,
        Family::Anthropic => id.chars().all(is_alphanumeric_or("_-")),
        Family::Bedrock => id.len() <= 64 && id.chars().all(is_alphanumeric_or("_.:-")),
        Family::Gemini | Family::Cohere | Family::Ollama | Family::Mcp => true,
    };
    if is_legal && !id.is_empty() { id.to_owned() } else { synthetic_id(id) }
}

/// Generates an id for a call that has none, or none that an API accepts. It has fewer than 40 characters,
/// the limit of older OpenAI endpoints.
pub(crate) fn synthetic_id(text: &str) -> String {
    format!("call_{}", fingerprint(text))
}

/// Hashes an id to nine letters and digits: 53 bits, enough for the calls of one conversation.
fn nine_characters(id: &str) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut rest = hash(id, 0);
    let mut text = String::with_capacity(9);
    for _ in 0..9 {
        text.push(char::from(DIGITS[(rest % 62) as usize]));
        rest /= 62;
    }
    text
}

/// Hashes `text` to 32 hexadecimal digits, the same on every machine and in every version.
pub(crate) fn fingerprint(text: &str) -> String {
    format!("{:016x}{:016x}", hash(text, 1), hash(text, 2))
}

/// FNV-1a with a final mix, so that every bit of the text affects every bit of the hash. The standard
/// library's hasher is not guaranteed to stay the same.
fn hash(text: &str, seed: u64) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in text.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        state = (state ^ (state >> 33)).wrapping_mul(factor);
    }
    state ^ (state >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn legal_ids_are_unchanged() {
        for (dialect, id) in [
            (Dialect::OpenAi, "call_9VwDLZ"),
            (Dialect::Responses, "functions.get:0"),
            (Dialect::Anthropic, "toolu_01A-b"),
            (Dialect::Bedrock, "tooluse_a.b:c-1"),
            (Dialect::Mistral, "D681PevKs"),
            (Dialect::Gemini, "anything at all"),
        ] {
            assert_eq!(wire_id(dialect, id), id);
        }
    }

    #[test]
    fn illegal_ids_have_stable_legal_replacements() {
        let long = "x".repeat(65);
        for dialect in Dialect::all() {
            for id in ["functions.get:0", "", "käse", "a b", &long, "call_9VwDLZ"] {
                let wire = wire_id(dialect, id);
                assert!(!wire.is_empty());
                assert_eq!(wire_id(dialect, id), wire);
                assert_eq!(wire_id(dialect, &wire), wire, "{dialect}: the replacement is replaced again");
            }
        }
        assert_eq!(wire_id(Dialect::Mistral, "functions.get:0"), "iOoaiqZVt");
        assert_eq!(wire_id(Dialect::Anthropic, "functions.get:0"), "call_bd29d6bf39c66ad35b67e49a980522f0");
    }

    #[test]
    fn similar_ids_do_not_collide() {
        let ids: HashSet<String> =
            (0..20_000).map(|n| wire_id(Dialect::Mistral, &format!("functions.get:{n}"))).collect();
        assert_eq!(ids.len(), 20_000);
    }
}
