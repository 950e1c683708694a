//! The regular expressions that the validators accept.

use serde_json::Value;

use super::{ApiErrors, schema_path};

/// Adds an error for each pattern that Python's `re` does not compile.
pub(super) fn check(schema: &Value, errors: &mut ApiErrors) {
    schema_path::walk(schema, &mut |_, node| {
        let keys = node.get("patternProperties").and_then(Value::as_object);
        let keys = keys.into_iter().flatten().map(|(key, _)| key.as_str());
        for regex in node.get("pattern").and_then(Value::as_str).into_iter().chain(keys) {
            errors.require(compiles_in_python(regex), || format!("'{regex}' is not a 'regex'"));
        }
    });
}

/// Whether Python's `re` compiles `pattern`. Only constructs that differ from ECMA are checked.
pub fn compiles_in_python(pattern: &str) -> bool {
    let mut characters = pattern.chars().peekable();
    let mut in_class = false;
    let mut class_start = false;
    let mut after_hyphen_from_character = false;
    let mut depth = 0_i32;
    // Nothing can be repeated at the start of the pattern, as at the start of a group.
    let mut previous = '(';
    while let Some(character) = characters.next() {
        let first_in_class = std::mem::take(&mut class_start);
        match character {
            '\\' => {
                let Some(escaped) = characters.next() else { return false };
                // Python rejects an escaped ASCII letter that has no meaning.
                let known = if in_class { "abdfnrstuvwxDSWUN0" } else { "abdfnrstuvwxABDSWZUN0" };
                if escaped.is_ascii_alphabetic() && !known.contains(escaped) {
                    return false;
                }
                let digits = match escaped {
                    'u' => 4,
                    'x' => 2,
                    'U' => 8,
                    _ => 0,
                };
                for _ in 0..digits {
                    if !characters.next().is_some_and(|digit| digit.is_ascii_hexdigit()) {
                        return false;
                    }
                }
                if after_hyphen_from_character && "dDwWsS".contains(escaped) {
                    return false;
                }
                after_hyphen_from_character = in_class
                    && !"dDwWsS".contains(escaped)
                    && characters.peek() == Some(&'-')
                    && followed_by_end_of_range(&characters);
                if in_class && "dDwWsS".contains(escaped) && followed_by_range(&characters) {
                    return false;
                }
                previous = 'x';
                continue;
            }
            '[' if !in_class => {
                in_class = true;
                class_start = true;
                if characters.peek() == Some(&'^') {
                    characters.next();
                }
            }
            // In Python, a bracket at the start of a class is a member, so `[]` and `[^]` do not end there.
            ']' if in_class && !first_in_class => in_class = false,
            '-' if in_class => {}
            _ if in_class => {
                after_hyphen_from_character =
                    characters.peek() == Some(&'-') && followed_by_end_of_range(&characters);
                continue;
            }
            '(' => {
                depth += 1;
                if characters.peek() == Some(&'?') {
                    let rest: String = characters.clone().take(4).collect();
                    let lookbehind = rest.starts_with("?<=") || rest.starts_with("?<!");
                    if rest.starts_with("?<") && !lookbehind {
                        return false;
                    }
                    if lookbehind && !has_fixed_width(characters.clone().skip(3)) {
                        return false;
                    }
                }
            }
            ')' => {
                depth -= 1;
                if depth < 0 {
                    return false;
                }
            }
            '*' | '+' if matches!(previous, '(' | '|' | '^' | '*') => return false,
            _ => {}
        }
        if !(in_class && character == '-') {
            after_hyphen_from_character = false;
        }
        previous = character;
    }
    !in_class && depth == 0
}

/// Whether the class continues with `-\d` or similar, which Python rejects as the end of a range.
fn followed_by_end_of_range(ahead: &std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    let next: Vec<char> = ahead.clone().take(3).collect();
    matches!(next[..], ['-', '\\', class] if "dDwWsS".contains(class))
}

/// Whether the class continues with `-x`, a range that would start at a class such as `\d`.
fn followed_by_range(ahead: &std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    let next: Vec<char> = ahead.clone().take(2).collect();
    matches!(next[..], ['-', end] if end != ']')
}

/// Whether the group at `characters` has a fixed width: no repetition and no alternatives.
fn has_fixed_width(characters: impl Iterator<Item = char>) -> bool {
    let mut depth = 0;
    for character in characters {
        match character {
            '(' => depth += 1,
            ')' if depth == 0 => return true,
            ')' => depth -= 1,
            '*' | '+' | '?' | '|' | '{' => return false,
            _ => {}
        }
    }
    false
}

/// Whether `pattern` has no lookaround; with `simplest`, also no backreferences and no word boundaries.
pub fn is_simple(pattern: &str, simplest: bool) -> bool {
    let has_lookaround = ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|construct| pattern.contains(construct));
    if has_lookaround {
        return false;
    }
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if character == '\\' {
            let escaped = characters.next().unwrap_or(' ');
            if simplest && (('1'..='9').contains(&escaped) || "bBk".contains(escaped)) {
                return false;
            }
        }
    }
    true
}
