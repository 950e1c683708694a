//! Questions of the prompts and resources of other servers (MCP 2026-07-28). The client repeats the request
//! with its replies, which the server gets. Nothing waits, so that any process with the same key can pass
//! them on.

use std::collections::BTreeMap;

use rmcp::model::{ClientCapabilities, ElicitationCapability, SamplingCapability, SealOptions};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};
use toolwire_contract::offers::OfferMethod;

use super::connection::{Connection, is_modern};
use super::request_tools::RequestTools;

const STATE: &str = "requestState";

/// Adds what the client sends when it repeats a request.
pub(super) fn add_round(params: &mut Value, replies: Option<BTreeMap<String, Value>>, state: Option<String>) {
    if let Some(replies) = replies {
        params["inputResponses"] = json!(replies);
    }
    if let Some(state) = state {
        params[STATE] = state.into();
    }
}

impl Connection {
    /// Replaces the state that the client has sent by that of the server.
    pub(super) fn open_round(&self, params: &mut Map<String, Value>, bound: &[u8]) -> Result<(), ErrorData> {
        let Some(sealed) = params.shift_remove(STATE) else { return Ok(()) };
        let opened =
            self.shared.foreign_signature.open_json_with::<Value>(sealed.as_str().unwrap_or_default(), bound);
        let opened = opened.map_err(|_| {
            ErrorData::invalid_params("`requestState` was not issued by this server for this request", None)
        })?;
        params.insert(STATE.to_owned(), opened);
        Ok(())
    }

    /// Prepares a result with questions for the client: it keeps its type, and its state is signed for the
    /// request.
    pub(super) fn seal_round(
        &self,
        result: &mut Map<String, Value>,
        bound: &[u8],
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !is_modern(context) {
            let message = "the server asks a question, which this revision does not support here";
            return Err(ErrorData::internal_error(message, None));
        }
        check_questions(result, &context.client_capabilities().unwrap_or_default())?;
        if let Some(state) = result.get_mut(STATE) {
            let options = SealOptions::new().associated_data(bound);
            let sealed = self.shared.foreign_signature.seal_json_with(state, &options);
            *state = sealed.map_err(|error| ErrorData::internal_error(error.to_string(), None))?.into();
        }
        result.insert("resultType".to_owned(), "input_required".into());
        Ok(())
    }
}

/// Checks that the client supports each question.
fn check_questions(result: &Map<String, Value>, client: &ClientCapabilities) -> Result<(), ErrorData> {
    let questions = result.get("inputRequests").and_then(Value::as_object);
    let mut lacking = ClientCapabilities::default();
    for question in questions.into_iter().flat_map(Map::values) {
        match question.get("method").and_then(Value::as_str) {
            Some("elicitation/create") if client.elicitation.is_some() => {}
            Some("elicitation/create") => lacking.elicitation = Some(ElicitationCapability::default()),
            Some("sampling/createMessage") if client.sampling.is_some() => {}
            Some("sampling/createMessage") => lacking.sampling = Some(SamplingCapability::default()),
            // Roots, for example: which folders a server may access is not decided by clients.
            _ => {
                let message = "the server asks a question that is not passed on";
                return Err(ErrorData::internal_error(message, None));
            }
        }
    }
    match lacking == ClientCapabilities::default() {
        true => Ok(()),
        false => Err(ErrorData::missing_required_client_capability(lacking)),
    }
}

/// Returns what the state of a request is bound to: the client, and the prompt or resource, so that the
/// server of another one does not get it.
pub(super) fn round_binding(
    method: OfferMethod,
    params: &Map<String, Value>,
    context: &RequestContext<RoleServer>,
) -> Vec<u8> {
    let of = ["name", "uri", "ref"].map(|key| params.get(key));
    json!(["round", RequestTools::client_of(context), format!("{method:?}"), of]).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(methods: &[&str], client: Value, expected: Option<i32>) {
        let questions: Map<String, Value> = methods
            .iter()
            .map(|method| ((*method).to_owned(), json!({"method": method, "params": {}})))
            .collect();
        let result = Map::from_iter([("inputRequests".to_owned(), Value::Object(questions))]);
        let client = serde_json::from_value(client).expect("capabilities");
        let checked = check_questions(&result, &client);
        assert_eq!(checked.err().map(|error| error.code.0), expected, "{methods:?}");
    }

    #[test]
    fn only_questions_that_the_client_supports_are_passed_on() {
        let all = json!({"elicitation": {}, "sampling": {}, "roots": {}});
        check(&[], json!({}), None);
        check(&["elicitation/create", "sampling/createMessage"], all.clone(), None);
        check(&["elicitation/create"], json!({"sampling": {}}), Some(-32021));
        check(&["elicitation/create", "sampling/createMessage"], json!({"elicitation": {}}), Some(-32021));
        check(&["roots/list"], all.clone(), Some(-32603));
        check(&["elicitation/create", "other"], all, Some(-32603));
    }
}
