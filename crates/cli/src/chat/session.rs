//! The conversation that is going on: who answers, what was said, and where it is kept.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use toolwire_agent::{Agent, ContextUse, Run, Unattended};
use toolwire_contract::{
    Block, Content, Conversation, ConversationId, Conversations, Entry, Message, Model, NewConversation,
    NewEntry, Role, StoreError, Timestamp, Transcript, Usage,
};
use toolwire_hub::Hub;
use toolwire_llm::Models;

use crate::assembly;
use crate::command_error::CommandError;
use crate::settings::Settings;

pub(crate) struct Session {
    pub(crate) settings: Settings,
    pub(crate) models: Models,
    pub(crate) hub: Arc<Hub>,
    /// Where conversations are kept; only as long as the chat goes on, if there is no other place.
    pub(crate) store: Arc<dyn Conversations>,
    pub(crate) agent: Agent,
    pub(crate) run: Run,
    /// What was spent before this run: on the part that was resumed, and on what was taken back.
    before: Usage,
}

/// Why the conversation cannot be changed as asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("the conversation is empty")]
    NothingSaid,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ChangeError {
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            ChangeError::NothingSaid => Some("type a message first"),
            ChangeError::Store(error) => error.hint(),
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
    ) -> Result<Session, CommandError> {
        let agent = build(model, &hub, &settings, &store)?;
        let run = agent.new_run();
        Ok(Session { settings, models, hub, store, agent, run, before: Usage::default() })
    }

    pub(crate) fn model_name(&self) -> &str {
        self.agent.model().name()
    }

    pub(crate) fn usage(&self) -> Usage {
        self.before.plus(&self.run.usage())
    }

    pub(crate) fn context(&self) -> ContextUse {
        self.run.context()
    }

    /// The conversation, once something was said in it and it is kept.
    pub(crate) fn conversation(&self) -> Option<&ConversationId> {
        self.run.stored_in().map(|(conversation, _)| conversation)
    }

    /// Another model is used from now on.
    pub(crate) fn ask_model(&mut self, name: &str) -> Result<(), CommandError> {
        let model = assembly::model(&self.models, name)?;
        self.agent = build(model, &self.hub, &self.settings, &self.store)?;
        Ok(())
    }

    /// Lets a tool, or all tools that fit a pattern, run without asking.
    pub(crate) fn approve(&mut self, pattern: &str) -> Result<(), CommandError> {
        let approvals = &mut self.settings.agent.approvals;
        if !approvals.allow.iter().any(|allowed| allowed == pattern) {
            approvals.allow.push(pattern.to_owned());
        }
        self.run.settings_mut().approvals = self.settings.agent.approvals.clone();
        self.agent = build(self.agent.model().clone(), &self.hub, &self.settings, &self.store)?;
        Ok(())
    }

    /// Begins anew.
    pub(crate) fn clear(&mut self) {
        let run = self.agent.new_run();
        self.replace(run);
        self.before = Usage::default();
    }

    /// Goes on with a conversation that is kept.
    pub(crate) async fn resume(&mut self, id: &ConversationId) -> Result<Conversation, StoreError> {
        let conversation = self.store.get(id).await?;
        let run = self.agent.load(id).await?;
        self.replace(run);
        self.before = conversation.usage;
        Ok(conversation)
    }

    /// Keeps all that was said here as a conversation of its own: the one it was kept in has gone, or has
    /// gone on without this one.
    pub(crate) async fn keep_anew(&mut self) -> Result<(), StoreError> {
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
        let messages = self.run.messages().to_vec();
        let new = NewConversation { title: self.run.title(), model: Some(self.model_name().to_owned()) };
        let entries: Vec<NewEntry> = messages.iter().cloned().map(NewEntry::from).collect();
        let conversation = self.store.begin(new).await?.id;
        let position = self.store.append(&conversation, entries, Some(0)).await?;
        let spent = self.usage();
        let mut run = self.agent.resume(messages);
        run.store_in(conversation, position);
        self.replace(run);
        self.before = spent;
        Ok(())
    }

    /// Takes the last message of the person and everything after it back, and gives it. What was kept stays
    /// as it is: the conversation goes on as a fork of it.
    pub(crate) async fn undo(&mut self) -> Result<Message, ChangeError> {
        let spent = self.usage();
        // What could not be kept when it was said is kept now, so that the last message is the last one that
        // was said.
        match self.agent.persist(&mut self.run).await {
            Err(StoreError::Conflict { .. } | StoreError::UnknownConversation { .. }) => {
                self.keep_anew().await?;
            }
            kept => kept?,
        }
        let id = self.conversation().cloned().ok_or(ChangeError::NothingSaid)?;
        let entries = self.store.load(&id, 0).await?.entries;
        let last = last_said(&entries).ok_or(ChangeError::NothingSaid)?;
        let run = match last.sequence - 1 {
            0 => self.agent.new_run(),
            before => self.agent.load(&self.store.fork(&id, before).await?.id).await?,
        };
        let message = last.message.clone();
        self.replace(run);
        self.before = spent;
        Ok(Arc::unwrap_or_clone(message))
    }

    /// All that was said, as it is kept. When the store does not give it, as it is known here; then with why.
    pub(crate) async fn transcript(&self) -> Result<(Transcript, Option<StoreError>), ChangeError> {
        let id = self.conversation().ok_or(ChangeError::NothingSaid)?;
        let why = match self.store.load(id, 0).await {
            Ok(kept) => return Ok((kept, None)),
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
        Ok((
            Transcript { conversation, entries: messages.iter().enumerate().map(entry).collect() },
            Some(why),
        ))
    }

    /// Another run, in which what the person allowed for good still is.
    fn replace(&mut self, mut run: Run) {
        for tool in self.run.always_allowed() {
            run.allow_always(tool.clone());
        }
        self.run = run;
    }
}

fn build(
    model: Arc<dyn Model>,
    hub: &Arc<Hub>,
    settings: &Settings,
    store: &Arc<dyn Conversations>,
) -> Result<Agent, CommandError> {
    assembly::agent(model, settings)
        .tools(hub.clone())
        .unattended(Unattended::Pause)
        .conversations(store.clone())
        .build()
        .map_err(|error| CommandError::usage(format!("`toolwire.agent`: {error}")).with_hint(error.hint()))
}

fn last_said(entries: &[Entry]) -> Option<&Entry> {
    entries.iter().rev().find(|entry| is_said(&entry.message))
}

/// Whether a person said it: messages of the user's that hold only results are the loop's.
pub(crate) fn is_said(message: &Message) -> bool {
    message.role == Role::User && message.content.iter().any(|block| matches!(block, Block::Content(_)))
}

/// What a message says, without calls and results.
pub(crate) fn text_of(message: &Message) -> String {
    let texts: Vec<&str> = message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Content(Content::Text { text, .. }) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n\n")
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use toolwire_contract::ToolResult;

    use super::*;

    #[test]
    fn results_are_not_said_by_a_person() {
        let result = Block::Result { id: "1".into(), result: ToolResult::text("x") };
        assert!(!is_said(&Message::new(Role::User, vec![result])));
        assert!(is_said(&Message::user("x")));
        assert!(!is_said(&Message::assistant("x")));
    }
}
