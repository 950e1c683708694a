//! A conversation that starts with one provider continues with every other one, and back.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::model::{ModelRequest, ModelResponse};
use toolwire_contract::{Block, Content, Message, Role, ToolResult};
use toolwire_testkit::provider::{Api, ModelOutput};

use crate::harness::{TestEndpoint, question, tools};
use crate::responses::wire_name;

const APIS: [Api; 5] = [Api::OpenAiChat, Api::Responses, Api::Anthropic, Api::Gemini, Api::Bedrock];

/// A PNG image of one pixel.
const IMAGE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Returns a call id in the format of this API, which is often invalid elsewhere.
fn call_id(api: Api, number: usize) -> String {
    match api {
        Api::OpenAiChat => format!("functions.get_weather:{number}"),
        Api::Responses => format!("call_{number}_{}", "x".repeat(50)),
        Api::Anthropic => format!("toolu_{}{number}", "y".repeat(70)),
        Api::Bedrock => format!("tooluse_a.b:c-{number}"),
        _ => String::new(),
    }
}

/// Returns an output with two calls, and with thinking if the API supports that.
fn output_with_calls(api: Api, text: &str) -> ModelOutput {
    let output = ModelOutput::text(text)
        .call(&call_id(api, 1), "get_weather", r#"{"location":"Bern"}"#)
        .call(&call_id(api, 2), &wire_name(api, "files/look up"), r#"{"n":7}"#);
    let output =
        if api == Api::OpenAiChat { output } else { output.thinking("They want to know two things.") };
    ModelOutput { hidden_thinking: matches!(api, Api::Anthropic | Api::Bedrock | Api::Responses), ..output }
}

/// Returns the results of the calls in a response, each with an image. The second one is an error.
fn results(response: &ModelResponse) -> Message {
    let image = || Content::image(IMAGE, "image/png");
    let blocks = response.message.calls().enumerate().map(|(index, (id, _))| {
        let text = Content::text(format!("result number {index} of the tool"));
        let is_error = Some(index == 1);
        let result = ToolResult { content: Some(vec![text, image()]), is_error, ..ToolResult::default() };
        Block::Result { id: id.to_owned(), result }
    });
    Message::new(Role::User, blocks.collect())
}

async fn ask(endpoint: &TestEndpoint, messages: &[Message], label: &str) -> ModelResponse {
    let request = ModelRequest {
        messages: messages.iter().cloned().map(Arc::new).collect(),
        tools: tools(),
        ..question("")
    };
    let (_, response) = endpoint.ask(request).await;
    let response = response.unwrap_or_else(|error| panic!("{label}: {error:?}"));
    assert_eq!(endpoint.provider.rejections(), [], "{label}");
    assert_eq!(response.unusable, [], "{label}");
    response
}

async fn check(first: Api, second: Api, config: Value) {
    let label = format!("{first:?} to {second:?} and back, {config}");
    let script = [
        output_with_calls(first, "Let me look."),
        ModelOutput::text("All is well."),
        ModelOutput::text("You are welcome."),
    ];
    let first_endpoint = TestEndpoint::new(first, script.into(), config.clone()).await;
    let script = [output_with_calls(second, "Once more."), ModelOutput::text("Done.")];
    let second_endpoint = TestEndpoint::new(second, script.into(), config.clone()).await;

    let image = Block::Content(Content::image(IMAGE, "image/png"));
    let mut messages = vec![Message::new(
        Role::User,
        vec![Block::Content(Content::text("What is this, and where?")), image],
    )];
    // The first provider makes calls and responds, then the second one does, then the first one responds
    // again.
    for (endpoint, has_calls) in [
        (&first_endpoint, true),
        (&first_endpoint, false),
        (&second_endpoint, true),
        (&second_endpoint, false),
        (&first_endpoint, false),
    ] {
        let response = ask(endpoint, &messages, &label).await;
        messages.push(response.message.clone());
        let call_count = response.message.calls().count();
        assert_eq!(call_count, if has_calls { 2 } else { 0 }, "{label}");
        messages.push(if has_calls { results(&response) } else { Message::user("And now?") });
    }
    // The second provider also reads the results of calls that the first one made.
    let script = [output_with_calls(first, "Let me look.")];
    let first_endpoint = TestEndpoint::new(first, script.into(), config.clone()).await;
    let script = [ModelOutput::text("I see.")];
    let second_endpoint = TestEndpoint::new(second, script.into(), config).await;
    let response = ask(&first_endpoint, &messages, &label).await;
    let results = results(&response);
    messages.extend([response.message, results]);
    ask(&second_endpoint, &messages, &label).await;
    let sent = String::from_utf8_lossy(&second_endpoint.provider.requests()[0].bytes).into_owned();
    for number in [0, 1] {
        let count = sent.matches(&format!("result number {number} of the tool")).count();
        assert_eq!(count, 3, "{label}: not every result {number} is sent once");
    }
    let images = sent.matches(&IMAGE[..40]).count();
    assert!(images >= 4, "{label}: only {images} images are sent");
}

#[tokio::test]
async fn a_conversation_continues_with_every_other_provider() {
    for first in APIS {
        for second in APIS {
            for stream in [true, false] {
                check(first, second, json!({"stream": stream})).await;
            }
        }
    }
}

#[tokio::test]
async fn older_gemini_models_get_images_after_the_results() {
    check(Api::Gemini, Api::Gemini, json!({"model": "gemini-2.5-flash"})).await;
}

#[tokio::test]
async fn a_refusal_is_sent_back_as_content() {
    for stream in [true, false] {
        let config = json!({"stream": stream});
        let script = [ModelOutput::default().refusal("I will not.")];
        let refusing = TestEndpoint::new(Api::OpenAiChat, script.into(), config.clone()).await;
        let mut messages = vec![Message::user("Do it.")];
        messages.push(ask(&refusing, &messages, "refusal").await.message);
        messages.push(Message::user("Something else then."));
        for api in Api::ALL {
            let label = format!("{api:?}, stream: {stream}");
            let endpoint = TestEndpoint::new(api, [ModelOutput::text("Good.")].into(), config.clone()).await;
            ask(&endpoint, &messages, &label).await;
            let sent = &endpoint.provider.requests()[0].body;
            assert!(sent.to_string().contains("I will not."), "{label}: {sent}");
            if Api::CHAT_FLAVOURS.contains(&api) {
                let refused = &sent["messages"][2];
                assert_eq!(refused["content"], "I will not.", "{label}: {refused}");
                let keeps_refusal = matches!(api, Api::OpenAiChat | Api::Azure | Api::Vllm | Api::LlamaCpp);
                assert_eq!(refused.get("refusal").is_some(), keeps_refusal, "{label}: {refused}");
            }
        }
    }
}
