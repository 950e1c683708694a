//! The current conversation: its agent, run and store.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use toolwire_agent::approval::Approver;
use toolwire_agent::run::{Run, is_user_input};
use toolwire_agent::{Agent, ContextUse};
use toolwire_contract::Message;
use toolwire_contract::conversations::{
    Conversation, ConversationId, Conversations, Entry, NewConversation, NewEntry, StoreError, Timestamp,
    Transcript,
};
use toolwire_contract::model::{Model, Usage};
use toolwire_hub::Hub;
use toolwire_llm::Models;
use toolwire_store::InMemory;

use crate::assembly;
use crate::command_error::CommandError;
use crate::settings::Settings;
use crate::storage;

pub(crate) struct Session {
    pub(crate) settings: Settings,
    pub(crate) models: Models,
    pub(crate) hub: Arc<Hub>,
    /// The store of conversations; in memory if no other store can be opened.
    pub(crate) store: Arc<dyn Conversations>,
    pub(crate) agent: Agent,
    pub(crate) run: Run,
    approver: Arc<dyn Approver>,
    /// The usage that is not part of `run`: of the resumed conversation and of undone messages.
    previous_usage: Usage,
}

/// The reason why the conversation cannot be changed or exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("the conversation is empty")]
    Empty,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ChangeError> for CommandError {
    fn from(error: ChangeError) -> CommandError {
        let hint = match &error {
            ChangeError::Empty => Some("type a message first"),
            ChangeError::Store(error) => error.hint(),
        };
        let command_error = CommandError::work(error.to_string());
        match hint {
            Some(hint) => command_error.with_hint(hint),
            None => command_error,
        }
    }
}

impl Session {
    pub(crate) fn new(
        settings: Settings,
        models: Models,
        model: Arc<dyn Model>,
        hub: Arc<Hub>,
        store: Arc<dyn Conversations>,
        approver: impl Approver + 'static,
    ) -> Result<Session, CommandError> {
        let approver: Arc<dyn Approver> = Arc::new(approver);
        let agent = build_agent(model, &hub, &settings, &store, &approver)?;
        let run = agent.new_run();
        Ok(Session { settings, models, hub, store, agent, run, approver, previous_usage: Usage::default() })
    }

    pub(crate) fn model_name(&self) -> &str {
        self.agent.model().name()
    }

    pub(crate) fn usage(&self) -> Usage {
        self.previous_usage.plus(&self.run.usage())
    }

    pub(crate) fn context(&self) -> ContextUse {
        self.run.context()
    }

    /// Returns the stored conversation, which is created with the first message.
    pub(crate) fn conversation(&self) -> Option<&ConversationId> {
        self.run.stored_in().map(|(conversation, _)| conversation)
    }

    /// Uses another model from now on.
    pub(crate) fn switch_model(&mut self, name: &str) -> Result<(), CommandError> {
        let model = assembly::model(&self.models, name)?;
        self.rebuild_agent(model)
    }

    /// Allows the tools that match a pattern to run without approval.
    pub(crate) fn approve(&mut self, pattern: &str) -> Result<(), CommandError> {
        let approvals = &mut self.settings.agent.approvals;
        if !approvals.allow.iter().any(|allowed| allowed == pattern) {
            approvals.allow.push(pattern.to_owned());
        }
        self.run.settings_mut().approvals = self.settings.agent.approvals.clone();
        self.rebuild_agent(self.agent.model().clone())
    }

    fn rebuild_agent(&mut self, model: Arc<dyn Model>) -> Result<(), CommandError> {
        self.agent = build_agent(model, &self.hub, &self.settings, &self.store, &self.approver)?;
        Ok(())
    }

    /// Stores this and all following conversations in memory from now on, because the store is full.
    pub(crate) async fn store_in_memory(&mut self) -> Result<(), CommandError> {
        self.store = Arc::new(InMemory::new());
        self.rebuild_agent(self.agent.model().clone())?;
        self.store_copy().await.map_err(storage::command_error)
    }

    /// Starts a new conversation.
    pub(crate) fn clear(&mut self) {
        let run = self.agent.new_run();
        self.replace_run(run);
        self.previous_usage = Usage::default();
    }

    /// Continues a stored conversation.
    pub(crate) async fn resume(&mut self, id: &ConversationId) -> Result<Conversation, StoreError> {
        let conversation = self.store.get(id).await?;
        let run = self.agent.load(id).await?;
        self.replace_run(run);
        self.previous_usage = conversation.usage;
        Ok(conversation)
    }

    /// Stores the messages of the run as a separate conversation, because the previous one was deleted or
    /// changed by another process.
    pub(crate) async fn store_separately(&mut self) -> Result<(), StoreError> {
        if let Some((id, position)) = self.run.stored_in() {
            match self.store.fork(id, position).await {
                Ok(fork) => {
                    self.run.store_in(fork.id, position);
                    return self.agent.persist(&mut self.run).await;
                }
                Err(StoreError::UnknownConversation { .. } | StoreError::UnknownPosition { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.store_copy().await
    }

    /// Stores the messages of the run as a new conversation.
    async fn store_copy(&mut self) -> Result<(), StoreError> {
        let messages = self.run.messages().to_vec();
        let new = NewConversation { title: self.run.title(), model: Some(self.model_name().to_owned()) };
        let entries: Vec<NewEntry> = messages.iter().cloned().map(NewEntry::from).collect();
        let conversation = self.store.begin(new).await?.id;
        let position = self.store.append(&conversation, entries, Some(0)).await?;
        let usage = self.usage();
        let mut run = self.agent.resume(messages);
        run.store_in(conversation, position);
        self.replace_run(run);
        self.previous_usage = usage;
        Ok(())
    }

    /// Removes the last message of the user and everything after it, and returns the message. The stored
    /// conversation does not change; the chat continues in a fork.
    pub(crate) async fn undo(&mut self) -> Result<Message, ChangeError> {
        let usage = self.usage();
        // Messages that could not be stored before are stored now, so that the last stored message is the
        // last one of the run.
        match self.agent.persist(&mut self.run).await {
            Err(StoreError::Conflict { .. } | StoreError::UnknownConversation { .. }) => {
                self.store_separately().await?;
            }
            outcome => outcome?,
        }
        let id = self.conversation().cloned().ok_or(ChangeError::Empty)?;
        let entries = self.store.load(&id, 0).await?.entries;
        let last_input = entries.iter().rfind(|entry| is_user_input(&entry.message));
        let last_input = last_input.ok_or(ChangeError::Empty)?;
        let run = match last_input.sequence - 1 {
            0 => self.agent.new_run(),
            position => self.agent.load(&self.store.fork(&id, position).await?.id).await?,
        };
        let message = last_input.message.clone();
        self.replace_run(run);
        self.previous_usage = usage;
        Ok(Arc::unwrap_or_clone(message))
    }

    /// Returns the stored conversation. If the store fails, returns the messages of the run, and the error.
    pub(crate) async fn transcript(&self) -> Result<(Transcript, Option<StoreError>), ChangeError> {
        let id = self.conversation().ok_or(ChangeError::Empty)?;
        let error = match self.store.load(id, 0).await {
            Ok(transcript) => return Ok((transcript, None)),
            Err(error) => error,
        };
        let messages = self.run.messages();
        let time = now();
        let entry = |(index, message): (usize, &Arc<Message>)| Entry {
            sequence: index as u64 + 1,
            time,
            model: None,
            usage: None,
            message: message.clone(),
        };
        let conversation = Conversation {
            id: id.clone(),
            title: self.run.title(),
            model: Some(self.model_name().to_owned()),
            created: time,
            changed: time,
            messages: messages.len() as u64,
            usage: Usage::default(),
            parent: None,
        };
        let entries = messages.iter().enumerate().map(entry).collect();
        Ok((Transcript { conversation, entries }, Some(error)))
    }

    /// Replaces the run. Tools that the user has always allowed stay allowed.
    fn replace_run(&mut self, mut run: Run) {
        self.hub.offer_read_result(results_of(&run));
        for tool in self.run.always_allowed() {
            run.allow_always(tool.clone());
        }
        self.run = run;
    }
}

fn build_agent(
    model: Arc<dyn Model>,
    hub: &Arc<Hub>,
    settings: &Settings,
    store: &Arc<dyn Conversations>,
    approver: &Arc<dyn Approver>,
) -> Result<Agent, CommandError> {
    assembly::agent(model, settings)?
        .tools(hub.clone())
        .approver(approver.clone())
        .conversations(store.clone())
        .build()
        .map_err(|error| CommandError::usage(format!("`toolwire.agent`: {error}")).with_hint(error.hint()))
}

/// Returns the results in the history of a run.
pub(crate) fn results_of(run: &Run) -> impl Iterator<Item = &toolwire_contract::ToolResult> {
    run.messages().iter().flat_map(|message| message.results()).map(|(_, result)| result)
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
