//! The names that tools are served under.

/// The longest name that MCP allows.
pub(crate) const LONGEST: usize = 128;

/// `{prefix}_{name}`; no prefix, no underscore.
pub(crate) fn served(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}_{name}") }
}

/// Whether every model may see the name: letters, digits, `_` and `-`.
pub(crate) fn is_legal(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST && name.bytes().all(is_legal_byte)
}

fn is_legal_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// A server's name as a prefix: what no name may contain becomes `_`, and not at the ends.
pub(crate) fn prefix_of(server: &str) -> String {
    let legal: String = server
        .chars()
        .map(|character| if character.is_ascii() && is_legal_byte(character as u8) { character } else { '_' })
        .collect();
    legal.trim_matches('_').to_owned()
}

/// The names that look most like a wrong one, nearest first; none when nothing is near.
pub(crate) fn nearest<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let lower = wrong.to_lowercase();
    let mut near: Vec<(f64, &str)> = names
        .map(|name| (likeness(&lower, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= 0.8)
        .collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0));
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

fn likeness(one: &str, other: &str) -> f64 {
    // A name with or without its prefix is as near as can be.
    let is_end = |long: &str, short: &str| {
        short.len() >= 3 && long.strip_suffix(short).is_some_and(|rest| rest.ends_with('_'))
    };
    if is_end(one, other) || is_end(other, one) {
        return 0.99;
    }
    strsim::jaro_winkler(one, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_s_name_becomes_a_legal_prefix() {
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

    #[test]
    fn near_names_come_nearest_first() {
        let names = ["documents_create", "documents_delete", "weather"];
        assert_eq!(nearest("create", names.into_iter()), ["documents_create"]);
        assert_eq!(nearest("wether", names.into_iter()), ["weather"]);
        assert_eq!(nearest("xyz", names.into_iter()), Vec::<&str>::new());
    }
}
