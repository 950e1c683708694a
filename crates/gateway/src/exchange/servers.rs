//! What a response shows of the servers: their tools, their calls, and which of them are unavailable.

use toolwire_contract::{Tool, ToolResult};
use toolwire_dialect::client::{ClientEvent, ServerCall};

use super::Exchange;
use crate::tools::HostedFilter;

impl Exchange {
    /// Uses the client's labels for servers, and lists the tools of the servers that the history does not
    /// list yet.
    pub(crate) fn with_servers(
        mut self,
        servers: Vec<HostedFilter>,
        listed: &[String],
        unavailable: Vec<(String, String)>,
    ) -> Exchange {
        self.owns_tools = servers.iter().any(|filter| filter.is_url);
        let tools = self.agent.tools();
        for HostedFilter { server, label, .. } in servers {
            let is_listed = listed.contains(&label) || self.labels.contains_key(&server);
            self.labels.insert(server.clone(), label.clone());
            if is_listed || unavailable.iter().any(|(unavailable, _)| *unavailable == label) {
                continue;
            }
            let is_of_server =
                |tool: &&Tool| tools.server_of(&tool.name).is_some_and(|found| found.name == server);
            let original = |tool: &Tool| Tool {
                name: tools.original_name(&tool.name).unwrap_or_else(|| tool.name.clone()),
                ..tool.clone()
            };
            let entries: Vec<Tool> = tools.tools().iter().filter(is_of_server).map(original).collect();
            self.ready.push_back(ClientEvent::ServerTools { server: label, tools: entries.into() });
        }
        self.unavailable = unavailable.iter().map(|(label, _)| label.clone()).collect();
        let event = |(server, reason)| ClientEvent::ServerUnavailable { server, reason };
        self.ready.extend(unavailable.into_iter().map(event));
        self
    }

    /// Returns the servers whose tools the request may use, and that are unavailable now.
    pub(crate) fn unavailable_servers(&self) -> Vec<String> {
        let mut names = self.unavailable.clone();
        for missing in self.agent.tools().missing_servers() {
            let name = self.label(missing.server);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Shows a call of a server's tool, with its result.
    pub(super) fn show_call(&mut self, id: &str, name: &str, result: ToolResult) {
        // Tools of the agent itself, such as the search, belong to no server.
        let Some(server) = self.agent.tools().server_of(name) else { return };
        let call = ServerCall {
            server: self.label(server.name),
            name: self.agent.tools().original_name(name).unwrap_or_else(|| name.to_owned()),
            arguments: self.arguments.remove(id).unwrap_or_default(),
            result,
            approval_id: self.continued.as_ref().and_then(|continued| continued.approval_of(id)),
        };
        self.emit(ClientEvent::ServerCall(call));
    }

    /// Returns the client's label of a server, or else its name.
    pub(super) fn label(&self, server: String) -> String {
        self.labels.get(&server).cloned().unwrap_or(server)
    }
}
