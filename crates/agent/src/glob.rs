//! Patterns of tool names.

/// Whether the whole of `name` fits: `*` is any text, `?` any one character, all else itself. Case counts.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut reached) = (0, 0);
    // On a mismatch only the last `*` takes one character more, so nothing is tried twice.
    let mut after_star: Option<(usize, usize)> = None;
    while reached < name.len() {
        match pattern.get(at) {
            Some('*') => {
                at += 1;
                after_star = Some((at, reached));
            }
            Some(wanted) if *wanted == '?' || *wanted == name[reached] => {
                at += 1;
                reached += 1;
            }
            _ => {
                let Some((star, taken)) = after_star else { return false };
                at = star;
                reached = taken + 1;
                after_star = Some((star, taken + 1));
            }
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_name_must_fit() {
        for (pattern, name, expected) in [
            ("search", "search", true),
            ("search", "search_all", false),
            ("search*", "search_all", true),
            ("*", "", true),
            ("*_issue", "create_issue", true),
            ("*_issue", "create_issues", false),
            ("get_?", "get_a", true),
            ("get_?", "get_", false),
            ("*a*b*c", "aXbYaZbc", true),
            ("*a*b*c", "aXbYaZb", false),
            ("ä?", "äö", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
