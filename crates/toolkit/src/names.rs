//! Names of served tools.

/// The longest name that MCP allows.
pub(crate) const MAX_MCP_NAME_CHARS: usize = 128;

/// Returns `{prefix}_{name}`, or the name if the prefix is empty. A prefix may already end with `_`.
pub(crate) fn served(prefix: &str, name: &str) -> String {
    let prefix = prefix.trim_end_matches('_');
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}_{name}") }
}

/// Whether MCP and the model APIs accept the name: letters, digits, `_` and `-`.
pub(crate) fn is_legal(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_MCP_NAME_CHARS && name.bytes().all(is_legal_byte)
}

fn is_legal_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Returns a server's name as a prefix: illegal characters become `_`, and `_` is trimmed from both ends.
pub(crate) fn prefix_of(server: &str) -> String {
    let legal: String = server
        .chars()
        .map(|character| if character.is_ascii() && is_legal_byte(character as u8) { character } else { '_' })
        .collect();
    legal.trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_separated_by_one_underscore() {
        for (prefix, name) in
            [("guide", "guide_x"), ("guide_", "guide_x"), ("my_guide__", "my_guide_x"), ("", "x"), ("_", "x")]
        {
            assert_eq!(served(prefix, "x"), name);
        }
    }

    #[test]
    fn server_names_become_legal_prefixes() {
        let cases = [
            ("documents", "documents"),
            ("My server!", "My_server"),
            ("größe", "gr__e"),
            ("…", ""),
            ("a-b", "a-b"),
        ];
        for (server, prefix) in cases {
            assert_eq!(prefix_of(server), prefix);
        }
    }
}
