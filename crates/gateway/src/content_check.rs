//! Checks the content of a request before its response begins, so that an error can still have its own HTTP
//! status.

use toolwire_contract::{Block, Role};
use toolwire_dialect::Family;
use toolwire_dialect::client::ClientRequest;
use toolwire_dialect::request::{RequestError, foreign_content};

use crate::catalog::ServedModel;
use crate::response::Failure;

/// Rejects a request that must be converted if a message has content that the model's API cannot accept, or
/// if a message after the last response has images or files that cannot be used. In older messages, a note
/// replaces them, so that a conversation can continue with another model.
pub(crate) fn check_content(
    family: Family,
    client: &ClientRequest,
    served: &ServedModel,
) -> Result<(), Failure> {
    let list = if family == Family::OpenAiResponses { "input" } else { "messages" };
    let parameter = |message: usize| match client.item_of(message) {
        Some(item) => format!("{list}[{item}]"),
        None => list.to_owned(),
    };
    let messages = &client.request.messages;
    for (dialect, _) in served.apis() {
        let mut found = messages.iter().map(|message| foreign_content(dialect, message)).enumerate();
        if let Some((index, type_name)) = found.find_map(|(index, found)| Some((index, found?))) {
            let error = RequestError::ForeignContent { dialect, type_name };
            let message = format!("{error}. Hint: {}", error.hint());
            return Err(Failure::invalid(&parameter(index), message));
        }
    }
    let last_response = messages.iter().rposition(|message| message.role == Role::Assistant);
    let new = last_response.map_or(0, |last| last + 1);
    let blocks = messages
        .iter()
        .enumerate()
        .skip(new)
        .flat_map(|(index, message)| message.content.iter().map(move |block| (Some(index), block)));
    for (index, block) in blocks.chain(client.with_approvals.iter().map(|block| (None, block))) {
        if let Block::Content(content) = block
            && let Err(problem) = served.model.check_content(content)
        {
            let parameter = index.map_or_else(|| list.to_owned(), parameter);
            let message = format!("`{parameter}` cannot be sent to `{}`: {problem}", client.model);
            return Err(Failure::invalid(&parameter, format!("{message}. Hint: {}", problem.hint())));
        }
    }
    Ok(())
}
