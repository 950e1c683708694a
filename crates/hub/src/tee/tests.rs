#![allow(clippy::unwrap_used)]

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, DiscoverRequest, DiscoverRequestParams,
    InitializeRequest, InitializeRequestParams, ListToolsRequest, ServerJsonRpcMessage,
};

use super::*;

fn tee() -> Tee {
    Tee::new("test", Schemas::Needed)
}

/// Notes a request of `method` under `id`.
fn ask(tee: &Tee, id: i64, method: &str) {
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
        other => panic!("no request `{other}` here"),
    };
    tee.asking(&mut ClientJsonRpcMessage::request(request, NumberOrString::Number(id)));
}

/// What the SDK sees and what is kept, when `method` is answered with `text`. The SDK must be able to read it.
#[track_caller]
fn check(method: &str, text: &str, shown: Value, kept: Option<Answer>) {
    let tee = tee();
    ask(&tee, 1, method);
    let mut heard = tee.hear(text.as_bytes());
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(heard[0], shown);
    let read: Result<ServerJsonRpcMessage, _> = serde_json::from_value(heard.remove(0));
    assert!(read.is_ok(), "{read:?}");
    assert_eq!(tee.take(1), kept);
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_result_is_kept_word_for_word() {
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
        let shown = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
        check("tools/call", &text, shown, Some(Answer::Result(parsed(result))));
    }
    let digits = parsed(results[3]).to_string();
    assert_eq!(digits, results[3].replace("1E400", "1e+400"), "no digit is lost");
}

#[test]
fn a_malformed_tool_costs_that_tool_alone() {
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
    let shown = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [
        { "name": "good", "inputSchema": { "type": "object", "minimum": parsed("1.50") } },
        { "name": "last", "inputSchema": {} },
    ] } });
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    check("tools/list", &text, shown, Some(Answer::Result(parsed(result))));
}

#[test]
fn a_list_that_is_none_is_still_an_answer() {
    let shown = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [] } });
    for result in ["{}", r#"{"tools":{}}"#, r#""tools""#] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        check("tools/list", &text, shown.clone(), Some(Answer::Result(parsed(result))));
    }
}

#[test]
fn an_error_is_kept_as_it_is_and_made_readable() {
    let cases = [
        (
            json!({ "code": -32602, "message": "no", "data": { "a": 1 } }),
            json!({ "code": -32602, "message": "no", "data": { "a": 1 } }),
        ),
        (json!({ "code": "E1", "message": "no" }), json!({ "code": -32603, "message": "no" })),
        (json!({ "code": 99_999_999_999_i64, "message": "no" }), json!({ "code": -32603, "message": "no" })),
        (json!("no"), json!({ "code": -32603, "message": "\"no\"" })),
    ];
    for (error, shown) in cases {
        let text = json!({ "jsonrpc": "2.0", "id": 1, "error": error }).to_string();
        check(
            "tools/call",
            &text,
            json!({ "jsonrpc": "2.0", "id": 1, "error": shown }),
            Some(Answer::Error(error)),
        );
    }
}

#[test]
fn envelopes_that_are_slightly_off_are_understood() {
    let shown = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    let kept = || Some(Answer::Result(json!({ "content": [] })));
    check("tools/call", r#"{"id":1,"result":{"content":[]}}"#, shown.clone(), kept());
    check("tools/call", r#"{"jsonrpc":"2.0","id":"1","result":{"content":[]}}"#, shown.clone(), kept());
    check(
        "tools/call",
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]},"error":null}"#,
        shown.clone(),
        kept(),
    );
    check("tools/call", r#"[{"jsonrpc":"2.0","id":1,"result":{"content":[]}}]"#, shown, kept());
    let failed = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32700, "message": "bad" } });
    let error = Some(Answer::Error(json!({ "code": -32700, "message": "bad" })));
    check(
        "tools/call",
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"bad"}}"#,
        failed,
        error,
    );
}

#[test]
fn a_handshake_with_odd_parts_succeeds() {
    let result = json!({ "protocolVersion": "2025-06-18", "serverInfo": { "name": "odd" }, "capabilities": { "tools": true } });
    let text = json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string();
    let shown = json!({ "jsonrpc": "2.0", "id": 1, "result": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": { "name": "odd", "version": "" },
    } });
    check("initialize", &text, shown, None);
}

#[test]
fn an_old_server_that_answers_everything_is_not_taken_for_a_new_one() {
    let message = "no answer to `server/discover` that says which versions there are";
    let shown = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32601, "message": message } });
    check("server/discover", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, shown, None);
}

#[test]
fn answers_nobody_asked_for_are_ignored_and_counted() {
    let tee = tee();
    ask(&tee, 1, "tools/call");
    assert_eq!(tee.hear(br#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#).len(), 1);
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":["again"]}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"which?"}}"#,
    ] {
        assert_eq!(tee.hear(text.as_bytes()), Vec::<Value>::new());
    }
    assert_eq!(tee.noise(), Noise { strays: 4, ..Noise::default() });
    assert_eq!(tee.take(1), Some(Answer::Result(json!({ "content": [] }))), "the first answer counts");
}

#[test]
fn what_answers_another_request_does_not_answer_the_one_that_waits() {
    let tee = tee();
    ask(&tee, 1, "tools/call");
    for text in [
        r#"{"jsonrpc":"2.0","id":"never-sent","result":{"content":[]}}"#,
        r#"{"jsonrpc":"2.0","id":"never-sent","error":{"code":1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{"content":[]}}"#,
        r#"{"jsonrpc":"2.0","result":{"content":[]}}"#,
    ] {
        assert_eq!(tee.hear(text.as_bytes()), Vec::<Value>::new(), "{text}");
    }
    assert_eq!((tee.noise().strays, tee.take(1)), (4, None));
}

#[test]
fn the_late_answer_to_an_abandoned_request_is_no_stray() {
    let tee = tee();
    ask(&tee, 1, "tools/call");
    tee.forget(1);
    assert!(tee.hear(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#).is_empty());
    assert_eq!((tee.noise(), tee.take(1)), (Noise::default(), None));
}

#[test]
fn noise_is_skipped_counted_and_shown() {
    let tee = tee();
    for line in ["Listening on port 3000…", "", "   ", "{\"level\":\"info\"}", "17", "\u{1b}[32mready"] {
        assert!(tee.hear(line.as_bytes()).is_empty(), "{line}");
    }
    let expected = Noise { unreadable: 4, last: Some("\u{1b}[32mready".into()), ..Noise::default() };
    assert_eq!(tee.noise(), expected);
}

#[test]
fn an_answer_that_cannot_be_read_fails_its_own_call() {
    let cases = [
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{]}}"#,
        r#"{"result":{"content":[}},"jsonrpc":"2.0","id":1}"#,
        r#"{"result":{"text":"\ud800\uzzzz"},"jsonrpc":"2.0","id":1}"#,
    ];
    for text in cases {
        let tee = tee();
        ask(&tee, 1, "tools/call");
        let heard = tee.hear(text.as_bytes());
        assert_eq!(heard[0]["error"]["code"], -32603, "{text}");
        assert!(matches!(tee.take(1), Some(Answer::Failure(Failure::Unreadable { .. }))), "{text}");
    }
}

#[test]
fn a_part_that_cannot_be_read_costs_that_part_alone() {
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{deep},{{"type":"text","text":"\ud800"}}]}}}}"#
    );
    let note = "[a part of the answer cannot be read: recursion limit exceeded at byte 128]";
    let content = json!([{"type": "text", "text": note}, {"type": "text", "text": "\u{fffd}"}]);
    let tee = tee();
    ask(&tee, 1, "tools/call");
    assert_eq!(tee.hear(text.as_bytes()), [json!({"jsonrpc": "2.0", "id": 1, "result": {}})]);
    assert_eq!(tee.take(1), Some(Answer::Result(json!({"content": content}))));
}

#[test]
fn an_answer_that_is_too_long_fails_its_own_call() {
    for (head, tail) in [
        (r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"id":9"#, r#""id":8}]}}"#),
        (r#"{"result":{"content":[{"id":9"#, r#"}]},"jsonrpc":"2.0","id":1}"#),
    ] {
        let tee = tee();
        ask(&tee, 1, "tools/call");
        let shown = tee.hear_oversized(head.as_bytes(), tail.as_bytes()).unwrap();
        assert_eq!(shown["id"], 1);
        assert_eq!(tee.take(1), Some(Answer::Failure(Failure::TooLong { limit: LONGEST_MESSAGE })));
        assert_eq!(tee.noise().oversized, 1);
    }
}

#[test]
fn progress_reaches_the_listener_of_its_request_even_when_it_is_early() {
    let tee = tee();
    ask(&tee, 1, "tools/call");
    let notify = |progress: i64| {
        let text = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
            "params": { "progressToken": 2, "progress": progress, "total": 3, "message": "on" } });
        assert!(tee.hear(text.to_string().as_bytes()).is_empty());
    };
    notify(1);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = heard.clone();
    tee.watch(1, Some(Arc::new(move |progress: Progress| told.lock().unwrap().push(progress.progress))));
    notify(2);
    tee.hear(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    notify(3);
    assert_eq!(*heard.lock().unwrap(), [1.0, 2.0]);
}

#[test]
fn only_notifications_that_matter_pass() {
    let tee = tee();
    let passes = |method: &str| {
        !tee.hear(json!({ "jsonrpc": "2.0", "method": method }).to_string().as_bytes()).is_empty()
    };
    assert!(passes("notifications/tools/list_changed"));
    assert!(passes("notifications/cancelled"));
    assert!(!passes("notifications/message"));
    assert!(!passes("notifications/resources/updated"));
    assert!(!passes("notifications/anything"));
    assert_eq!(tee.noise(), Noise::default());
}

#[test]
fn what_a_server_asks_is_kept_whole_and_bounded() {
    let tee = tee();
    for id in 0..MOST_REQUESTS + 5 {
        let request = json!({ "jsonrpc": "2.0", "id": format!("r{id}"), "method": "elicitation/create",
            "params": { "message": "?", "requestedSchema": { "type": "object", "x-new": id } } });
        assert_eq!(tee.hear(request.to_string().as_bytes()).len(), usize::from(id < MOST_REQUESTS));
    }
    let kept = tee.take_request(&NumberOrString::String("r7".into())).unwrap();
    assert_eq!(kept["requestedSchema"]["x-new"], 7);
    assert_eq!(tee.take_request(&NumberOrString::String("r7".into())), None);
}

#[test]
fn a_probe_that_is_answered_late_is_noticed() {
    let tee = tee();
    ask(&tee, 1, "server/discover");
    assert_eq!(tee.give_up_probe(1).unwrap()["error"]["code"], -32601);
    assert!(!tee.woke_late());
    assert!(
        tee.hear(br#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}"#).is_empty()
    );
    assert!(tee.woke_late());
    assert_eq!(tee.noise(), Noise::default());
}

#[test]
fn the_answer_to_a_probe_that_the_sdk_gave_up_is_not_shown_to_it() {
    let discovered = json!({"supportedVersions": ["2026-07-28"]});
    for (answer, is_modern) in [(json!({"result": discovered}), true), (json!({"error": {"code": 1}}), false)]
    {
        let tee = tee();
        ask(&tee, 0, "server/discover");
        ask(&tee, 1, "initialize");
        let mut answer = answer;
        answer["id"] = 0.into();
        assert_eq!(tee.hear(answer.to_string().as_bytes()), Vec::<Value>::new());
        assert_eq!((tee.woke_late(), tee.noise().strays), (is_modern, 0));
        assert_eq!(tee.hear(br#"{"id":1,"result":{}}"#).len(), 1);
    }
}

#[test]
fn only_a_request_that_left_may_have_been_acted_on() {
    let tee = tee();
    ask(&tee, 1, "tools/call");
    assert!(!tee.was_delivered(1));
    tee.delivered(1, true);
    assert!(tee.was_delivered(1));
}
