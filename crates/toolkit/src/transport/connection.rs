//! One connection: MCP's requests, answered from a [`crate::Server`].

#![expect(deprecated, reason = "the SDK marks what MCP 2026-07-28 deprecates; older clients still use it")]

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ErrorCode, GetPromptRequestMethod, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsRequestMethod, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestMethod, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Reference, ServerConfig, SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestMethod,
    SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, Peer, RoleServer};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolwire_contract::ToolResult;

use super::caller::{Desk, End};
use super::raw::Answers;
use super::rounds::Rounds;
use super::shared::Shared;
use crate::changes::Change;
use crate::client::Level;
use crate::resources::Completing;
use crate::wire::{self, Outgoing};

type Subscribed = Arc<Mutex<HashSet<String>>>;

/// One connection; over stateless HTTP, one request.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    /// The least level of log messages that the client wants, where it says so once for all.
    level: Mutex<Level>,
    subscribed: Subscribed,
    /// Opened before a subscription is acknowledged, so that nothing is missed from then on.
    opened: Mutex<VecDeque<broadcast::Receiver<Change>>>,
    ended: CancellationToken,
    _ends: DropGuard,
}

/// So many subscriptions can be between acknowledgement and start.
const OPENED: usize = 16;

/// How many resources one client may subscribe to.
const SUBSCRIPTIONS: usize = 1024;

impl Connection {
    pub(super) fn new(shared: Arc<Shared>) -> Connection {
        let ended = CancellationToken::new();
        Connection {
            shared,
            level: Mutex::new(Level::Info),
            subscribed: Subscribed::default(),
            opened: Mutex::default(),
            _ends: ended.clone().drop_guard(),
            ended,
        }
    }

    /// A desk for a request that may lead to questions. `state` is bound to what `request` makes of it.
    fn desk(
        &self,
        context: &Arc<RequestContext<RoleServer>>,
        responses: Option<BTreeMap<String, Value>>,
        state: Option<&str>,
        request: &Bound<'_>,
    ) -> Result<Desk, ErrorData> {
        let modern = is_modern(context);
        let rounds = if modern {
            let bound = state.map(|_| request.to_bytes()).unwrap_or_default();
            let rounds = Rounds::new(responses, state, &bound, &self.shared.signature);
            let refused = |_| {
                ErrorData::invalid_params(
                    "`requestState` is not what this server gave for this request",
                    None,
                )
            };
            Some(rounds.map_err(refused)?)
        } else {
            None
        };
        let level = match modern {
            true => context.meta.log_level().map(wire::level_in),
            false => Some(*self.level.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        Ok(Desk::new(context, level, rounds, &self.shared))
    }

    /// Answers with JSON as it is. What the SDK is given then never leaves.
    fn answer(&self, context: &RequestContext<RoleServer>, mut answer: Map<String, Value>) {
        if is_modern(context) {
            answer.entry("resultType").or_insert_with(|| json!("complete"));
        }
        let answers = Answers::of(context).expect("every transport here has a place for answers");
        answers.lay(context.id.clone(), answer);
    }

    /// A list, or contents, that clients may keep for a while.
    fn keepable(&self, context: &RequestContext<RoleServer>, key: &str, value: Value) {
        let mut answer = Map::from_iter([(key.to_owned(), value)]);
        if is_modern(context) {
            let caching = self.shared.server.offers.caching;
            let keep_for = u64::try_from(caching.keep_for.as_millis()).unwrap_or(u64::MAX);
            answer.insert("ttlMs".to_owned(), json!(keep_for));
            answer.insert("cacheScope".to_owned(), json!(if caching.shared { "public" } else { "private" }));
        }
        self.answer(context, answer);
    }

    fn questions(&self, desk: &Desk, request: &Bound<'_>) -> Map<String, Value> {
        let within = self.shared.server.offers.answer_within;
        let rounds = desk.rounds().expect("only rounds end a call with questions");
        rounds.questions(&request.to_bytes(), &self.shared.signature, within)
    }

    fn hand_on_changes(&self, peer: Peer<RoleServer>) {
        let mut changes = self.shared.changes.subscribe();
        let ended = self.ended.clone();
        let subscribed = self.subscribed.clone();
        let offered = self.shared.info.capabilities.clone();
        tokio::spawn(async move {
            while let Some(news) = tokio::select! {
                news = next(&mut changes) => news,
                () = ended.cancelled() => None,
            } {
                for change in news {
                    let sent = match change {
                        Change::Tools if offered.tools.is_some() => peer.notify_tool_list_changed().await,
                        Change::Prompts if offered.prompts.is_some() => {
                            peer.notify_prompt_list_changed().await
                        }
                        Change::Resources if offered.resources.is_some() => {
                            peer.notify_resource_list_changed().await
                        }
                        Change::Resource(uri) if is_in(&subscribed, &uri) => {
                            peer.notify_resource_updated(rmcp::model::ResourceUpdatedNotificationParam::new(
                                uri,
                            ))
                            .await
                        }
                        _ => Ok(()),
                    };
                    if let Err(error) = sent {
                        tracing::debug!(%error, "a change was not handed on");
                    }
                }
            }
        });
    }
}

fn is_in(subscribed: &Subscribed, uri: &str) -> bool {
    subscribed.lock().unwrap_or_else(PoisonError::into_inner).contains(uri)
}

/// The next changes; `None` when there will be no more.
async fn next(changes: &mut broadcast::Receiver<Change>) -> Option<Vec<Change>> {
    match changes.recv().await {
        Ok(change) => Some(vec![change]),
        Err(RecvError::Lagged(_)) => Some(vec![Change::Tools, Change::Prompts, Change::Resources]),
        Err(RecvError::Closed) => None,
    }
}

/// What a `requestState` belongs to.
struct Bound<'a> {
    method: &'static str,
    name: &'a str,
    arguments: Option<&'a Map<String, Value>>,
}

impl Bound<'_> {
    fn to_bytes(&self) -> Vec<u8> {
        // The order of keys is not the client's promise.
        let arguments: Option<BTreeMap<&String, &Value>> =
            self.arguments.map(|arguments| arguments.iter().collect());
        json!([self.method, self.name, arguments]).to_string().into_bytes()
    }
}

/// Whether the request is of the era without sessions and without requests to the client.
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

fn given_up() -> ErrorData {
    ErrorData::internal_error("the request was given up", None)
}

fn panicked() -> ErrorData {
    ErrorData::internal_error("the server failed", None)
}

/// There is one page, and no cursor leads to another.
fn only_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("`cursor` is not one that this server gave", None)),
    }
}

impl ServerHandler for Connection {
    fn get_info(&self) -> ServerConfig {
        self.shared.info.clone()
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.hand_on_changes(context.peer);
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_modern(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = wire::level_in(request.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if self.shared.info.capabilities.tools.is_none() {
            return Err(ErrorData::method_not_found::<ListToolsRequestMethod>());
        }
        only_page(request)?;
        let tools = self.shared.server.tools().iter().map(wire::listed_tool).collect();
        self.keepable(&context, "tools", Value::Array(tools));
        Ok(ListToolsResult::default())
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        if let Some(tool) = self.shared.typed_tools.get(name) {
            return Some(tool.clone());
        }
        let mut boxes = self.shared.server.toolboxes.iter();
        boxes.find_map(|toolbox| toolbox.tools().iter().find(|tool| tool.name == name).map(wire::typed_tool))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let context = Arc::new(context);
        if self.shared.info.capabilities.tools.is_none() {
            return Err(ErrorData::method_not_found::<CallToolRequestMethod>());
        }
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        // Kept for the questions: the tool takes the arguments themselves.
        let kept = is_modern(&context).then(|| arguments.clone()).flatten();
        let bound = Bound { method: "tools/call", name: &name, arguments: kept.as_ref() };
        let mut desk = self.desk(&context, input_responses, request_state.as_deref(), &bound)?;
        let ours = desk.context();
        let result = match desk.run(self.shared.server.call(&name, arguments, &ours)).await {
            End::Done(Ok(result)) => result,
            End::Done(Err(error)) => wire::call_error(&error)?,
            End::Asked => {
                self.answer(&context, self.questions(&desk, &bound));
                return Ok(CallToolResult::default().into());
            }
            End::GivenUp => return Err(given_up()),
            End::Panicked => {
                tracing::error!(tool = %name, "the tool panicked");
                ToolResult::error(format!("the tool `{name}` failed unexpectedly"))
            }
        };
        if let Some(lacking) = desk.lacking().filter(|_| result.failed() && desk.is_modern()) {
            return Err(ErrorData::missing_required_client_capability(lacking));
        }
        let result = match result.needs_input() && !desk.is_modern() {
            true => ToolResult::error(format!("the tool `{name}` needs input that this client cannot give")),
            false => result,
        };
        let typed = match wire::result_out(result) {
            Outgoing::Typed(typed) => typed,
            Outgoing::Raw(raw) => {
                self.answer(&context, raw);
                CallToolResult::default()
            }
        };
        Ok(typed.into())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        if self.shared.info.capabilities.prompts.is_none() {
            return Err(ErrorData::method_not_found::<ListPromptsRequestMethod>());
        }
        only_page(request)?;
        let prompts = self.shared.server.offers.prompts.iter().map(|(prompt, _)| prompt.to_json()).collect();
        self.keepable(&context, "prompts", Value::Array(prompts));
        Ok(ListPromptsResult::default())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let context = Arc::new(context);
        if self.shared.info.capabilities.prompts.is_none() {
            return Err(ErrorData::method_not_found::<GetPromptRequestMethod>());
        }
        let GetPromptRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let mut prompts = self.shared.server.offers.prompts.iter();
        let Some((prompt, handler)) = prompts.find(|(prompt, _)| prompt.name == name) else {
            return Err(ErrorData::invalid_params(format!("unknown prompt: `{name}`"), None));
        };
        let given = arguments.clone().unwrap_or_default();
        let missing: Vec<String> = prompt
            .arguments
            .iter()
            .filter(|argument| argument.required && !given.contains_key(&argument.name))
            .map(|argument| format!("`{}`", argument.name))
            .collect();
        if !missing.is_empty() {
            let text = format!("the prompt `{name}` needs {}", missing.join(" and "));
            return Err(ErrorData::invalid_params(text, None));
        }
        let bound = Bound { method: "prompts/get", name: &name, arguments: arguments.as_ref() };
        let mut desk = self.desk(&context, input_responses, request_state.as_deref(), &bound)?;
        let ours = desk.context();
        let answer = match desk.run(handler.get(given, &ours)).await {
            End::Done(Ok(prompted)) => prompted.into_json(),
            End::Done(Err(error)) => {
                let lacking = desk.lacking().filter(|_| is_modern(&context));
                return Err(lacking.map_or_else(
                    || wire::offer_error(error),
                    ErrorData::missing_required_client_capability,
                ));
            }
            End::Asked => self.questions(&desk, &bound),
            End::GivenUp => return Err(given_up()),
            End::Panicked => return Err(panicked()),
        };
        self.answer(&context, answer);
        Ok(GetPromptResult::new(Vec::new()).into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        if self.shared.info.capabilities.resources.is_none() {
            return Err(ErrorData::method_not_found::<ListResourcesRequestMethod>());
        }
        only_page(request)?;
        let all = self.shared.server.offers.resources.iter().flat_map(|resources| resources.list());
        let listed = all.map(super::listed_resource).collect();
        self.keepable(&context, "resources", Value::Array(listed));
        Ok(ListResourcesResult::default())
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        if self.shared.info.capabilities.resources.is_none() {
            return Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>());
        }
        only_page(request)?;
        let all = self.shared.server.offers.resources.iter().flat_map(|resources| resources.templates());
        let listed = all.map(|template| template.to_json()).collect();
        self.keepable(&context, "resourceTemplates", Value::Array(listed));
        Ok(ListResourceTemplatesResult::default())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let context = Arc::new(context);
        if self.shared.info.capabilities.resources.is_none() {
            return Err(ErrorData::method_not_found::<ReadResourceRequestMethod>());
        }
        let ReadResourceRequestParams { uri, input_responses, request_state, .. } = request;
        let bound = Bound { method: "resources/read", name: &uri, arguments: None };
        let mut desk = self.desk(&context, input_responses, request_state.as_deref(), &bound)?;
        let ours = desk.context();
        let read = async {
            for resources in &self.shared.server.offers.resources {
                if let Some(contents) = resources.read(&uri, &ours).await? {
                    return Ok(Some(contents));
                }
            }
            Ok(None)
        };
        match desk.run(read).await {
            End::Done(Ok(Some(contents))) => {
                let contents = contents.into_iter().map(Value::from).collect();
                self.keepable(&context, "contents", Value::Array(contents));
            }
            End::Done(Ok(None)) => {
                let about = Some(json!({"uri": uri}));
                return Err(ErrorData::new(ErrorCode::RESOURCE_NOT_FOUND, "resource not found", about));
            }
            End::Done(Err(error)) => {
                let lacking = desk.lacking().filter(|_| is_modern(&context));
                return Err(lacking.map_or_else(
                    || wire::offer_error(error),
                    ErrorData::missing_required_client_capability,
                ));
            }
            End::Asked => {
                self.answer(&context, self.questions(&desk, &bound));
            }
            End::GivenUp => return Err(given_up()),
            End::Panicked => return Err(panicked()),
        }
        Ok(ReadResourceResult::new(Vec::new()).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        /// MCP allows no more in one answer.
        const MOST: usize = 100;
        if self.shared.info.capabilities.completions.is_none() {
            return Err(ErrorData::method_not_found::<CompleteRequestMethod>());
        }
        let others = request.context.and_then(|context| context.arguments).unwrap_or_default();
        let completing = Completing {
            argument: request.argument.name,
            value: request.argument.value,
            others: others.into_iter().collect(),
        };
        let offers = &self.shared.server.offers;
        let mut values = match request.r#ref {
            Reference::Prompt(reference) => {
                let mut prompts = offers.prompts.iter();
                let Some((_, handler)) = prompts.find(|(prompt, _)| prompt.name == reference.name) else {
                    let text = format!("unknown prompt: `{}`", reference.name);
                    return Err(ErrorData::invalid_params(text, None));
                };
                handler.complete(&completing).await
            }
            Reference::Resource(reference) => {
                let has = |template: &crate::ResourceTemplate| template.uri_template == reference.uri;
                let mut all = offers.resources.iter();
                let Some(resources) = all.find(|resources| resources.templates().iter().any(has)) else {
                    let text = format!("unknown resource template: `{}`", reference.uri);
                    return Err(ErrorData::invalid_params(text, None));
                };
                resources.complete(&reference.uri, &completing).await
            }
            _ => return Err(ErrorData::invalid_params("`ref` is of a kind that is not known here", None)),
        };
        let total = values.len();
        values.truncate(MOST);
        let completion = json!({"values": values, "total": total, "hasMore": total > MOST});
        self.answer(&context, Map::from_iter([("completion".to_owned(), completion)]));
        Ok(CompleteResult::default())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let resources = self.shared.info.capabilities.resources.as_ref();
        if resources.is_none_or(|resources| resources.subscribe.is_none()) {
            return Err(ErrorData::method_not_found::<SubscribeRequestMethod>());
        }
        let mut subscribed = self.subscribed.lock().unwrap_or_else(PoisonError::into_inner);
        if subscribed.len() >= SUBSCRIPTIONS {
            let text = format!("there are {SUBSCRIPTIONS} subscriptions already");
            return Err(ErrorData::invalid_request(text, None));
        }
        subscribed.insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let offered = &self.shared.info.capabilities;
        let can_change = [
            offered.tools.as_ref().and_then(|tools| tools.list_changed),
            offered.prompts.as_ref().and_then(|prompts| prompts.list_changed),
            offered.resources.as_ref().and_then(|resources| resources.list_changed),
        ];
        if can_change.iter().all(Option::is_none) {
            return None;
        }
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.len() < OPENED {
            opened.push_back(self.shared.changes.subscribe());
        }
        // The SDK cuts it down to what the server says it can tell.
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let mut changes = opened.unwrap_or_else(|| self.shared.changes.subscribe());
        loop {
            let news = tokio::select! {
                news = next(&mut changes) => news,
                () = context.cancelled() => None,
                () = self.shared.closing.cancelled() => None,
            };
            let Some(news) = news else { return Ok(()) };
            for change in news {
                let sink = context.sink();
                // What the client did not ask for is refused by the sink, and that is well.
                let _ = match change {
                    Change::Tools => sink.notify_tool_list_changed().await,
                    Change::Prompts => sink.notify_prompt_list_changed().await,
                    Change::Resources => sink.notify_resource_list_changed().await,
                    Change::Resource(uri) => sink.notify_resource_updated(uri).await,
                };
            }
        }
    }
}
