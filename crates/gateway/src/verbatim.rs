//! Requests to a provider that supports the client's own API. Tools are added; all other fields are sent unchanged.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::{Map, Value};
use toolwire_contract::VerbatimRequest;
use toolwire_dialect::{ClientError, ClientRequest, Family};

use crate::catalog::ServedModel;
use crate::forward::{Body, sent_headers};
use crate::response::Failure;

/// Attaches the client's JSON text to a request if the provider supports the client's API. Otherwise, a request with
/// tools that only this API has is rejected.
pub(crate) fn attach(
    client: &mut ClientRequest,
    family: Family,
    served: &ServedModel,
    headers: &HeaderMap,
    body: &Body,
    own_instructions: Option<&str>,
) -> Result<(), Failure> {
    // If an API does not support tools together with structured output, the agent requests the structured output in a
    // separate last request, so the client's fields cannot be sent unchanged.
    let is_possible = client.request.output.is_text() || !served.model.limits().separate_output;
    let mut verbatim = match served.has_api_of(family) && is_possible {
        true => client.verbatim(family, body.text()),
        false => None,
    };
    if let (None, Some(error)) = (&verbatim, &client.native_tool) {
        return Err(ClientError::from(error).into());
    }
    if let Some(verbatim) = &mut verbatim {
        remove_options(verbatim);
        verbatim.headers = sent_headers(family, headers);
        verbatim.preceding_instructions = own_instructions.map(str::to_owned);
    }
    client.request.verbatim = verbatim.map(Arc::new);
    Ok(())
}

/// Removes the options for the gateway itself.
fn remove_options(verbatim: &mut VerbatimRequest) {
    verbatim.fields.retain_mut(|(name, text)| match name.as_str() {
        "toolwire" => false,
        "metadata" if text.contains("toolwire") => {
            let mut metadata: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
            metadata.shift_remove("toolwire");
            *text = Value::Object(metadata).to_string();
            *text != "{}"
        }
        _ => true,
    });
}
