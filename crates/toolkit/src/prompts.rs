//! Prompts of a server.

use futures_core::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolwire_contract::{Content, Role};

use crate::context::Context;
use crate::offers::OfferError;
use crate::resources::CompletionRequest;

/// A prompt as it is listed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub arguments: Vec<PromptArgument>,
    /// All other fields: `icons`, `_meta`.
    pub extra: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptArgument {
    pub name: String,
    pub description: Option<String>,
    pub required: bool,
}

/// A prompt with its arguments filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilledPrompt {
    pub description: Option<String>,
    pub messages: Vec<PromptMessage>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PromptMessage {
    pub role: Role,
    pub content: Content,
}

/// Fills in a prompt. The required arguments are present.
pub trait PromptHandler: Send + Sync {
    fn get<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<FilledPrompt, OfferError>>;

    /// Suggests values for an argument, best first.
    fn complete<'a>(&'a self, completing: &'a CompletionRequest) -> BoxFuture<'a, Vec<String>> {
        let _ = completing;
        Box::pin(async { Vec::new() })
    }
}

/// A function from arguments to messages is a prompt handler.
impl<F> PromptHandler for F
where
    F: Fn(Map<String, Value>) -> FilledPrompt + Send + Sync,
{
    fn get<'a>(
        &'a self,
        arguments: Map<String, Value>,
        _: &'a Context,
    ) -> BoxFuture<'a, Result<FilledPrompt, OfferError>> {
        Box::pin(async move { Ok(self(arguments)) })
    }
}

impl Prompt {
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Prompt {
        Prompt { name: name.into(), description: Some(description.into()), ..Prompt::default() }
    }

    /// Adds a required argument.
    #[must_use]
    pub fn with_argument(mut self, name: impl Into<String>, description: impl Into<String>) -> Prompt {
        self.arguments.push(PromptArgument {
            name: name.into(),
            description: Some(description.into()),
            required: true,
        });
        self
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("name".to_owned(), json!(self.name));
        for (key, value) in [("title", &self.title), ("description", &self.description)] {
            fields.extend(value.as_ref().map(|value| (key.to_owned(), json!(value))));
        }
        if !self.arguments.is_empty() {
            let arguments: Vec<Value> = self.arguments.iter().map(PromptArgument::to_json).collect();
            fields.insert("arguments".to_owned(), Value::Array(arguments));
        }
        fields.extend(self.extra.clone());
        Value::Object(fields)
    }
}

impl PromptArgument {
    fn to_json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("name".to_owned(), json!(self.name));
        fields.extend(self.description.as_ref().map(|text| ("description".to_owned(), json!(text))));
        fields.insert("required".to_owned(), json!(self.required));
        Value::Object(fields)
    }
}

impl FilledPrompt {
    /// Creates a prompt with one user message.
    pub fn user(content: Content) -> FilledPrompt {
        FilledPrompt::default().and_user(content)
    }

    /// Adds a user message.
    #[must_use]
    pub fn and_user(mut self, content: Content) -> FilledPrompt {
        self.messages.push(PromptMessage { role: Role::User, content });
        self
    }

    pub(crate) fn into_json(self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.extend(self.description.map(|text| ("description".to_owned(), json!(text))));
        let messages = self.messages.into_iter().map(PromptMessage::into_json).collect();
        fields.insert("messages".to_owned(), Value::Array(messages));
        fields
    }
}

impl PromptMessage {
    fn into_json(self) -> Value {
        let role = match self.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        json!({"role": role, "content": Value::from(self.content)})
    }
}
