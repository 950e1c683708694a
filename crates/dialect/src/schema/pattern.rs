//! Regular expressions for engines other than that of ECMA 262.
//!
//! JSON Schema uses ECMA 262. OpenAI's and Anthropic's validators compile patterns with Python's `re`;
//! constrained decoders support neither lookaround nor back references. When in doubt, a pattern counts as
//! unsupported: it then moves to the description.

use std::borrow::Cow;

/// Returns a pattern with the same meaning that Python's `re` compiles, or `None` if there may be none.
pub(crate) fn to_python(pattern: &str) -> Option<Cow<'_, str>> {
    if compiles_in_python(pattern) {
        return Some(pattern.into());
    }
    rewrite(pattern).filter(|rewritten| compiles_in_python(rewritten)).map(Cow::Owned)
}

/// Replaces what only ECMA 262 has: named groups, `\u{…}`, `\cA`, `[^]`, and ranges with classes like
/// `[a-\d]`.
fn rewrite(pattern: &str) -> Option<String> {
    let mut output = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let (mut in_class, mut is_after_class) = (false, false);
    let mut groups: Vec<&str> = Vec::new();
    // The numbers of the groups that are open; 0 for one without a number.
    let mut open: Vec<usize> = Vec::new();
    let is_class = |text: &str| {
        text.strip_prefix('\\').is_some_and(|text| text.starts_with(['d', 'D', 'w', 'W', 's', 'S']))
    };
    while let Some(next) = rest.chars().next() {
        let was_after_class = std::mem::replace(&mut is_after_class, is_class(rest));
        if let Some(code) = rest.strip_prefix("\\u{") {
            let (digits, after) = code.split_once('}')?;
            let character = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
            // Some engines read `\<` as a word boundary.
            if "\\^$.*+?()[]{}|-&~".contains(character) {
                output.push('\\');
            }
            output.push(character);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("\\c") {
            let letter = after.bytes().next().filter(u8::is_ascii_alphabetic)?;
            output.push_str(&format!("\\x{:02x}", letter % 32));
            rest = &after[1..];
        } else if let Some(name) = rest.strip_prefix("\\k<") {
            let (name, after) = name.split_once('>')?;
            let number = groups.iter().position(|group| *group == name)? + 1;
            if open.contains(&number) {
                return None;
            }
            output.push_str(&format!("(?:\\{number})"));
            rest = after;
        } else if next == '\\' {
            let length = 1 + rest[1..].chars().next()?.len_utf8();
            output.push_str(&rest[..length]);
            rest = &rest[length..];
        } else if !in_class && rest.starts_with("[^]") {
            output.push_str("[\\s\\S]");
            rest = &rest[3..];
        } else if !in_class && rest.starts_with("(?<") && !rest[3..].starts_with(['=', '!']) {
            let (name, after) = rest[3..].split_once('>')?;
            groups.push(name);
            open.push(groups.len());
            output.push('(');
            rest = after;
        } else {
            if in_class && next == '-' && (was_after_class || is_class(&rest[1..])) {
                output.push('\\');
            } else if !in_class && rest.starts_with("(?") {
                open.push(0);
            } else if !in_class && next == '(' {
                groups.push("");
                open.push(groups.len());
            } else if !in_class && next == ')' {
                open.pop();
            }
            in_class = if in_class { next != ']' } else { next == '[' };
            output.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    Some(output)
}

/// Whether Python's `re` compiles a pattern that is valid in ECMA 262.
fn compiles_in_python(pattern: &str) -> bool {
    if !pattern.bytes().any(|byte| matches!(byte, b'\\' | b'(' | b'[' | b'{')) {
        return true;
    }
    scan(pattern).python
}

/// Whether `pattern` has no lookaround, back references, word boundaries or named groups, as constrained
/// decoders require.
pub(crate) fn is_simple(pattern: &str) -> bool {
    let found = scan(pattern);
    found.is_without_lookaround() && !found.boundary
}

/// Whether `pattern` has no lookaround, back references or named groups, as OpenAI's strict mode requires.
pub(crate) fn is_without_lookaround(pattern: &str) -> bool {
    scan(pattern).is_without_lookaround()
}

#[derive(Default)]
struct PatternFeatures {
    /// Python compiles it.
    python: bool,
    lookaround: bool,
    reference: bool,
    boundary: bool,
    named: bool,
}

impl PatternFeatures {
    fn is_without_lookaround(&self) -> bool {
        self.python && !self.lookaround && !self.reference && !self.named
    }
}

fn scan(pattern: &str) -> PatternFeatures {
    let mut found = PatternFeatures { python: true, ..PatternFeatures::default() };
    let bytes = pattern.as_bytes();
    let mut at = 0;
    let mut class: Option<usize> = None;
    let mut groups = 0i32;
    while at < bytes.len() {
        match (bytes[at], class) {
            (b'\\', _) => {
                let Some(next) = bytes.get(at + 1) else {
                    found.python = false;
                    break;
                };
                match next {
                    // Only ECMA has `\p{…}`, `\cA` and `\u{…}`.
                    b'p' | b'P' | b'c' => found.python = false,
                    b'u' => found.python &= hex_follows(bytes, at + 2, 4),
                    b'x' => found.python &= hex_follows(bytes, at + 2, 2),
                    b'k' => {
                        found.reference = true;
                        found.python = false;
                    }
                    b'1'..=b'9' if class.is_none() => found.reference = true,
                    b'b' | b'B' if class.is_none() => found.boundary = true,
                    b'd'
                    | b'D'
                    | b'w'
                    | b'W'
                    | b's'
                    | b'S'
                    | b'n'
                    | b'r'
                    | b't'
                    | b'f'
                    | b'v'
                    | b'0'
                    | b'b'
                    | b'1'..=b'9' => {}
                    // Python rejects unknown escapes of letters.
                    letter if letter.is_ascii_alphabetic() => found.python = false,
                    _ => {}
                }
                // Python rejects ranges that begin or end with a class: `[a-\d]`.
                if class.is_some() && matches!(next, b'd' | b'D' | b'w' | b'W' | b's' | b'S') {
                    let before = at.checked_sub(1).and_then(|index| bytes.get(index)) == Some(&b'-')
                        && class.is_some_and(|start| at > start + 2 && bytes[at - 2] != b'\\');
                    let after = bytes.get(at + 2) == Some(&b'-')
                        && bytes.get(at + 3).is_some_and(|byte| *byte != b']');
                    found.python &= !before && !after;
                }
                at += 2;
                continue;
            }
            (b'[', None) => {
                let negated = bytes.get(at + 1) == Some(&b'^');
                let first = at + 1 + usize::from(negated);
                // `[]` and `[^]` are complete in ECMA; Python reads the bracket as a member.
                if bytes.get(first) == Some(&b']') {
                    found.python = false;
                }
                class = Some(at);
            }
            (b']', Some(_)) => class = None,
            (b'(', None) => {
                groups += 1;
                if bytes.get(at + 1) == Some(&b'?') {
                    match (bytes.get(at + 2), bytes.get(at + 3)) {
                        (Some(b':'), _) => {}
                        (Some(b'=' | b'!'), _) => found.lookaround = true,
                        (Some(b'<'), Some(b'=' | b'!')) => {
                            found.lookaround = true;
                            // Python requires a fixed width in lookbehind.
                            found.python &= !has_repetition(&bytes[at..]);
                        }
                        // ECMA writes `(?<name>…)`, Python `(?P<name>…)`.
                        (Some(b'<'), _) => {
                            found.named = true;
                            found.python = false;
                        }
                        _ => found.named = true,
                    }
                }
            }
            (b')', None) => {
                groups -= 1;
                found.python &= groups >= 0;
            }
            (b'*' | b'+' | b'?', None) => {
                // The engines differ in repetition without anything before it.
                let nothing_before =
                    at == 0 || matches!(bytes[at - 1], b'(' | b'|') && !(at > 1 && bytes[at - 2] == b'\\');
                if nothing_before && bytes.get(at.wrapping_sub(1)) != Some(&b'(') {
                    found.python = false;
                }
            }
            _ => {}
        }
        at += 1;
    }
    found.python &= class.is_none() && groups == 0;
    found
}

fn hex_follows(bytes: &[u8], at: usize, count: usize) -> bool {
    bytes.get(at..at + count).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

fn has_repetition(group: &[u8]) -> bool {
    let end = group.iter().position(|byte| *byte == b')').unwrap_or(group.len());
    group[3.min(end)..end].iter().any(|byte| matches!(byte, b'*' | b'+' | b'?' | b'{' | b'|'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_compiles_ordinary_patterns() {
        for pattern in [
            "^[a-z]+$",
            r"^\d{4}-\d{2}-\d{2}$",
            "^(?!admin)[a-z]+$",
            r"^(https?://)?[\w.-]+$",
            r"^[^\]]+$",
            r"^(\+|-)?\d+$",
            "^(?:a|b)$",
            r"^[\w\-. ]+$",
            r"^#[0-9a-fA-F]{6}$",
        ] {
            assert!(compiles_in_python(pattern), "{pattern}");
        }
    }

    #[test]
    fn python_does_not_compile_ecma_extensions() {
        for pattern in [r"^\p{L}+$", r"\u{1F600}", "(?<n>a)", r"\cA", "[^]", r"[a-\d]", "(?<=a+)b", "(", "[a"]
        {
            assert!(!compiles_in_python(pattern), "{pattern}");
        }
    }

    #[test]
    fn ecma_extensions_are_rewritten_for_python() {
        for (pattern, expected) in [
            (r"(?<year>\d{4})-(\d)-\k<year>", r"(\d{4})-(\d)-(?:\1)"),
            (r"^[\u{1F600}\u{2d}]\u{2e}$", r"^[😀\-]\.$"),
            (r"^\u{3c}\u{3E}\u{22}$", r#"^<>"$"#),
            (r"(?<a>(?:x))\k<a>(?<b>y)", r"((?:x))(?:\1)(y)"),
            (r"\cJ[^]", r"\x0a[\s\S]"),
            (r"[a-\d\w-z\\d-e]", r"[a\-\d\w\-z\\d-e]"),
            (r"(?<=a)(?<n>b)", r"(?<=a)(b)"),
        ] {
            assert_eq!(to_python(pattern).as_deref(), Some(expected), "{pattern}");
        }
        for pattern in
            [r"^\p{L}+$", "(?<=a+)b", "(", "[a", r"\k<n>(?<n>a)", r"(?<n>a\k<n>)", r"\u{110000}", r"\c", "[]"]
        {
            assert_eq!(to_python(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn lookaround_back_references_and_boundaries_are_not_simple() {
        assert!(!is_simple("^(?!admin)[a-z]+$"));
        assert!(!is_simple(r"(a)\1"));
        assert!(!is_simple(r"\bword\b"));
        assert!(is_simple(r"^[a-z]{2,5}(?:-\d+)?$"));
    }
}
