//! Tools of a client that only its own API has.

use std::sync::Arc;

use serde_json::json;
use toolwire_contract::Tool;
use toolwire_contract::model::{ModelError, ModelRequest};
use toolwire_dialect::client::read_client_request;
use toolwire_dialect::{Dialect, Family, Options, Toolset};
use toolwire_testkit::provider::{Api, ModelOutput, ScriptedResponse};

use crate::harness::TestEndpoint;

/// Returns a request of a client that has a tool of this name, and another tool.
fn request(name: &str, other: Tool) -> ModelRequest {
    let body = json!({
        "model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "bash_20250124", "name": name}],
    });
    let client = read_client_request(Family::Anthropic, body.clone()).expect("an API").expect("a request");
    let verbatim = client.verbatim(Family::Anthropic, &body.to_string()).map(Arc::new);
    let tools = client.request.tools.iter().cloned().chain([other]).collect();
    ModelRequest { tools, verbatim, ..client.request }
}

#[tokio::test]
async fn they_are_sent_as_they_are_or_not_at_all() {
    let output = ScriptedResponse::Output(ModelOutput::text("hi"));
    let endpoint = TestEndpoint::repeating(Api::Anthropic, output, json!({})).await;
    let other = Tool::new("delete/all", json!({"type": "object"}));
    let (_, response) = endpoint.ask(request("bash", other.clone())).await;
    response.expect("a response");
    assert_eq!(
        endpoint.provider.requests()[0].body["tools"][0],
        json!({"type": "bash_20250124", "name": "bash"})
    );

    // The other tool has the same name in this dialect, so all tools would have to be written again.
    let toolset = Toolset::new(std::slice::from_ref(&other), Dialect::Anthropic, &Options::default());
    let name = toolset.wire_name("delete/all").expect("a name").to_owned();
    let (_, outcome) = endpoint.ask(request(&name, other)).await;
    let Err(ModelError::Unusable { problem, .. }) = &outcome else { panic!("{outcome:?}") };
    assert!(problem.contains(&name), "{problem}");
    assert_eq!(endpoint.provider.requests().len(), 1);
}
