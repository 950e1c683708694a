//! Streamable HTTP for all revisions.

use serde_json::{Value, json};
use toolwire_toolkit::transport::{HttpOptions, http_service};

use crate::fixture;
use crate::support::{HttpClient, WaitingTool, modern, request, send, session_of, with_timeout};

#[tokio::test]
async fn all_revisions_share_one_url() {
    let http = HttpClient::serve(fixture::server(), HttpOptions::default()).await;
    let params = json!({"name": "echo", "arguments": {"text": "a"}});
    let newer = send(http.modern("tools/call", params.clone())).await;
    assert_eq!((newer.status, &newer.headers["content-type"]), (200, &"application/json".parse().unwrap()));
    assert_eq!(newer.body["result"]["content"], json!([{"type": "text", "text": "a"}]));
    assert!(!newer.headers.contains_key("mcp-session-id"));

    let session = session_of(&http.initialize().await);
    let older = send(http.in_session(&session, &request(1, "tools/call", params))).await;
    assert_eq!(older.body["result"], json!({"content": [{"type": "text", "text": "a"}]}));
}

#[tokio::test]
async fn fields_unknown_to_the_sdk_arrive_unchanged() {
    let http = HttpClient::serve(fixture::server(), HttpOptions::default()).await;
    let session = session_of(&http.initialize().await);
    let video = json!([{"type": "video", "data": "AA==", "frames": 12345678901234567890_u64}]);
    let ours = fixture::server().tools();
    let tools: Vec<Value> = ours.iter().cloned().map(Value::from).collect();

    let newer = send(http.modern("tools/list", json!({}))).await.body["result"].clone();
    let expected = json!({"tools": tools, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"});
    assert_eq!(newer, expected);
    let newer = send(http.call("test_unknown_content")).await.body["result"].clone();
    assert_eq!(newer, json!({"content": video, "later": {"a": 1}, "resultType": "complete"}));

    let older = send(http.in_session(&session, &request(1, "tools/list", json!({})))).await;
    assert_eq!(older.body["result"], json!({"tools": tools}));
    let call = request(2, "tools/call", json!({"name": "test_unknown_content"}));
    let older = send(http.in_session(&session, &call)).await;
    assert_eq!(older.body["result"], json!({"content": video, "later": {"a": 1}}));
}

/// The response is an event stream here, and must contain the raw result as well.
#[tokio::test]
async fn questions_come_after_progress_on_one_stream() {
    let http = HttpClient::serve(fixture::server(), HttpOptions::default()).await;
    let mut params = modern(json!({"name": "test_streaming_elicitation", "arguments": {}}));
    params["_meta"]["progressToken"] = json!("t");
    let post = http
        .post(&request(1, "tools/call", params))
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "test_streaming_elicitation");
    let response = send(post).await;
    assert_eq!(response.headers["content-type"], "text/event-stream");
    assert_eq!(response.body["result"]["resultType"], "input_required");
    assert_eq!(response.body["result"]["inputRequests"]["1"]["method"], "elicitation/create");
}

#[tokio::test]
async fn a_lost_stream_is_resumed() {
    let mut waiting = WaitingTool::new();
    let http = HttpClient::serve(waiting.server(), HttpOptions::default()).await;
    let session = session_of(&http.initialize().await);
    let call = request(1, "tools/call", json!({"name": "wait"}));
    let mut response = with_timeout(http.in_session(&session, &call).send()).await.unwrap();
    with_timeout(waiting.started.recv()).await.unwrap();
    let text = String::from_utf8(with_timeout(response.chunk()).await.unwrap().unwrap().to_vec()).unwrap();
    let last_event_id = text.lines().find_map(|line| line.strip_prefix("id: ")).expect("an event id");
    drop(response);
    let resumed = http
        .client
        .get(http.server.url())
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session)
        .header("last-event-id", last_event_id);
    let resumed = with_timeout(resumed.send()).await.unwrap();
    waiting.may_end.notify_one();
    let text = with_timeout(resumed.text()).await.unwrap();
    assert!(text.contains(r#""later":1"#), "{text}");
}

#[tokio::test]
async fn a_server_can_be_mounted_in_an_application() {
    let service = http_service(fixture::server(), HttpOptions::default()).unwrap();
    let application = axum::Router::new().route_service("/somewhere/mcp", service);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/somewhere/mcp", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, application).await });
    let post = toolwire_testkit::http_client()
        .post(url)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/list")
        .body(request(1, "tools/list", modern(json!({}))).to_string());
    assert_eq!(send(post).await.body["result"]["tools"][0]["name"], "echo");
    serving.abort();
}

/// A client that prefers event streams gets one, even for a single message.
#[tokio::test]
async fn the_order_of_the_accept_header_decides() {
    let http = HttpClient::serve(fixture::server(), HttpOptions::default()).await;
    for (accepted, expected) in [
        ("application/json, text/event-stream", "application/json"),
        ("text/event-stream, application/json", "text/event-stream"),
    ] {
        let mut post = http.call("test_unknown_content").build().unwrap();
        post.headers_mut().insert("accept", accepted.parse().unwrap());
        let response = with_timeout(http.client.execute(post)).await.unwrap();
        assert_eq!(response.headers()["content-type"], expected, "{accepted}");
        assert!(with_timeout(response.text()).await.unwrap().contains(r#""later":{"a":1}"#), "{accepted}");
    }
}

/// A client cannot connect to `0.0.0.0`, so the URL has another host.
#[tokio::test]
async fn the_url_works_for_every_listening_address() {
    let serving = toolwire_toolkit::transport::serve_http(
        fixture::server(),
        ([0, 0, 0, 0], 0).into(),
        HttpOptions::default(),
    );
    let http = HttpClient { server: serving.await.unwrap(), client: toolwire_testkit::http_client() };
    assert_eq!(send(http.modern("tools/list", json!({}))).await.status, 200, "{}", http.server.url());
}
