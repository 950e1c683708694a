//! The tools that a client of `/mcp` may use: those of its key, without those that the rules deny.
//!
//! MCP leaves approval to the client, which shows each call to its user. Only explicit rules apply here: a
//! tool that they deny does not exist, and a call that they require approval for is refused.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures::future::BoxFuture;
use serde_json::Value;
use toolwire_agent::approval::{ApprovalPolicy, DefaultRule, Verdict};
use toolwire_agent::search::ToolIndex;
use toolwire_contract::keys::KeyRights;
use toolwire_contract::toolbox::{
    CallError, CallOptions, CallPermission, ToolServer, Toolbox, ToolboxDecorator,
};
use toolwire_contract::{Tool, ToolResult};

use crate::metrics::{Metrics, OTHER, ToolOutcome};
use crate::permitted_tools::add_rules;

/// The maximum number of different rights whose tools are cached.
const MAX_RIGHTS: usize = 256;

/// The tools of each combination of rights, so that their lists are computed once.
#[derive(Default)]
pub(crate) struct McpToolboxes(Mutex<HashMap<Option<Arc<KeyRights>>, Arc<McpTools>>>);

impl McpToolboxes {
    pub(crate) fn of(
        &self,
        rights: Option<&Arc<KeyRights>>,
        new: impl FnOnce() -> McpTools,
    ) -> Arc<McpTools> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rights = rights.cloned();
        if let Some(tools) = known.get(&rights) {
            return tools.clone();
        }
        if known.len() >= MAX_RIGHTS {
            known.clear();
        }
        known.entry(rights).or_insert_with(|| Arc::new(new())).clone()
    }
}

pub(crate) struct McpTools {
    tools: Arc<dyn Toolbox>,
    /// The rules of the configuration.
    policy: ApprovalPolicy,
    /// The rules of the key.
    rights: Option<Arc<KeyRights>>,
    metrics: Metrics,
    listed: Mutex<Listed>,
}

#[derive(Default)]
struct Listed {
    /// The complete list of tools from which this list was created.
    source: Option<Arc<[Tool]>>,
    tools: Arc<[Tool]>,
    names: HashSet<String>,
    /// The rules of the configuration and of the key.
    policy: Arc<ApprovalPolicy>,
    /// Created by the first search.
    index: Option<Arc<ToolIndex>>,
}

impl McpTools {
    pub(crate) fn new(
        tools: Arc<dyn Toolbox>,
        mut policy: ApprovalPolicy,
        rights: Option<Arc<KeyRights>>,
        metrics: Metrics,
    ) -> McpTools {
        // The client approves calls, so the annotations are for the client.
        if policy.otherwise == DefaultRule::ByAnnotation {
            policy.otherwise = DefaultRule::Allow;
        }
        McpTools { tools, policy, rights, metrics, listed: Mutex::default() }
    }

    /// Calls a function with the list, which is updated first if the complete list changed.
    fn with_list<T>(&self, use_list: impl FnOnce(&mut Listed) -> T) -> T {
        let source = self.tools.tools();
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if !listed.source.as_ref().is_some_and(|known| Arc::ptr_eq(known, &source)) {
            let mut policy = self.policy.clone();
            if let Some(rights) = &self.rights {
                add_rules(&mut policy, &*self.tools, rights);
            }
            let is_denied = |tool: &Tool| matches!(policy.verdict(&tool.name, Some(tool)), Verdict::Deny(_));
            let tools: Arc<[Tool]> = match source.iter().any(is_denied) {
                true => source.iter().filter(|tool| !is_denied(tool)).cloned().collect(),
                false => source.clone(),
            };
            let names = tools.iter().map(|tool| tool.name.clone()).collect();
            *listed = Listed { source: Some(source), tools, names, policy: Arc::new(policy), index: None };
        }
        use_list(&mut listed)
    }

    /// Returns an index of the listed tools.
    pub(crate) fn index(&self) -> Arc<ToolIndex> {
        self.with_list(|listed| {
            let new = || {
                let servers: Vec<Option<ToolServer>> =
                    listed.tools.iter().map(|tool| self.tools.server_of(&tool.name)).collect();
                Arc::new(ToolIndex::with_servers(listed.tools.clone(), &servers))
            };
            listed.index.get_or_insert_with(new).clone()
        })
    }

    fn is_listed(&self, name: &str) -> bool {
        self.with_list(|listed| listed.names.contains(name))
    }

    /// Returns a check of the tool as its server lists it when it is called.
    fn permission(&self, name: &str, inner: Option<Arc<CallPermission>>) -> Arc<CallPermission> {
        let policy = self.with_list(|listed| listed.policy.clone());
        let name = name.to_owned();
        Arc::new(move |tool| {
            match policy.verdict(&name, Some(tool)) {
                Verdict::Allow => {}
                Verdict::Ask(why) => return Err(format!("{why}, and it cannot be approved here")),
                Verdict::Deny(why) => return Err(why),
            }
            inner.as_ref().map_or(Ok(()), |inner| inner(tool))
        })
    }

    fn measure(&self, tool: &str, outcome: &Result<ToolResult, CallError>, start: Instant) {
        let outcome = match outcome {
            Ok(result) if !result.is_error() => ToolOutcome::Ok,
            Err(
                CallError::UnknownTool { .. }
                | CallError::InvalidArguments { .. }
                | CallError::NotPermitted { .. }
                | CallError::Blocked { .. },
            ) => ToolOutcome::NotMade,
            _ => ToolOutcome::Failed,
        };
        match Toolbox::server_of(self, tool) {
            Some(server) => {
                let original = Toolbox::original_name(self, tool);
                let name = original.as_deref().unwrap_or(tool);
                self.metrics.record_call(&server.name, name, outcome, Some(start.elapsed()));
            }
            None => self.metrics.record_call("", OTHER, outcome, None),
        }
    }
}

impl ToolboxDecorator for McpTools {
    fn inner(&self) -> &dyn Toolbox {
        &*self.tools
    }

    fn tools(&self) -> Arc<[Tool]> {
        self.with_list(|listed| listed.tools.clone())
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        self.is_listed(tool).then(|| self.tools.server_of(tool)).flatten()
    }

    fn original_name(&self, tool: &str) -> Option<String> {
        self.is_listed(tool).then(|| self.tools.original_name(tool)).flatten()
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        mut options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let start = Instant::now();
            let outcome = if self.is_listed(tool) {
                options.permission = Some(self.permission(tool, options.permission.take()));
                self.tools.call(tool, arguments, options).await
            } else {
                let missing = self.tools.missing_servers();
                Err(CallError::UnknownTool { tool: tool.to_owned(), nearest: Vec::new(), missing })
            };
            self.measure(tool, &outcome, start);
            outcome
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwire_agent::Functions;

    use super::*;

    fn tools(policy: ApprovalPolicy, rights: Option<KeyRights>) -> McpTools {
        let functions = ["read", "write", "drop"].into_iter().fold(Functions::new(), |functions, name| {
            functions.with(Tool::new(name, json!({"type": "object"})), |_| async { Ok::<_, String>("done") })
        });
        McpTools::new(Arc::new(functions), policy, rights.map(Arc::new), Metrics::default())
    }

    async fn codes(tools: &McpTools) -> Vec<(String, &'static str)> {
        let mut codes = Vec::new();
        for name in ["read", "write", "drop"] {
            let outcome = Toolbox::call(tools, name, &json!({}), CallOptions::default()).await;
            codes.push((name.to_owned(), outcome.map_or_else(|error| error.code(), |_| "ok")));
        }
        codes
    }

    #[track_caller]
    fn check(tools: &McpTools, listed: &[&str]) {
        let names: Vec<String> = Toolbox::tools(tools).iter().map(|tool| tool.name.clone()).collect();
        assert_eq!(names, listed);
    }

    #[tokio::test]
    async fn the_client_approves_calls_unless_a_rule_says_otherwise() {
        let all = tools(ApprovalPolicy::default(), None);
        check(&all, &["read", "write", "drop"]);
        assert!(codes(&all).await.iter().all(|(_, code)| *code == "ok"));
        let policy = ApprovalPolicy::default().deny("dr*").ask("write");
        let ruled = tools(policy, None);
        check(&ruled, &["read", "write"]);
        let expected = [("read", "ok"), ("write", "not_permitted"), ("drop", "unknown_tool")];
        assert_eq!(codes(&ruled).await, expected.map(|(name, code)| (name.to_owned(), code)));
    }

    #[tokio::test]
    async fn the_rules_of_a_key_apply_too() {
        let rights = KeyRights { ask: vec!["read".to_owned()], ..KeyRights::default() };
        let ruled = tools(ApprovalPolicy::default().deny("write"), Some(rights));
        check(&ruled, &["read", "drop"]);
        let expected = [("read", "not_permitted"), ("write", "unknown_tool"), ("drop", "ok")];
        assert_eq!(codes(&ruled).await, expected.map(|(name, code)| (name.to_owned(), code)));
        let none = tools(ApprovalPolicy::default().otherwise(DefaultRule::Deny).allow("drop"), None);
        check(&none, &["drop"]);
    }
}
