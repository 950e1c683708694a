//! Paths of OpenAI's API whose requests are forms with files.

use crate::support::TestGateway;
use crate::support::forms::FILES;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use toolwire_gateway::{GatewaySettings, Keys};
use toolwire_testkit::http_client;

const PATHS: [&str; 4] = ["audio/transcriptions", "audio/translations", "images/edits", "images/variations"];
const KEYS: [&str; 2] = ["the-first-key-of-the-tests-of-forms", "the-second-key-of-the-tests-of-forms"];

fn field(name: &str, value: &str) -> String {
    format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
}

fn file(content: &str) -> String {
    let disposition = "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"";
    format!("--b\r\n{disposition}\r\nContent-Type: audio/wav\r\n\r\n{content}\r\n")
}

/// Sends a form, and returns the status and the text of the response.
async fn post(gateway: &TestGateway, path: &str, content_type: &str, form: &str, key: &str) -> (u16, String) {
    let request = http_client().post(gateway.url(&format!("/v1/{path}"))).header("x-api-key", key);
    let request = request.header("content-type", content_type).body(form.to_owned());
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

const TYPE: &str = "multipart/form-data; boundary=b";

#[tokio::test]
async fn the_provider_gets_the_form_with_its_own_name_of_the_model() {
    let gateway = TestGateway::start().await;
    let (model, large) = (field("model", FILES), "x".repeat(1_000_000));
    for path in PATHS {
        for content in ["RIFF", large.as_str(), ""] {
            for (parts, expected) in [
                ([&model, &file(content)], format!("model=real-name file:a.wav={}", content.len())),
                ([&file(content), &model], format!("file:a.wav={} model=real-name", content.len())),
            ] {
                let form = format!("{}{}--b--\r\n", parts[0], parts[1]);
                let (status, text) = post(&gateway, path, TYPE, &form, "").await;
                let body: Value = serde_json::from_str(&text).unwrap();
                let found = body.get("text").unwrap_or(&body["data"][0]["revised_prompt"]);
                assert_eq!((status, found.as_str()), (200, Some(expected.as_str())), "{path}: {text}");
            }
        }
    }
}

/// Errors have OpenAI's format, with the name of the field. The unit tests have all invalid forms.
#[tokio::test]
async fn invalid_forms_get_an_error_in_the_format_of_the_api() {
    let mut settings = GatewaySettings::default();
    settings.limits.body_bytes = 100_000;
    let gateway = TestGateway::with(settings).await;
    let (model, sound) = (field("model", FILES), file("RIFF"));
    let end = "--b--\r\n";
    let huge_header = format!("--b\r\nX: {}\r\n\r\nx\r\n", "y".repeat(20_000));
    for (content_type, form, expected, parameter) in [
        ("multipart/form-data", format!("{model}{end}"), 400, None),
        ("multipart/form-data; boundary=b; boundary=c", format!("{model}{end}"), 400, None),
        (TYPE, format!("{sound}{end}"), 400, Some("model")),
        (TYPE, format!("{model}{sound}{model}{end}"), 400, Some("model")),
        (TYPE, format!("{model}{sound}"), 400, None),
        (TYPE, format!("{huge_header}{model}{end}"), 400, None),
        (TYPE, format!("{}{model}{end}", file(&format!("\r\n{model}{end}"))), 400, None),
        (TYPE, format!("{}{model}{end}", field("model[]", "x")), 400, Some("model[]")),
        (TYPE, format!("{}{end}", field("model", "unknown")), 404, Some("model")),
        (TYPE, format!("{}{end}", field("model", "openai")), 404, None),
        (TYPE, format!("{}{model}{end}", file(&"x".repeat(100_000))), 413, None),
        ("application/json", json!({"model": FILES}).to_string(), 415, None),
        ("text/plain", format!("{model}{end}"), 415, None),
    ] {
        for path in PATHS {
            let (status, text) = post(&gateway, path, content_type, &form, "").await;
            let error: Value = serde_json::from_str(&text).unwrap();
            let label = format!("{path} {content_type}: {error}");
            assert_eq!((status, error["error"]["param"].as_str()), (expected, parameter), "{label}");
            assert!(error["error"]["message"].is_string() && error.get("type").is_none(), "{label}");
        }
    }
}

/// Security rule 28: fields of a form cannot refer to files at the provider either.
#[tokio::test]
async fn forms_do_not_refer_to_stored_data() {
    let form = format!("{}{}--b--\r\n", field("image[0][file_id]", "file-1"), field("model", FILES));
    let mut settings = GatewaySettings::default();
    settings.keys = Keys::default().with("one", KEYS[0]).with("two", KEYS[1]);
    let shared = TestGateway::with(settings).await;
    let (status, text) = post(&shared, "images/edits", TYPE, &form, KEYS[0]).await;
    let error: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &error["error"]["param"]), (400, &json!("image[0][file_id]")), "{error}");
    let own = TestGateway::start().await;
    assert_eq!(post(&own, "images/edits", TYPE, &form, "").await.0, 200);
}

/// A form counts with its bytes against the share of its key.
#[tokio::test]
async fn the_forms_of_one_key_leave_room_for_others() {
    let mut settings = GatewaySettings::default();
    settings.keys = Keys::default().with("one", KEYS[0]).with("two", KEYS[1]);
    let limits = &mut settings.limits;
    (limits.body_bytes, limits.all_bodies_bytes) = (80_000, 200_000);
    limits.all_bodies_bytes_per_client = Some(100_000);
    let gateway = TestGateway::with(settings).await;
    let mut slow = TcpStream::connect(gateway.address).await.unwrap();
    let head = format!(
        "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: {}\r\nx-api-key: {}\r\ncontent-type: {TYPE}\r\n\
         content-length: 70000\r\n\r\n",
        gateway.address, KEYS[0]
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    slow.write_all(&[b' '; 69_999]).await.unwrap();
    let form = format!("{}{}--b--\r\n", field("model", FILES), file(&"x".repeat(50_000)));
    let send = async |key: &str| post(&gateway, "audio/transcriptions", TYPE, &form, key).await.0;
    // The gateway may not have read the slow form yet.
    let refused = async { while send(KEYS[0]).await != 429 {} };
    tokio::time::timeout(std::time::Duration::from_secs(60), refused).await.expect("the share is used");
    assert_eq!(send(KEYS[1]).await, 200);
    drop(slow);
    let served = async { while send(KEYS[0]).await != 200 {} };
    tokio::time::timeout(std::time::Duration::from_secs(60), served).await.expect("the share is free again");
}
