//! Which calls run, which a person is asked about, and which do not run.
//!
//! Annotations are what a server says about its own tools. Who does not trust a server lists its tools under `ask` or
//! `deny`: the lists win over every annotation.

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwire_contract::{Glob, Tool, ToolCall};

/// Which calls run.
///
/// The lists hold patterns of tool names (`*` is any text, `?` any one character). `deny` wins over `ask`, and `ask` over
/// `allow`. A tool in none of them goes by [`Policy::otherwise`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
    pub otherwise: Otherwise,
}

/// What holds for a tool that no list names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Otherwise {
    /// A tool that only reads (`readOnlyHint`) or only adds (`destructiveHint: false`) runs, all others ask. A tool that
    /// says nothing counts as destructive, as MCP has it.
    #[default]
    ByAnnotation,
    Allow,
    Ask,
    Deny,
}

/// What a policy says about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// A person is asked, and told why.
    Ask(String),
    /// It does not run, and the model is told why.
    Deny(String),
}

/// A call that a person must decide about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingCall {
    pub id: String,
    pub name: String,
    /// What to call the tool in front of people.
    pub title: String,
    pub arguments: Map<String, Value>,
    /// Why a person is asked, in half a sentence: ``it may change or delete things``.
    pub why: String,
}

/// What a person decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// This call runs.
    Once,
    /// It runs, and so do all later calls of the same tool in this run.
    Always,
    /// It does not run. The model is told, with the reason.
    No { because: Option<String> },
    /// It does not run, since nobody has decided: nobody is there, or nobody answered in time. The model is told so.
    Nobody { why: String },
}

/// Whoever decides about calls.
pub trait Person: Send + Sync {
    /// Decides about one call. The calls of a step come one after the other, in their order. When the run is cancelled,
    /// the future is dropped.
    fn review<'a>(&'a self, call: &'a PendingCall) -> BoxFuture<'a, Decision>;
}

impl<F> Person for F
where
    F: Fn(&PendingCall) -> Decision + Send + Sync,
{
    fn review<'a>(&'a self, call: &'a PendingCall) -> BoxFuture<'a, Decision> {
        Box::pin(async move { self(call) })
    }
}

impl Policy {
    /// Everything runs. For tools of one's own.
    pub fn allow_all() -> Policy {
        Policy { otherwise: Otherwise::Allow, ..Policy::default() }
    }

    /// What holds for a call of this name. By annotation a tool that is not listed is allowed: its call fails by itself, with an
    /// answer that tells the model what there is. Should its server come meanwhile, it is judged again just before it is called
    /// ([`CallOptions::permission`](toolwire_contract::CallOptions::permission)).
    pub fn verdict(&self, name: &str, tool: Option<&Tool>) -> Verdict {
        let listed = |patterns: &[String]| {
            patterns.iter().find(|pattern| Glob::new(pattern.as_str()).matches(name)).cloned()
        };
        if let Some(pattern) = listed(&self.deny) {
            return Verdict::Deny(format!("`{pattern}` is denied by the configuration"));
        }
        if let Some(pattern) = listed(&self.ask) {
            return Verdict::Ask(format!("`{pattern}` asks each time"));
        }
        if listed(&self.allow).is_some() {
            return Verdict::Allow;
        }
        let hint = |name: &str| hint(tool?, name);
        match self.otherwise {
            Otherwise::Allow => Verdict::Allow,
            Otherwise::Ask => Verdict::Ask("every call is asked about".to_owned()),
            Otherwise::Deny => Verdict::Deny("the configuration does not list it as allowed".to_owned()),
            Otherwise::ByAnnotation if tool.is_none_or(is_read_only) => Verdict::Allow,
            Otherwise::ByAnnotation if hint("destructiveHint") == Some(false) => Verdict::Allow,
            Otherwise::ByAnnotation if hint("destructiveHint") == Some(true) => {
                Verdict::Ask("it may change or delete things".to_owned())
            }
            Otherwise::ByAnnotation => {
                Verdict::Ask("it may change or delete things: the tool does not say".to_owned())
            }
        }
    }
}

impl PendingCall {
    pub(crate) fn new(id: &str, call: &ToolCall, tool: Option<&Tool>, why: String) -> PendingCall {
        PendingCall {
            id: id.to_owned(),
            name: call.name.clone(),
            title: tool.map_or(&*call.name, Tool::display_name).to_owned(),
            arguments: call.arguments.clone().unwrap_or_default(),
            why,
        }
    }
}

/// Whether a call may be made again when nobody knows whether it was made.
pub(crate) fn is_repeatable(tool: &Tool) -> bool {
    is_read_only(tool) || hint(tool, "idempotentHint") == Some(true)
}

fn is_read_only(tool: &Tool) -> bool {
    hint(tool, "readOnlyHint") == Some(true)
}

fn hint(tool: &Tool, name: &str) -> Option<bool> {
    tool.annotations.as_ref()?.get(name)?.as_bool()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(annotations: Value) -> Tool {
        serde_json::from_value(json!({"name": "f", "annotations": annotations})).expect("it is a tool")
    }

    /// `policy` as JSON, the annotations of a tool `f`, and the first word of the verdict.
    #[track_caller]
    fn check(policy: Value, annotations: Value, expected: &str) {
        let policy: Policy = serde_json::from_value(policy).expect("it is a policy");
        let verdict = format!("{:?}", policy.verdict("f", Some(&tool(annotations))));
        assert!(verdict.starts_with(expected), "{verdict}");
    }

    #[test]
    fn annotations_decide_where_no_list_does() {
        check(json!({}), json!({"readOnlyHint": true}), "Allow");
        check(json!({}), json!({"readOnlyHint": true, "destructiveHint": true}), "Allow");
        check(json!({}), json!({"destructiveHint": false}), "Allow");
        check(json!({}), json!({"destructiveHint": true}), "Ask");
        check(json!({}), json!({"readOnlyHint": false}), "Ask");
        check(json!({}), json!({"readOnlyHint": "yes"}), "Ask");
        check(json!({}), json!(null), "Ask");
    }

    #[test]
    fn deny_wins_over_ask_and_ask_over_allow() {
        let read_only = json!({"readOnlyHint": true});
        check(json!({"allow": ["*"], "ask": ["f"], "deny": ["?"]}), read_only.clone(), "Deny");
        check(json!({"allow": ["f"], "ask": ["f*"]}), read_only.clone(), "Ask");
        check(json!({"allow": ["f"]}), json!({"destructiveHint": true}), "Allow");
        check(json!({"allow": ["g"], "ask": ["G"], "deny": ["ff"]}), read_only.clone(), "Allow");
        check(json!({"otherwise": "deny"}), read_only.clone(), "Deny");
        check(json!({"otherwise": "ask"}), read_only, "Ask");
        check(json!({"otherwise": "allow"}), json!({"destructiveHint": true}), "Allow");
    }

    #[test]
    fn a_tool_that_was_never_listed_reaches_the_toolbox_unless_told_otherwise() {
        assert_eq!(Policy::default().verdict("f", None), Verdict::Allow);
        let policy = Policy { otherwise: Otherwise::Ask, ..Policy::default() };
        assert!(matches!(policy.verdict("f", None), Verdict::Ask(_)));
    }
}
