//! Requests that read files or fill the memory of a gateway without the rules of `docs/security-tests.md`.
//! The numbers of the rules are from there.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use toolwire_testkit::http_client;
use toolwire_testkit::provider::{API_KEY, Api, FakeProvider};

use crate::{Served, folder, serve, text_script, with_provider};

/// The timeout for events that are expected to happen.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a request with exactly this target, and returns the response.
fn raw(served: &Served, method: &str, target: &str) -> String {
    let address = served.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: {address}\r\norigin: {}\r\naccept: text/html, */*\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        served.url
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

/// However a path is written, no file of the machine is read or written.
#[tokio::test]
async fn paths_lead_to_no_files() {
    let provider = FakeProvider::start(Api::OpenAiChat, text_script()).await;
    let folder = folder("hostile-paths/inside", Some(&with_provider(&provider, "openai")));
    let served = serve(&folder, &[]);
    // Only this test uses the parent folder.
    let files = || {
        let names = std::fs::read_dir(folder.parent().unwrap()).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name()).filter(|name| name != "data").collect();
        names.sort();
        names
    };
    let file = folder.join("mcp.json").display().to_string();
    let own = std::fs::read_dir(&folder).unwrap().count();
    let before = files();
    let encoded = file.replace('/', "%2f");
    let mut outside: Vec<String> = [
        "../",
        "..%2f",
        "%2e%2e/",
        "%2e%2e%2f",
        "..%5c",
        "..\\",
        "....//",
        "..;/",
        ".%00./",
        "%252e%252e%252f",
    ]
    .into_iter()
    .map(|up| format!("{}{}", up.repeat(12), file.trim_start_matches('/')))
    .collect();
    outside.extend([
        file.clone(),
        encoded,
        format!("/{file}"),
        format!("file://{file}"),
        "..%2f..%2fmcp".to_owned(),
    ]);
    for start in [
        "/",
        "/-/",
        "/-/assets/",
        "/-/media/",
        "/-/chat/",
        "/-/attachments/",
        "/chat/",
        "/tools/",
        "/servers/",
        "/dialects/",
        "/traffic/",
        "/-/login/",
        "/-/admin/",
        "/v1/models/",
        "/v1/responses/",
        "/v1/conversations/",
        "/mcp/",
        "/healthz/",
    ] {
        for path in &outside {
            let target = format!("{start}{path}");
            for (method, end) in [("GET", ""), ("POST", "/send"), ("POST", "/delete"), ("DELETE", "")] {
                let target = format!("{target}{end}");
                let response = raw(&served, method, &target);
                let status = response.split(' ').nth(1).unwrap_or_default();
                // The page for a login does not say whether there is a server with this name.
                let is_expected = status.starts_with('4') || (status == "200" && start == "/-/login/");
                assert!(is_expected && !response.contains(API_KEY), "{method} {target}: {response}");
                assert!(!response.contains("\"baseUrl\""), "{method} {target}: {response}");
            }
        }
    }
    assert_eq!(files(), before, "no file is removed or created");
    assert!(std::fs::read_dir(&folder).unwrap().count() <= own + 1, "only the folder for data is created");
    assert_eq!(provider.requests(), []);
}

/// Security rule 18: a compressed body is refused before it is inflated, on every path.
#[tokio::test]
async fn compressed_bodies_are_not_inflated() {
    let provider = FakeProvider::start(Api::OpenAiChat, text_script()).await;
    let served = serve(&folder("bombs", Some(&with_provider(&provider, "openai"))), &[]);
    let compress = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    // 1 GB of spaces: a gzip file may consist of several members, which are decompressed one after the other.
    let bomb = compress(&vec![b' '; 1 << 24]).repeat(64);
    let twice = compress(&bomb);
    for path in [
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/embeddings",
        "/v1/audio/transcriptions",
        "/mcp",
        "/-/chat/send",
        "/-/attachments",
        "/sign-in",
    ] {
        for (encoding, body) in [("gzip", &bomb), ("gzip, gzip", &twice), ("x-gzip", &bomb)] {
            let form = ["/-/", "/sign-in"].iter().any(|start| path.starts_with(start));
            let content_type = match path {
                "/v1/audio/transcriptions" => "multipart/form-data; boundary=b",
                _ if form => "application/x-www-form-urlencoded",
                _ => "application/json",
            };
            let request = http_client().post(format!("{}{path}", served.url)).header("origin", &served.url);
            let request = request.header("content-type", content_type).header("content-encoding", encoding);
            // The gateway may close the connection before it has read the body.
            if let Ok(response) = request.body(body.clone()).send().await {
                let status = response.status().as_u16();
                assert_eq!(status, 415, "{path} {encoding}: {}", response.text().await.unwrap_or_default());
            }
        }
    }
    let body = json!({"model": "up", "messages": [{"role": "user", "content": "hi"}]});
    let served_after = http_client().post(format!("{}/v1/chat/completions", served.url)).json(&body).send();
    assert_eq!(served_after.await.unwrap().status(), 200);
    assert_eq!(provider.requests().len(), 1);
    #[cfg(target_os = "linux")]
    {
        let peak = toolwire_testkit::peak_bytes(served.child.id()).unwrap();
        assert!(peak < 512 << 20, "{peak} bytes");
    }
}
