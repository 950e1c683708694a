#![allow(clippy::unwrap_used)]

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, DiscoverRequest, DiscoverRequestParams,
    InitializeRequest, InitializeRequestParams, ListToolsRequest, ServerJsonRpcMessage,
};

use toolwire_contract::log::Level;

use super::*;

fn capture() -> RawCapture {
    RawCapture::new("test", SdkSchemas::Needed)
}

/// Registers a request of `method` with `id`.
fn send(capture: &RawCapture, id: i64, method: &str) {
    let request = match method {
        "tools/list" => ClientRequest::ListToolsRequest(ListToolsRequest::default()),
        "tools/call" => {
            ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new("tool")))
        }
        "server/discover" => ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {})),
        "initialize" => {
            let params = InitializeRequestParams::new(Default::default(), Default::default());
            ClientRequest::InitializeRequest(InitializeRequest::new(params))
        }
        other => panic!("no test request for `{other}`"),
    };
    capture.register(&mut ClientJsonRpcMessage::request(request, NumberOrString::Number(id)));
}

/// Checks what the SDK receives and what is stored for `text` as the response to `method`. The SDK must be
/// able to parse its message.
#[track_caller]
fn check(method: &str, text: &str, sdk_message: Value, stored: Option<RawResponse>) {
    let capture = capture();
    send(&capture, 1, method);
    let mut received = capture.receive(text.as_bytes());
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!(received[0], sdk_message);
    let parsed: Result<ServerJsonRpcMessage, _> = serde_json::from_value(received.remove(0));
    assert!(parsed.is_ok(), "{parsed:?}");
    assert_eq!(capture.take_response(1), stored);
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_result_is_stored_unchanged() {
    let results = [
        r#"{"content":[{"type":"hologram","beam":[1,2]}],"later":true}"#,
        r#"{"content":[{"type":"text"}],"isError":"maybe"}"#,
        r#"{"content":null}"#,
        r#"{"content":[],"structuredContent":{"big":123456789012345678901234567890,"small":1.10,"e":1E400}}"#,
        r#"{"resultType":"input_required","inputRequests":{"a":{"method":"new/thing"}},"requestState":"s"}"#,
        "[]",
        "null",
        "7",
    ];
    for result in results {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let sdk_message = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
        check("tools/call", &text, sdk_message, Some(RawResponse::Result(parsed(result))));
    }
    let digits = parsed(results[3]).to_string();
    assert_eq!(digits, results[3].replace("1E400", "1e+400"), "every digit is preserved");
}

#[test]
fn a_malformed_tool_does_not_affect_other_tools() {
    let result = r#"{"tools":[
        {"name":"good","inputSchema":{"type":"object","minimum":1.50},"execution":{"taskSupport":"required"},"x":1},
        {"name":"none"},
        {"name":"null","inputSchema":null},
        {"name":"bool","inputSchema":true},
        {"name":5,"inputSchema":{}},
        {"inputSchema":{}},
        "tool",
        null,
        {"name":"last","inputSchema":{},"annotations":"none"}
    ],"nextCursor":7,"ttlMs":"soon"}"#;
    let sdk_message = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [
        { "name": "good", "inputSchema": { "type": "object", "minimum": parsed("1.50") } },
        { "name": "last", "inputSchema": {} },
    ] } });
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    check("tools/list", &text, sdk_message, Some(RawResponse::Result(parsed(result))));
}

#[test]
fn a_malformed_tool_list_is_still_a_response() {
    let sdk_message = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [] } });
    for result in ["{}", r#"{"tools":{}}"#, r#""tools""#] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        check("tools/list", &text, sdk_message.clone(), Some(RawResponse::Result(parsed(result))));
    }
}

#[test]
fn an_error_is_stored_unchanged_and_normalized_for_the_sdk() {
    let cases = [
        (
            json!({ "code": -32602, "message": "no", "data": { "a": 1 } }),
            json!({ "code": -32602, "message": "no", "data": { "a": 1 } }),
        ),
        (json!({ "code": "E1", "message": "no" }), json!({ "code": -32603, "message": "no" })),
        (json!({ "code": 99_999_999_999_i64, "message": "no" }), json!({ "code": -32603, "message": "no" })),
        (json!("no"), json!({ "code": -32603, "message": "\"no\"" })),
    ];
    for (error, sdk_message) in cases {
        let text = json!({ "jsonrpc": "2.0", "id": 1, "error": error }).to_string();
        check(
            "tools/call",
            &text,
            json!({ "jsonrpc": "2.0", "id": 1, "error": sdk_message }),
            Some(RawResponse::Error(error)),
        );
    }
}

#[test]
fn slightly_invalid_envelopes_are_accepted() {
    let sdk_message = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    let stored = || Some(RawResponse::Result(json!({ "content": [] })));
    check("tools/call", r#"{"id":1,"result":{"content":[]}}"#, sdk_message.clone(), stored());
    check(
        "tools/call",
        r#"{"jsonrpc":"2.0","id":"1","result":{"content":[]}}"#,
        sdk_message.clone(),
        stored(),
    );
    check(
        "tools/call",
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]},"error":null}"#,
        sdk_message.clone(),
        stored(),
    );
    check("tools/call", r#"[{"jsonrpc":"2.0","id":1,"result":{"content":[]}}]"#, sdk_message, stored());
    let failed = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32700, "message": "bad" } });
    let error = Some(RawResponse::Error(json!({ "code": -32700, "message": "bad" })));
    check(
        "tools/call",
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"bad"}}"#,
        failed,
        error,
    );
}

#[test]
fn a_handshake_with_invalid_fields_succeeds() {
    let result = json!({ "protocolVersion": "2025-06-18", "serverInfo": { "name": "odd" }, "capabilities": { "tools": true } });
    let text = json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string();
    let sdk_message = json!({ "jsonrpc": "2.0", "id": 1, "result": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": { "name": "odd", "version": "" },
    } });
    check("initialize", &text, sdk_message, None);
}

#[test]
fn an_old_server_that_responds_to_everything_is_not_treated_as_modern() {
    let message = "the response to `server/discover` does not list the supported versions";
    let sdk_message = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32601, "message": message } });
    check("server/discover", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, sdk_message, None);
}

#[test]
fn unexpected_responses_are_ignored_and_counted() {
    let capture = capture();
    send(&capture, 1, "tools/call");
    assert_eq!(capture.receive(br#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#).len(), 1);
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":["again"]}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"which?"}}"#,
    ] {
        assert_eq!(capture.receive(text.as_bytes()), Vec::<Value>::new());
    }
    assert_eq!(capture.ignored_output(), IgnoredOutput { unexpected: 4, ..IgnoredOutput::default() });
    assert_eq!(
        capture.take_response(1),
        Some(RawResponse::Result(json!({ "content": [] }))),
        "the first response is stored"
    );
}

#[test]
fn a_response_to_another_request_does_not_complete_the_pending_one() {
    let capture = capture();
    send(&capture, 1, "tools/call");
    for text in [
        r#"{"jsonrpc":"2.0","id":"never-sent","result":{"content":[]}}"#,
        r#"{"jsonrpc":"2.0","id":"never-sent","error":{"code":1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{"content":[]}}"#,
        r#"{"jsonrpc":"2.0","result":{"content":[]}}"#,
    ] {
        assert_eq!(capture.receive(text.as_bytes()), Vec::<Value>::new(), "{text}");
    }
    assert_eq!((capture.ignored_output().unexpected, capture.take_response(1)), (4, None));
}

#[test]
fn a_late_response_to_an_abandoned_request_is_not_unexpected() {
    let capture = capture();
    send(&capture, 1, "tools/call");
    capture.forget(1);
    assert!(capture.receive(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#).is_empty());
    assert_eq!((capture.ignored_output(), capture.take_response(1)), (IgnoredOutput::default(), None));
}

#[test]
fn unreadable_lines_are_skipped_and_counted() {
    let capture = capture();
    for line in ["Listening on port 3000…", "", "   ", "{\"level\":\"info\"}", "17", "\u{1b}[32mready"] {
        assert!(capture.receive(line.as_bytes()).is_empty(), "{line}");
    }
    let expected = IgnoredOutput {
        unreadable: 4,
        last_unreadable: Some("\u{1b}[32mready".into()),
        ..IgnoredOutput::default()
    };
    assert_eq!(capture.ignored_output(), expected);
}

#[test]
fn an_unreadable_response_fails_its_own_call() {
    let cases = [
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{]}}"#,
        r#"{"result":{"content":[}},"jsonrpc":"2.0","id":1}"#,
        r#"{"result":{"text":"\ud800\uzzzz"},"jsonrpc":"2.0","id":1}"#,
    ];
    for text in cases {
        let capture = capture();
        send(&capture, 1, "tools/call");
        let received = capture.receive(text.as_bytes());
        assert_eq!(received[0]["error"]["code"], -32603, "{text}");
        assert!(
            matches!(
                capture.take_response(1),
                Some(RawResponse::Failure(TransportFailure::Unreadable { .. }))
            ),
            "{text}"
        );
    }
}

#[test]
fn an_unreadable_content_block_does_not_affect_the_others() {
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{deep},{{"type":"text","text":"\ud800"}}]}}}}"#
    );
    let note = "[a content block cannot be parsed: recursion limit exceeded at byte 128]";
    let content = json!([{"type": "text", "text": note}, {"type": "text", "text": "\u{fffd}"}]);
    let capture = capture();
    send(&capture, 1, "tools/call");
    assert_eq!(capture.receive(text.as_bytes()), [json!({"jsonrpc": "2.0", "id": 1, "result": {}})]);
    assert_eq!(capture.take_response(1), Some(RawResponse::Result(json!({"content": content}))));
}

#[test]
fn an_oversized_response_fails_its_own_call() {
    for (head, tail) in [
        (r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"id":9"#, r#""id":8}]}}"#),
        (r#"{"result":{"content":[{"id":9"#, r#"}]},"jsonrpc":"2.0","id":1}"#),
    ] {
        let capture = capture();
        send(&capture, 1, "tools/call");
        let sdk_message = capture.receive_oversized(head.as_bytes(), tail.as_bytes()).unwrap();
        assert_eq!(sdk_message["id"], 1);
        assert_eq!(
            capture.take_response(1),
            Some(RawResponse::Failure(TransportFailure::TooLong { limit: MAX_MESSAGE_BYTES }))
        );
    }
}

#[test]
fn progress_reaches_the_listener_even_if_it_arrives_before_the_listener() {
    let capture = capture();
    send(&capture, 1, "tools/call");
    let notify = |progress: i64| {
        let text = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
            "params": { "progressToken": 2, "progress": progress, "total": 3, "message": "on" } });
        assert!(capture.receive(text.to_string().as_bytes()).is_empty());
    };
    notify(1);
    let received = Arc::new(Mutex::new(Vec::new()));
    let reported = received.clone();
    let listener = move |progress: Progress| reported.lock().unwrap().push(progress.done);
    capture.watch(1, CallReceivers { progress: Some(Arc::new(listener)), ..CallReceivers::default() });
    notify(2);
    capture.receive(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    notify(3);
    assert_eq!(*received.lock().unwrap(), [1.0, 2.0]);
}

/// Returns a receiver of log messages, and what it has received.
fn log_receiver(level: Level) -> (LogReceiver, Arc<Mutex<Vec<String>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let receiver = received.clone();
    let receive = move |message: LogMessage| {
        let logger = message.logger.unwrap_or_default();
        receiver.lock().unwrap().push(format!("{} {logger} {}", message.level.name(), message.data));
    };
    (LogReceiver { level, receive: Arc::new(receive) }, received)
}

fn log(capture: &RawCapture, request: Option<i64>, level: &str, data: Value) {
    let params = json!({ "level": level, "logger": "l", "data": data });
    let text = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params });
    assert!(capture.receive_during(request, text.to_string().as_bytes()).is_empty());
}

#[test]
fn log_messages_reach_only_the_call_that_they_belong_to() {
    let capture = capture();
    let (receiver, received) = log_receiver(Level::Info);
    send(&capture, 1, "tools/call");
    send(&capture, 2, "tools/list");
    log(&capture, None, "info", json!("early"));
    let of_only_caller = |log: LogReceiver| CallReceivers { log: Some(log), ..CallReceivers::default() };
    capture.watch(1, of_only_caller(receiver));
    log(&capture, None, "error", json!({ "x": 1 }));
    log(&capture, None, "debug", json!("below the level"));
    log(&capture, None, "loud", json!("no level"));
    log(&capture, None, "info", json!("x".repeat(100_000)));
    log(&capture, Some(2), "info", json!("about the list"));
    send(&capture, 3, "tools/call");
    let (other_receiver, received_by_other) = log_receiver(Level::Debug);
    capture.watch(3, of_only_caller(other_receiver));
    log(&capture, None, "info", json!("of one of two"));
    log(&capture, Some(1), "info", json!("of the first"));
    log(&capture, Some(3), "debug", json!("of the second"));
    capture.receive(br#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
    log(&capture, None, "notice", json!("of the only one"));
    capture.forget(1);
    log(&capture, Some(1), "info", json!("late"));
    let expected = [
        r#"info l "early""#,
        r#"error l {"x":1}"#,
        r#"info l "of the first""#,
        r#"notice l "of the only one""#,
    ];
    assert_eq!(*received.lock().unwrap(), expected);
    assert_eq!(*received_by_other.lock().unwrap(), [r#"debug l "of the second""#]);
}

/// With several callers, a message on the stream of a session may be about the call of another caller.
#[test]
fn log_messages_without_a_call_reach_no_caller_of_several() {
    let capture = capture();
    let (receiver, received) = log_receiver(Level::Debug);
    send(&capture, 1, "tools/call");
    log(&capture, None, "info", json!("early, about an unknown call"));
    log(&capture, Some(1), "info", json!("early"));
    let owner = Some("key_a".into());
    capture.watch(1, CallReceivers { log: Some(receiver), owner, ..CallReceivers::default() });
    log(&capture, None, "info", json!("about an unknown call"));
    log(&capture, Some(1), "info", json!("of this call"));
    assert_eq!(*received.lock().unwrap(), [r#"info l "early""#, r#"info l "of this call""#]);
}

#[test]
fn only_relevant_notifications_reach_the_sdk() {
    let capture = capture();
    let passes = |method: &str| {
        !capture.receive(json!({ "jsonrpc": "2.0", "method": method }).to_string().as_bytes()).is_empty()
    };
    assert!(passes("notifications/tools/list_changed"));
    assert!(passes("notifications/cancelled"));
    assert!(!passes("notifications/message"));
    assert!(passes("notifications/prompts/list_changed"));
    assert!(passes("notifications/resources/updated"));
    assert!(!passes("notifications/anything"));
    assert_eq!(capture.ignored_output(), IgnoredOutput::default());
}

#[test]
fn requests_of_a_server_are_stored_unchanged_and_limited() {
    let capture = capture();
    for id in 0..incoming::MAX_SERVER_REQUESTS + 5 {
        let request = json!({ "jsonrpc": "2.0", "id": format!("r{id}"), "method": "elicitation/create",
            "params": { "message": "?", "requestedSchema": { "type": "object", "x-new": id } } });
        assert_eq!(
            capture.receive(request.to_string().as_bytes()).len(),
            usize::from(id < incoming::MAX_SERVER_REQUESTS)
        );
    }
    let stored = capture.take_server_request(&NumberOrString::String("r7".into())).unwrap();
    assert_eq!(stored.params["requestedSchema"]["x-new"], 7);
    assert_eq!(capture.take_server_request(&NumberOrString::String("r7".into())), None);
}

#[test]
fn a_late_response_to_the_probe_is_recorded() {
    let capture = capture();
    send(&capture, 1, "server/discover");
    assert_eq!(capture.abandon_probe(1).unwrap()["error"]["code"], -32601);
    assert!(!capture.discovered_late());
    assert!(
        capture
            .receive(br#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}"#)
            .is_empty()
    );
    assert!(capture.discovered_late());
    assert_eq!(capture.ignored_output(), IgnoredOutput::default());
}

#[test]
fn a_response_to_a_probe_that_the_sdk_abandoned_is_not_passed_to_it() {
    let discovered = json!({"supportedVersions": ["2026-07-28"]});
    for (response, is_modern) in
        [(json!({"result": discovered}), true), (json!({"error": {"code": 1}}), false)]
    {
        let capture = capture();
        send(&capture, 0, "server/discover");
        send(&capture, 1, "initialize");
        let mut response = response;
        response["id"] = 0.into();
        assert_eq!(capture.receive(response.to_string().as_bytes()), Vec::<Value>::new());
        assert_eq!((capture.discovered_late(), capture.ignored_output().unexpected), (is_modern, 0));
        assert_eq!(capture.receive(br#"{"id":1,"result":{}}"#).len(), 1);
    }
}

#[test]
fn only_a_delivered_request_may_have_run() {
    let capture = capture();
    send(&capture, 1, "tools/call");
    assert!(!capture.was_delivered(1));
    capture.set_delivered(1, true);
    assert!(capture.was_delivered(1));
}
