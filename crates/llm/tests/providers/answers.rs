//! Answers of every provider: whole, streamed, and torn at every byte.

use serde_json::{Value, json};
use toolwire_contract::{Block, Content, ModelEvent, ModelResponse, Role, StopReason, Usage};
use toolwire_dialect::Dialect;
use toolwire_testkit::provider::{
    Api, BodySplit, Delivery, FinishReason, ModelOutput, ScriptedResponse, TokenCounts,
};

use crate::setting::{Setting, question, text_of};

/// What a model may say, in words for a failure.
fn cases(api: Api) -> Vec<(&'static str, ModelOutput)> {
    let usage = TokenCounts { input: 120, cached: 20, output: 30, thinking: 0 };
    let weather = r#"{"location":"Zürich 😀","units":"celsius"}"#;
    // Each API shows tools under names of its own making.
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
        ("cut off by its limit", ModelOutput::text("It is a long").finish(FinishReason::Length)),
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
    let toolset = toolwire_dialect::Toolset::new(&crate::setting::tools(), dialect, &Default::default());
    let report = toolset.reports().iter().find(|report| report.tool == name);
    report.expect("the tool is among them").name.clone()
}

/// What the answer is in MCP's words, without what only the provider understands.
fn plain(answer: &ModelResponse) -> Value {
    let blocks: Vec<Value> = answer
        .message
        .content
        .iter()
        .map(|block| match block {
            Block::Content(Content::Text { text, .. }) => json!({"text": text}),
            // Cohere says what a model writes before its calls as its plan.
            Block::Content(Content::Other(plan)) if plan["_meta"]["toolwire/cohere"].is_object() => {
                json!({"text": plan["text"]})
            }
            Block::Call { call, .. } => json!({"call": call.name, "arguments": call.arguments}),
            other => Value::from(other.clone()),
        })
        .collect();
    json!({"blocks": blocks, "stop": format!("{:?}", answer.stop)})
}

fn expected(said: &ModelOutput) -> Value {
    let mut blocks = Vec::new();
    blocks.extend(said.text.iter().map(|text| json!({"text": text})));
    blocks.extend(said.calls.iter().map(|call| {
        let name = if call.name == "get_weather" { "get_weather" } else { "files/look up" };
        let arguments: Value = serde_json::from_str(&call.arguments).expect("the case is JSON");
        json!({"call": name, "arguments": arguments})
    }));
    let stop = match (&said.finish, said.calls.is_empty()) {
        (Some(_), _) => StopReason::Length,
        (None, true) => StopReason::End,
        (None, false) => StopReason::Calls,
    };
    json!({"blocks": blocks, "stop": format!("{stop:?}")})
}

/// The same answer whichever way it comes, and a request that the provider takes.
async fn check(api: Api, case: &str, said: &ModelOutput) {
    let label = format!("{api:?}, {case}");
    let torn = Delivery { split: BodySplit::EveryByte, ..Delivery::default() };
    let lumps = Delivery { split: BodySplit::Sizes(vec![7, 1, 400]), ..Delivery::default() };
    let ways = [
        ("whole", json!({"stream": false}), ScriptedResponse::Output(said.clone())),
        ("streamed", json!({}), ScriptedResponse::Output(said.clone())),
        ("torn", json!({}), ScriptedResponse::Delivered(said.clone(), torn)),
        ("in lumps", json!({}), ScriptedResponse::Delivered(said.clone(), lumps)),
    ];
    let mut answers = Vec::new();
    for (way, config, reply) in ways {
        let setting = Setting::repeating(api, reply, config).await;
        let (shown, answer) = setting.ask(question("How is it in Zürich?")).await;
        let answer = answer.unwrap_or_else(|error| panic!("{label}, {way}: {error:?}"));
        assert_eq!(setting.provider.rejections(), [], "{label}, {way}");
        assert_eq!(plain(&answer), expected(said), "{label}, {way}");
        let plan = shown.iter().filter_map(|event| match event {
            ModelEvent::Thinking(plan) if api == Api::Cohere => Some(plan.as_str()),
            _ => None,
        });
        let text = plan.collect::<String>() + &text_of(&shown);
        assert_eq!(text, said.text.clone().unwrap_or_default(), "{label}, {way}");
        let begun: Vec<&str> = shown
            .iter()
            .filter_map(|event| match event {
                ModelEvent::CallAnnounced { name, .. } => Some(name.as_str()),
                _ => None,
            })
            .collect();
        let called: Vec<&str> = answer.message.calls().map(|(_, call)| call.name.as_str()).collect();
        assert_eq!(begun, called, "{label}, {way}");
        assert_eq!(answer.message.role, Role::Assistant);
        assert_eq!(answer.unusable, [], "{label}, {way}");
        let tokens = answer.usage.map(|usage| (usage.input_tokens, usage.output_tokens));
        // DIAL's streams are not asked for it: not every model behind it knows the question.
        let expected = (api != Api::Dial || way == "whole").then_some((said.usage.input, said.usage.output));
        assert_eq!(tokens, expected, "{label}, {way}");
        answers.push((way, answer));
    }
    for (way, answer) in &answers[2..] {
        assert_eq!(answer, &answers[1].1, "{label}, {way}: another answer than streamed");
    }
}

#[tokio::test]
async fn every_provider_is_understood_whole_and_streamed_and_torn() {
    for api in Api::ALL {
        for (case, said) in cases(api) {
            check(api, case, &said).await;
        }
    }
}

#[tokio::test]
async fn the_price_is_worked_out_where_the_provider_names_none() {
    let said =
        ModelOutput::text("hi").usage(TokenCounts { input: 1000, cached: 400, output: 100, thinking: 0 });
    let config = json!({"price": {"input": 2.0, "cachedInput": 0.5, "output": 10.0}});
    let setting = Setting::repeating(Api::OpenAiChat, ScriptedResponse::Output(said), config).await;
    let (_, answer) = setting.ask(question("hi")).await;
    let usage = answer.expect("an answer").usage;
    let expected = Usage {
        input_tokens: 1000,
        output_tokens: 100,
        cached_tokens: 400,
        reasoning_tokens: 0,
        cost_nanodollars: Some(600 * 2000 + 400 * 500 + 100 * 10_000),
    };
    assert_eq!(usage, Some(expected));
}

#[tokio::test]
async fn an_endpoint_that_does_not_stream_when_asked_to_is_understood() {
    let body = json!({"id": "1", "object": "chat.completion", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}]});
    let reply = ScriptedResponse::Raw {
        status: 200,
        headers: vec![("content-type".to_owned(), "application/json; charset=utf-8".to_owned())],
        body: vec![body.to_string().into_bytes()],
        delivery: Delivery::default(),
    };
    let setting = Setting::repeating(Api::OpenAiChat, reply, json!({})).await;
    let (shown, answer) = setting.ask(question("hi")).await;
    assert_eq!((text_of(&shown).as_str(), answer.expect("an answer").stop), ("hi", StopReason::End));
}

#[tokio::test]
async fn the_closing_word_ends_an_answer_that_tells_no_reason() {
    let event = |delta: Value| format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]}));
    let call = json!({"tool_calls": [{"index": 0, "id": "1", "type": "function",
        "function": {"name": "get_weather", "arguments": "{\"location\": \"Bern\"}"}}]});
    for (delta, end, expected) in [
        (json!({"content": "hi"}), "data: [DONE]\n\n", Ok(StopReason::End)),
        (call.clone(), "data: [DONE]\n\n", Ok(StopReason::Calls)),
        (json!({"content": "hi"}), "", Err("broken")),
        (call, "", Err("broken")),
    ] {
        let reply = ScriptedResponse::Raw {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            body: vec![event(delta.clone()).into_bytes(), end.as_bytes().to_vec()],
            delivery: Delivery::default(),
        };
        let setting = Setting::repeating(Api::OpenAiChat, reply, json!({"retries": 0})).await;
        let (_, answer) = setting.ask(question("hi")).await;
        let found = answer.as_ref().map(|answer| answer.stop.clone()).map_err(|error| error.code());
        assert_eq!(found, expected, "{delta}{end}");
        assert!(answer.is_err() || answer.is_ok_and(|answer| answer.unusable.is_empty()));
    }
}

#[tokio::test]
async fn more_tools_than_the_provider_takes_are_not_sent() {
    let setting = Setting::repeating(
        Api::OpenAiChat,
        ScriptedResponse::Output(ModelOutput::text("hi")),
        json!({"maxTools": 1}),
    )
    .await;
    let (_, refused) = setting.ask(question("hi")).await;
    let refused = refused.expect_err("two tools are offered");
    assert_eq!(
        (refused.to_string().as_str(), refused.hint()),
        (
            "`openai/m` cannot be asked: it takes 1 tools in one request, and 2 are offered",
            Some("offer fewer tools, or let the model search for them")
        )
    );
    assert_eq!(setting.provider.requests(), []);
}
