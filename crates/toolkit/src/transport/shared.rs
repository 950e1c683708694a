//! State shared by all connections of a server.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use rmcp::model::{
    Implementation, JsonObject, PromptsCapability, ProtocolVersion, RequestStateCodec, ResourcesCapability,
    ServerCapabilities, ServerConfig, TASKS_EXTENSION_ID, ToolsCapability,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwire_contract::offers::OfferChange;

use super::ServeError;
use super::parked::ParkedCalls;
use super::tasks::Tasks;
use crate::changes::Changes;
use crate::server::Server;
use crate::wire;

/// State shared by all connections of a server.
pub(crate) struct Shared {
    pub(super) server: Server,
    pub(super) info: ServerConfig,
    /// The tools that the SDK compares with request headers.
    pub(super) typed_tools: HashMap<String, rmcp::model::Tool>,
    pub(super) signature: RequestStateCodec,
    /// Signs what belongs to other servers: the ids of their tasks, and the states of their questions.
    pub(super) foreign_signature: RequestStateCodec,
    pub(super) changes: Changes,
    pub(super) tasks: Tasks,
    /// The calls of toolboxes that wait for replies of their clients.
    pub(super) parked: ParkedCalls,
    /// Counts running calls.
    pub(super) running_calls: TaskTracker,
    /// Ends the streams of clients that listen for changes.
    pub(super) closing: CancellationToken,
    /// Cancels running calls.
    pub(super) abandoned: CancellationToken,
    /// The tasks that forward the changes of toolboxes. They are aborted on drop.
    _forwarding: JoinSet<()>,
}

impl Shared {
    pub(super) fn new(server: Server) -> Result<Arc<Shared>, ServeError> {
        let changes = server.offers.changes.clone().unwrap_or_default();
        let mut forwarding = JoinSet::new();
        let mut tools_change = server.offers.changes.is_some();
        for mut news in server.toolboxes.iter().filter_map(|toolbox| toolbox.changes()) {
            tools_change = true;
            let changes = changes.clone();
            forwarding.spawn(async move {
                while news.next().await.is_some() {
                    changes.tools();
                }
            });
        }
        if let Some(foreign) = &server.offers.foreign {
            let (mut news, changes) = (foreign.changes(), changes.clone());
            forwarding.spawn(async move {
                while let Some(change) = news.next().await {
                    match change {
                        OfferChange::Prompts => changes.prompts(),
                        OfferChange::Resources => changes.resources(),
                        OfferChange::Resource(uri) => changes.resource(uri),
                        _ => {}
                    }
                }
            });
        }
        let request_signature = signature(server.offers.request_state_key.as_ref())?;
        let foreign_signature = signature(server.offers.foreign_key.as_ref())?;
        let abandoned = CancellationToken::new();
        let tasks = Tasks::new(server.offers.tasks.clone(), abandoned.child_token());
        Ok(Arc::new(Shared {
            info: info(&server, tools_change),
            typed_tools: server
                .registered()
                .iter()
                .map(|each| (each.tool.name.clone(), wire::typed_tool(&each.tool)))
                .collect(),
            server,
            signature: request_signature,
            foreign_signature,
            changes,
            tasks,
            parked: ParkedCalls::default(),
            running_calls: TaskTracker::new(),
            closing: CancellationToken::new(),
            abandoned,
            _forwarding: forwarding,
        }))
    }
}

/// Returns a signature with this key, or with a random one.
fn signature(key: Option<&Vec<u8>>) -> Result<RequestStateCodec, ServeError> {
    let key = match key {
        Some(key) => key.clone(),
        None => {
            let mut key = vec![0; 32];
            getrandom::fill(&mut key).map_err(|error| ServeError::NoRandomness(error.to_string()))?;
            key
        }
    };
    Ok(RequestStateCodec::try_new(key).expect("the builder rejects short keys"))
}

fn info(server: &Server, tools_change: bool) -> ServerConfig {
    let offers = &server.offers;
    let has_foreign = offers.foreign.is_some();
    let others_change = offers.changes.is_some() || has_foreign;
    let mut capabilities = ServerCapabilities::default();
    capabilities.logging = Some(JsonObject::new());
    if !server.registered().is_empty() || !server.toolboxes.is_empty() {
        let mut tools = ToolsCapability::default();
        tools.list_changed = tools_change.then_some(true);
        capabilities.tools = Some(tools);
    }
    let has_tasks = server.registered().iter().any(|each| each.handler.task_support().is_some());
    if has_tasks || has_foreign {
        let extensions = capabilities.extensions.get_or_insert_default();
        extensions.insert(TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
    }
    if !offers.prompts.is_empty() || has_foreign {
        let mut prompts = PromptsCapability::default();
        prompts.list_changed = others_change.then_some(true);
        capabilities.prompts = Some(prompts);
    }
    if !offers.resources.is_empty() || has_foreign {
        let mut resources = ResourcesCapability::default();
        resources.list_changed = others_change.then_some(true);
        resources.subscribe = others_change.then_some(true);
        capabilities.resources = Some(resources);
    }
    if !offers.prompts.is_empty() || !offers.resources.is_empty() || has_foreign {
        capabilities.completions = Some(JsonObject::new());
    }
    let mut info = ServerConfig::new(capabilities)
        .with_server_info(Implementation::new(server.name.clone(), server.version.clone()))
        // The newest revision with a handshake, offered to clients that request an unknown one.
        .with_protocol_version(ProtocolVersion::V_2025_11_25);
    info.instructions = server.instructions.clone();
    info
}
