//! Keys as text.

use std::fmt::Write as _;

use anstyle::Style;
use toolwire_contract::conversations::Timestamp;
use toolwire_contract::keys::{KeyRecord, KeyRights};

use crate::display::markdown::DIMMED;
use crate::terminal_text::{padded, sanitize, truncate, width};

const BOLD: Style = Style::new().bold();

const MAX_NAME_COLUMNS: usize = 24;

/// Returns the state of a key, in one word.
pub(super) fn state(key: &KeyRecord, now: Timestamp) -> &'static str {
    match key {
        key if key.revoked.is_some() => "revoked",
        key if key.is_valid_at(now) => "valid",
        _ => "expired",
    }
}

/// Formats one line for each key.
pub(super) fn list(keys: &[KeyRecord], now: Timestamp) -> String {
    let name = |key: &KeyRecord| match &key.tenant {
        Some(tenant) => truncate(&sanitize(&format!("{} ({tenant})", key.name)), MAX_NAME_COLUMNS),
        None => truncate(&sanitize(&key.name), MAX_NAME_COLUMNS),
    };
    let columns = keys.iter().map(|key| width(&name(key))).max().unwrap_or(0);
    let mut text = String::new();
    for key in keys {
        let (name, state) = (padded(&name(key), columns), padded(state(key, now), 7));
        let rights = sanitize(&summary(&key.rights));
        let expires = match key.expires {
            Some(at) => format!("until {}; ", day(at)),
            None => String::new(),
        };
        let id = &key.id;
        let _ = writeln!(text, "{BOLD}{id}{BOLD:#}  {name}  {state}  {DIMMED}{expires}{rights}{DIMMED:#}");
    }
    text
}

/// Formats everything about a key.
pub(super) fn one(key: &KeyRecord, now: Timestamp, used: Option<u64>) -> String {
    let mut text = format!("{BOLD}{}{BOLD:#}  {}\n", key.id, sanitize(&key.name));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {}  {}", padded(name, 20), sanitize(&value));
    };
    line("state", state(key, now).to_owned());
    if let Some(tenant) = &key.tenant {
        line("tenant", tenant.clone());
    }
    line("created", key.created.rfc_3339().to_string());
    for (name, time) in [("expires", key.expires), ("revoked", key.revoked)] {
        if let Some(time) = time {
            line(name, time.rfc_3339().to_string());
        }
    }
    for (name, value) in parts(&key.rights) {
        line(name, value);
    }
    if let Some(used) = used {
        line("tokens this month", used.to_string());
    }
    text
}

fn summary(rights: &KeyRights) -> String {
    let parts: Vec<String> = parts(rights).map(|(name, value)| format!("{name}: {value}")).collect();
    if parts.is_empty() { "no restrictions".to_owned() } else { parts.join("; ") }
}

/// Returns the rights that differ from the default.
fn parts(rights: &KeyRights) -> impl Iterator<Item = (&'static str, String)> {
    let KeyRights {
        models,
        servers,
        tools,
        allow,
        ask,
        deny,
        requests_per_minute,
        tokens_per_minute,
        tokens_per_month,
        admin,
        provider_state,
    } = rights;
    let lists = [("models", models), ("servers", servers), ("tools", tools)];
    let lists = lists.into_iter().filter_map(|(name, list)| Some((name, list.as_ref()?.join(", "))));
    let rules = [("allow", allow), ("ask", ask), ("deny", deny)];
    let rules = rules.into_iter().filter(|(_, list)| !list.is_empty());
    let rules = rules.map(|(name, list)| (name, list.join(", ")));
    let limits = [
        ("requests per minute", requests_per_minute),
        ("tokens per minute", tokens_per_minute),
        ("tokens per month", tokens_per_month),
    ];
    let limits = limits.into_iter().filter_map(|(name, limit)| Some((name, (*limit)?.to_string())));
    let admin = admin.then(|| ("admin", "yes".to_owned()));
    let state = provider_state.map(|state| ("provider state", if state { "yes" } else { "no" }.to_owned()));
    lists.chain(rules).chain(limits).chain(admin).chain(state).collect::<Vec<_>>().into_iter()
}

fn day(time: Timestamp) -> String {
    let mut text = time.rfc_3339().to_string();
    text.truncate("2026-11-19".len());
    text
}

#[cfg(test)]
mod tests {
    use toolwire_contract::keys::KeyDigest;

    use super::*;

    #[test]
    fn a_line_has_the_rights_and_no_hash() {
        let key = KeyRecord {
            id: "0123456789ab".parse().expect("an id"),
            name: "ci\u{1b}[2J".to_owned(),
            tenant: Some("acme".to_owned()),
            digest: KeyDigest::new([7; 32]),
            rights: KeyRights {
                models: Some(vec!["openai/*".to_owned(), "cheap".to_owned()]),
                requests_per_minute: Some(60),
                admin: true,
                ..KeyRights::default()
            },
            created: Timestamp(0),
            expires: Some(Timestamp(86_400_000)),
            revoked: None,
        };
        let text = anstream::adapter::strip_str(&list(std::slice::from_ref(&key), Timestamp(1))).to_string();
        assert_eq!(
            text,
            "0123456789ab  ci\u{fffd}[2J (acme)  valid    until 1970-01-02; models: openai/*, cheap; \
             requests per minute: 60; admin: yes\n"
        );
        assert_eq!(state(&key, Timestamp(86_400_000)), "expired");
        let revoked = KeyRecord { revoked: Some(Timestamp(5)), ..key };
        assert_eq!(state(&revoked, Timestamp(6)), "revoked");
        assert!(one(&revoked, Timestamp(6), Some(3)).contains("tokens this month     3\n"));
    }
}
