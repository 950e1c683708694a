//! Paths in messages: `@notes.md`, `@"my notes.md"` or `@my\ notes.md` attaches the file.

use rustyline::completion::Pair;

use super::completion::matching_files;
use crate::attachment::expand_home;

/// Characters that may follow a path as part of the sentence.
const PUNCTUATION: [char; 13] = ['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'', '`'];
/// Characters that may precede the `@`, apart from white space.
const OPENING: [char; 7] = ['(', '[', '{', '<', '"', '\'', '`'];

/// Returns the paths after `@` that are files, without duplicates. Every other `@word` is text, such as a
/// mail address or the name of a package.
pub(crate) fn mentioned_files(text: &str) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    let mut previous = ' ';
    for (position, character) in text.char_indices() {
        let is_start = previous.is_whitespace() || OPENING.contains(&previous);
        previous = character;
        if character != '@' || !is_start {
            continue;
        }
        let (mut path, is_quoted) = read_word(&text[position + 1..]);
        while !path.is_empty() && !expand_home(&path).is_file() {
            match path.strip_suffix(PUNCTUATION) {
                Some(shorter) if !is_quoted => path = shorter.to_owned(),
                _ => path.clear(),
            }
        }
        if !path.is_empty() && !files.contains(&path) {
            files.push(path);
        }
    }
    files
}

/// Splits the argument of `/attach` into paths.
pub(crate) fn split_paths(text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let length = word_length(rest);
        paths.push(read_word(rest).0);
        rest = rest[length..].trim_start();
    }
    paths
}

/// Returns the number of bytes of the first word, with its quotes and backslashes.
fn word_length(text: &str) -> usize {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''));
    if let Some(end) = quote.and_then(|quote| text[1..].find(quote)) {
        return end + 2;
    }
    let mut is_escaped = false;
    let end = text.char_indices().find(|(_, character)| {
        let is_end = character.is_whitespace() && !is_escaped;
        is_escaped = *character == '\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |(end, _)| end)
}

/// Reads the first word. Also returns whether it was quoted.
fn read_word(text: &str) -> (String, bool) {
    let word = &text[..word_length(text)];
    for quote in ['"', '\''] {
        if let Some(inner) = word.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return (inner.to_owned(), true);
        }
    }
    // Only white space and quotes are escaped: on Windows, a backslash separates folders.
    let mut unescaped = String::with_capacity(word.len());
    let mut characters = word.chars().peekable();
    while let Some(character) = characters.next() {
        let is_escape = |next: &char| next.is_whitespace() || matches!(next, '"' | '\'');
        match characters.next_if(|next| character == '\\' && is_escape(next)) {
            Some(escaped) => unescaped.push(escaped),
            None => unescaped.push(character),
        }
    }
    (unescaped, false)
}

/// Completes the path at the end of `typed`: after `@`, or an argument of `/attach`. Returns `None` if there
/// is none.
pub(crate) fn complete_path(typed: &str) -> Option<(usize, Vec<Pair>)> {
    let is_attach = typed.starts_with("/attach ");
    let mut start = 0;
    let (word, quote) = loop {
        let rest = &typed[start..];
        let path = rest.strip_prefix('@').or((is_attach && start > 0).then_some(rest));
        let quote = path.and_then(|path| path.chars().next()).filter(|first| matches!(first, '"' | '\''));
        let length = match (path, quote) {
            // A quote that is still open includes all that follows.
            (Some(path), Some(quote)) if !path[1..].contains(quote) => break (path, Some(quote)),
            (Some(path), _) => rest.len() - path.len() + word_length(path),
            (None, _) => word_length(rest),
        };
        if length == rest.len() {
            break (path?, None);
        }
        start = typed.len() - rest[length..].trim_start().len();
    };
    let start = typed.len() - word.len();
    let path = match quote {
        Some(_) => word[1..].to_owned(),
        None => read_word(word).0,
    };
    let mut pairs = matching_files(&path);
    for pair in &mut pairs {
        pair.replacement = match quote {
            Some(quote) => format!("{quote}{}", pair.replacement),
            None => escape(&pair.replacement),
        };
    }
    Some((start, pairs))
}

fn escape(path: &str) -> String {
    let needs_escape = |c: char| c.is_whitespace() || matches!(c, '"' | '\'');
    path.chars().map(|c| if needs_escape(c) { format!("\\{c}") } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_are_mentioned() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a.txt", "b c.txt", "d.tar.gz"] {
            std::fs::write(folder.path().join(name), "x").expect("a file");
        }
        let folder = folder.path().to_str().expect("a UTF-8 path");
        let check = |text: &str, expected: &[&str]| {
            let expected: Vec<String> = expected.iter().map(|name| format!("{folder}/{name}")).collect();
            assert_eq!(mentioned_files(&text.replace('~', folder)), expected, "{text}");
        };
        check("@~/a.txt", &["a.txt"]);
        check("compare @~/a.txt, (@~/d.tar.gz). And @~/a.txt?", &["a.txt", "d.tar.gz"]);
        check("see @\"~/b c.txt\" and @~/b\\ c.txt and @'~/a.txt'.", &["b c.txt", "a.txt"]);
        check("me@~/a.txt x@~/a.txt", &[]);
        check("@scope/package @~ @~/missing.txt @ @\"~/a.txt @@~/a.txt", &[]);
    }

    #[test]
    fn paths_are_split_at_unescaped_spaces() {
        for (text, expected) in [
            ("", &[] as &[&str]),
            (" a.txt  b.txt ", &["a.txt", "b.txt"]),
            (r#""a b" c\ d 'e "f'"#, &["a b", "c d", "e \"f"]),
            (r"C:\x\y.txt", &[r"C:\x\y.txt"]),
            ("\"open", &["\"open"]),
        ] {
            assert_eq!(split_paths(text), expected, "{text}");
        }
    }

    #[test]
    fn paths_are_completed_after_an_at_sign_and_in_attach() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["notes.md", "my notes.md"] {
            std::fs::write(folder.path().join(name), "x").expect("a file");
        }
        let folder = folder.path().to_str().expect("a UTF-8 path");
        let check = |typed: &str, expected: Option<(usize, &[&str])>| {
            let typed = typed.replace('~', folder);
            let actual = complete_path(&typed).map(|(start, pairs)| {
                (
                    start,
                    pairs.into_iter().map(|pair| pair.replacement.replace(folder, "~")).collect::<Vec<_>>(),
                )
            });
            let expected = expected
                .map(|(start, names)| (start, names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()));
            assert_eq!(actual, expected, "{typed}");
        };
        check("read @~/no", Some((6, &["~/notes.md"])));
        check("read @~/my", Some((6, &["~/my\\ notes.md"])));
        check("read @~/my\\ no", Some((6, &["~/my\\ notes.md"])));
        check("read @\"~/my no", Some((6, &["\"~/my notes.md"])));
        check("/attach ~/no", Some((8, &["~/notes.md"])));
        check("/attach", None);
        check("read ~/no", None);
        check("a@~/no", None);
    }
}
