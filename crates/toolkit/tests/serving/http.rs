//! Over streamable HTTP, both eras on one address.

use serde_json::{Value, json};
use toolwire_toolkit::{HttpOptions, http_service};

use crate::fixture;
use crate::support::{Http, Waiting, answered, modern, request, session_of, soon};

#[tokio::test]
async fn older_and_newer_revisions_share_one_url() {
    let http = Http::serve(fixture::server(), HttpOptions::default()).await;
    let params = json!({"name": "echo", "arguments": {"text": "a"}});
    let newer = answered(http.modern("tools/call", params.clone())).await;
    assert_eq!((newer.status, &newer.headers["content-type"]), (200, &"application/json".parse().unwrap()));
    assert_eq!(newer.body["result"]["content"], json!([{"type": "text", "text": "a"}]));
    assert!(!newer.headers.contains_key("mcp-session-id"));

    let session = session_of(&http.open().await);
    let older = answered(http.in_session(&session, &request(1, "tools/call", params))).await;
    assert_eq!(older.body["result"], json!({"content": [{"type": "text", "text": "a"}]}));
}

#[tokio::test]
async fn fields_unknown_to_the_sdk_arrive_unchanged() {
    let http = Http::serve(fixture::server(), HttpOptions::default()).await;
    let session = session_of(&http.open().await);
    let video = json!([{"type": "video", "data": "AA==", "frames": 12345678901234567890_u64}]);
    let ours = fixture::server().tools();
    let tools: Vec<Value> = ours.iter().cloned().map(Value::from).collect();

    let newer = answered(http.modern("tools/list", json!({}))).await.body["result"].clone();
    let expected = json!({"tools": tools, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"});
    assert_eq!(newer, expected);
    let newer = answered(http.call("test_unknown_content")).await.body["result"].clone();
    assert_eq!(newer, json!({"content": video, "later": {"a": 1}, "resultType": "complete"}));

    let older = answered(http.in_session(&session, &request(1, "tools/list", json!({})))).await;
    assert_eq!(older.body["result"], json!({"tools": tools}));
    let call = request(2, "tools/call", json!({"name": "test_unknown_content"}));
    let older = answered(http.in_session(&session, &call)).await;
    assert_eq!(older.body["result"], json!({"content": video, "later": {"a": 1}}));
}

/// The answer comes as a stream here, and is exchanged in it all the same.
#[tokio::test]
async fn questions_come_after_progress_on_one_stream() {
    let http = Http::serve(fixture::server(), HttpOptions::default()).await;
    let mut params = modern(json!({"name": "test_streaming_elicitation", "arguments": {}}));
    params["_meta"]["progressToken"] = json!("t");
    let post = http
        .post(&request(1, "tools/call", params))
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "test_streaming_elicitation");
    let answer = answered(post).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    assert_eq!(answer.body["result"]["resultType"], "input_required");
    assert_eq!(answer.body["result"]["inputRequests"]["1"]["method"], "elicitation/create");
}

/// A client that lost the stream and comes back in time gets the answer, and the whole of it.
#[tokio::test]
async fn a_lost_stream_is_resumed() {
    let mut waiting = Waiting::new();
    let http = Http::serve(waiting.server(), HttpOptions::default()).await;
    let session = session_of(&http.open().await);
    let call = request(1, "tools/call", json!({"name": "wait"}));
    let mut response = soon(http.in_session(&session, &call).send()).await.unwrap();
    soon(waiting.started.recv()).await.unwrap();
    let text = String::from_utf8(soon(response.chunk()).await.unwrap().unwrap().to_vec()).unwrap();
    let first = text.lines().find_map(|line| line.strip_prefix("id: ")).expect("the stream can be resumed");
    drop(response);
    let again = http
        .client
        .get(http.server.url())
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session)
        .header("last-event-id", first);
    let again = soon(again.send()).await.unwrap();
    waiting.may_end.notify_one();
    let text = soon(again.text()).await.unwrap();
    assert!(text.contains(r#""later":1"#), "{text}");
}

#[tokio::test]
async fn a_server_is_mounted_in_an_application() {
    let service = http_service(fixture::server(), HttpOptions::default()).unwrap();
    let application = axum::Router::new().route_service("/somewhere/mcp", service);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/somewhere/mcp", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, application).await });
    let post = reqwest::Client::new()
        .post(url)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/list")
        .body(request(1, "tools/list", modern(json!({}))).to_string());
    assert_eq!(answered(post).await.body["result"]["tools"][0]["name"], "echo");
    serving.abort();
}

/// Where a client would rather have a stream, it gets one, though one message is all there is.
#[tokio::test]
async fn the_order_of_the_accept_header_decides() {
    let http = Http::serve(fixture::server(), HttpOptions::default()).await;
    for (accepted, expected) in [
        ("application/json, text/event-stream", "application/json"),
        ("text/event-stream, application/json", "text/event-stream"),
    ] {
        let mut post = http.call("test_unknown_content").build().unwrap();
        post.headers_mut().insert("accept", accepted.parse().unwrap());
        let response = soon(http.client.execute(post)).await.unwrap();
        assert_eq!(response.headers()["content-type"], expected, "{accepted}");
        assert!(soon(response.text()).await.unwrap().contains(r#""later":{"a":1}"#), "{accepted}");
    }
}

/// All addresses of the machine are no address that a client could name.
#[tokio::test]
async fn the_url_works_for_every_listening_address() {
    let served =
        toolwire_toolkit::serve_http(fixture::server(), ([0, 0, 0, 0], 0).into(), HttpOptions::default());
    let http = Http { server: served.await.unwrap(), client: reqwest::Client::new() };
    assert_eq!(answered(http.modern("tools/list", json!({}))).await.status, 200, "{}", http.server.url());
}
