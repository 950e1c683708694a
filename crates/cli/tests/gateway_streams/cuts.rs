//! The provider closes the connection after each event of its response in turn. The client gets an error,
//! never a part of the response as if it were complete.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolwire_testkit::provider::{Api, Delivery, ModelOutput, Script, render};

use crate::client::{CHAT, Client, MESSAGES, RESPONSES, text};
use crate::served_gateway::{Served, answer, call, serve_script};
use crate::{
    CLIENTS, FORWARDED, FORWARDED_HEADERS, OPTIONAL_EVENTS, PATHS, client, delivered, delivered_in_turn,
};

/// A provider that cuts this response one event later each time.
fn cut_later_each_time(output: &ModelOutput, events: usize, first: Option<ModelOutput>) -> Script {
    let cut = |count| Delivery { cut_after_events: Some(count), ..Delivery::default() };
    delivered_in_turn(output, (0..=events).map(cut).collect(), first)
}

/// A response without an error.
#[derive(Debug, PartialEq)]
struct Complete {
    text: String,
    calls: usize,
}

fn complete(path: &str, status: u16, response: &Value) -> Option<Complete> {
    if status != 200 || response["error"].is_object() || response["status"] == "failed" {
        return None;
    }
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let count = |list: &[Value], name: &str| list.iter().filter(|item| item["type"] == name).count();
    let joined = |texts: Vec<String>| texts.concat();
    Some(match path {
        CHAT => {
            let message = &response["choices"][0]["message"];
            Complete { text: text(&message["content"]), calls: items(&message["tool_calls"]).len() }
        }
        RESPONSES => {
            let items = items(&response["output"]);
            let texts = items.iter().map(|item| text(&item["content"][0]["text"])).collect();
            Complete { text: joined(texts), calls: count(&items, "function_call") }
        }
        _ => {
            let blocks = items(&response["content"]);
            let texts = blocks.iter().map(|block| text(&block["text"])).collect();
            Complete { text: joined(texts), calls: count(&blocks, "tool_use") }
        }
    })
}

fn error_message(response: &Value) -> Option<&str> {
    let message = response["error"]["message"].as_str();
    message.or(response["message"].as_str()).filter(|message| !message.is_empty())
}

/// Sends a request for each event of the response. Returns the number of complete responses.
async fn responses_to_cuts(
    served: &Served,
    mut client: Client,
    events: usize,
    label: &str,
    check: impl Fn(&Complete, &str),
) -> usize {
    let received = Arc::new(Mutex::new(String::new()));
    let body = received.clone();
    client.on_response = Some(Box::new(move |received| received.body.clone_into(&mut body.lock().unwrap())));
    let is_forwarded = !client.headers.is_empty();
    let mut completed = 0;
    for count in 0..=events {
        client.history = vec![json!({"role": "user", "content": "look"})];
        let (status, response) = client.post(&client.body()).await;
        let label = format!("{label}, {count} of {events} events");
        match complete(client.path, status, &response) {
            Some(found) => {
                completed += 1;
                check(&found, &format!("{label}: {response}"));
            }
            None => {
                assert!(error_message(&response).is_some(), "{label}: {response}");
                let body = received.lock().unwrap();
                let has_calls = ["\"tool_calls\"", "\"function_call\"", "\"tool_use\""]
                    .iter()
                    .any(|name| body.contains(name));
                assert!(is_forwarded || !has_calls, "{label}: {body}");
                if client.path == RESPONSES {
                    check_numbers(&body, &label);
                }
            }
        }
    }
    assert_eq!(served.provider.rejections(), [], "{label}");
    assert!(completed <= OPTIONAL_EVENTS + 1, "{label}: {completed} complete responses");
    completed
}

/// The events of the Responses API are numbered, with the error.
fn check_numbers(body: &str, label: &str) {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let numbers: Vec<u64> = data
        .map(|data| serde_json::from_str::<Value>(data).unwrap()["sequence_number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "{label}: {body}");
}

#[tokio::test]
async fn a_provider_may_end_a_text_at_every_event() {
    let output = answer("Some words that are complete.");
    for api in Api::ALL {
        let events = render(api, &output, true).len();
        for first in [None, Some(call("lookup"))] {
            for (path, stream) in CLIENTS {
                let served = serve_script(api, cut_later_each_time(&output, events, first.clone())).await;
                let label = format!("{api:?} {path}, stream: {stream}");
                responses_to_cuts(
                    &served,
                    client(&served.url, path, stream),
                    events,
                    &label,
                    |found, label| {
                        assert!(found.text.ends_with("Some words that are complete."), "{label}");
                    },
                )
                .await;
            }
        }
    }
}

/// The client gets a call only when it is complete.
#[tokio::test]
async fn a_provider_may_end_a_call_of_the_client_at_every_event() {
    let output = call("get_weather");
    for api in Api::ALL {
        let events = render(api, &output, true).len();
        for (path, stream) in CLIENTS {
            let served = serve_script(api, cut_later_each_time(&output, events, None)).await;
            let label = format!("{api:?} {path}, stream: {stream}");
            responses_to_cuts(&served, client(&served.url, path, stream), events, &label, |found, label| {
                assert_eq!(found.calls, 1, "{label}");
            })
            .await;
        }
    }
}

/// A tool of a server is called only when the call is complete.
#[tokio::test]
async fn a_provider_may_end_a_call_of_a_server_at_every_event() {
    let output = call("lookup");
    for api in Api::ALL {
        let events = render(api, &output, true).len();
        for (path, stream) in CLIENTS {
            let served = serve_script(api, cut_later_each_time(&output, events, None)).await;
            let label = format!("{api:?} {path}, stream: {stream}");
            let client = client(&served.url, path, stream);
            let completed = responses_to_cuts(&served, client, events, &label, |found, label| {
                assert!(found.text.ends_with("Done."), "{label}");
            })
            .await;
            assert_eq!(served.calls.started(), completed, "{label}");
        }
    }
}

#[tokio::test]
async fn a_provider_may_end_a_forwarded_stream_at_every_event() {
    for output in [answer("Some words that are complete."), call("get_weather")] {
        let (text, calls) = (output.text.clone().unwrap(), output.calls.len());
        for (api, path) in FORWARDED {
            let events = render(api, &output, true).len();
            let served = serve_script(api, cut_later_each_time(&output, events, None)).await;
            let mut client = client(&served.url, path, true);
            client.headers = FORWARDED_HEADERS.to_vec();
            responses_to_cuts(&served, client, events, &format!("{api:?}"), |found, label| {
                assert_eq!(*found, Complete { text: text.clone(), calls }, "{label}");
            })
            .await;
        }
    }
}

/// Only a stream can end with an error in its body, so a complete response gets another status.
#[tokio::test]
async fn a_provider_may_end_a_complete_response_early() {
    for path in PATHS {
        let (api, _) = FORWARDED.into_iter().find(|(_, of)| *of == path).unwrap();
        let delivery = Delivery { cut_after_bytes: Some(40), ..Delivery::default() };
        let script = Script::new([delivered(&answer("Some words."), delivery)]);
        let served = serve_script(api, script).await;
        let mut client = client(&served.url, path, false);
        client.headers = FORWARDED_HEADERS.to_vec();
        client.history = vec![json!({"role": "user", "content": "look"})];
        let (status, response) = client.post(&client.body()).await;
        assert_eq!((status, error_message(&response).is_some()), (502, true), "{api:?}: {response}");
        let is_of_messages = response["type"] == "error";
        assert_eq!(is_of_messages, path == MESSAGES, "{api:?}: {response}");
    }
}
