//! Tool names and property keys that every API accepts.
//!
//! A rewritten name never depends on the order of the list: valid names stay as they are, and an invalid one
//! gets a suffix that is a hash of the server and the original name. Old conversations and prompt caches
//! therefore stay valid when tools are added or removed. Names are mapped back by lookup only.

use std::collections::HashSet;

use bumpalo::Bump;

use crate::json::{Member, Node, get};
use crate::schema::{Profile, RestrictedKeys};

/// The length of the hash suffix: `_` and eight hexadecimal digits.
const SUFFIX_LEN: usize = 9;

/// The maximum length of a property key in the APIs that restrict keys, in bytes.
const MAX_KEY_LEN: usize = 64;

/// The maximum length of a tool name that every API accepts, in bytes.
const MAX_NAME_LEN: usize = 64;

/// Whether every dialect accepts `name` as a tool name, so that no conversion changes it.
///
/// ```
/// use toolwire_dialect::names::is_valid_tool_name;
///
/// assert!(is_valid_tool_name("create_issue"));
/// assert!(!is_valid_tool_name("issues/create") && !is_valid_tool_name("2fa") && !is_valid_tool_name(&"x".repeat(65)));
/// ```
pub fn is_valid_tool_name(name: &str) -> bool {
    is_valid(name, MAX_NAME_LEN, false)
}

/// Returns `name` itself if every dialect accepts it, else a similar valid name that ends in a hash of
/// `server` and `name`.
///
/// The result depends on nothing else, so a tool keeps its name when other tools are added or removed. Two
/// tools get the same name only if their hashes collide; a caller that lists tools of several servers must
/// check for that.
///
/// ```
/// use toolwire_dialect::names::to_valid_tool_name;
///
/// assert_eq!(to_valid_tool_name("create_issue", "github"), "create_issue");
/// assert_eq!(to_valid_tool_name("issues/create", "github"), "issues_create_e2fc7141");
/// ```
pub fn to_valid_tool_name(name: &str, server: &str) -> String {
    if is_valid_tool_name(name) {
        return name.to_owned();
    }
    disambiguated_tool_name(name, server, name, 0)
}

/// Returns a valid name that starts with `stem` and always ends in a hash, here of `server`, `tool` and
/// `salt`.
///
/// Use it for a valid name that another tool already has.
///
/// ```
/// use toolwire_dialect::{names::{is_valid_tool_name, disambiguated_tool_name}};
///
/// let name = disambiguated_tool_name("search", "github", "search", 0);
/// assert_eq!(name, "search_fe0dbb77");
/// assert!(is_valid_tool_name(&name) && name != disambiguated_tool_name("search", "github", "search", 1));
/// ```
pub fn disambiguated_tool_name(stem: &str, server: &str, tool: &str, salt: u32) -> String {
    hashed_name(&sanitized_name(stem), server, tool, MAX_NAME_LEN, salt)
}

/// Returns the name that the model sees for each tool, or `None` for a tool whose name appears earlier in the
/// list.
pub(crate) fn wire_names(names: &[&str], server: Option<&str>, profile: &Profile) -> Vec<Option<String>> {
    let is_valid = |name: &str| is_valid(name, profile.name_limit, profile.any_first);
    let mut distinct: HashSet<&str> = HashSet::with_capacity(names.len());
    let is_first: Vec<bool> = names.iter().map(|name| distinct.insert(name)).collect();
    if profile.name_limit == usize::MAX || distinct.iter().all(|name| is_valid(name)) {
        return names.iter().zip(is_first).map(|(name, first)| first.then(|| (*name).to_owned())).collect();
    }
    // Valid names are reserved before anything is rewritten. Some gateways ignore case, so rewritten names
    // must differ from them in more than case.
    let mut taken: HashSet<String> =
        distinct.iter().filter(|name| is_valid(name)).map(|name| name.to_ascii_lowercase()).collect();
    let mut invalid: Vec<&str> = distinct.into_iter().filter(|name| !is_valid(name)).collect();
    invalid.sort_unstable();
    let rewritten: std::collections::HashMap<&str, String> = invalid
        .into_iter()
        .map(|name| {
            let limit = profile.name_limit.min(MAX_NAME_LEN);
            (
                name,
                unique_hashed_name(
                    &sanitized_name(name),
                    server.unwrap_or_default(),
                    name,
                    limit,
                    &mut taken,
                ),
            )
        })
        .collect();
    names
        .iter()
        .zip(is_first)
        .map(|(name, first)| {
            first.then(|| rewritten.get(name).cloned().unwrap_or_else(|| (*name).to_owned()))
        })
        .collect()
}

/// Returns the key that the model sees for each property of one object.
///
/// An `open` object accepts additional keys, so its renamed keys always carry a hash to make a collision
/// unlikely.
pub(crate) fn wire_keys(own: &[&str], rule: RestrictedKeys, open: bool) -> Vec<String> {
    let is_valid = |key: &str| match rule {
        RestrictedKeys::None => true,
        RestrictedKeys::Root => {
            !key.is_empty()
                && key.len() <= MAX_KEY_LEN
                && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
        }
        RestrictedKeys::All => {
            key.len() <= MAX_KEY_LEN
                && key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        }
    };
    let mut taken: HashSet<String> =
        own.iter().filter(|key| is_valid(key)).map(|key| key.to_ascii_lowercase()).collect();
    let mut order: Vec<usize> = (0..own.len()).filter(|index| !is_valid(own[*index])).collect();
    order.sort_unstable_by_key(|index| own[*index]);
    let mut wires: Vec<String> = own.iter().map(|key| (*key).to_owned()).collect();
    for index in order {
        let key = own[index];
        let extra = |byte: u8| rule == RestrictedKeys::Root && matches!(byte, b'-' | b'.');
        let mut sanitized = sanitize(key, extra);
        if rule == RestrictedKeys::All && sanitized.starts_with(|first: char| first.is_ascii_digit()) {
            sanitized.insert(0, '_');
        }
        let is_readable = sanitized.bytes().any(|byte| byte.is_ascii_alphanumeric());
        let free = !open
            && is_readable
            && sanitized.len() <= MAX_KEY_LEN
            && taken.insert(sanitized.to_ascii_lowercase());
        wires[index] =
            if free { sanitized } else { unique_hashed_name(&sanitized, "", key, MAX_KEY_LEN, &mut taken) };
    }
    wires
}

fn is_valid(name: &str, limit: usize, any_first: bool) -> bool {
    !name.is_empty()
        && name.len() <= limit
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        && (any_first || name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_'))
}

/// Returns `name` with every invalid character replaced; the result may still be too long.
fn sanitized_name(name: &str) -> String {
    let mut sanitized = sanitize(name, |byte| byte == b'-');
    if sanitized.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        sanitized.insert(0, '_');
    }
    sanitized
}

/// Replaces every character by `_`, except ASCII letters, digits, `_` and what `also` accepts.
fn sanitize(name: &str, also: impl Fn(u8) -> bool) -> String {
    name.chars()
        .map(|letter| {
            let is_allowed =
                letter.is_ascii_alphanumeric() || letter == '_' || letter.is_ascii() && also(letter as u8);
            if is_allowed { letter } else { '_' }
        })
        .collect()
}

/// Returns `sanitized`, shortened and with a hash of its origin, so that it differs from all names in
/// `taken`.
fn unique_hashed_name(
    sanitized: &str,
    server: &str,
    original: &str,
    limit: usize,
    taken: &mut HashSet<String>,
) -> String {
    let mut salt = 0;
    loop {
        let name = hashed_name(sanitized, server, original, limit, salt);
        if taken.insert(name.to_ascii_lowercase()) {
            return name;
        }
        // A server can list names that collide on purpose, but not four billion of them.
        salt += 1;
    }
}

/// Returns `sanitized`, shortened to `limit` bytes, with a hash of its origin.
fn hashed_name(sanitized: &str, server: &str, original: &str, limit: usize, salt: u32) -> String {
    let stem = sanitized.get(..limit - SUFFIX_LEN).unwrap_or(sanitized);
    let stem = if stem.bytes().any(|byte| byte.is_ascii_alphanumeric()) { stem } else { "" };
    let salt = salt.to_le_bytes();
    // Small salts are hashed as one byte: changing that would change names already in use.
    let salt = if salt[1..] == [0, 0, 0] { &salt[..1] } else { &salt[..] };
    format!("{stem}_{:08x}", hash(&[server.as_bytes(), &[0], original.as_bytes(), salt]))
}

/// FNV-1a folded to 32 bits. The result is the same on every machine and in every release.
fn hash(parts: &[&[u8]]) -> u32 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in parts.iter().copied().flatten() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    (hash ^ (hash >> 32)) as u32
}

/// Returns the property keys that a schema keyword mentions.
pub(crate) fn property_keys_in<'a>(rule: Member<'a>, arena: &'a Bump) -> HashSet<&'a str> {
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
    fn a_server_that_lists_the_rewritten_names_still_gets_unique_names() {
        let rewritten: Vec<String> =
            (0..600).map(|salt| disambiguated_tool_name("a_b", "", "a/b", salt)).collect();
        let mut listed: Vec<&str> = rewritten.iter().map(String::as_str).collect();
        listed.push("a/b");
        let names = wire_names(&listed, None, Profile::of(Dialect::OpenAi));
        let unique: HashSet<&Option<String>> = names.iter().collect();
        assert_eq!(unique.len(), listed.iter().collect::<HashSet<_>>().len());
        assert!(names.iter().flatten().all(|name| is_valid_tool_name(name)));
    }

    #[test]
    fn to_valid_tool_name_matches_the_strictest_conversion() {
        let long = "x".repeat(65);
        for name in ["search", "a/b", "", "2fa", "-", "天気", "a.b-c", &long] {
            let converted = wire_names(&[name], Some("github"), Profile::of(Dialect::Gemini));
            assert_eq!(converted, [Some(to_valid_tool_name(name, "github"))]);
            assert!(is_valid_tool_name(&to_valid_tool_name(name, "github")), "{name}");
        }
    }
}
