//! Call ids as each API takes them.

use crate::{Dialect, Family};

/// The id under which a call and its result appear in a request of `dialect`.
///
/// An id the API takes stays as it is; any other becomes a new one that depends on nothing but the old, so the call and
/// the result agree without a map, in every request of a conversation.
///
/// ```
/// use toolwire_dialect::{Dialect, wire_id};
///
/// assert_eq!(wire_id(Dialect::OpenAi, "functions.get:0"), "functions.get:0");
/// assert_eq!(wire_id(Dialect::Mistral, "functions.get:0").len(), 9);
/// ```
pub fn wire_id(dialect: Dialect, id: &str) -> String {
    let is_word = |extra: &'static str| {
        move |character: char| character.is_ascii_alphanumeric() || extra.contains(character)
    };
    if dialect == Dialect::Mistral {
        let is_legal = id.len() == 9 && id.chars().all(is_word(""));
        return if is_legal { id.to_owned() } else { nine_characters(id) };
    }
    let is_legal = match dialect.family() {
        Family::OpenAiChat | Family::OpenAiResponses => id.chars().count() <= 64,
        Family::Anthropic => id.chars().all(is_word("_-")),
        Family::Bedrock => id.len() <= 64 && id.chars().all(is_word("_.:-")),
        Family::Gemini | Family::Cohere | Family::Ollama | Family::Mcp => true,
    };
    // Rewritten ids stay within 40 characters, the limit of older OpenAI endpoints.
    if is_legal && !id.is_empty() { id.to_owned() } else { format!("call_{}", fingerprint(id)) }
}

/// Nine letters and digits: 53 bits, enough for the calls of one conversation.
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

/// 32 hexadecimal digits that stand for `text`, the same on every machine and in every version.
pub(crate) fn fingerprint(text: &str) -> String {
    format!("{:016x}{:016x}", hash(text, 1), hash(text, 2))
}

/// FNV-1a, then mixed so that every bit of the text reaches every bit of the hash. The standard library's hasher does
/// not promise to stay the same.
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
    fn legal_ids_stay() {
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
    fn illegal_ids_become_legal_ones_and_stay_the_same() {
        let long = "x".repeat(65);
        for dialect in Dialect::all() {
            for id in ["functions.get:0", "", "käse", "a b", &long, "call_9VwDLZ"] {
                let wire = wire_id(dialect, id);
                assert!(!wire.is_empty());
                assert_eq!(wire_id(dialect, id), wire);
                assert_eq!(wire_id(dialect, &wire), wire, "{dialect} takes what it was given");
            }
        }
        assert_eq!(wire_id(Dialect::Mistral, "functions.get:0"), "iOoaiqZVt");
        assert_eq!(wire_id(Dialect::Anthropic, "functions.get:0"), "call_bd29d6bf39c66ad35b67e49a980522f0");
    }

    #[test]
    fn near_ids_stay_apart() {
        let ids: HashSet<String> =
            (0..20_000).map(|n| wire_id(Dialect::Mistral, &format!("functions.get:{n}"))).collect();
        assert_eq!(ids.len(), 20_000);
    }
}
