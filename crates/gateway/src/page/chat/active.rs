//! The conversations that this process works on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwire_agent::run::Run;
use toolwire_agent::{Agent, Unattended};
use toolwire_contract::Message;
use toolwire_contract::conversations::{Conversation, ConversationId, StoreError};

use super::super::Context;
use super::super::events::Event;
use super::super::failure::PageFailure;
use super::answer::PageQuestions;
use super::engine::{CallDecision, Engine};
use super::live::LiveChat;
use super::saved::{RunStorage, SavedRuns};
use super::uploads::Uploads;
use super::view;
use crate::ids::random_id;
use crate::meter::{Estimate, RunMeter};
use crate::permitted_tools::add_rules;
use crate::traffic::RunRecorder;

/// The maximum number of decisions that a run has not used yet. A call accepts only one decision.
const MAX_DECISIONS: usize = 256;

/// The maximum number of cached agents.
const MAX_AGENTS: usize = 64;

/// The maximum number of conversations in memory. Above it, those without a response in progress are removed;
/// their messages stay in the store.
const MAX_ENDED: usize = 32;

/// The state of the chat view.
pub(in crate::page) struct Chats {
    active: Arc<ActiveChats>,
    /// Agents with the tools of all visitors, by model, so that their catalogs are computed once.
    agents: Mutex<HashMap<String, Agent>>,
    pub(super) uploads: Uploads,
    saved: Arc<SavedRuns>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// The conversations that this process works on, or has worked on.
#[derive(Default)]
pub(super) struct ActiveChats(Mutex<HashMap<ConversationId, Arc<ActiveChat>>>);

impl ActiveChats {
    fn map(&self) -> MutexGuard<'_, HashMap<ConversationId, Arc<ActiveChat>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, id: &ConversationId) -> Option<Arc<ActiveChat>> {
        self.map().get(id).cloned()
    }
}

/// A conversation that this process works on, or has worked on.
pub(super) struct ActiveChat {
    live: Mutex<LiveChat>,
    control: Mutex<Control>,
}

/// The channels through which requests control a run.
struct Control {
    stop: CancellationToken,
    /// Cancelled when the response has ended.
    ended: CancellationToken,
    decisions: Option<mpsc::Sender<CallDecision>>,
    /// The user whose accounts the tools of the run may use.
    user: Option<String>,
}

impl ActiveChat {
    pub(super) fn lock(&self) -> MutexGuard<'_, LiveChat> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the response, if there is one. Returns a token that is cancelled when it has ended.
    pub(super) fn stop(&self) -> CancellationToken {
        let control = self.control();
        control.stop.cancel();
        control.ended.clone()
    }

    /// Returns an error if the tools of the run may use accounts of another user.
    pub(super) fn check_user(&self, context: &Context<'_>) -> Result<(), PageFailure> {
        let user = self.control().user.clone();
        let is_own = user.is_none_or(|user| user == context.principal.server_user().id);
        if is_own || context.inner.user_tools(&context.principal).is_none() {
            return Ok(());
        }
        Err(PageFailure::forbidden(
            "the tools of this response may use the accounts of another key",
            "sign in with the key that started the response",
        ))
    }

    /// Passes a decision to the run. Returns whether there is one.
    pub(super) fn decide(&self, decided: CallDecision) -> bool {
        let control = self.control();
        control.decisions.as_ref().is_some_and(|decisions| decisions.try_send(decided).is_ok())
    }
}

impl Chats {
    /// Creates the state. Runs that wait for decisions are saved in the storage, if there is one.
    pub(in crate::page) fn new(storage: Option<Arc<dyn RunStorage>>) -> Chats {
        Chats {
            active: Arc::default(),
            agents: Mutex::default(),
            uploads: Uploads::default(),
            saved: Arc::new(SavedRuns::new(storage)),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Stops all responses and waits until what they wrote is stored. Runs that wait for decisions stay
    /// saved.
    pub(in crate::page) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Returns the state of a conversation, if this process works or has worked on it.
    pub(super) fn find(&self, id: &ConversationId) -> Option<Arc<ActiveChat>> {
        self.active.find(id)
    }

    /// Whether calls of a conversation wait for decisions, also if their run was saved by another process.
    pub(super) fn is_saved(&self, id: &ConversationId) -> bool {
        self.saved.contains(id)
    }

    /// Removes the state of a conversation.
    pub(super) async fn forget(&self, id: &ConversationId) {
        let active = self.active.map().remove(id);
        if let Some(active) = active {
            active.stop();
        }
        self.saved.remove(id).await;
    }

    /// Returns an agent for a conversation. The calls of its tools are attributed to the caller.
    fn agent(
        &self,
        context: &Context<'_>,
        conversation: &ConversationId,
        model: &str,
    ) -> Result<Agent, PageFailure> {
        let agent = self.shared_agent(context, model)?;
        let attributed =
            context.inner.attributed(&context.tools, &context.principal, &format!("chat_{conversation}"));
        Ok(match attributed {
            Some(attributed) => agent.with_tools(attributed),
            None => agent,
        })
    }

    fn shared_agent(&self, context: &Context<'_>, model: &str) -> Result<Agent, PageFailure> {
        let served = context.inner.find_model(&context.principal, model)?;
        let rights = context.principal.tool_rights();
        // The tools of such an agent are not those of all visitors.
        let has_own_tools = rights.is_some() || context.inner.user_tools(&context.principal).is_some();
        if !has_own_tools
            && let Some(agent) = self.agents.lock().unwrap_or_else(PoisonError::into_inner).get(model)
        {
            return Ok(agent.clone());
        }
        let mut settings = context.inner.settings.agent.clone();
        if let Some(rights) = rights {
            add_rules(&mut settings.approvals, &*context.tools, rights);
        }
        let agent = Agent::builder()
            .settings(settings)
            .model(served.model)
            .tools(context.tools.clone())
            .conversations(context.page.parts.conversations.clone())
            .unattended(Unattended::Pause)
            .elicitation(Arc::new(PageQuestions(Arc::downgrade(&self.active))));
        let agent = agent.build().map_err(|error| PageFailure::invalid(error.to_string()))?;
        if has_own_tools {
            return Ok(agent);
        }
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        if agents.len() >= MAX_AGENTS {
            agents.clear();
        }
        agents.insert(model.to_owned(), agent.clone());
        Ok(agent)
    }

    /// Returns the state of a conversation, which is created if this process has not worked on it.
    fn find_or_create(&self, context: &Context<'_>, conversation: &Conversation) -> Arc<ActiveChat> {
        let mut map = self.active.map();
        if map.len() >= MAX_ENDED {
            map.retain(|_, active| active.lock().is_busy());
        }
        let new = || {
            let live = LiveChat::new(
                conversation.id.to_string(),
                conversation.title.clone(),
                context.page.events.clone(),
                context.tools.clone(),
                context.inner.settings.agent.approvals.clone(),
            );
            let ended = CancellationToken::new();
            // There is no response yet.
            ended.cancel();
            let control = Control { stop: CancellationToken::new(), ended, decisions: None, user: None };
            Arc::new(ActiveChat { live: Mutex::new(live), control: Mutex::new(control) })
        };
        map.entry(conversation.id.clone()).or_insert_with(new).clone()
    }

    /// Prepares a response: to a new message, or to the messages that are stored already. The result must be
    /// passed to [`Chats::spawn`] at once.
    pub(super) async fn start(
        &self,
        context: &Context<'_>,
        conversation: &Conversation,
        model: &str,
        message: Option<Message>,
    ) -> Result<Started, PageFailure> {
        let agent = self.agent(context, &conversation.id, model)?;
        let active = self.find_or_create(context, conversation);
        let always = active.lock().always().to_vec();
        if active.lock().is_busy() || self.is_saved(&conversation.id) {
            return Err(PageFailure::new(
                http::StatusCode::CONFLICT,
                "Not possible now",
                "a response is in progress in this chat",
            )
            .with_hint("wait for its end, or stop it"));
        }
        // The tools of servers that are starting are offered too, if they start soon.
        let starting: Vec<String> = context
            .tools
            .missing_servers()
            .into_iter()
            .filter(|server| server.is_starting)
            .map(|server| server.server)
            .collect();
        if !starting.is_empty() {
            let timeout = context.inner.settings.limits.server_start_timeout;
            // After that, the run starts without them.
            let _ = tokio::time::timeout(timeout, context.tools.started(&starting)).await;
        }
        let inner = context.inner;
        let request = random_id("chat_").unwrap_or_default();
        let (keys, timeout) = (&inner.settings.keys, inner.settings.limits.run_timeout);
        let meter =
            inner.meters.begin(keys, &context.principal, &request, timeout, || Estimate::of(&[], None));
        let meter = meter.await?;
        let mut run = agent.load(&conversation.id).await.map_err(store_failure)?;
        for tool in &always {
            run.allow_always(tool.clone());
        }
        if let Some(message) = message.clone() {
            run.say_message(message);
        }
        // The message is stored before the response begins, so that it is never lost.
        agent.persist(&mut run).await.map_err(store_failure)?;
        let position = run.stored_in().map_or(0, |(_, position)| position);
        let mut events = Vec::new();
        {
            let mut live = active.lock();
            if live.is_busy() {
                return Err(PageFailure::new(
                    http::StatusCode::CONFLICT,
                    "Not possible now",
                    "another response was started at the same time",
                ));
            }
            live.start(agent.model().name().to_owned(), position, conversation.parent.as_ref(), &always);
            if let Some(message) = message {
                events = live.add_user_message(view::new_message(conversation, position, message));
            }
            events.extend(live.controls());
        }
        let meter = meter.map(|meter| RunMeter::new(meter, run.usage()));
        Ok(Started { agent, active, run, meter, position, events, id: conversation.id.clone() })
    }

    /// Starts the task that drives a run.
    pub(super) fn spawn(&self, context: &Context<'_>, started: Started, is_waiting: bool) {
        let Started { agent, active, run, meter, id, .. } = started;
        let request = random_id("chat_").unwrap_or_default();
        let recorder = context.page.traffic.begin(&request, &format!("/chat/{id}"), &context.principal);
        let model = agent.model().name();
        recorder.set_model(Some(model.to_owned()), context.inner.model_label(model));
        // Ends the record also if the gateway ends before the run.
        let guard = recorder.guard();
        let (sender, decisions) = mpsc::channel(MAX_DECISIONS);
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        *active.control() = Control {
            stop: stop.clone(),
            ended: ended.clone(),
            decisions: Some(sender),
            user: Some(context.principal.server_user().id),
        };
        let engine = Engine {
            id,
            agent,
            active,
            saved: self.saved.clone(),
            decisions,
            stop,
            closing: self.closing.clone(),
            early: Vec::new(),
            recorder: RunRecorder::new(recorder, context.tools.clone()),
            meter,
        };
        self.tasks.spawn(async move {
            engine.run(run, is_waiting).await;
            drop(guard);
            ended.cancel();
        });
    }

    /// Continues a run that was saved while it waited for decisions, if there is one.
    pub(super) async fn restore(
        &self,
        context: &Context<'_>,
        conversation: &Conversation,
    ) -> Result<Option<Arc<ActiveChat>>, PageFailure> {
        if let Some(active) = self.find(&conversation.id).filter(|active| active.lock().is_busy()) {
            return Ok(Some(active));
        }
        let Some(mut run) = self.saved.load(&conversation.id).await else {
            return Ok(self.find(&conversation.id));
        };
        let is_current = run.stored_in().is_some_and(|(_, position)| position == conversation.messages);
        if !is_current {
            // Another program has continued the conversation.
            self.saved.remove(&conversation.id).await;
            return Ok(self.find(&conversation.id));
        }
        let model = conversation.model.clone().unwrap_or_default();
        let model = if model.is_empty() { default_model(context) } else { model };
        let agent = self.agent(context, &conversation.id, &model)?;
        run.set_tools(agent.tools().tools(), agent.model().limits());
        let active = self.find_or_create(context, conversation);
        let entries =
            context.page.parts.conversations.load(&conversation.id, 0).await.map_err(store_failure)?;
        let last = entries.entries.iter().rfind(|entry| entry.message.calls().next().is_some());
        {
            let mut live = active.lock();
            if live.is_busy() {
                drop(live);
                return Ok(Some(active));
            }
            live.start(model, conversation.messages, None, run.always_allowed());
            if let Some(entry) = last {
                let calls: Vec<_> =
                    entry.message.calls().map(|(id, call)| (id.to_owned(), call.clone())).collect();
                live.restore(entry.sequence, &calls, &run.pending_calls());
            }
        }
        let position = conversation.messages;
        let id = conversation.id.clone();
        self.spawn(
            context,
            // The run was counted when it began.
            Started { agent, active: active.clone(), run, meter: None, position, events: Vec::new(), id },
            true,
        );
        Ok(Some(active))
    }
}

/// A run that is ready to be driven.
pub(super) struct Started {
    agent: Agent,
    active: Arc<ActiveChat>,
    run: Run,
    meter: Option<RunMeter>,
    /// The number of stored messages.
    pub(super) position: u64,
    /// The changes for the page that sent the message.
    pub(super) events: Vec<Event>,
    id: ConversationId,
}

/// Returns the model of a conversation that names none.
pub(super) fn default_model(context: &Context<'_>) -> String {
    context.model_names().into_iter().next().unwrap_or_default()
}

pub(super) fn store_failure(error: StoreError) -> PageFailure {
    let status = match &error {
        StoreError::UnknownConversation { .. } | StoreError::UnknownPosition { .. } => {
            http::StatusCode::NOT_FOUND
        }
        StoreError::Conflict { .. } => http::StatusCode::CONFLICT,
        _ => http::StatusCode::INTERNAL_SERVER_ERROR,
    };
    let failure = PageFailure::new(status, "Conversation", error.to_string());
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}
