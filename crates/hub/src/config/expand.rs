//! Expands variables in the strings of a configuration.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExpandError {
    Missing { variable: String },
    NotClosed,
    TooDeep,
}

/// The maximum nesting depth of fallbacks in fallbacks.
pub(super) const MAX_FALLBACK_DEPTH: usize = 8;

/// Replaces `${NAME}`, `${env:NAME}` and `${NAME:-fallback}`, and `${{ secrets.NAME }}` of Continue.
///
/// The fallback is used if `NAME` is unset or empty, and may contain variables. `$${` becomes a literal `${`.
/// Braces that do not contain a variable name, such as a shell's `${#list[@]}`, are left unchanged.
pub(super) fn expand(text: &str, variables: &dyn Fn(&str) -> Option<String>) -> Result<String, ExpandError> {
    expand_at_depth(text, variables, 0)
}

fn expand_at_depth(
    text: &str,
    variables: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Result<String, ExpandError> {
    if depth > MAX_FALLBACK_DEPTH {
        return Err(ExpandError::TooDeep);
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
        if let Some((name, after)) = continue_variable(opened) {
            let missing = || ExpandError::Missing { variable: name.to_owned() };
            expanded.push_str(&variables(name).ok_or_else(missing)?);
            rest = after;
            continue;
        }
        let end = closing_brace(opened).ok_or(ExpandError::NotClosed)?;
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
            (_, Some(fallback)) => expanded.push_str(&expand_at_depth(fallback, variables, depth + 1)?),
            (None, None) => return Err(ExpandError::Missing { variable: variable.to_owned() }),
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Returns the name in `${{ secrets.NAME }}` or `${{ inputs.NAME }}`, whose `${` is before `text`, and the
/// text after it. An owner before the name is ignored: `secrets.owner/block/NAME`.
fn continue_variable(text: &str) -> Option<(&str, &str)> {
    let (inside, after) = text.strip_prefix('{')?.split_once("}}")?;
    let inside = inside.trim();
    let path = inside.strip_prefix("secrets.").or_else(|| inside.strip_prefix("inputs."))?;
    let name = variable_name(path.rsplit('/').next()?)?;
    Some((name, after))
}

/// Returns the offset of the brace that closes the one before `text`.
fn closing_brace(text: &str) -> Option<usize> {
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

/// The prefixes of VS Code's variables that are not in the environment.
const EDITOR_PREFIXES: [&str; 3] = ["input:", "command:", "config:"];

/// Returns the variable that `${name}` refers to. VS Code's `${input:id}` refers to `input:id`.
fn variable_name(name: &str) -> Option<&str> {
    let plain = name.strip_prefix("env:").unwrap_or(name);
    let letters = EDITOR_PREFIXES.iter().find_map(|prefix| plain.strip_prefix(prefix)).unwrap_or(plain);
    let is_name = letters.starts_with(|first: char| first.is_alphabetic() || first == '_')
        // Windows has `ProgramFiles(x86)`.
        && letters.chars().all(|letter| letter.is_alphanumeric() || "_-.()".contains(letter));
    (is_name || plain == "/").then_some(plain)
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
    fn check(text: &str, expected: Result<&str, ExpandError>) {
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
        // The value of a variable is not expanded again.
        check("${DOLLAR}", Ok("${A}"));
    }

    #[test]
    fn a_fallback_replaces_an_unset_or_empty_variable() {
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
    fn an_unset_variable_is_named_in_the_error() {
        let missing = |name: &str| Err(ExpandError::Missing { variable: name.to_owned() });
        check("${NONE}", missing("NONE"));
        check("${env:NONE}", missing("NONE"));
        check("${A}${NONE}${NEITHER}", missing("NONE"));
        check("${NONE:-${NEITHER}}", missing("NEITHER"));
        check("${input:token}", missing("input:token"));
    }

    #[test]
    fn secrets_of_continue_are_variables() {
        check("x${{ secrets.A }}y${{inputs.A}}", Ok("xaya"));
        check("${{ secrets.owner/block/A }}", Ok("a"));
        check("${{ secrets.NONE }}", Err(ExpandError::Missing { variable: "NONE".to_owned() }));
        check("$${{ secrets.A }}", Ok("${{ secrets.A }}"));
        check("${{ matrix.A }}", Ok("${{ matrix.A }}"));
    }

    #[test]
    fn text_that_is_not_a_variable_is_unchanged() {
        check("$A $ $$ {A} }", Ok("$A $ $$ {A} }"));
        check("${#list[@]} ${} ${1}", Ok("${#list[@]} ${} ${1}"));
        check("$${A}", Ok("${A}"));
        check("$$${A}", Ok("$${A}"));
        check("pa$$word", Ok("pa$$word"));
    }

    #[test]
    fn an_unclosed_brace_is_an_error() {
        check("${A", Err(ExpandError::NotClosed));
        check("a${", Err(ExpandError::NotClosed));
        check(&("${N:-".repeat(9) + &"}".repeat(9)), Err(ExpandError::TooDeep));
        check(&"${N:-".repeat(100_000), Err(ExpandError::NotClosed));
    }
}
