//! A history begun on one provider goes on on each of the others, and back again.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::{Block, Content, Message, ModelRequest, ModelResponse, Role, ToolResult};
use toolwire_testkit::provider::{Api, ModelOutput};

use crate::answers::wire_name;
use crate::setting::{Setting, question, tools};

const FIVE: [Api; 5] = [Api::OpenAiChat, Api::Responses, Api::Anthropic, Api::Gemini, Api::Bedrock];

/// A PNG of one pixel.
const IMAGE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// An id as this API makes them, legal there and often nowhere else.
fn id(api: Api, number: usize) -> String {
    match api {
        Api::OpenAiChat => format!("functions.get_weather:{number}"),
        Api::Responses => format!("call_{number}_{}", "x".repeat(50)),
        Api::Anthropic => format!("toolu_{}{number}", "y".repeat(70)),
        Api::Bedrock => format!("tooluse_a.b:c-{number}"),
        _ => String::new(),
    }
}

/// What the model of an API says when it calls: with thinking, where the API shows some.
fn calling(api: Api, words: &str) -> ModelOutput {
    let said = ModelOutput::text(words).call(&id(api, 1), "get_weather", r#"{"location":"Bern"}"#).call(
        &id(api, 2),
        &wire_name(api, "files/look up"),
        r#"{"n":7}"#,
    );
    let said = if api == Api::OpenAiChat { said } else { said.thinking("They want to know two things.") };
    ModelOutput { hidden_thinking: matches!(api, Api::Anthropic | Api::Bedrock | Api::Responses), ..said }
}

/// The results of the calls in an answer: one with an image, one that failed and has one too.
fn results(answer: &ModelResponse) -> Message {
    let image = || Content::image(IMAGE, "image/png");
    let blocks = answer.message.calls().enumerate().map(|(index, (id, _))| {
        let text = Content::text(format!("result number {index} of the tool"));
        let is_error = Some(index == 1);
        let result = ToolResult { content: Some(vec![text, image()]), is_error, ..ToolResult::default() };
        Block::Result { id: id.to_owned(), result }
    });
    Message::new(Role::User, blocks.collect())
}

async fn ask(setting: &Setting, messages: &[Message], label: &str) -> ModelResponse {
    let request = ModelRequest {
        messages: messages.iter().cloned().map(Arc::new).collect(),
        tools: tools(),
        ..question("")
    };
    let (_, answer) = setting.ask(request).await;
    let answer = answer.unwrap_or_else(|error| panic!("{label}: {error:?}"));
    assert_eq!(setting.provider.rejections(), [], "{label}");
    assert_eq!(answer.unusable, [], "{label}");
    answer
}

async fn check(first: Api, second: Api, config: Value) {
    let label = format!("{first:?} to {second:?} and back, {config}");
    let script = [
        calling(first, "Let me look."),
        ModelOutput::text("All is well."),
        ModelOutput::text("You are welcome."),
    ];
    let one = Setting::new(first, script.into(), config.clone()).await;
    let script = [calling(second, "Once more."), ModelOutput::text("Done.")];
    let other = Setting::new(second, script.into(), config.clone()).await;

    let picture = Block::Content(Content::image(IMAGE, "image/png"));
    let mut messages = vec![Message::new(
        Role::User,
        vec![Block::Content(Content::text("What is this, and where?")), picture],
    )];
    // The first calls and answers, the second goes on with calls of its own, and the first has the last word.
    for (setting, calls) in [(&one, true), (&one, false), (&other, true), (&other, false), (&one, false)] {
        let answer = ask(setting, &messages, &label).await;
        messages.push(answer.message.clone());
        let calls_made = answer.message.calls().count();
        assert_eq!(calls_made, if calls { 2 } else { 0 }, "{label}");
        messages.push(if calls { results(&answer) } else { Message::user("And now?") });
    }
    // In the middle of calls, too: the second reads the results of calls that the first made.
    let script = [calling(first, "Let me look.")];
    let one = Setting::new(first, script.into(), config.clone()).await;
    let script = [ModelOutput::text("I see.")];
    let other = Setting::new(second, script.into(), config).await;
    let answer = ask(&one, &messages, &label).await;
    let results = results(&answer);
    messages.extend([answer.message, results]);
    ask(&other, &messages, &label).await;
    let sent = String::from_utf8_lossy(&other.provider.requests()[0].bytes).into_owned();
    for number in [0, 1] {
        let said = sent.matches(&format!("result number {number} of the tool")).count();
        assert_eq!(said, 3, "{label}: each of three results {number} is sent once");
    }
    let pictures = sent.matches(&IMAGE[..40]).count();
    assert!(pictures >= 4, "{label}: {pictures} images are sent");
}

#[tokio::test]
async fn a_history_goes_on_on_every_other_provider() {
    for first in FIVE {
        for second in FIVE {
            for stream in [true, false] {
                check(first, second, json!({"stream": stream})).await;
            }
        }
    }
}

#[tokio::test]
async fn older_models_of_gemini_get_their_images_beside_the_results() {
    check(Api::Gemini, Api::Gemini, json!({"model": "gemini-2.5-flash"})).await;
}
