//! The rights of a key.

use serde::{Deserialize, Serialize};

use super::UsageLimits;
use crate::{Glob, Tool};

/// The start of a pattern that selects tools by their annotations.
const HINT_PREFIX: &str = "hint:";

/// The rights and limits of a key. The default has no restrictions.
///
/// Patterns contain `*` for any text and `?` for any single character.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
// An unknown field may be a restriction, so a record with one is not usable.
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct KeyRights {
    /// Patterns of the models that the key may use; `None` means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// Patterns of the servers whose tools the key may use; `None` means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
    /// Patterns of the tools that the key may use: `NAME`, or `SERVER/NAME`; `None` means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Tools that run without approval, in addition to those of the configuration: a pattern of names, or
    /// `hint:NAME`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Tools whose calls need approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// Tools that are not offered and cannot be called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_month: Option<u64>,
    /// Whether the key may change servers and accept changed tools.
    #[serde(skip_serializing_if = "is_false")]
    pub admin: bool,
    /// Whether requests may refer to data that the provider has stored; `None` if the gateway's setting
    /// decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_state: Option<bool>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The decision about a tool by the lists of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolRule {
    Allow,
    Ask,
    Deny,
}

/// A pattern of rights with an annotation that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown annotation in the pattern `{pattern}`; expected {}", HINTS.map(|(name, _)| format!("`hint:{name}`")).join(", "))]
pub struct InvalidRights {
    pub pattern: String,
}

type HasHint = fn(&Tool) -> bool;

/// The annotations that patterns can select. As in MCP, a tool without annotations may write and destroy.
const HINTS: [(&str, HasHint); 5] = [
    ("readOnly", |tool| tool.hints().read_only == Some(true)),
    ("writes", |tool| tool.hints().read_only != Some(true)),
    ("destructive", |tool| tool.hints().read_only != Some(true) && tool.hints().destructive != Some(false)),
    ("idempotent", |tool| tool.hints().idempotent == Some(true)),
    ("openWorld", |tool| tool.hints().open_world != Some(false)),
];

impl KeyRights {
    /// Checks the patterns.
    pub fn check(&self) -> Result<(), InvalidRights> {
        let lists = [&self.allow, &self.ask, &self.deny];
        let is_unknown = |pattern: &&&String| {
            let name = pattern.strip_prefix(HINT_PREFIX);
            name.is_some_and(|name| HINTS.iter().all(|(known, _)| *known != name))
        };
        match lists.into_iter().flatten().collect::<Vec<_>>().iter().find(is_unknown) {
            Some(pattern) => Err(InvalidRights { pattern: (*pattern).clone() }),
            None => Ok(()),
        }
    }

    pub fn limit(&self) -> UsageLimits {
        UsageLimits {
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            tokens_per_month: self.tokens_per_month,
        }
    }

    /// Returns the part of the rights that concerns tools.
    #[must_use]
    pub fn of_tools(&self) -> KeyRights {
        KeyRights {
            servers: self.servers.clone(),
            tools: self.tools.clone(),
            allow: self.allow.clone(),
            ask: self.ask.clone(),
            deny: self.deny.clone(),
            ..KeyRights::default()
        }
    }

    /// Whether the key may use a model that has any of these names.
    pub fn permits_model(&self, names: &[&str]) -> bool {
        self.models.as_ref().is_none_or(|patterns| names.iter().any(|name| matches_any(patterns, name)))
    }

    /// Whether the key may use a server.
    pub fn permits_server(&self, server: &str) -> bool {
        self.servers.as_ref().is_none_or(|patterns| matches_any(patterns, server))
    }

    /// Whether every server and every tool may be used.
    pub fn permits_all_tools(&self) -> bool {
        self.servers.is_none() && self.tools.is_none() && self.deny.is_empty()
    }

    /// Whether a tool is offered and can be called. `original` is its name on its server, and `tool` has the
    /// listed name.
    ///
    /// A tool without a server is not restricted by the servers. A list of allowed tools compares the listed
    /// name, which is unique, and `SERVER/NAME`; a list of denied tools also compares the name on the server.
    pub fn permits_tool(&self, server: Option<&str>, tool: &Tool, original: &str) -> bool {
        let qualified = server.map(|server| format!("{server}/{original}"));
        let is_listed = |patterns: &[String]| {
            let qualified = qualified.as_deref().is_some_and(|name| matches_any(patterns, name));
            qualified || matches_any(patterns, &tool.name)
        };
        server.is_none_or(|server| self.permits_server(server))
            && self.tools.as_ref().is_none_or(|patterns| is_listed(patterns))
            && !(is_listed(&self.deny) || matches_any(&self.deny, original) || has_hint(&self.deny, tool))
    }

    /// Returns the decision about a tool by the lists `allow` and `ask`; `None` if no list contains it.
    pub fn rule(&self, server: Option<&str>, tool: &Tool, original: &str) -> Option<ToolRule> {
        let qualified = server.map(|server| format!("{server}/{original}"));
        let selects = |patterns: &[String]| {
            let qualified = qualified.as_deref().is_some_and(|name| matches_any(patterns, name));
            qualified || matches_any(patterns, &tool.name) || has_hint(patterns, tool)
        };
        if !self.permits_tool(server, tool, original) {
            Some(ToolRule::Deny)
        } else if selects(&self.ask) || matches_any(&self.ask, original) {
            Some(ToolRule::Ask)
        } else {
            selects(&self.allow).then_some(ToolRule::Allow)
        }
    }
}

fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| Glob::new(pattern.as_str()).matches(name))
}

fn has_hint(patterns: &[String], tool: &Tool) -> bool {
    patterns
        .iter()
        .filter_map(|pattern| pattern.strip_prefix(HINT_PREFIX))
        .any(|name| HINTS.iter().any(|(known, has_hint)| *known == name && has_hint(tool)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, annotations: serde_json::Value) -> Tool {
        let value = json!({"name": name, "inputSchema": {"type": "object"}, "annotations": annotations});
        Tool::try_from(value).expect("a tool")
    }

    fn list(patterns: &[&str]) -> Vec<String> {
        patterns.iter().map(|pattern| (*pattern).to_owned()).collect()
    }

    #[test]
    fn lists_of_names_restrict_servers_and_tools() {
        let search = tool("search", json!({}));
        let renamed = tool("other_search", json!({}));
        let rights = KeyRights { servers: Some(list(&["git*"])), ..KeyRights::default() };
        assert!(rights.permits_tool(Some("github"), &search, "search"));
        assert!(!rights.permits_tool(Some("files"), &search, "search"));
        assert!(rights.permits_tool(None, &search, "search"), "a tool without a server");
        // A server cannot take an allowed name of another one: the listed names are unique.
        let rights = KeyRights { tools: Some(list(&["search"])), ..KeyRights::default() };
        assert!(rights.permits_tool(Some("one"), &search, "search"));
        assert!(!rights.permits_tool(Some("other"), &renamed, "search"));
        let rights = KeyRights { tools: Some(list(&["other/*"])), ..KeyRights::default() };
        assert!(rights.permits_tool(Some("other"), &renamed, "search"));
        assert!(!rights.permits_tool(Some("one"), &search, "search"));
        // A denied tool stays denied under another name.
        for pattern in ["search", "other/search", "other_*"] {
            let rights = KeyRights { deny: list(&[pattern]), ..KeyRights::default() };
            assert!(!rights.permits_tool(Some("other"), &renamed, "search"), "{pattern}");
        }
    }

    #[test]
    fn annotations_select_tools() {
        let reads = tool("get", json!({"readOnlyHint": true}));
        let adds = tool("add", json!({"destructiveHint": false}));
        let unknown = tool("run", json!({}));
        let rights = KeyRights {
            allow: list(&["hint:readOnly"]),
            ask: list(&["hint:writes"]),
            deny: list(&["hint:destructive"]),
            ..KeyRights::default()
        };
        assert_eq!(rights.rule(None, &reads, "get"), Some(ToolRule::Allow));
        assert_eq!(rights.rule(None, &adds, "add"), Some(ToolRule::Ask));
        assert_eq!(rights.rule(None, &unknown, "run"), Some(ToolRule::Deny));
        assert_eq!(KeyRights::default().rule(None, &unknown, "run"), None);
        assert_eq!(rights.check(), Ok(()));
        let wrong = KeyRights { ask: list(&["a*", "hint:readonly"]), ..KeyRights::default() };
        let message = wrong.check().expect_err("an unknown annotation").to_string();
        assert!(
            message
                .starts_with("unknown annotation in the pattern `hint:readonly`; expected `hint:readOnly`"),
            "{message}"
        );
    }

    #[test]
    fn models_are_permitted_by_any_of_their_names() {
        let rights = KeyRights { models: Some(list(&["openai/*", "cheap"])), ..KeyRights::default() };
        assert!(rights.permits_model(&["gpt-x", "openai/gpt-x"]));
        assert!(rights.permits_model(&["cheap", "anthropic/x"]));
        assert!(!rights.permits_model(&["anthropic/x"]));
        assert!(!KeyRights { models: Some(Vec::new()), ..KeyRights::default() }.permits_model(&["a"]));
        assert!(KeyRights::default().permits_model(&["a"]));
    }
}
