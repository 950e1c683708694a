//! The tools of a run, fixed at its start.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::{Map, Value};
use toolwire_contract::toolbox::{
    CallError, CallOptions, CallPermission, ToolServer, Toolbox, ToolboxDecorator,
};
use toolwire_contract::{Tool, ToolResult};

/// The tools of a toolbox as they are listed now. What the client has decided about them, such as which calls
/// need its approval, applies to these definitions: a tool that is added later is unknown, and a tool that
/// changed is not called.
pub(crate) struct FixedTools {
    tools: Arc<dyn Toolbox>,
    listed: Arc<[Tool]>,
    /// By listed name.
    origins: HashMap<String, Origin>,
}

struct Origin {
    /// The index in the list.
    index: usize,
    server: Option<ToolServer>,
    /// The name that the tool has on its server, if it differs from the listed one.
    original: Option<String>,
}

impl FixedTools {
    pub(crate) fn new(tools: Arc<dyn Toolbox>) -> FixedTools {
        let listed = tools.tools();
        let mut origins = HashMap::with_capacity(listed.len());
        for (index, tool) in listed.iter().enumerate() {
            let (server, original) = (tools.server_of(&tool.name), tools.original_name(&tool.name));
            let origin = Origin { index, server, original };
            // If several tools have the same name, a toolbox calls the first one.
            origins.entry(tool.name.clone()).or_insert(origin);
        }
        FixedTools { tools, listed, origins }
    }

    /// Returns the definition of a tool as its server lists it.
    fn definition(&self, name: &str) -> Option<Tool> {
        let Origin { index, original, .. } = self.origins.get(name)?;
        let tool = self.listed.get(*index)?.clone();
        Some(Tool { name: original.clone().unwrap_or_else(|| name.to_owned()), ..tool })
    }
}

impl ToolboxDecorator for FixedTools {
    fn inner(&self) -> &dyn Toolbox {
        &*self.tools
    }

    fn tools(&self) -> Arc<[Tool]> {
        self.listed.clone()
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        self.origins.get(tool)?.server.clone()
    }

    fn original_name(&self, tool: &str) -> Option<String> {
        self.origins.get(tool)?.original.clone()
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        None
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        mut options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let Some(definition) = self.definition(tool) else {
                let missing = self.tools.missing_servers();
                return Err(CallError::UnknownTool { tool: tool.to_owned(), nearest: Vec::new(), missing });
            };
            let permission = options.permission.take();
            let is_permitted: Arc<CallPermission> =
                Arc::new(move |current| match is_same(current, &definition) {
                    true => permission.as_ref().map_or(Ok(()), |permission| permission(current)),
                    false => Err("its definition changed after the request had started".to_owned()),
                });
            options.permission = Some(is_permitted);
            self.tools.call(tool, arguments, options).await
        })
    }
}

/// Whether two definitions mean the same to a client that approves calls and to the model. Other fields, such
/// as `_meta` and `icons`, may change with each list.
fn is_same(one: &Tool, other: &Tool) -> bool {
    let meaning = |tool: &Tool| Tool { extra: Map::new(), ..tool.clone() };
    meaning(one) == meaning(other)
}
