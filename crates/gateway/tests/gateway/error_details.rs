//! The details of errors for clients: the status of the provider, the part of the request that is wrong, and
//! no address of an endpoint.

use serde_json::{Value, json};
use toolwire_testkit::http_client;

use crate::client::{CHAT, MESSAGES, RESPONSES};
use crate::support::{MODEL, PNG, TestGateway};

const PATHS: [&str; 3] = [CHAT, RESPONSES, MESSAGES];

/// Returns a request with one message.
fn request(path: &str, model: &str, content: impl Into<Value>) -> Value {
    let message = json!({"role": "user", "content": content.into()});
    match path {
        RESPONSES => json!({"model": model, "input": [message]}),
        _ => json!({"model": model, "max_tokens": 9, "messages": [message]}),
    }
}

async fn post(gateway: &TestGateway, path: &str, body: String) -> (u16, Value) {
    let request = http_client().post(gateway.url(path)).header("content-type", "application/json");
    let response = request.body(body).send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Sends a request, streamed and not, that must fail with a status before the response begins. Returns the
/// error.
async fn fails(gateway: &TestGateway, path: &str, body: &Value, status: u16) -> Value {
    let mut last = Value::Null;
    for stream in [true, false] {
        let mut body = body.clone();
        body["stream"] = json!(stream);
        let (found, response) = post(gateway, path, body.to_string()).await;
        assert_eq!(found, status, "{path} {stream}: {response}");
        last = response["error"].clone();
        assert!(last["type"].is_string() && last["message"].is_string(), "{path}: {response}");
    }
    last
}

/// SDKs raise a separate class for many statuses, so the client gets the provider's status. A status that
/// concerns the gateway itself is replaced.
#[tokio::test]
async fn a_client_gets_the_status_of_the_provider() {
    let gateway = TestGateway::start().await;
    for (status, expected) in [
        (400, 400),
        (401, 502),
        (403, 502),
        (404, 404),
        (405, 405),
        (407, 502),
        // The provider reports a timeout.
        (408, 504),
        (409, 409),
        (410, 410),
        (413, 413),
        (415, 415),
        (422, 422),
        (424, 424),
        (425, 425),
        (429, 429),
        (451, 451),
        (500, 502),
        (504, 504),
    ] {
        for path in PATHS {
            let body = request(path, MODEL, format!("status {status}"));
            fails(&gateway, path, &body, expected).await;
            let body = request(path, MODEL, format!("refused {status} some_code"));
            let error = fails(&gateway, path, &body, expected).await;
            if path != MESSAGES && matches!(expected, 409 | 422) {
                assert_eq!((&error["code"], &error["param"]), (&json!("some_code"), &json!("temperature")));
            }
        }
    }
    let error = fails(&gateway, CHAT, &request(CHAT, MODEL, "status 409"), 409).await;
    assert_eq!((&error["type"], &error["code"]), (&json!("invalid_request_error"), &json!("conflict")));
}

/// The log has the address.
#[tokio::test]
async fn an_error_does_not_contain_the_address_of_an_endpoint() {
    let gateway = TestGateway::start().await;
    for path in PATHS {
        for scenario in ["unreachable", "page"] {
            let error = fails(&gateway, path, &request(path, MODEL, scenario), 502).await;
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(MODEL) && !message.contains("10.0.0.7"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_number_that_cannot_be_used_is_quoted() {
    let gateway = TestGateway::start().await;
    for path in PATHS {
        let limit = if path == RESPONSES { "max_output_tokens" } else { "max_tokens" };
        for (parameter, number) in [("temperature", "1e999"), (limit, "1e999"), (limit, "1.5"), (limit, "-1")]
        {
            let mut body = request(path, MODEL, "say hi");
            body[parameter] = serde_json::from_str(number).unwrap();
            let (status, response) = post(&gateway, path, body.to_string()).await;
            let error = &response["error"];
            let message = error["message"].as_str().unwrap();
            assert_eq!(status, 400, "{response}");
            // An exponent is formatted with its sign.
            let message = message.replace("e+", "e");
            assert!(message.contains(parameter) && message.contains(number), "{message}");
            assert!(path == MESSAGES || error["param"] == parameter, "{response}");
        }
    }
}

#[tokio::test]
async fn a_schema_that_is_not_valid_is_named() {
    let gateway = TestGateway::start().await;
    for schema in [json!({"type": "banana"}), json!("text"), json!({"$ref": "#/missing"})] {
        for (path, field, parameter) in [
            (
                CHAT,
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}),
                "response_format.json_schema.schema",
            ),
            (
                RESPONSES,
                json!({"text": {"format": {"type": "json_schema", "name": "a", "schema": schema}}}),
                "text.format.schema",
            ),
        ] {
            let mut body = request(path, MODEL, "json");
            body.as_object_mut().unwrap().extend(field.as_object().unwrap().clone());
            assert_eq!(fails(&gateway, path, &body, 400).await["param"], parameter);
        }
    }
}

/// In a stream, the error comes before the first event, even if the response would list the tools of servers
/// first.
#[tokio::test]
async fn content_that_cannot_be_used_fails_before_the_response_begins() {
    let gateway = TestGateway::start().await;
    let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let input_image = |url: &str| json!({"type": "input_image", "image_url": url});
    let data = format!("data:image/png;base64,{PNG}");
    let url = "https://example.com/a.png";
    let server = json!([{"type": "mcp", "server_label": "demo", "require_approval": "never"}]);
    let cases = [
        // The model accepts no images.
        ("text-only", CHAT, image(&data), "messages[2]", "image/png"),
        ("text-only", RESPONSES, input_image(&data), "input[2]", "image/png"),
        // Its API has no URLs.
        ("gemini", CHAT, image(url), "messages[2]", "image_url"),
        ("gemini", RESPONSES, input_image(url), "input[2]", "input_image"),
    ];
    for (model, path, part, parameter, named) in cases {
        let mut body = request(path, model, "say hi");
        let list = if path == RESPONSES { "input" } else { "messages" };
        let messages = body[list].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": "Hi."}));
        messages.push(json!({"role": "user", "content": [part]}));
        if path == RESPONSES {
            body["tools"] = server.clone();
        }
        let error = fails(&gateway, path, &body, 400).await;
        assert_eq!(error["param"], parameter, "{error}");
        assert!(error["message"].as_str().unwrap().contains(named), "{error}");
    }
    let source = json!({"type": "base64", "media_type": "image/png", "data": PNG});
    let body = request(MESSAGES, "text-only", json!([{"type": "image", "source": source}]));
    let error = fails(&gateway, MESSAGES, &body, 400).await;
    assert!(error["message"].as_str().unwrap().contains("messages[0]"), "{error}");
    // A conversation with older images continues.
    let mut body = request(CHAT, "text-only", json!([image(&data)]));
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": "A dot."}));
    messages.push(json!({"role": "user", "content": "say hi"}));
    let (status, response) = post(&gateway, CHAT, body.to_string()).await;
    assert_eq!(status, 200, "{response}");
    // The provider refuses the request.
    let mut body = request(RESPONSES, MODEL, "status 422");
    body["tools"] = server;
    fails(&gateway, RESPONSES, &body, 422).await;
}
