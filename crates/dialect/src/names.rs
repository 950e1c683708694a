//! Names that an API takes: legal, stable, unlike all others, and turned back by map only.
//!
//! A name never depends on the order of the list: legal names stay, and a rewritten one carries a hash of the server and
//! the original. Old conversations and prompt caches hold when tools come and go.

use std::collections::HashSet;

use bumpalo::Bump;

use crate::json::{Member, Node, get};
use crate::schema::{Profile, RestrictedKeys};

/// `_` and eight hexadecimal digits.
const SUFFIX: usize = 9;
/// The longest property key that the particular APIs take.
const KEY_LIMIT: usize = 64;

/// The longest name that every API takes.
const NAME_LIMIT: usize = 64;

/// Whether every dialect takes `name` as the name of a tool, so that no conversion changes it.
///
/// ```
/// use toolwire_dialect::is_legal_name;
///
/// assert!(is_legal_name("create_issue"));
/// assert!(!is_legal_name("issues/create") && !is_legal_name("2fa") && !is_legal_name(&"x".repeat(65)));
/// ```
pub fn is_legal_name(name: &str) -> bool {
    is_legal(name, NAME_LIMIT, false)
}

/// A name that every dialect takes: `name` itself if it is legal, else a legal one like it, with a hash of `server` and
/// `name`.
///
/// The outcome depends on nothing else, so a tool is called the same whichever other tools there are. Two tools may still
/// get one name only if their hashes agree; who lists tools of many servers looks for that.
///
/// ```
/// use toolwire_dialect::legal_name;
///
/// assert_eq!(legal_name("create_issue", "github"), "create_issue");
/// assert_eq!(legal_name("issues/create", "github"), "issues_create_e2fc7141");
/// ```
pub fn legal_name(name: &str, server: &str) -> String {
    if is_legal_name(name) {
        return name.to_owned();
    }
    marked_name(name, server, name, 0)
}

/// Like [`legal_name`], but always with the hash, here of `server`, `tool` and `salt`: for legal names that are taken.
///
/// ```
/// use toolwire_dialect::{is_legal_name, marked_name};
///
/// let name = marked_name("search", "github", "search", 0);
/// assert_eq!(name, "search_fe0dbb77");
/// assert!(is_legal_name(&name) && name != marked_name("search", "github", "search", 1));
/// ```
pub fn marked_name(stem: &str, server: &str, tool: &str, salt: u32) -> String {
    suffix(&plain_name(stem), server, tool, NAME_LIMIT, salt)
}

/// Up to three of `known` that `name` may have been meant as, the nearest first.
///
/// ```
/// use toolwire_dialect::nearest;
///
/// assert_eq!(nearest("serch", ["fetch", "search", "delete"]), ["search"]);
/// ```
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Vec<String> {
    let folded = name.to_lowercase();
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|other| (strsim::jaro_winkler(&folded, &other.to_lowercase()), other))
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, other)| other.to_owned()).collect()
}

/// The name the model sees, for each tool; `None` for a name that stood before in the list.
pub(crate) fn tools(names: &[&str], server: Option<&str>, profile: &Profile) -> Vec<Option<String>> {
    let legal = |name: &str| is_legal(name, profile.name_limit, profile.any_first);
    let mut first: HashSet<&str> = HashSet::with_capacity(names.len());
    let fresh: Vec<bool> = names.iter().map(|name| first.insert(name)).collect();
    if profile.name_limit == usize::MAX || first.iter().all(|name| legal(name)) {
        return names.iter().zip(fresh).map(|(name, fresh)| fresh.then(|| (*name).to_owned())).collect();
    }
    // Legal names are taken before anything is rewritten; some gateways fold case, so the rest keep clear of that too.
    let mut taken: HashSet<String> =
        first.iter().filter(|name| legal(name)).map(|name| name.to_ascii_lowercase()).collect();
    let mut odd: Vec<&str> = first.into_iter().filter(|name| !legal(name)).collect();
    odd.sort_unstable();
    let rewritten: std::collections::HashMap<&str, String> = odd
        .into_iter()
        .map(|name| {
            let limit = profile.name_limit.min(NAME_LIMIT);
            (name, suffixed(&plain_name(name), server.unwrap_or_default(), name, limit, &mut taken))
        })
        .collect();
    names
        .iter()
        .zip(fresh)
        .map(|(name, fresh)| {
            fresh.then(|| rewritten.get(name).cloned().unwrap_or_else(|| (*name).to_owned()))
        })
        .collect()
}

/// The key on the wire for each property of one object. In an open one a renamed key is made unlike any other that
/// could come.
pub(crate) fn keys(own: &[&str], rule: RestrictedKeys, open: bool) -> Vec<String> {
    let legal = |key: &str| match rule {
        RestrictedKeys::None => true,
        RestrictedKeys::Root => {
            !key.is_empty()
                && key.len() <= KEY_LIMIT
                && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
        }
        RestrictedKeys::All => {
            key.len() <= KEY_LIMIT
                && key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        }
    };
    let mut taken: HashSet<String> =
        own.iter().filter(|key| legal(key)).map(|key| key.to_ascii_lowercase()).collect();
    let mut order: Vec<usize> = (0..own.len()).filter(|index| !legal(own[*index])).collect();
    order.sort_unstable_by_key(|index| own[*index]);
    let mut wires: Vec<String> = own.iter().map(|key| (*key).to_owned()).collect();
    for index in order {
        let key = own[index];
        let extra = |byte: u8| rule == RestrictedKeys::Root && matches!(byte, b'-' | b'.');
        let mut plain = plain(key, extra);
        if rule == RestrictedKeys::All && plain.starts_with(|first: char| first.is_ascii_digit()) {
            plain.insert(0, '_');
        }
        let telling = plain.bytes().any(|byte| byte.is_ascii_alphanumeric());
        let free = !open && telling && plain.len() <= KEY_LIMIT && taken.insert(plain.to_ascii_lowercase());
        wires[index] = if free { plain } else { suffixed(&plain, "", key, KEY_LIMIT, &mut taken) };
    }
    wires
}

fn is_legal(name: &str, limit: usize, any_first: bool) -> bool {
    !name.is_empty()
        && name.len() <= limit
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        && (any_first || name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_'))
}

/// The letters of a legal name, if too many.
fn plain_name(name: &str) -> String {
    let mut plain = plain(name, |byte| byte == b'-');
    if plain.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        plain.insert(0, '_');
    }
    plain
}

/// Every character that is not plain becomes `_`.
fn plain(name: &str, also: impl Fn(u8) -> bool) -> String {
    name.chars()
        .map(|letter| {
            let kept =
                letter.is_ascii_alphanumeric() || letter == '_' || letter.is_ascii() && also(letter as u8);
            if kept { letter } else { '_' }
        })
        .collect()
}

/// `plain`, cut, with a hash of where it comes from, unlike all in `taken`.
fn suffixed(plain: &str, server: &str, original: &str, limit: usize, taken: &mut HashSet<String>) -> String {
    let mut salt = 0;
    loop {
        let name = suffix(plain, server, original, limit, salt);
        if taken.insert(name.to_ascii_lowercase()) {
            return name;
        }
        // A server can list many names that it knows will come out here, but not four thousand million.
        salt += 1;
    }
}

/// `plain`, cut, with a hash of where it comes from.
fn suffix(plain: &str, server: &str, original: &str, limit: usize, salt: u32) -> String {
    let stem = plain.get(..limit - SUFFIX).unwrap_or(plain);
    let stem = if stem.bytes().any(|byte| byte.is_ascii_alphanumeric()) { stem } else { "" };
    let salt = salt.to_le_bytes();
    // One byte while that is enough, as it always was: names that were once given stay.
    let salt = if salt[1..] == [0, 0, 0] { &salt[..1] } else { &salt[..] };
    format!("{stem}_{:08x}", hash(&[server.as_bytes(), &[0], original.as_bytes(), salt]))
}

/// FNV-1a, folded to 32 bits: the same on every machine and in every release.
fn hash(parts: &[&[u8]]) -> u32 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in parts.iter().copied().flatten() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    (hash ^ (hash >> 32)) as u32
}

/// The property keys that a rule of a schema speaks of.
pub(crate) fn named_in<'a>(rule: Member<'a>, arena: &'a Bump) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    let mut stack = vec![rule.value];
    if let ("dependentRequired" | "dependentSchemas" | "dependencies", Node::Object(entries)) =
        (rule.key, rule.value)
    {
        for entry in entries {
            names.insert(entry.key);
            match entry.value {
                Node::List(others) => names.extend(others.iter().filter_map(|name| name.text(arena))),
                schema => stack.push(schema),
            }
        }
    }
    while let Some(node) = stack.pop() {
        match node {
            Node::List(schemas) => stack.extend(schemas),
            Node::Object(members) => {
                for name in get(members, "required").and_then(Node::list).unwrap_or_default() {
                    names.extend(name.text(arena));
                }
                names.extend(
                    get(members, "properties")
                        .and_then(Node::object)
                        .unwrap_or_default()
                        .iter()
                        .map(|property| property.key),
                );
                for keyword in ["anyOf", "oneOf", "allOf", "if", "then", "else", "not"] {
                    stack.extend(get(members, keyword));
                }
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialect;

    #[test]
    fn a_server_that_takes_every_rewritten_name_is_answered() {
        let guessed: Vec<String> = (0..600).map(|salt| marked_name("a_b", "", "a/b", salt)).collect();
        let mut listed: Vec<&str> = guessed.iter().map(String::as_str).collect();
        listed.push("a/b");
        let named = tools(&listed, None, Profile::of(Dialect::OpenAi));
        let unique: HashSet<&Option<String>> = named.iter().collect();
        assert_eq!(unique.len(), listed.iter().collect::<HashSet<_>>().len());
        assert!(named.iter().flatten().all(|name| is_legal_name(name)));
    }

    #[test]
    fn a_legal_name_is_the_one_that_the_strictest_conversion_gives() {
        let long = "x".repeat(65);
        for name in ["search", "a/b", "", "2fa", "-", "天気", "a.b-c", &long] {
            let converted = tools(&[name], Some("github"), Profile::of(Dialect::Gemini));
            assert_eq!(converted, [Some(legal_name(name, "github"))]);
            assert!(is_legal_name(&legal_name(name, "github")), "{name}");
        }
    }
}
