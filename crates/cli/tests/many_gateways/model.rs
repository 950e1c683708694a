//! The model: its text lists the marks of the messages that it got, and it makes the calls that the last
//! message requests.
//!
//! A message such as `#7 do append:e7 pause` makes two calls, one after the other. The response to it is
//! `heard #5 #7 got appended:e7`, with the marks of all messages of the user so far, and the results.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use toolwire_testkit::provider::{
    Api, Delivery, FakeProvider, ModelOutput, ReceivedRequest, Script, ScriptedResponse, render,
};

/// The start of the mark of a message.
pub(crate) const MARK: char = '#';

/// The start of a result of the tool `append`.
pub(crate) const APPENDED: &str = "appended:";

pub(crate) async fn start(api: Api) -> FakeProvider {
    FakeProvider::start(api, Script::from_fn(move |request| respond(api, request))).await
}

/// Returns the words of a text that begin with `start`.
pub(crate) fn words<'t>(text: &'t str, start: &str) -> Vec<&'t str> {
    text.split_whitespace().filter(|word| word.starts_with(start)).collect()
}

/// Returns the text of the response to messages with these marks.
pub(crate) fn heard(marks: &[String]) -> String {
    format!("heard {}", marks.join(" "))
}

enum Part {
    User(String),
    Result(String),
}

fn respond(api: Api, request: &ReceivedRequest) -> ScriptedResponse {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let output = output(&parts(api, &request.body), &request.body, number);
    if api != Api::Responses {
        return ScriptedResponse::Output(output);
    }
    // Each response needs an id of its own, because a gateway that forwards it stores it under this id.
    let is_stream = request.body["stream"] == true;
    let id = format!("\"resp_{number}x\"");
    let unique = |part: Vec<u8>| String::from_utf8(part).unwrap().replace("\"resp_1\"", &id).into_bytes();
    let body = render(api, &output, is_stream).into_iter().map(unique).collect();
    let content_type = if is_stream { "text/event-stream; charset=utf-8" } else { "application/json" };
    let headers = vec![("content-type".to_owned(), content_type.to_owned())];
    ScriptedResponse::Raw { status: 200, headers, body, delivery: Delivery::default() }
}

fn output(parts: &[Part], body: &Value, number: u64) -> ModelOutput {
    let users =
        || parts.iter().filter_map(|part| if let Part::User(text) = part { Some(text) } else { None });
    let start = parts.iter().rposition(|part| matches!(part, Part::User(_))).unwrap_or_default();
    let results: Vec<&str> = parts[start..]
        .iter()
        .filter_map(|part| if let Part::Result(text) = part { Some(text.as_str()) } else { None })
        .collect();
    let last = users().next_back().map_or("", String::as_str);
    let calls = last.split_once(" do ").map_or("", |(_, calls)| calls);
    if let Some(call) = calls.split_whitespace().nth(results.len()) {
        let (name, id) = call.split_once(':').unwrap_or((call, ""));
        let arguments = json!({"id": id}).to_string();
        let output = ModelOutput::text("One moment please.");
        return output.call(&format!("call_{number}"), &offered(body, name), &arguments);
    }
    let marks: Vec<String> =
        users().flat_map(|text| words(text, &MARK.to_string())).map(str::to_owned).collect();
    let mut text = heard(&marks);
    for result in results.iter().flat_map(|result| words(result, APPENDED)) {
        text.push_str(&format!(" got {result}"));
    }
    ModelOutput::text(&text)
}

/// Returns the name under which a tool is offered.
fn offered(body: &Value, name: &str) -> String {
    let names = body["tools"].as_array().into_iter().flatten().filter_map(|tool| {
        tool["name"].as_str().or_else(|| tool["function"]["name"].as_str()).map(str::to_owned)
    });
    names.into_iter().find(|offered| offered.ends_with(name)).unwrap_or_else(|| name.to_owned())
}

/// Returns the texts of the user and the results, in order.
fn parts(api: Api, body: &Value) -> Vec<Part> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut parts = Vec::new();
    let messages = match api {
        Api::Responses => &body["input"],
        _ => &body["messages"],
    };
    if let Some(text) = messages.as_str() {
        return vec![Part::User(text.to_owned())];
    }
    for message in list(messages) {
        match (message["type"].as_str(), message["role"].as_str()) {
            (Some("function_call_output"), _) => parts.push(Part::Result(text(&message["output"]))),
            (_, Some("tool")) => parts.push(Part::Result(text(&message["content"]))),
            (_, Some("user")) => {
                for block in list(&message["content"]) {
                    parts.push(match block["type"].as_str() {
                        Some("tool_result") => Part::Result(text(&block["content"])),
                        _ => Part::User(text(&block)),
                    });
                }
                if let Some(text) = message["content"].as_str() {
                    parts.push(Part::User(text.to_owned()));
                }
            }
            _ => {}
        }
    }
    parts
}

/// Returns the text of a content.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(text).collect::<Vec<_>>().join(" "),
        _ => value["text"].as_str().unwrap_or_default().to_owned(),
    }
}
