//! Patterns of tool names, for allow and deny lists.

use std::fmt;

/// A pattern of tool names: `*` matches any text, `?` any single character. Matching is case-sensitive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    pub fn new(pattern: impl Into<String>) -> Glob {
        Glob(pattern.into())
    }

    /// Whether the pattern matches the complete `name`.
    pub fn matches(&self, name: &str) -> bool {
        // On a mismatch, only the last `*` consumes one more character, so the time is at most pattern length
        // × name length.
        let (mut pattern, mut rest) = (self.0.as_str(), name);
        // The pattern after the last `*`, and the text that it was last tried on.
        let mut last_attempt: Option<(&str, &str)> = None;
        loop {
            let mut characters = rest.chars();
            match (split_first(pattern), characters.next()) {
                (Some(('*', after_star)), _) => {
                    pattern = after_star;
                    last_attempt = Some((after_star, rest));
                    continue;
                }
                (Some((expected, pattern_rest)), Some(found)) if expected == '?' || expected == found => {
                    (pattern, rest) = (pattern_rest, characters.as_str());
                    continue;
                }
                (None, None) => return true,
                _ => {}
            }
            let Some((after_star, tried)) = last_attempt else { return false };
            let Some((_, remaining)) = split_first(tried) else { return false };
            (pattern, rest) = (after_star, remaining);
            last_attempt = Some((after_star, remaining));
        }
    }
}

fn split_first(text: &str) -> Option<(char, &str)> {
    let mut characters = text.chars();
    characters.next().map(|first| (first, characters.as_str()))
}

impl fmt::Display for Glob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complete_name_must_match() {
        let cases = [
            ("search", "search", true),
            ("search", "Search", false),
            ("search", "search_code", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything/at.all", true),
            ("get_*", "get_issue", true),
            ("get_*", "forget_issue", false),
            ("*_issue", "get_issue_issue", true),
            ("*_issue", "get_issues", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("a*b*c", "abbbc", true),
            ("a*b*c", "abbbcd", false),
            ("a**", "a", true),
            ("?", "ß", true),
            ("?", "", false),
            ("??", "a", false),
            ("*?", "", false),
            ("*?", "ab", true),
            ("[ab]", "a", false),
            ("[ab]", "[ab]", true),
            ("天*", "天気", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(Glob::new(pattern).matches(name), expected, "`{pattern}` on `{name}`");
        }
    }

    #[test]
    fn many_stars_do_not_backtrack_exponentially() {
        let pattern = Glob::new("*a".repeat(500) + "b");
        assert!(!pattern.matches(&"a".repeat(5_000)));
    }
}
