//! The tools that a key may use: the only place where its rights about tools are enforced.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use serde_json::Value;
use toolwire_agent::approval::ApprovalPolicy;
use toolwire_contract::keys::{KeyRights, ToolRule};
use toolwire_contract::toolbox::{
    CallError, CallOptions, CallPermission, MissingServer, ToolServer, Toolbox, ToolboxDecorator,
};
use toolwire_contract::{Tool, ToolResult};

/// The maximum number of different rights whose tools are cached.
const MAX_RIGHTS: usize = 256;

/// The tools of each combination of rights, so that their lists are computed once.
#[derive(Default)]
pub(crate) struct PermittedToolboxes(Mutex<HashMap<Arc<KeyRights>, Arc<dyn Toolbox>>>);

impl PermittedToolboxes {
    /// Returns the part of a toolbox that a key may use. It is always called with the same toolbox.
    pub(crate) fn of(&self, tools: &Arc<dyn Toolbox>, rights: &Arc<KeyRights>) -> Arc<dyn Toolbox> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(permitted) = known.get(rights) {
            return permitted.clone();
        }
        if known.len() >= MAX_RIGHTS {
            known.clear();
        }
        let permitted = permitted(tools, rights);
        known.insert(rights.clone(), permitted.clone());
        permitted
    }
}

/// Returns the part of a toolbox that a key may use.
pub(crate) fn permitted(tools: &Arc<dyn Toolbox>, rights: &Arc<KeyRights>) -> Arc<dyn Toolbox> {
    if rights.permits_all_tools() {
        return tools.clone();
    }
    let (tools, rights) = (tools.clone(), rights.clone());
    Arc::new(PermittedTools { tools, rights, listed: Mutex::default() })
}

/// Adds the rules of a key to a policy: the lists of both apply.
pub(crate) fn add_rules(policy: &mut ApprovalPolicy, tools: &dyn Toolbox, rights: &KeyRights) {
    if rights.allow.is_empty() && rights.ask.is_empty() {
        return;
    }
    for tool in tools.tools().iter() {
        let (server, original) = origin(tools, tool);
        match rights.rule(server.as_deref(), tool, &original) {
            Some(ToolRule::Allow) => policy.allow.push(tool.name.clone()),
            Some(ToolRule::Ask) => policy.ask.push(tool.name.clone()),
            Some(ToolRule::Deny) => policy.deny.push(tool.name.clone()),
            None => {}
        }
    }
}

/// Returns the server of a tool, and the tool's name there.
fn origin(tools: &dyn Toolbox, tool: &Tool) -> (Option<String>, String) {
    let server = tools.server_of(&tool.name).map(|server| server.name);
    let original = tools.original_name(&tool.name).unwrap_or_else(|| tool.name.clone());
    (server, original)
}

/// The permitted tools. The others are not listed, and calling them fails as if they did not exist.
struct PermittedTools {
    tools: Arc<dyn Toolbox>,
    rights: Arc<KeyRights>,
    listed: Mutex<Listed>,
}

#[derive(Default)]
struct Listed {
    /// The complete list of tools from which this list was created.
    source: Option<Arc<[Tool]>>,
    tools: Arc<[Tool]>,
    names: HashSet<String>,
}

impl PermittedTools {
    /// Calls a function with the list, which is updated first if the complete list changed.
    fn with_list<T>(&self, use_list: impl FnOnce(&Listed) -> T) -> T {
        let source = self.tools.tools();
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if !listed.source.as_ref().is_some_and(|known| Arc::ptr_eq(known, &source)) {
            let is_permitted = |tool: &&Tool| {
                let (server, original) = origin(&*self.tools, tool);
                self.rights.permits_tool(server.as_deref(), tool, &original)
            };
            let tools: Arc<[Tool]> = source.iter().filter(is_permitted).cloned().collect();
            let names = tools.iter().map(|tool| tool.name.clone()).collect();
            *listed = Listed { source: Some(source), tools, names };
        }
        use_list(&listed)
    }

    fn permits(&self, name: &str) -> bool {
        self.with_list(|listed| listed.names.contains(name))
    }

    /// Returns a check of the tool as its server lists it when it is called: its annotations may have
    /// changed.
    fn permission(&self, name: &str, inner: Option<Arc<CallPermission>>) -> Arc<CallPermission> {
        let rights = self.rights.clone();
        let server = self.tools.server_of(name).map(|server| server.name);
        let original = self.tools.original_name(name).unwrap_or_else(|| name.to_owned());
        let name = name.to_owned();
        Arc::new(move |tool| {
            let listed = Tool { name: name.clone(), ..tool.clone() };
            if !rights.permits_tool(server.as_deref(), &listed, &original) {
                return Err("this key may not call it".to_owned());
            }
            inner.as_ref().map_or(Ok(()), |inner| inner(tool))
        })
    }
}

impl ToolboxDecorator for PermittedTools {
    fn inner(&self) -> &dyn Toolbox {
        &*self.tools
    }

    fn tools(&self) -> Arc<[Tool]> {
        self.with_list(|listed| listed.tools.clone())
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        self.permits(tool).then(|| self.tools.server_of(tool)).flatten()
    }

    fn original_name(&self, tool: &str) -> Option<String> {
        self.permits(tool).then(|| self.tools.original_name(tool)).flatten()
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        let mut missing = self.tools.missing_servers();
        missing.retain(|missing| self.rights.permits_server(&missing.server));
        missing
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        mut options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            if !self.permits(tool) {
                let missing = Toolbox::missing_servers(self);
                return Err(CallError::UnknownTool { tool: tool.to_owned(), nearest: Vec::new(), missing });
            }
            options.permission = Some(self.permission(tool, options.permission.take()));
            self.tools.call(tool, arguments, options).await
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwire_agent::Functions;

    use super::*;

    fn tools() -> Arc<dyn Toolbox> {
        let tool = |name: &str, annotations: Value| {
            let schema = json!({"type": "object"});
            let tool = json!({"name": name, "inputSchema": schema, "annotations": annotations});
            Tool::try_from(tool).expect("a tool")
        };
        let functions = ["read", "write"].into_iter().fold(Functions::new(), |functions, name| {
            let tool = tool(name, json!({"readOnlyHint": name == "read"}));
            functions.with(tool, |_| async { Ok::<_, String>("done") })
        });
        Arc::new(functions)
    }

    fn names(tools: &dyn Toolbox) -> Vec<String> {
        tools.tools().iter().map(|tool| tool.name.clone()).collect()
    }

    #[tokio::test]
    async fn other_tools_do_not_exist() {
        let all = tools();
        let rights = Arc::new(KeyRights { deny: vec!["hint:writes".to_owned()], ..KeyRights::default() });
        let permitted = permitted(&all, &rights);
        assert_eq!(names(&*permitted), ["read"]);
        let call = async |name: &str| permitted.call(name, &json!({}), CallOptions::default()).await;
        assert!(call("read").await.is_ok());
        assert!(matches!(call("write").await, Err(CallError::UnknownTool { .. })));
    }

    #[test]
    fn rules_are_added_to_the_policy() {
        let rights = KeyRights {
            allow: vec!["write".to_owned()],
            ask: vec!["hint:readOnly".to_owned()],
            ..KeyRights::default()
        };
        let mut policy = ApprovalPolicy::default().deny("x");
        add_rules(&mut policy, &*tools(), &rights);
        assert_eq!(policy, ApprovalPolicy::default().deny("x").ask("read").allow("write"));
    }
}
