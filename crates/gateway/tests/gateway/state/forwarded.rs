//! Responses that the provider has written, and that the gateway passes on unchanged.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolwire_agent::Functions;
use toolwire_contract::model::ModelError;
use toolwire_dialect::Dialect;
use toolwire_gateway::{ForwardedBody, ForwardedRequest, ForwardedResponse, Gateway, ServedModel, Upstream};
use toolwire_testkit::{ScriptedModel, ScriptedTurn, http_client};

use super::stores::Watched;
use super::*;
use crate::every_name::EveryName;

/// A provider with the Responses API. It numbers its responses.
#[derive(Default)]
struct Provider {
    received: Mutex<Vec<Value>>,
    /// The size of the parts of a stream.
    part_bytes: usize,
}

impl Provider {
    fn received(&self) -> Vec<Value> {
        self.received.lock().unwrap().clone()
    }
}

impl Upstream for Provider {
    fn model_id(&self) -> &str {
        "real-name"
    }

    fn forward(&self, request: ForwardedRequest) -> BoxFuture<'_, Result<ForwardedResponse, ModelError>> {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let mut received = self.received.lock().unwrap();
        received.push(body.clone());
        let response = response(received.len());
        let (content_type, body) = match body["stream"] == true {
            false => ("application/json", ForwardedBody::Complete(Bytes::from(response.to_string()))),
            true => {
                let text = events(&response);
                let parts = text.as_bytes().chunks(self.part_bytes).map(Bytes::copy_from_slice).map(Ok);
                let parts: Vec<Result<Bytes, ModelError>> = parts.collect();
                ("text/event-stream", ForwardedBody::Parts(stream::iter(parts).boxed()))
            }
        };
        let headers = vec![("content-type".to_owned(), content_type.as_bytes().to_vec())];
        Box::pin(std::future::ready(Ok(ForwardedResponse::new(200, headers, body))))
    }

    fn redact(&self, error: Value) -> Value {
        error
    }
}

fn response(number: usize) -> Value {
    json!({
        "id": format!("resp_up{number}"), "object": "response", "created_at": 5, "status": "completed", "model": "real-name",
        "output": [{"id": format!("msg_up{number}"), "type": "message", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": format!("The \"response\" {number}."), "annotations": []}]}],
        "previous_response_id": null, "store": true, "later_field": 1.50,
    })
}

fn events(response: &Value) -> String {
    let mut created = response.clone();
    (created["status"], created["output"]) = (json!("in_progress"), json!([]));
    let text = response["output"][0]["content"][0]["text"].as_str().unwrap();
    let event = |name: &str, fields: Value| {
        let mut data = json!({"type": name});
        data.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        format!("event: {name}\ndata: {data}\n\n")
    };
    [
        event("response.created", json!({"response": created})),
        ": a comment\n\n".to_owned(),
        event("response.output_text.delta", json!({"item_id": "x", "delta": text})),
        event("response.completed", json!({"response": response})),
    ]
    .concat()
}

struct Served {
    address: SocketAddr,
    provider: Arc<Provider>,
    store: Arc<dyn StateStore>,
    _stop: DropGuard,
}

async fn serve(part_bytes: usize) -> Served {
    serve_with(part_bytes, memory()).await
}

async fn serve_with(part_bytes: usize, store: Arc<dyn StateStore>) -> Served {
    let provider = Arc::new(Provider { part_bytes, ..Provider::default() });
    let model = ServedModel::new(Arc::new(ScriptedModel::from_fn(|_| {
        ScriptedTurn::text_in_chunks("Written here.", 5)
    })));
    let model = model.with_upstream(Dialect::Responses, provider.clone());
    let gateway = Gateway::new(Arc::new(EveryName(model)), Arc::new(Functions::new()), settings(&store));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let serving = stop.clone();
    tokio::spawn(async move { gateway.serve(listener, serving).await.unwrap() });
    Served { address, provider, store, _stop: stop.drop_guard() }
}

impl Served {
    async fn post(&self, body: &Value) -> String {
        let url = format!("http://{}/v1/responses", self.address);
        let response = http_client().post(url).json(body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.text().await.unwrap()
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let url = format!("http://{}/v1/responses/{path}", self.address);
        let response = http_client().get(url).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }
}

/// The bytes of the first response are those of the provider, and the response is stored.
#[tokio::test]
async fn a_forwarded_response_is_stored_and_not_changed() {
    for part_bytes in [1, 50, 100_000] {
        let served = serve(part_bytes).await;
        let whole = served.post(&json!({"model": "up", "input": "one"})).await;
        assert_eq!(whole, response(1).to_string());
        let streamed = served.post(&json!({"model": "up", "input": "two", "stream": true})).await;
        assert_eq!(streamed, events(&response(2)), "parts of {part_bytes} bytes");
        for number in [1, 2] {
            let stored = served.get(&format!("resp_up{number}")).await;
            assert_eq!(stored, (200, response(number).to_string()));
            let (_, items) = served.get(&format!("resp_up{number}/input_items")).await;
            let items: Value = serde_json::from_str(&items).unwrap();
            assert_eq!(items["data"][0]["content"][0]["text"], json!(["one", "two"][number - 1]));
        }
        served.post(&json!({"model": "up", "input": "three", "store": false})).await;
        served.post(&json!({"model": "up", "input": "four", "store": false, "stream": true})).await;
        assert_eq!((served.get("resp_up3").await.0, served.get("resp_up4").await.0), (404, 404));
    }
}

#[tokio::test]
async fn a_forwarded_response_that_cannot_be_stored_says_so() {
    for part_bytes in [1, 100_000] {
        let watched = Arc::new(Watched::default());
        watched.is_read_only.store(true, Ordering::SeqCst);
        let served = serve_with(part_bytes, watched).await;
        let not_stored = |number: usize| {
            let mut response = response(number);
            response["store"] = json!(false);
            response
        };
        let whole = served.post(&json!({"model": "up", "input": "one"})).await;
        assert_eq!(serde_json::from_str::<Value>(&whole).unwrap(), not_stored(1));
        let streamed = served.post(&json!({"model": "up", "input": "two", "stream": true})).await;
        assert_eq!(last_response(&streamed), not_stored(2));
    }
}

/// The provider gets the whole conversation, and never the id of a response.
#[tokio::test]
async fn the_provider_gets_the_whole_conversation() {
    for (part_bytes, stream) in [(7, true), (100_000, true), (1, false)] {
        let served = serve(part_bytes).await;
        served.post(&json!({"model": "up", "input": "one", "stream": stream, "instructions": "a"})).await;
        let items = json!([{"role": "user", "content": "two", "later": 2}]);
        let body = json!({"model": "up", "input": items, "stream": stream, "previous_response_id": "resp_up1", "top_p": 0.50});
        let second = served.post(&body).await;
        let second = if stream { last_response(&second) } else { serde_json::from_str(&second).unwrap() };
        let mut expected = response(2);
        expected["previous_response_id"] = json!("resp_up1");
        assert_eq!(second, expected);
        let body =
            json!({"model": "up", "input": "three", "stream": stream, "previous_response_id": "resp_up2"});
        let third = served.post(&body).await;
        assert!(!stream || third.matches("\"previous_response_id\":\"resp_up2\"").count() == 2, "{third}");
        let answer = |number: usize| response(number)["output"][0].clone();
        let received = served.provider.received();
        let conversation = [
            json!({"role": "user", "content": "one"}),
            answer(1),
            items[0].clone(),
            answer(2),
            json!({"role": "user", "content": "three"}),
        ];
        let second =
            json!({"model": "real-name", "stream": stream, "top_p": 0.50, "input": conversation[..3]});
        assert_eq!(received[1], second, "only the input differs from what the client sent");
        assert_eq!(received[2]["input"], json!(conversation));
        assert_eq!(served.get("resp_up3").await.0, 200);
        let (_, list) = served.get("resp_up3/input_items?order=asc").await;
        let list: Value = serde_json::from_str(&list).unwrap();
        assert_eq!(list["data"].as_array().unwrap().len(), 5);
        assert_eq!(list["data"][3]["id"], "msg_up2");
    }
}

/// An error of the provider, or a stream that it does not end, is not stored.
#[tokio::test]
async fn only_complete_responses_are_stored() {
    let served = serve(100_000).await;
    let key = toolwire_contract::state::StateKey::new("anyone", "resp_up1").unwrap();
    let body = json!({"model": "up", "input": "one", "previous_response_id": "resp_up1"});
    let url = format!("http://{}/v1/responses", served.address);
    let response = http_client().post(url).json(&body).send().await.unwrap();
    assert_eq!((response.status().as_u16(), served.provider.received().len()), (400, 0));
    assert_eq!(served.store.get(&key).await.unwrap(), None);
}

/// The provider does not know the ids of items that the gateway has written.
#[tokio::test]
async fn a_conversation_that_the_gateway_has_written_stays_there() {
    let served = serve(1).await;
    let first = served.post(&json!({"model": "up", "input": "one", "toolwire": {"max_steps": 1}})).await;
    let first: Value = serde_json::from_str(&first).unwrap();
    let second =
        served.post(&json!({"model": "up", "input": "two", "previous_response_id": id(&first)})).await;
    let second: Value = serde_json::from_str(&second).unwrap();
    assert_eq!((text(&first), text(&second)), ("Written here.", "Written here."));
    let third =
        served.post(&json!({"model": "up", "input": "three", "previous_response_id": id(&second)})).await;
    assert!(third.contains("Written here."), "{third}");
    assert_eq!(served.provider.received(), [] as [Value; 0]);
}
