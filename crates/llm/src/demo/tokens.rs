//! Splits a question into words, numbers, quotations and punctuation.

/// One token of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    /// The text, without quotation marks.
    pub(super) text: String,
    pub(super) kind: TokenKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A word, a path, a URL, an email address or a date.
    Word,
    Number,
    Quoted,
    Punctuation,
}

/// Words that are too common to select a tool.
const STOP_WORDS: [&str; 60] = [
    "a", "about", "all", "am", "an", "and", "any", "are", "at", "be", "by", "can", "could", "do", "does",
    "for", "from", "get", "give", "have", "how", "i", "in", "is", "it", "its", "me", "much", "my", "need",
    "no", "not", "now", "of", "on", "or", "our", "out", "please", "tell", "that", "the", "then", "there",
    "these", "this", "those", "to", "us", "want", "was", "what", "when", "where", "which", "who", "will",
    "with", "would", "you",
];

impl Token {
    fn new(text: &str, kind: TokenKind) -> Token {
        Token { text: text.to_owned(), kind }
    }

    /// Returns the stem if the token is a word but not a stop word. Forms of the same word, such as `Files`
    /// and `file`, have the same stem.
    pub(super) fn stem(&self) -> Option<String> {
        let is_word = self.kind == TokenKind::Word && !is_stop_word(&self.text);
        is_word.then(|| stem(&self.text))
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.text.eq_ignore_ascii_case(text)
    }

    pub(super) fn is_capitalized(&self) -> bool {
        self.kind == TokenKind::Word && self.text.chars().next().is_some_and(char::is_uppercase)
    }
}

pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(&word.to_lowercase().as_str())
}

pub(super) fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    let word = word.strip_suffix("'s").unwrap_or(&word);
    for ending in ["ing", "ed", "es", "s"] {
        if let Some(root) = word.strip_suffix(ending)
            && root.chars().count() >= 3
            && !root.ends_with('s')
        {
            return root.trim_end_matches('e').to_owned();
        }
    }
    word.trim_end_matches('e').to_owned()
}

/// Returns the stems in the name of a tool or a property, in snake case, camel case or any other form.
pub(super) fn stems(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut before = ' ';
    for character in name.chars() {
        let is_boundary = !character.is_alphanumeric() || (character.is_uppercase() && before.is_lowercase());
        if is_boundary {
            words.push(String::new());
        }
        if character.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(character);
        }
        before = character;
    }
    words.into_iter().filter(|word| !word.is_empty() && !is_stop_word(word)).map(|word| stem(&word)).collect()
}

/// Splits a text into tokens.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if let Some((inside, length)) = leading_quotation(rest) {
            tokens.push(Token::new(inside, TokenKind::Quoted));
            length
        } else if let Some((number, length)) = leading_number(rest, tokens.last()) {
            tokens.push(Token { text: number, kind: TokenKind::Number });
            length
        } else if let Some(word) = leading_word(rest, tokens.last()) {
            tokens.push(Token::new(word, TokenKind::Word));
            word.len()
        } else {
            tokens.push(Token::new(&rest[..first.len_utf8()], TokenKind::Punctuation));
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// Matches a quotation at the start. Returns the text inside, and the length with the quotation marks.
fn leading_quotation(text: &str) -> Option<(&str, usize)> {
    let (open, close) = [('"', '"'), ('“', '”'), ('„', '“'), ('«', '»'), ('`', '`'), ('\'', '\'')]
        .into_iter()
        .find(|(open, _)| text.starts_with(*open))?;
    let inside = &text[open.len_utf8()..];
    let end = inside.find(close).filter(|end| *end > 0)?;
    Some((&inside[..end], open.len_utf8() + end + close.len_utf8()))
}

/// Matches a number at the start. Returns it without thousands separators, and its length. A minus sign
/// belongs to it unless the token before is a number.
fn leading_number(text: &str, before: Option<&Token>) -> Option<(String, usize)> {
    let is_after_number = before.is_some_and(|token| token.kind == TokenKind::Number);
    let sign = usize::from(text.starts_with('-') && !is_after_number);
    let is_part = |character: char| character.is_ascii_digit() || character == '.' || character == ',';
    let end = text[sign..].find(|character| !is_part(character)).map_or(text.len(), |end| sign + end);
    let digits = text[sign..end].trim_end_matches(['.', ',']);
    let length = sign + digits.len();
    // Not a number: a date, a time, a name such as `3d`.
    let mut after = text[length..].chars();
    let (next, second) = (after.next().unwrap_or(' '), after.next().unwrap_or(' '));
    let is_date = next == '-' && digits.len() == 4 && text[length + 1..].contains('-');
    let continues = next.is_alphabetic() || ((is_date || "_:".contains(next)) && second.is_alphanumeric());
    let is_number = digits.starts_with(|character: char| character.is_ascii_digit()) && !continues;
    let plain = format!("{}{}", &text[..sign], digits.replace(',', ""));
    (is_number && plain.parse::<f64>().is_ok()).then_some((plain, length))
}

/// Matches a word at the start, including the punctuation inside paths, URLs and dates.
fn leading_word<'t>(text: &'t str, before: Option<&Token>) -> Option<&'t str> {
    // After a number, `/` means division.
    let is_after_number = before.is_some_and(|token| token.kind == TokenKind::Number);
    let starts_path = !is_after_number
        && ["/", "./", "../", "~/"].iter().any(|start| {
            text.strip_prefix(start).is_some_and(|rest| rest.starts_with(|next: char| next.is_alphanumeric()))
        });
    if !starts_path && !text.starts_with(|character: char| character.is_alphanumeric() || character == '_') {
        return None;
    }
    let end =
        text.find(|character: char| !(character.is_alphanumeric() || "_-./@:#~'?=&%".contains(character)));
    let word = &text[..end.unwrap_or(text.len())];
    Some(word.trim_end_matches(['.', ':', '?', '\'', '/', '-', '&', '=']))
}

/// Returns the arithmetic operation that the token at index `at` denotes, by the name that tools usually use.
pub(super) fn operation(tokens: &[Token], at: usize) -> Option<&'static str> {
    let is_number = |index: Option<usize>| {
        index.and_then(|index| tokens.get(index)).is_some_and(|token| token.kind == TokenKind::Number)
    };
    let is_between_numbers = is_number(at.checked_sub(1)) && is_number(Some(at + 1));
    Some(match tokens[at].text.to_lowercase().as_str() {
        "+" | "plus" if is_between_numbers => "add",
        "-" | "−" | "–" | "minus" if is_between_numbers => "subtract",
        "*" | "×" | "·" | "x" | "times" if is_between_numbers => "multiply",
        "/" | "÷" | ":" if is_between_numbers => "divide",
        "sum" | "total" | "added" => "add",
        "difference" | "subtracted" => "subtract",
        "product" | "multiplied" => "multiply",
        "quotient" | "divided" => "divide",
        _ => return None,
    })
}

/// Splits a question into clauses that may need different tools.
pub(super) fn clauses(tokens: &[Token]) -> Vec<&[Token]> {
    let mut clauses = Vec::new();
    let mut start = 0;
    for (index, token) in tokens.iter().enumerate() {
        let next = tokens.get(index + 1);
        let ends_clause = token.kind == TokenKind::Punctuation
            && match token.text.as_str() {
                "." | "?" | "!" | ";" => true,
                "," => next.is_some_and(|next| {
                    ["and", "then", "also", "what", "how"].iter().any(|word| next.is(word))
                }),
                _ => false,
            };
        if ends_clause {
            clauses.push(&tokens[start..index]);
            start = index + 1;
        }
    }
    clauses.push(&tokens[start..]);
    clauses.retain(|clause| !clause.is_empty());
    clauses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let rendered: Vec<String> = tokens(text)
            .iter()
            .map(|token| match token.kind {
                TokenKind::Word => token.text.clone(),
                TokenKind::Number => format!("#{}", token.text),
                TokenKind::Quoted => format!("[{}]", token.text),
                TokenKind::Punctuation => format!("'{}", token.text),
            })
            .collect();
        assert_eq!(rendered.join(" "), expected);
    }

    #[test]
    fn a_text_is_split_into_tokens() {
        check("What is 25 + 17?", "What is #25 '+ #17 '?");
        check("25+17, 1,000.5 - 3 and -4", "#25 '+ #17 ', #1000.5 '- #3 and #-4");
        check("3-4 7/2 2*-3", "#3 '- #4 #7 '/ #2 #2 '* #-3");
        check(
            "read ./src/main.rs, then https://a.example/x?y=1.",
            "read ./src/main.rs ', then https://a.example/x?y=1 '.",
        );
        check("on 2026-11-16 mail a.b@example.org", "on 2026-11-16 mail a.b@example.org");
        check("say \"hello there\" and `x` and 'y'", "say [hello there] and [x] and [y]");
        check("don't rain on Zürich's parade", "don't rain on Zürich's parade");
        check("", "");
    }

    #[test]
    fn names_are_split_in_every_naming_style() {
        assert_eq!(stems("get_weather"), ["weather"]);
        assert_eq!(stems("github__listOpenIssues"), ["github", "list", "open", "issu"]);
        assert_eq!(stems("files"), stems("file"));
        assert_eq!(stems("calculate"), stems("calculating"));
    }

    #[test]
    fn a_question_is_split_into_clauses() {
        let tokens = tokens("Weather in Paris, France, and what is 25 + 17? Thanks");
        let clauses: Vec<usize> = clauses(&tokens).iter().map(|clause| clause.len()).collect();
        assert_eq!(clauses, [5, 6, 1]);
    }
}
