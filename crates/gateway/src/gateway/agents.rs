//! Agents with a model and selected tools. They are kept, so that their catalogs are computed once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use toolwire_agent::{Agent, Unattended};
use toolwire_contract::keys::KeyRights;
use toolwire_contract::toolbox::Toolbox;
use toolwire_dialect::Dialect;
use toolwire_dialect::client::ErrorKind;

use super::Inner;
use crate::catalog::ServedModel;
use crate::principal::Principal;
use crate::response::Failure;
use crate::tools::{ToolSelection, select};

/// The maximum number of cached agents, one per model and selection of tools. Above it, the cache is emptied.
const MAX_AGENTS: usize = 256;
const MAX_AGENT_BYTES: usize = 64 * 1024 * 1024;

/// The cached agents, and an estimate of the memory of each.
#[derive(Default)]
pub(crate) struct Agents(Mutex<BTreeMap<AgentKey, (Agent, usize)>>);

/// The properties that determine an agent: the model, the API through which it is used, the selected tools,
/// and the rights of the key.
type AgentKey = (String, Option<Dialect>, ToolSelection, Option<Arc<KeyRights>>);

impl Agents {
    fn get(&self, key: &AgentKey) -> Option<Agent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).map(|(agent, _)| agent.clone())
    }

    fn insert(&self, key: AgentKey, agent: Agent) {
        let bytes = key.2.bytes(&**agent.tools());
        let mut agents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = agents.values().map(|(_, bytes)| bytes).sum();
        if agents.len() >= MAX_AGENTS || total + bytes > MAX_AGENT_BYTES {
            agents.clear();
        }
        // A selection that exceeds the limit alone is not cached.
        if bytes <= MAX_AGENT_BYTES {
            agents.insert(key, (agent, bytes));
        }
    }
}

impl Inner {
    /// Returns an agent with a model and the selected tools.
    pub(crate) fn agent(
        &self,
        principal: &Principal,
        served: &ServedModel,
        selection: ToolSelection,
    ) -> Result<Agent, Failure> {
        let rights = principal.tool_rights().cloned();
        let key = (served.model.name().to_owned(), served.dialect, selection, rights);
        let of_user = self.user_tools(principal);
        let agents = of_user.as_ref().map_or(&self.agents, |tools| &tools.agents);
        if let Some(agent) = agents.get(&key) {
            return Ok(agent);
        }
        let agent = self.new_agent(served, &key.2, &self.tools_for(principal))?;
        agents.insert(key, agent.clone());
        Ok(agent)
    }

    /// Creates an agent with a model and the selected part of these tools.
    pub(crate) fn new_agent(
        &self,
        served: &ServedModel,
        selection: &ToolSelection,
        tools: &Arc<dyn Toolbox>,
    ) -> Result<Agent, Failure> {
        let tools = select(tools, selection.clone());
        let unattended = if selection.can_approve { Unattended::Pause } else { Unattended::Refuse };
        let agent = Agent::builder().settings(self.settings.agent.clone()).model(served.model.clone());
        let agent = agent.unattended(unattended).tools(tools);
        agent.build().map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))
    }
}
