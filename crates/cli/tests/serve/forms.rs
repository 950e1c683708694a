//! Forms with files: the bytes that the provider gets, and the responses of all types.

use serde_json::{Value, json};
use toolwire_testkit::http_client;
use toolwire_testkit::provider::API_KEY;

use crate::pass_through::{CLIENT_KEY, Provider, gateway, response};

const PATHS: [&str; 4] = ["audio/transcriptions", "audio/translations", "images/edits", "images/variations"];

/// A form with a large file, before or after the name of the model.
fn form(model: &str, is_model_first: bool) -> Vec<u8> {
    let sound: Vec<u8> = (0..700_000_u32).map(|number| (number % 251) as u8).collect();
    let head = b"--a-boundary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n";
    // In the middle of a line, the boundary means nothing.
    let file = [&head[..], &sound, b"--a-boundary\r\n"].concat();
    let model = format!("--a-boundary\r\ncontent-disposition: form-data; name=model\r\n\r\n{model}\r\n");
    let parts = if is_model_first { [model.as_bytes(), &file[..]] } else { [&file[..], model.as_bytes()] };
    [parts[0], parts[1], b"--a-boundary--\r\n"].concat()
}

#[tokio::test]
async fn the_provider_gets_the_bytes_of_the_form() {
    let json = b"{ \"text\" :\"Gr\\u00fc\xc3\x9fe\", \"later\":1.0}\n";
    let events = b"data: {\"type\":\"transcript.text.delta\",\"delta\":\"Hi\"}\n\ndata: [DONE]\n\n";
    for path in PATHS {
        for (content_type, body) in [
            ("application/json", &json[..]),
            ("text/plain; charset=utf-8", &b"1\n00:00:00,000 --> 00:00:01,000\nHi\n"[..]),
            ("text/event-stream", &events[..]),
        ] {
            let headers = format!("content-type: {content_type}\r\nset-cookie: c=d");
            let provider = Provider::start(response(200, &headers, body)).await;
            let served = gateway("forms", "openai", &provider.url);
            for is_model_first in [true, false] {
                let request = http_client().post(format!("{}/v1/{path}", served.url)).header("cookie", "a=b");
                let request = request.header("content-type", "multipart/form-data; boundary=a-boundary");
                let request = request.bearer_auth(CLIENT_KEY).body(form("up", is_model_first));
                let received = request.send().await.unwrap();
                assert_eq!(received.status(), 200, "{path}");
                assert_eq!(received.headers()["content-type"], content_type, "{path}");
                assert_eq!(received.bytes().await.unwrap(), body, "{path}");
                let (head, sent) = provider.last();
                assert!(head.starts_with(&format!("POST /v1/{path} HTTP/1.1\r\n")), "{head}");
                assert!(sent == form("real-name", is_model_first), "{path}: another body");
                let lower = head.to_ascii_lowercase();
                assert!(
                    lower.contains("content-type: multipart/form-data; boundary=\"a-boundary\""),
                    "{head}"
                );
                assert_eq!(lower.matches("content-type").count(), 1, "{head}");
                assert!(head.contains(&format!("authorization: Bearer {API_KEY}")), "{head}");
                assert!(!head.contains(CLIENT_KEY) && !head.contains("cookie"), "{head}");
            }
        }
    }
}

/// Nothing of an invalid form, or of a form for another API, is sent to a provider.
#[tokio::test]
async fn other_forms_reach_no_provider() {
    for (name, expected) in [("openai", 400), ("anthropic", 404)] {
        let provider = Provider::start(response(200, "content-type: application/json", b"{}")).await;
        let served = gateway(&format!("forms-{name}"), name, &provider.url);
        for path in PATHS {
            let mut body = form("up", false);
            if name == "openai" {
                body.truncate(body.len() - 10);
            }
            let request = http_client().post(format!("{}/v1/{path}", served.url)).bearer_auth(CLIENT_KEY);
            let request = request.header("content-type", "multipart/form-data; boundary=a-boundary");
            let received = request.body(body).send().await.unwrap();
            assert_eq!(received.status(), expected, "{name} {path}");
            let error: Value = received.json().await.unwrap();
            assert!(error["error"]["message"].is_string() && error.get("type").is_none(), "{name}: {error}");
            assert_eq!(error["error"]["type"], json!("invalid_request_error"), "{name} {path}");
        }
        assert_eq!(provider.requests(), 0, "{name}");
    }
}
