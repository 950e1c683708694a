//! Variables in the strings of a configuration.

/// Why a string cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unexpanded {
    Missing { variable: String },
    NotClosed,
    TooDeep,
}

/// Fallbacks within fallbacks; more is no configuration.
const DEEPEST: usize = 8;

/// Replaces `${NAME}`, `${env:NAME}` and `${NAME:-fallback}` (also when `NAME` is empty; the fallback may hold variables).
///
/// `$${` is a plain `${`. What stands in braces and cannot be a variable's name, such as a shell's `${#list[@]}`, stays.
pub(super) fn expand(text: &str, variables: &dyn Fn(&str) -> Option<String>) -> Result<String, Unexpanded> {
    expand_within(text, variables, 0)
}

fn expand_within(
    text: &str,
    variables: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Result<String, Unexpanded> {
    if depth > DEEPEST {
        return Err(Unexpanded::TooDeep);
    }
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, opened) = (&rest[..start], &rest[start + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = opened;
            continue;
        }
        expanded.push_str(before);
        let end = closing(opened).ok_or(Unexpanded::NotClosed)?;
        let inside = &opened[..end];
        rest = &opened[end + 1..];
        let (name, fallback) = match inside.split_once(":-") {
            Some((name, fallback)) => (name, Some(fallback)),
            None => (inside, None),
        };
        let Some(variable) = variable_name(name) else {
            expanded.push_str("${");
            expanded.push_str(inside);
            expanded.push('}');
            continue;
        };
        match (variables(variable), fallback) {
            (Some(value), None) => expanded.push_str(&value),
            (Some(value), Some(_)) if !value.is_empty() => expanded.push_str(&value),
            (_, Some(fallback)) => expanded.push_str(&expand_within(fallback, variables, depth + 1)?),
            (None, None) => return Err(Unexpanded::Missing { variable: variable.to_owned() }),
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Where the brace is that closes the one before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0usize;
    let mut previous = ' ';
    for (index, letter) in text.char_indices() {
        match letter {
            '{' if previous == '$' => open += 1,
            '}' if open == 0 => return Some(index),
            '}' => open -= 1,
            _ => {}
        }
        previous = letter;
    }
    None
}

/// The variable that `${name}` asks for. VS Code's `${input:id}` asks for one that nobody can set, which says so.
fn variable_name(name: &str) -> Option<&str> {
    let plain = name.strip_prefix("env:").unwrap_or(name);
    let letters = plain.strip_prefix("input:").unwrap_or(plain);
    let is_name = letters.starts_with(|first: char| first.is_alphabetic() || first == '_')
        // Windows has `ProgramFiles(x86)`.
        && letters.chars().all(|letter| letter.is_alphanumeric() || "_-.()".contains(letter));
    is_name.then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(name: &str) -> Option<String> {
        let value = match name {
            "A" => "a",
            "EMPTY" => "",
            "DOLLAR" => "${A}",
            "ProgramFiles(x86)" => "C:",
            _ => return None,
        };
        Some(value.to_owned())
    }

    #[track_caller]
    fn check(text: &str, expected: Result<&str, Unexpanded>) {
        assert_eq!(expand(text, &variables), expected.map(str::to_owned), "{text}");
    }

    #[test]
    fn set_variables_are_replaced() {
        check("plain", Ok("plain"));
        check("${A}", Ok("a"));
        check("Bearer ${A}!", Ok("Bearer a!"));
        check("${A}${env:A}${A}", Ok("aaa"));
        check("${EMPTY}", Ok(""));
        check("${ProgramFiles(x86)}", Ok("C:"));
        // What came out of a variable is not read again.
        check("${DOLLAR}", Ok("${A}"));
    }

    #[test]
    fn fallbacks_stand_in_for_absent_and_empty_variables() {
        check("${A:-b}", Ok("a"));
        check("${NONE:-b}", Ok("b"));
        check("${env:NONE:-b}", Ok("b"));
        check("${EMPTY:-b}", Ok("b"));
        check("${NONE:-}", Ok(""));
        check("${NONE:-http://localhost:1}", Ok("http://localhost:1"));
        check("${NONE:-${A}}", Ok("a"));
        check("${NONE:-${NEITHER:-{c}}", Ok("{c"));
        check("${NONE:-${NEITHER:-c}}.", Ok("c."));
        check("${NONE:-a:-b}", Ok("a:-b"));
    }

    #[test]
    fn absent_variables_are_named() {
        let missing = |name: &str| Err(Unexpanded::Missing { variable: name.to_owned() });
        check("${NONE}", missing("NONE"));
        check("${env:NONE}", missing("NONE"));
        check("${A}${NONE}${NEITHER}", missing("NONE"));
        check("${NONE:-${NEITHER}}", missing("NEITHER"));
        check("${input:token}", missing("input:token"));
    }

    #[test]
    fn what_is_no_variable_stays() {
        check("$A $ $$ {A} }", Ok("$A $ $$ {A} }"));
        check("${#list[@]} ${} ${1}", Ok("${#list[@]} ${} ${1}"));
        check("$${A}", Ok("${A}"));
        check("$$${A}", Ok("$${A}"));
        check("pa$$word", Ok("pa$$word"));
    }

    #[test]
    fn a_brace_without_its_end_is_an_error() {
        check("${A", Err(Unexpanded::NotClosed));
        check("a${", Err(Unexpanded::NotClosed));
        check(&("${N:-".repeat(9) + &"}".repeat(9)), Err(Unexpanded::TooDeep));
        check(&"${N:-".repeat(100_000), Err(Unexpanded::NotClosed));
    }
}
