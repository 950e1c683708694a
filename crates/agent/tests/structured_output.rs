//! Responses of a required format, with the strict provider of every API: each request is one that the API
//! accepts, and the run ends with JSON that matches the schema, or with a typed error.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_agent::approval::ApprovalPolicy;
use toolwire_agent::{Agent, Ending, FinishedRun, Functions};
use toolwire_contract::Tool;
use toolwire_llm::{Endpoint, EndpointConfig};
use toolwire_testkit::provider::{
    API_KEY, Api, FakeProvider, ModelOutput, ReceivedRequest, Script, ScriptedResponse,
};

/// A schema that most APIs do not accept as it is: `degrees` is optional and has a minimum, and the object is
/// open.
fn weather() -> Value {
    json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "degrees": {"type": "number", "minimum": -90}},
        "required": ["city"],
    })
}

fn model_name(api: Api) -> String {
    match api {
        // Models of this generation cannot have tools and a schema in one request.
        Api::Gemini => "gemini/gemini-2.5-pro".to_owned(),
        _ => format!("{}/m", api.provider_name()),
    }
}

/// Whether the response is the arguments of a tool.
fn has_output_tool(request: &ReceivedRequest) -> bool {
    let text = request.body.to_string();
    text.contains("by calling `response` once")
}

/// Whether the request requires the format of the response.
fn requires_output(request: &ReceivedRequest) -> bool {
    let body = &request.body;
    let pointers = [
        "/response_format",
        "/text/format",
        "/output_config/format",
        "/generationConfig/responseJsonSchema",
        "/format",
    ];
    has_output_tool(request) || pointers.iter().any(|pointer| body.pointer(pointer).is_some())
}

/// Returns a final response of the model, in the way in which the request requires it.
fn answer(request: &ReceivedRequest, value: &Value) -> ModelOutput {
    match has_output_tool(request) {
        true => ModelOutput::default().call("call_0009", "response", &value.to_string()),
        false => ModelOutput::text(&value.to_string()),
    }
}

/// Runs an agent with a model that first calls a tool, if there is one, and then gives these final responses
/// in turn.
async fn run(
    api: Api,
    streams: bool,
    with_tools: bool,
    answers: Vec<Value>,
) -> (FinishedRun, Vec<ReceivedRequest>) {
    let script = Script::from_fn(move |request: &ReceivedRequest| {
        let text = request.body.to_string();
        let output = if with_tools && !text.contains("sunny") {
            ModelOutput::default().call("call_0001", "look", r#"{"place":"Paris"}"#)
        } else if !requires_output(request) {
            ModelOutput::text("It is sunny in Paris.")
        } else {
            let index = usize::from(text.contains("does not have the required format"));
            answer(request, &answers[index.min(answers.len() - 1)])
        };
        ScriptedResponse::Output(output)
    });
    let provider = FakeProvider::start(api, script).await;
    let config = json!({
        "baseUrl": provider.base_url(), "apiKey": API_KEY, "region": "us-east-1", "stream": streams, "retries": 0,
    });
    let config: EndpointConfig = serde_json::from_value(config).unwrap();
    let endpoint = Endpoint::new(&model_name(api), &config, |_| None).unwrap();
    let mut builder = Agent::builder()
        .model(Arc::new(endpoint))
        .output_schema(weather())
        .approvals(ApprovalPolicy::allow_all());
    if with_tools {
        let schema =
            json!({"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]});
        let tools = Functions::new().with(Tool::new("look", schema), |_| async { "sunny, 20 degrees" });
        builder = builder.tools(Arc::new(tools));
    }
    let finished = builder.build().unwrap().run("What is the weather in Paris?").await;
    let requests = provider.requests();
    (finished, requests)
}

fn cases() -> impl Iterator<Item = (Api, bool, bool)> {
    let of = |api| [(api, true, true), (api, true, false), (api, false, true), (api, false, false)];
    Api::ALL.into_iter().flat_map(of)
}

#[tokio::test]
async fn every_api_returns_json_that_matches_the_schema() {
    for (api, streams, with_tools) in cases() {
        let expected = json!({"city": "Paris", "degrees": 20});
        let (finished, requests) = run(api, streams, with_tools, vec![expected.clone()]).await;
        let label = format!("{api:?}, streams: {streams}, tools: {with_tools}: {:?}", finished.outcome);
        assert_eq!(finished.outcome.ending, Ending::Finished, "{label}");
        assert_eq!(finished.outcome.output, Some(expected.clone()), "{label}");
        assert_eq!(finished.outcome.text, expected.to_string(), "{label}");
        // No call of the tool for the response is visible.
        let calls = finished.run.messages().iter().flat_map(|message| message.calls());
        assert!(calls.map(|(_, call)| &call.name).all(|name| name == "look"), "{label}");
        let last = requests.last().unwrap();
        assert!(requires_output(last), "{label}: {}", last.body);
    }
}

/// Strict schemas have no optional properties, so the model writes `null`.
#[tokio::test]
async fn a_property_that_the_model_had_to_write_is_removed_again() {
    for api in [Api::OpenAiChat, Api::Responses, Api::Azure] {
        let (finished, _) = run(api, true, false, vec![json!({"city": "Paris", "degrees": null})]).await;
        assert_eq!(finished.outcome.output, Some(json!({"city": "Paris"})), "{api:?}");
    }
}

#[tokio::test]
async fn every_api_gets_one_correction() {
    for (api, streams, with_tools) in cases() {
        let wrong = json!({"city": "Paris", "degrees": -500});
        let right = json!({"city": "Paris"});
        let (finished, requests) = run(api, streams, with_tools, vec![wrong, right.clone()]).await;
        let label = format!("{api:?}, streams: {streams}, tools: {with_tools}: {:?}", finished.outcome);
        assert_eq!(finished.outcome.output, Some(right), "{label}");
        let corrections = requests
            .iter()
            .filter(|request| request.body.to_string().contains("does not have the required format"));
        assert_eq!(corrections.count(), 1, "{label}");
    }
}

#[tokio::test]
async fn a_response_that_stays_wrong_is_an_error() {
    for (api, streams, with_tools) in cases() {
        let (finished, _) = run(api, streams, with_tools, vec![json!({"degrees": 20})]).await;
        let Ending::Failed(failure) = &finished.outcome.ending else {
            panic!("{api:?}, streams: {streams}, tools: {with_tools}: {:?}", finished.outcome)
        };
        assert_eq!(failure.code, "invalid_output", "{api:?}: {failure}");
        assert!(failure.message.contains("missing required property \"city\""), "{api:?}: {failure}");
    }
}
