//! The request of a gateway's client, in the JSON of the client's API.

use std::sync::Arc;

use crate::Message;
use crate::model::ToolChoice;

/// A request as a client sent it, in parts of its JSON text.
///
/// An endpoint whose API has the same format sends these parts unchanged, so that fields that no type
/// represents are kept, and prompt caches work. All other endpoints ignore them, because the fields of
/// [`ModelRequest`](crate::model::ModelRequest) have the same content.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerbatimRequest {
    /// The key under which messages store data of the API's family, such as `toolwire/openai`.
    pub family: &'static str,
    /// The fields of the body, as names and JSON texts, without those that every request replaces: the model,
    /// the messages and the tools.
    pub fields: Vec<(String, String)>,
    /// The part of the request's instructions before the client's.
    pub preceding_instructions: Option<String>,
    /// The part of the request's instructions that is the client's.
    pub instructions: Option<String>,
    /// The JSON texts of the messages before the conversation, which contain instructions.
    pub instruction_items: Vec<String>,
    /// For each message, the JSON texts of the items that it was read from. They are sent only for a message
    /// of the request that is the same object (`Arc::ptr_eq`).
    pub messages: Vec<(Arc<Message>, Vec<String>)>,
    /// The names and the definitions of the client's tools. The text of a tool that is part of another
    /// definition, or of an item of the conversation, is empty.
    pub tools: Vec<(String, String)>,
    /// The names of those tools that only this API has. A request in another form cannot contain them.
    pub native_tools: Vec<String>,
    /// The client's tools that the provider runs itself, in the order of the client.
    pub provider_tools: Vec<ProviderTool>,
    /// The value that was read from the field `tool_choice`.
    pub tool_choice: ToolChoice,
    /// Headers for the API, such as `anthropic-beta`.
    pub headers: Vec<(&'static str, String)>,
}

/// A tool of the client that the provider runs itself, such as a web search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderTool {
    /// The name by which a choice of tools refers to it.
    pub name: String,
    /// The definition as JSON text.
    pub definition: String,
    /// The number of [`VerbatimRequest::tools`] before it.
    pub position: usize,
}

impl VerbatimRequest {
    /// Returns the JSON text of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }

    /// Returns the size of all texts.
    pub fn bytes(&self) -> usize {
        let items = self.messages.iter().flat_map(|(_, items)| items).chain(&self.instruction_items);
        let pairs = self.fields.iter().chain(&self.tools).map(|(name, text)| name.len() + text.len());
        let provider_tools = self.provider_tools.iter().map(|tool| tool.name.len() + tool.definition.len());
        let instructions = self.instructions.iter().chain(&self.preceding_instructions);
        items.chain(instructions).map(String::len).chain(pairs).chain(provider_tools).sum()
    }

    /// Returns the definition of a tool of the client.
    pub fn tool(&self, name: &str) -> Option<&str> {
        self.tools.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }
}
