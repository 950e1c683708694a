//! The errors of writing a request.

use toolwire_contract::model::RequestPart;

use crate::Dialect;

/// A request that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    #[error("the conversation has no messages")]
    NoMessages,
    /// `tool_choice` names a tool that is not in the request.
    #[error("the tool choice requires `{tool}`, which is not in the request")]
    UnknownTool { tool: String, nearest: Vec<String> },
    /// `tool_choice` requires a call and the request has no tools.
    #[error("the tool choice requires a call, but the request has no tools")]
    NoTools,
    /// The tools were converted for another dialect.
    #[error("the tools were converted for `{bound}`, but the request is for `{dialect}`")]
    OtherDialect { dialect: Dialect, bound: Dialect },
    /// The user's message contains a part that only another API can read, such as the URL of a file.
    #[error("the content `{type_name}` cannot be sent to `{dialect}`")]
    ForeignContent { dialect: Dialect, type_name: String },
    /// The API cannot express the schema of the response.
    #[error("the schema of the response cannot be used: {problem}")]
    OutputSchema { problem: String },
    /// This API cannot require a format of the response while tools may be called.
    #[error("a format of the response cannot be required while tools may be called")]
    OutputWithTools,
    /// A result requests input (`resultType: "input_required"`), so it is not final.
    #[error("the tool `{name}` requires input before it can complete the call `{id}`")]
    InputRequired { name: String, id: String },
}

impl RequestError {
    /// Returns the part of the request that cannot be written.
    pub fn part(&self) -> Option<RequestPart> {
        match self {
            RequestError::NoMessages
            | RequestError::ForeignContent { .. }
            | RequestError::InputRequired { .. } => Some(RequestPart::Messages),
            RequestError::UnknownTool { .. } | RequestError::NoTools => Some(RequestPart::ToolChoice),
            RequestError::OutputSchema { .. } | RequestError::OutputWithTools => Some(RequestPart::Output),
            RequestError::OtherDialect { .. } => None,
        }
    }

    /// Returns the next thing to try, in one line.
    pub fn hint(&self) -> String {
        match self {
            RequestError::NoMessages => "add a message from the user".to_owned(),
            RequestError::UnknownTool { nearest, .. } if nearest.is_empty() => {
                "choose one of the tools in the request".to_owned()
            }
            RequestError::UnknownTool { nearest, .. } => {
                let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
                format!("did you mean {}?", names.join(" or "))
            }
            RequestError::NoTools => "add tools, or let the model decide".to_owned(),
            RequestError::OtherDialect { .. } => "convert the tools for the dialect of the request".to_owned(),
            RequestError::ForeignContent { .. } => {
                "send the data itself, in base64, instead of a URL or an id".to_owned()
            }
            RequestError::OutputSchema { .. } => "simplify the schema".to_owned(),
            RequestError::OutputWithTools => {
                "require it in the last request only, with the tool choice `none`".to_owned()
            }
            RequestError::InputRequired { .. } => {
                "respond to its `inputRequests`, then repeat the call with `inputResponses` and `requestState`"
                    .to_owned()
            }
        }
    }
}
