//! Approvals: which calls run, which need approval, and which are denied.
//!
//! Annotations are claims of a server about its own tools. To restrict a server that is not trusted, list its
//! tools under `ask` or `deny`: the lists have precedence over annotations.

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwire_contract::{Glob, Tool, ToolCall};

/// The rules that decide which calls run.
///
/// The lists contain patterns of tool names (`*` matches any text, `?` any single character). `deny` has
/// precedence over `ask`, and `ask` over `allow`. For a tool in no list, [`ApprovalPolicy::otherwise`]
/// decides.
///
/// ```
/// use toolwire_agent::approval::ApprovalPolicy;
///
/// let policy = ApprovalPolicy::default().allow("git_*").ask("git_push").deny("*_delete");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
#[must_use]
pub struct ApprovalPolicy {
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
    pub otherwise: DefaultRule,
}

/// The rule for a tool that is in no list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DefaultRule {
    /// A tool that only reads (`readOnlyHint`) or only adds (`destructiveHint: false`) runs; all others need
    /// approval. As in MCP, a tool without annotations counts as destructive.
    #[default]
    ByAnnotation,
    Allow,
    Ask,
    Deny,
}

/// The verdict of a policy about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// The call needs approval, for this reason.
    Ask(String),
    /// The call does not run, for this reason.
    Deny(String),
}

/// A call that needs approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PendingCall {
    pub id: String,
    pub name: String,
    /// The display name of the tool.
    pub title: String,
    pub arguments: Map<String, Value>,
    /// The reason why approval is needed, as a clause: ``it may change or delete data``.
    pub why: String,
}

/// A decision about a [`PendingCall`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Decision {
    /// This call runs.
    Once,
    /// This call runs with these arguments instead of the model's. Its result tells the model which arguments
    /// were used. Arguments that do not match the schema of the tool
    /// ([`Run::check_arguments`](crate::run::Run::check_arguments)) are not used: the call does not run, and
    /// its result says why.
    OnceWith { arguments: Map<String, Value> },
    /// This call runs without further approval, and so do all later calls of the same tool in this
    /// conversation.
    Always,
    /// The call does not run. Its result contains the reason, for the model.
    No { because: Option<String> },
    /// The call does not run, because no user made a decision. Its result contains this reason, for the
    /// model.
    #[serde(rename = "nobody")]
    Unattended { why: String },
}

/// Decides about calls that need approval, usually by asking a user. A closure is an approver.
pub trait Approver: Send + Sync {
    /// Decides about one call. The calls of a step are reviewed one after another, in their order, while
    /// those that need no approval or are approved run. If the run is cancelled, the future is dropped.
    fn review<'a>(&'a self, call: &'a PendingCall) -> BoxFuture<'a, Decision>;
}

impl<F> Approver for F
where
    F: Fn(&PendingCall) -> Decision + Send + Sync,
{
    fn review<'a>(&'a self, call: &'a PendingCall) -> BoxFuture<'a, Decision> {
        Box::pin(async move { self(call) })
    }
}

impl ApprovalPolicy {
    /// Creates a policy that allows every call; for trusted tools.
    pub fn allow_all() -> ApprovalPolicy {
        ApprovalPolicy::default().otherwise(DefaultRule::Allow)
    }

    /// Allows the tools that match a pattern.
    pub fn allow(mut self, pattern: impl Into<String>) -> ApprovalPolicy {
        self.allow.push(pattern.into());
        self
    }

    /// Requires approval for the tools that match a pattern.
    pub fn ask(mut self, pattern: impl Into<String>) -> ApprovalPolicy {
        self.ask.push(pattern.into());
        self
    }

    /// Denies the tools that match a pattern.
    pub fn deny(mut self, pattern: impl Into<String>) -> ApprovalPolicy {
        self.deny.push(pattern.into());
        self
    }

    /// Sets the rule for tools in no list.
    pub fn otherwise(self, otherwise: DefaultRule) -> ApprovalPolicy {
        ApprovalPolicy { otherwise, ..self }
    }

    /// Returns the verdict about a call of this tool.
    ///
    /// An unknown tool (`None`) is allowed by [`DefaultRule::ByAnnotation`]: its call fails with a result
    /// that suggests similar tools to the model. If its server becomes available in the meantime, the tool is
    /// checked again immediately before the call
    /// ([`CallOptions::permission`](toolwire_contract::toolbox::CallOptions::permission)).
    pub fn verdict(&self, name: &str, tool: Option<&Tool>) -> Verdict {
        let find = |patterns: &[String]| {
            patterns.iter().find(|pattern| Glob::new(pattern.as_str()).matches(name)).cloned()
        };
        if let Some(pattern) = find(&self.deny) {
            return Verdict::Deny(format!("the configuration denies `{pattern}`"));
        }
        if let Some(pattern) = find(&self.ask) {
            return Verdict::Ask(format!("the configuration requires approval for `{pattern}`"));
        }
        if find(&self.allow).is_some() {
            return Verdict::Allow;
        }
        match self.otherwise {
            DefaultRule::Allow => Verdict::Allow,
            DefaultRule::Ask => Verdict::Ask("every call needs approval".to_owned()),
            DefaultRule::Deny => Verdict::Deny("the configuration does not allow it".to_owned()),
            DefaultRule::ByAnnotation => tool.map_or(Verdict::Allow, verdict_by_annotation),
        }
    }
}

fn verdict_by_annotation(tool: &Tool) -> Verdict {
    let hints = tool.hints();
    match (hints.read_only, hints.destructive) {
        (Some(true), _) | (_, Some(false)) => Verdict::Allow,
        (_, Some(true)) => Verdict::Ask("it may change or delete data".to_owned()),
        (_, None) => Verdict::Ask("it does not declare whether it changes or deletes data".to_owned()),
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

impl Decision {
    /// Creates the decision for a call that no user is present to approve.
    pub fn unattended(call: &PendingCall) -> Decision {
        Decision::Unattended { why: format!("{}, and no user is present to approve it", call.why) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(annotations: Value) -> Tool {
        serde_json::from_value(json!({"name": "f", "annotations": annotations})).expect("a valid tool")
    }

    fn name(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Allow => "allow",
            Verdict::Ask(_) => "ask",
            Verdict::Deny(_) => "deny",
        }
    }

    /// Checks the verdict of a policy, given as JSON, about a tool `f` with these annotations.
    #[track_caller]
    fn check(policy: Value, annotations: Value, expected: &str) {
        let policy: ApprovalPolicy = serde_json::from_value(policy).expect("a valid policy");
        let verdict = policy.verdict("f", Some(&tool(annotations)));
        assert_eq!(name(&verdict), expected, "{verdict:?}");
    }

    #[test]
    fn annotations_decide_about_tools_that_no_list_contains() {
        check(json!({}), json!({"readOnlyHint": true}), "allow");
        check(json!({}), json!({"readOnlyHint": true, "destructiveHint": true}), "allow");
        check(json!({}), json!({"destructiveHint": false}), "allow");
        check(json!({}), json!({"destructiveHint": true}), "ask");
        check(json!({}), json!({"readOnlyHint": false}), "ask");
        check(json!({}), json!({"readOnlyHint": "yes"}), "ask");
        check(json!({}), json!(null), "ask");
    }

    #[test]
    fn deny_has_precedence_over_ask_and_ask_over_allow() {
        let read_only = json!({"readOnlyHint": true});
        check(json!({"allow": ["*"], "ask": ["f"], "deny": ["?"]}), read_only.clone(), "deny");
        check(json!({"allow": ["f"], "ask": ["f*"]}), read_only.clone(), "ask");
        check(json!({"allow": ["f"]}), json!({"destructiveHint": true}), "allow");
        check(json!({"allow": ["g"], "ask": ["G"], "deny": ["ff"]}), read_only.clone(), "allow");
        check(json!({"otherwise": "deny"}), read_only.clone(), "deny");
        check(json!({"otherwise": "ask"}), read_only, "ask");
        check(json!({"otherwise": "allow"}), json!({"destructiveHint": true}), "allow");
    }

    #[test]
    fn a_call_of_an_unknown_tool_reaches_the_toolbox_by_default() {
        assert_eq!(ApprovalPolicy::default().verdict("f", None), Verdict::Allow);
        let policy = ApprovalPolicy::default().otherwise(DefaultRule::Ask);
        assert_eq!(name(&policy.verdict("f", None)), "ask");
    }
}
