//! Requests to a provider that supports the client's own API. Tools are added; all other fields are sent
//! unchanged.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::{Map, Value};
use toolwire_contract::model::VerbatimRequest;
use toolwire_dialect::Family;
use toolwire_dialect::client::ClientRequest;

use crate::catalog::ServedModel;
use crate::forward::{BETA, sent_headers};
use crate::prepare::invalid_request;
use crate::request_body::RequestBody;
use crate::response::Failure;

/// The start of the names of Anthropic's versions of MCP servers in requests.
const OWN_FEATURES: &str = "mcp-client-";

/// Attaches the client's JSON text to a request if the provider has the client's API. Otherwise, a request
/// with tools that only this API has is rejected.
pub(crate) fn attach(
    client: &mut ClientRequest,
    family: Family,
    served: &ServedModel,
    headers: &HeaderMap,
    body: &RequestBody,
    own_instructions: Option<&str>,
) -> Result<(), Failure> {
    // If an API does not support tools together with structured output, the agent requests the structured
    // output in a separate last request, so the client's fields cannot be sent unchanged.
    let is_possible = client.request.output.is_text() || !served.model.limits().separate_output;
    let mut verbatim = match served.has_api_of(family) && is_possible {
        true => client.verbatim(family, body.text()),
        false => None,
    };
    if let (None, Some(error)) = (&verbatim, &client.native_tool) {
        return Err(invalid_request(error).into());
    }
    if let Some(verbatim) = &mut verbatim {
        remove_options(verbatim);
        verbatim.headers = sent_headers(family, headers);
        remove_own_features(&mut verbatim.headers);
        verbatim.preceding_instructions = own_instructions.map(str::to_owned);
    }
    client.request.verbatim = verbatim.map(Arc::new);
    Ok(())
}

/// Removes the names of features that the gateway implements itself: the provider does not get the fields
/// that need them.
fn remove_own_features(headers: &mut Vec<(&'static str, String)>) {
    for (_, value) in headers.iter_mut().filter(|(name, _)| *name == BETA) {
        let names = value.split(',').map(str::trim);
        let others: Vec<&str> =
            names.filter(|name| !name.is_empty() && !name.starts_with(OWN_FEATURES)).collect();
        *value = others.join(",");
    }
    headers.retain(|(_, value)| !value.is_empty());
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

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn features_of_the_gateway_itself_are_not_sent() {
        let sent = |values: &[&'static str]| {
            let values = values.iter().map(|value| ("anthropic-beta", HeaderValue::from_static(value)));
            let headers: HeaderMap =
                values.map(|(name, value)| (http::HeaderName::from_static(name), value)).collect();
            let mut sent = sent_headers(Family::Anthropic, &headers);
            remove_own_features(&mut sent);
            sent
        };
        assert_eq!(sent(&["mcp-client-2025-11-20"]), []);
        assert_eq!(
            sent(&["a-2025-01-01, mcp-client-2025-04-04,b-2", "mcp-client-2026-09-15, c"]),
            [(BETA, "a-2025-01-01,b-2,c".to_owned())]
        );
    }
}
