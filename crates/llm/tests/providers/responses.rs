//! Responses of every provider: complete, streamed, and split at every byte.

use serde_json::{Value, json};
use toolwire_contract::model::{ModelEvent, ModelResponse, StopReason, Usage};
use toolwire_contract::{Block, Content, Role};
use toolwire_dialect::Dialect;
use toolwire_testkit::provider::{
    Api, BodySplit, Delivery, FinishReason, ModelOutput, ScriptedResponse, TokenCounts,
};

use crate::harness::{TestEndpoint, question, text_of};

/// Model outputs, each with a label for failure messages.
fn cases(api: Api) -> Vec<(&'static str, ModelOutput)> {
    let usage = TokenCounts { input: 120, cached: 20, written: 0, output: 30, thinking: 0 };
    let weather = r#"{"location":"Zürich 😀","units":"celsius"}"#;
    // Each dialect encodes tool names differently.
    let look_up = wire_name(api, "files/look up");
    vec![
        ("text", ModelOutput::text("Grüezi, \"world\" 😀\n\nAll is well.").usage(usage)),
        ("one call", ModelOutput::default().call("call00001", "get_weather", weather)),
        (
            "text and two calls",
            ModelOutput::text("Let me see.").call("call00001", "get_weather", weather).call(
                "call00002",
                &look_up,
                r#"{"n":9007199254740993}"#,
            ),
        ),
        ("cut off at the output limit", ModelOutput::text("It is a long").finish(FinishReason::Length)),
    ]
}

pub(crate) fn wire_name(api: Api, name: &str) -> String {
    let dialect = match api {
        Api::OpenAiChat | Api::Vllm | Api::LlamaCpp => Dialect::OpenAi,
        Api::Azure => Dialect::Azure,
        Api::Dial => Dialect::Dial,
        Api::Mistral => Dialect::Mistral,
        Api::Groq => Dialect::Groq,
        Api::DeepSeek => Dialect::DeepSeek,
        Api::Xai => Dialect::Xai,
        Api::Responses => Dialect::Responses,
        Api::Anthropic => Dialect::Anthropic,
        Api::Gemini => Dialect::Gemini,
        Api::Bedrock => Dialect::Bedrock,
        Api::Cohere => Dialect::Cohere,
        Api::Ollama => Dialect::Ollama,
    };
    let toolset = toolwire_dialect::Toolset::new(&crate::harness::tools(), dialect, &Default::default());
    let report = toolset.reports().iter().find(|report| report.tool == name);
    report.expect("the tool is listed").name.clone()
}

/// Returns the response without provider-specific data.
fn normalized(response: &ModelResponse) -> Value {
    let blocks: Vec<Value> = response
        .message
        .content
        .iter()
        .map(|block| match block {
            Block::Content(Content::Text { text, .. }) => json!({"text": text}),
            // Cohere returns the text before calls as a plan.
            Block::Content(Content::Other(plan)) if plan["_meta"]["toolwire/cohere"].is_object() => {
                json!({"text": plan["text"]})
            }
            Block::Call { call, .. } => json!({"call": call.name, "arguments": call.arguments}),
            other => Value::from(other.clone()),
        })
        .collect();
    json!({"blocks": blocks, "stop": format!("{:?}", response.stop)})
}

fn expected(output: &ModelOutput) -> Value {
    let mut blocks = Vec::new();
    blocks.extend(output.text.iter().map(|text| json!({"text": text})));
    blocks.extend(output.calls.iter().map(|call| {
        let name = if call.name == "get_weather" { "get_weather" } else { "files/look up" };
        let arguments: Value = serde_json::from_str(&call.arguments).expect("valid JSON");
        json!({"call": name, "arguments": arguments})
    }));
    let stop = match (&output.finish, output.calls.is_empty()) {
        (Some(_), _) => StopReason::Length,
        (None, true) => StopReason::End,
        (None, false) => StopReason::Calls,
    };
    json!({"blocks": blocks, "stop": format!("{stop:?}")})
}

/// Checks that the response is the same for every delivery, and that the provider accepts the request.
async fn check(api: Api, case: &str, output: &ModelOutput) {
    let label = format!("{api:?}, {case}");
    let every_byte = Delivery { split: BodySplit::EveryByte, ..Delivery::default() };
    let mixed_sizes = Delivery { split: BodySplit::Sizes(vec![7, 1, 400]), ..Delivery::default() };
    let deliveries = [
        ("complete", json!({"stream": false}), ScriptedResponse::Output(output.clone())),
        ("streamed", json!({}), ScriptedResponse::Output(output.clone())),
        ("every byte", json!({}), ScriptedResponse::Delivered(output.clone(), every_byte)),
        ("mixed sizes", json!({}), ScriptedResponse::Delivered(output.clone(), mixed_sizes)),
    ];
    let mut responses = Vec::new();
    for (delivery, config, scripted) in deliveries {
        let endpoint = TestEndpoint::repeating(api, scripted, config).await;
        let (events, response) = endpoint.ask(question("How is it in Zürich?")).await;
        let response = response.unwrap_or_else(|error| panic!("{label}, {delivery}: {error:?}"));
        assert_eq!(endpoint.provider.rejections(), [], "{label}, {delivery}");
        assert_eq!(normalized(&response), expected(output), "{label}, {delivery}");
        let plan = events.iter().filter_map(|event| match event {
            ModelEvent::Thinking(plan) if api == Api::Cohere => Some(plan.as_str()),
            _ => None,
        });
        let text = plan.collect::<String>() + &text_of(&events);
        assert_eq!(text, output.text.clone().unwrap_or_default(), "{label}, {delivery}");
        let announced: Vec<&str> = events
            .iter()
            .filter_map(|event| match event {
                ModelEvent::CallAnnounced { name, .. } => Some(name.as_str()),
                _ => None,
            })
            .collect();
        let called: Vec<&str> = response.message.calls().map(|(_, call)| call.name.as_str()).collect();
        assert_eq!(announced, called, "{label}, {delivery}");
        assert_eq!(response.message.role, Role::Assistant);
        assert_eq!(response.unusable, [], "{label}, {delivery}");
        let tokens = response.usage.map(|usage| (usage.input_tokens, usage.output_tokens));
        // Streams of DIAL do not request usage, since not every model behind it supports that.
        let expected_tokens =
            (api != Api::Dial || delivery == "complete").then_some((output.usage.input, output.usage.output));
        assert_eq!(tokens, expected_tokens, "{label}, {delivery}");
        responses.push((delivery, response));
    }
    for (delivery, response) in &responses[2..] {
        assert_eq!(response, &responses[1].1, "{label}, {delivery}: differs from the streamed response");
    }
}

#[tokio::test]
async fn the_responses_of_every_provider_are_read_in_every_delivery() {
    for api in Api::ALL {
        for (case, output) in cases(api) {
            check(api, case, &output).await;
        }
    }
}

#[tokio::test]
async fn the_cost_is_computed_if_the_provider_reports_none() {
    let output = ModelOutput::text("hi").usage(TokenCounts {
        input: 1000,
        cached: 400,
        written: 0,
        output: 100,
        thinking: 0,
    });
    let config = json!({"price": {"input": 2.0, "cachedInput": 0.5, "output": 10.0}});
    let endpoint = TestEndpoint::repeating(Api::OpenAiChat, ScriptedResponse::Output(output), config).await;
    let (_, response) = endpoint.ask(question("hi")).await;
    let usage = response.expect("a response").usage;
    let expected = Usage {
        input_tokens: 1000,
        output_tokens: 100,
        cached_tokens: 400,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        cost_nanodollars: Some(600 * 2000 + 400 * 500 + 100 * 10_000),
    };
    assert_eq!(usage, Some(expected));
}

#[tokio::test]
async fn an_endpoint_that_does_not_stream_is_supported() {
    let body = json!({"id": "1", "object": "chat.completion", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}]});
    let scripted = ScriptedResponse::Raw {
        status: 200,
        headers: vec![("content-type".to_owned(), "application/json; charset=utf-8".to_owned())],
        body: vec![body.to_string().into_bytes()],
        delivery: Delivery::default(),
    };
    let endpoint = TestEndpoint::repeating(Api::OpenAiChat, scripted, json!({})).await;
    let (events, response) = endpoint.ask(question("hi")).await;
    assert_eq!((text_of(&events).as_str(), response.expect("a response").stop), ("hi", StopReason::End));
}

#[tokio::test]
async fn the_end_marker_ends_a_response_without_a_stop_reason() {
    let event = |delta: Value| format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]}));
    let call = json!({"tool_calls": [{"index": 0, "id": "1", "type": "function",
        "function": {"name": "get_weather", "arguments": "{\"location\": \"Bern\"}"}}]});
    for (delta, end, expected) in [
        (json!({"content": "hi"}), "data: [DONE]\n\n", Ok(StopReason::End)),
        (call.clone(), "data: [DONE]\n\n", Ok(StopReason::Calls)),
        (json!({"content": "hi"}), "", Err("broken")),
        (call, "", Err("broken")),
    ] {
        let scripted = ScriptedResponse::Raw {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            body: vec![event(delta.clone()).into_bytes(), end.as_bytes().to_vec()],
            delivery: Delivery::default(),
        };
        let endpoint = TestEndpoint::repeating(Api::OpenAiChat, scripted, json!({"retries": 0})).await;
        let (_, response) = endpoint.ask(question("hi")).await;
        let outcome = response.as_ref().map(|response| response.stop.clone()).map_err(|error| error.code());
        assert_eq!(outcome, expected, "{delta}{end}");
        assert!(response.is_err() || response.is_ok_and(|response| response.unusable.is_empty()));
    }
}

#[tokio::test]
async fn too_many_tools_are_an_error() {
    let endpoint = TestEndpoint::repeating(
        Api::OpenAiChat,
        ScriptedResponse::Output(ModelOutput::text("hi")),
        json!({"maxTools": 1}),
    )
    .await;
    let (_, outcome) = endpoint.ask(question("hi")).await;
    let error = outcome.expect_err("two tools are offered");
    assert_eq!(
        (error.to_string().as_str(), error.hint()),
        (
            "`openai/m` cannot be used: 2 tools are offered, and the maximum is 1",
            Some("offer fewer tools, or let the model search for them")
        )
    );
    assert_eq!(endpoint.provider.requests(), []);
}
