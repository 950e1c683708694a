//! Stored responses of the Responses API, and requests that continue them with `previous_response_id`.

mod approvals;
mod background;
mod continuing;
mod conversations;
mod forwarded;
mod isolation;
mod link;
mod reading;
mod stores;
mod takeover;

use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::state::StateStore;
use toolwire_gateway::{GatewaySettings, ResponseStorage};
use toolwire_store::InMemoryState;
use toolwire_testkit::http_client;

use crate::support::{MODEL, TestGateway};

/// Returns settings with which responses are stored there.
fn settings(store: &Arc<dyn StateStore>) -> GatewaySettings {
    let mut settings = GatewaySettings::default();
    settings.responses = Some(ResponseStorage::new(store.clone(), ResponseStorage::DEFAULT_RETENTION));
    settings
}

fn memory() -> Arc<dyn StateStore> {
    Arc::new(InMemoryState::new())
}

async fn gateway() -> TestGateway {
    TestGateway::with(settings(&memory())).await
}

/// Sends a request, and returns the status and the response.
async fn call(gateway: &TestGateway, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let request = http_client().request(method.parse().unwrap(), gateway.url(path));
    let request = match body {
        Some(body) => request.json(body),
        None => request,
    };
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn get(gateway: &TestGateway, path: &str) -> (u16, Value) {
    call(gateway, "GET", path, None).await
}

async fn post(gateway: &TestGateway, body: &Value) -> (u16, Value) {
    call(gateway, "POST", "/v1/responses", Some(body)).await
}

/// Creates a response, and returns it. The fields are added to the request.
async fn create(gateway: &TestGateway, input: Value, fields: Value) -> Value {
    let mut body = json!({"model": MODEL, "input": input});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    if body["stream"] == true {
        let response = http_client().post(gateway.url("/v1/responses")).json(&body).send().await.unwrap();
        return last_response(&response.text().await.unwrap());
    }
    let (status, response) = post(gateway, &body).await;
    assert_eq!(status, 200, "{response}");
    response
}

/// Creates a response that continues another one.
async fn continued(gateway: &TestGateway, previous: &Value, input: Value) -> Value {
    create(gateway, input, json!({"previous_response_id": id(previous)})).await
}

/// Returns the response in the last event of a stream.
fn last_response(stream: &str) -> Value {
    let data = stream.lines().rev().find_map(|line| line.strip_prefix("data: ")).expect("an event");
    let event: Value = serde_json::from_str(data).unwrap();
    event["response"].clone()
}

fn id(response: &Value) -> &str {
    response["id"].as_str().unwrap()
}

fn path_of(response: &Value) -> String {
    format!("/v1/responses/{}", id(response))
}

fn text(response: &Value) -> &str {
    response["output"].as_array().unwrap().last().unwrap()["content"][0]["text"].as_str().unwrap()
}

fn types(items: &Value) -> Vec<&str> {
    items.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

/// The messages of the last request to the model, as texts.
fn last_messages(gateway: &TestGateway) -> String {
    let requests = gateway.model.requests();
    serde_json::to_string(&requests.last().unwrap().messages).unwrap()
}
