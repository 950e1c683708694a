//! Streams through the gateway that are split at every byte, that the provider ends too early, or that the client cancels.

#![allow(clippy::unwrap_used)]

#[path = "../../gateway/tests/client/mod.rs"]
mod client;
mod served_gateway;

use std::time::Duration;

use client::{CHAT, Client, MESSAGES, RESPONSES, text};
use serde_json::{Value, json};
use served_gateway::{answer, call, serve};
use toolwire_testkit::http_client;
use toolwire_testkit::provider::{Api, BodySplit, Delivery, Gate, ModelOutput, ScriptedResponse, render};

const PATHS: [&str; 3] = [CHAT, RESPONSES, MESSAGES];

/// The APIs of clients, and whether the response is streamed. Complete responses are assembled in the same way for all.
const CLIENTS: [(&str, bool); 4] = [(CHAT, true), (RESPONSES, true), (MESSAGES, true), (CHAT, false)];

/// The number of events at the end of a stream that may be missing, because they have no content.
const OPTIONAL_EVENTS: usize = 3;

fn delivered(output: &ModelOutput, delivery: Delivery) -> ScriptedResponse {
    ScriptedResponse::Delivered(output.clone(), delivery)
}

fn client(url: &str, path: &'static str, stream: bool) -> Client {
    let mut client = Client::new(format!("{url}{path}"), path);
    client.stream = stream;
    client
}

#[tokio::test]
async fn streams_may_be_split_at_every_byte() {
    let outputs = [call("lookup"), call("get_weather"), answer("Grüße aus 東京.")];
    for api in Api::ALL {
        for path in PATHS {
            let mut replies = Vec::new();
            for split in [BodySplit::None, BodySplit::EveryByte, BodySplit::Sizes(vec![7, 1, 400])] {
                let delivery = Delivery { split, ..Delivery::default() };
                let script = outputs.iter().map(|output| delivered(output, delivery.clone())).collect();
                let served = serve(api, script).await;
                let mut client = client(&served.url, path, true);
                let first = client.say("look").await;
                client.return_results(&[(&first.calls[0].0, "sunny")]);
                let second = client.send().await;
                assert!(second.text.ends_with("Grüße aus 東京."), "{api:?} {path}: {second:?}");
                replies.push((first.text, first.stop, first.input_tokens, second));
            }
            assert!(replies.iter().all(|reply| *reply == replies[0]), "{api:?} {path}: {replies:#?}");
        }
    }
}

/// Returns the text of a response without an error.
fn complete_text(path: &str, status: u16, response: &Value) -> Option<String> {
    if status != 200 || response["error"].is_object() || response["status"] == "failed" {
        return None;
    }
    Some(match path {
        CHAT => text(&response["choices"][0]["message"]["content"]),
        RESPONSES => text(&response["output"].as_array()?.last()?["content"][0]["text"]),
        _ => text(&response["content"].as_array()?.last()?["text"]),
    })
}

/// The provider closes the connection after each event of the response in turn. The client gets an error, never a part of the
/// response as if it were complete.
#[tokio::test]
async fn a_provider_may_end_a_stream_at_every_event() {
    let output = answer("Some words that are complete.");
    for api in Api::ALL {
        let events = render(api, &output, true).len();
        for rounds in [vec![], vec![ScriptedResponse::Output(call("lookup"))]] {
            for (path, stream) in CLIENTS {
                let cut = (0..=events).flat_map(|count| {
                    let delivery = Delivery { cut_after_events: Some(count), ..Delivery::default() };
                    rounds.iter().cloned().chain([delivered(&output, delivery)])
                });
                let served = serve(api, cut.collect()).await;
                let mut errors = 0;
                for count in 0..=events {
                    let mut client = client(&served.url, path, stream);
                    client.history.push(json!({"role": "user", "content": "look"}));
                    let (status, response) = client.post(&client.body()).await;
                    let label = format!("{api:?} {path}, stream: {stream}, {count} of {events} events");
                    match complete_text(path, status, &response) {
                        Some(text) => {
                            assert!(text.ends_with("Some words that are complete."), "{label}: {response}");
                        }
                        None => {
                            errors += 1;
                            assert!(error_message(&response).is_some(), "{label}: {response}");
                        }
                    }
                }
                assert!(
                    errors >= events - OPTIONAL_EVENTS,
                    "{api:?} {path}, stream: {stream}: only {errors} errors"
                );
                assert_eq!(served.provider.responses_left(), 0, "{api:?} {path}, stream: {stream}");
            }
        }
    }
}

fn error_message(response: &Value) -> Option<&str> {
    let message = response["error"]["message"].as_str();
    message.or(response["message"].as_str()).filter(|message| !message.is_empty())
}

/// The client closes the connection while the provider is before each event of the response in turn. The request to the provider
/// ends as well.
#[tokio::test]
async fn a_client_may_leave_at_every_event() {
    let output = answer("Some words that are not read.");
    for api in Api::ALL {
        let events = render(api, &output, true).len();
        for (path, stream) in CLIENTS {
            for rounds in [vec![], vec![ScriptedResponse::Output(call("lookup"))]] {
                let gates: Vec<Gate> = (0..=events).map(|_| Gate::new()).collect();
                let script = gates.iter().enumerate().flat_map(|(number, gate)| {
                    let delivery = Delivery { gates: vec![(number, gate.clone())], ..Delivery::default() };
                    rounds.iter().cloned().chain([delivered(&output, delivery)])
                });
                let served = serve(api, script.collect()).await;
                for (number, gate) in gates.iter().enumerate() {
                    let mut client = client(&served.url, path, stream);
                    client.history.push(json!({"role": "user", "content": "look"}));
                    let url = format!("{}{path}", served.url);
                    let request = http_client().post(url).json(&client.body()).send();
                    let response = async { request.await.unwrap().bytes().await };
                    let label =
                        format!("{api:?} {path}, stream: {stream}, before event {number} of {events}");
                    tokio::select! {
                        biased;
                        () = gate.reached() => {}
                        response = response => {
                            assert!(number + OPTIONAL_EVENTS > events, "{label}: {response:?}");
                            continue;
                        }
                    }
                    tokio::time::timeout(Duration::from_secs(60), served.provider.abandoned())
                        .await
                        .unwrap_or_else(|_| panic!("{label}: the provider still sends"));
                }
                assert_eq!(served.provider.responses_left(), 0, "{api:?} {path}, stream: {stream}");
            }
        }
    }
}
