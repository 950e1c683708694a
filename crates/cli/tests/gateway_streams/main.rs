//! Streams through the gateway that are split at every byte, that the provider ends too early, or that the
//! client cancels.

#![allow(clippy::unwrap_used)]

#[path = "../../../gateway/tests/client/mod.rs"]
mod client;
mod cuts;
mod departures;
#[path = "../served_gateway/mod.rs"]
mod served_gateway;

use std::sync::atomic::{AtomicUsize, Ordering};

use client::{CHAT, Client, MESSAGES, RESPONSES};
use served_gateway::{answer, call, serve};
use toolwire_testkit::provider::{
    Api, BodySplit, Delivery, ModelOutput, ReceivedRequest, Script, ScriptedResponse, render,
};

const PATHS: [&str; 3] = [CHAT, RESPONSES, MESSAGES];

/// The APIs of clients, and whether the response is streamed. Complete responses are assembled in the same
/// way for all.
const CLIENTS: [(&str, bool); 4] = [(CHAT, true), (RESPONSES, true), (MESSAGES, true), (CHAT, false)];

/// The clients whose requests go straight to a provider with their API.
const FORWARDED: [(Api, &str); 5] = [
    (Api::OpenAiChat, CHAT),
    (Api::Vllm, CHAT),
    (Api::LlamaCpp, CHAT),
    (Api::Responses, RESPONSES),
    (Api::Anthropic, MESSAGES),
];

/// The headers of a request that goes straight to the provider.
const FORWARDED_HEADERS: [(&str, &str); 2] =
    [("x-toolwire-servers", "none"), ("anthropic-version", "2023-06-01")];

/// The number of events at the end of a stream that may be missing, because they have no content.
const OPTIONAL_EVENTS: usize = 3;

fn delivered(output: &ModelOutput, delivery: Delivery) -> ScriptedResponse {
    ScriptedResponse::Delivered(output.clone(), delivery)
}

/// A provider that delivers the same response in a different way each time. Before it, the provider makes the
/// calls of `first`, if there are any. After calls of the response itself, it responds with `Done.`.
fn delivered_in_turn(output: &ModelOutput, deliveries: Vec<Delivery>, first: Option<ModelOutput>) -> Script {
    let (output, next) = (output.clone(), AtomicUsize::new(0));
    Script::from_fn(move |request| match (has_result(request), &first) {
        (true, None) => ScriptedResponse::Output(answer("Done.")),
        (false, Some(first)) => ScriptedResponse::Output(first.clone()),
        _ => delivered(&output, deliveries[next.fetch_add(1, Ordering::SeqCst)].clone()),
    })
}

/// Whether a request contains the result of `lookup`.
fn has_result(request: &ReceivedRequest) -> bool {
    request.body.to_string().contains("found")
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

/// The client gets a stream of its own provider byte for byte.
#[tokio::test]
async fn forwarded_streams_may_be_split_at_every_byte() {
    let output = answer("Grüße aus 東京.").call("call00001", "get_weather", r#"{"key":"a"}"#);
    for (api, path) in FORWARDED {
        for split in [BodySplit::None, BodySplit::EveryByte, BodySplit::Sizes(vec![7, 1, 400])] {
            let delivery = Delivery { split, ..Delivery::default() };
            let served = serve(api, vec![delivered(&output, delivery)]).await;
            let mut client = client(&served.url, path, true);
            client.headers = FORWARDED_HEADERS.to_vec();
            let expected = render(api, &output, true).concat();
            client.on_response = Some(Box::new(move |received| {
                assert_eq!(received.body.as_bytes(), expected);
            }));
            assert_eq!(client.say("look").await.calls.len(), 1, "{api:?}");
        }
    }
}
