//! Gateways whose Redis master is replaced by sentinels.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use toolwire_testkit::provider::{
    Api, FakeProvider, ModelOutput, ReceivedRequest, Script, ScriptedResponse, TokenCounts,
};
use toolwire_testkit::{RedisSentinel, RedisSentinels, RedisServer, http_client};

use crate::{Served, command, folder, fs, serve, with_provider};

/// Sends a request until it succeeds. Until the gateway knows the new master, the response is an error.
async fn until_created(served: &Served, key: &str, body: &Value) -> Value {
    let sent = async {
        loop {
            let request = http_client().post(format!("{}/v1/responses", served.url)).bearer_auth(key);
            let response = request.json(body).send().await.unwrap();
            let (status, text) = (response.status().as_u16(), response.text().await.unwrap());
            if status == 200 {
                return serde_json::from_str(&text).unwrap();
            }
            assert!(matches!(status, 500 | 503), "{status} {text}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), sent).await.expect("a response")
}

fn toolwire(folder: &PathBuf, arguments: &[&str]) -> (Option<i32>, String, String) {
    toolwire_with(folder, arguments, None)
}

/// Runs a command, which trusts only the certificates in a file.
fn toolwire_with(
    folder: &PathBuf,
    arguments: &[&str],
    certificates: Option<&str>,
) -> (Option<i32>, String, String) {
    let serve = command(folder, &[]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_toolwire"));
    command.current_dir(folder).args(arguments);
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(certificates) = certificates {
        command.env("SSL_CERT_FILE", certificates);
    }
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A conversation that one gateway began continues at another one after the master was killed. The keys,
/// their limits and what they have used are the same before and after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_goes_on_after_its_master_was_killed() {
    let mut sentinels = RedisSentinels::start_with(Some("of-redis"), Some("of-sentinels"));
    let script = Script::from_fn(|request: &ReceivedRequest| {
        let usage = TokenCounts { input: 30, output: 12, ..TokenCounts::default() };
        let count = request.body["messages"].as_array().map_or(0, Vec::len);
        ScriptedResponse::Output(ModelOutput { usage, ..ModelOutput::text(&format!("Answer to {count}.")) })
    });
    let provider = FakeProvider::start(Api::OpenAiChat, script).await;
    let mut config = with_provider(&provider, "openai");
    config["toolwire"]["store"] = json!({"redis": sentinels.url(), "timeout": "60s"});
    let folder = folder("sentinels", Some(&config));
    let (code, key, stderr) = toolwire(&folder, &["keys", "create", "a", "--tokens-per-month", "100000"]);
    assert_eq!(code, Some(0), "{stderr}");
    let key = key.trim();
    let gateways = [serve(&folder, &[]), serve(&folder, &[])];
    let question = |text: &str, previous: &Value| {
        let mut body = json!({"model": "up", "input": text});
        if !previous.is_null() {
            body["previous_response_id"] = previous.clone();
        }
        body
    };
    let until_used = async |tokens: u64| {
        let counted = async {
            loop {
                let (_, stdout, stderr) = toolwire(&folder, &["keys", "show", "a", "--json"]);
                let shown: Value =
                    serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout} {stderr}"));
                if shown["usage"]["tokens"] == tokens {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), counted).await.expect("the tokens are counted");
    };
    let first = until_created(&gateways[0], key, &question("first", &Value::Null)).await;
    let second = until_created(&gateways[1], key, &question("second", &first["id"])).await;
    // Redis replicates what it has confirmed a moment later.
    until_used(2 * 42).await;
    sentinels.until_replicated();
    let killed = sentinels.kill_master();
    let third = until_created(&gateways[0], key, &question("third", &second["id"])).await;
    until_used(3 * 42).await;
    sentinels.restart(killed);
    sentinels.until_replicated();
    sentinels.fail_over();
    let fourth = until_created(&gateways[1], key, &question("fourth", &third["id"])).await;
    until_used(4 * 42).await;
    assert_eq!(fourth["previous_response_id"], third["id"]);
    let sent = provider.requests().pop().unwrap().body.to_string();
    for part in ["first", "Answer to 1.", "second", "third", "fourth"] {
        assert!(sent.contains(part), "no {part}: {sent}");
    }
    let (_, doctor, _) = toolwire(&folder, &["doctor"]);
    assert!(doctor.contains("conversations can be read"), "{doctor}");
}

/// Problems are printed without passwords.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn problems_with_sentinels_are_printed() {
    let sentinels = RedisSentinels::start_with(Some("of-redis"), Some("of-sentinels"));
    let addresses = sentinels.addresses();
    let folder = folder("sentinel-problems", None);
    for (url, problem) in [
        (
            format!("redis+sentinel://:of-redis@{addresses}/other?sentinel_password=of-sentinels"),
            "no sentinel knows a master with the name `other`",
        ),
        (
            format!("redis+sentinel://:wrong-password@{addresses}/mymaster?sentinel_password=of-sentinels"),
            "the master at 127.0.0.1:",
        ),
        (
            format!("redis+sentinel://:of-redis@{addresses}/mymaster?sentinel_password=wrong-password"),
            "sentinel at 127.0.0.1:",
        ),
        ("redis+sentinel://:wrong-password@127.0.0.1:1/mymaster".to_owned(), "sentinel at 127.0.0.1:1"),
        ("redis+sentinel://:wrong-password@127.0.0.1:1".to_owned(), "the name of the master is missing"),
        ("redis-sentinel://:wrong-password@127.0.0.1:1/0".to_owned(), "invalid URL"),
    ] {
        let config = json!({"mcpServers": {}, "toolwire": {"store": url}});
        fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
        for arguments in [&["doctor"][..], &["keys", "list"], &["serve", "--listen", "127.0.0.1:0"]] {
            let (code, stdout, stderr) = toolwire(&folder, arguments);
            let text = format!("{stdout}{stderr}");
            assert_eq!(code, Some(1), "{arguments:?} {url}: {text}");
            assert!(text.contains(problem), "{arguments:?}: {text}");
            for password in ["wrong-password", "of-redis", "of-sentinels"] {
                assert!(!text.contains(password), "{text}");
            }
        }
    }
}

/// With `rediss+sentinel`, connections to the sentinels and to the master use TLS, with trusted certificates.
#[test]
fn sentinels_and_their_master_can_have_tls() {
    let file = |name: &str| {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/serve/certificates").join(name);
        path.display().to_string()
    };
    let free_port = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port().to_string()
    };
    let (certificate, key, other) = (file("one.crt"), file("one.key"), file("two.crt"));
    let (master, sentinel) = (free_port(), free_port());
    let with_tls = |port: &str| {
        [
            ("tls-port", port.to_owned()),
            ("tls-cert-file", certificate.clone()),
            ("tls-key-file", key.clone()),
            ("tls-ca-cert-file", certificate.clone()),
            ("tls-auth-clients", "no".to_owned()),
        ]
    };
    let options: Vec<String> =
        with_tls(&master).into_iter().flat_map(|(name, value)| [format!("--{name}"), value]).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let _master = RedisServer::start_with(&options);
    let lines: Vec<String> =
        with_tls(&sentinel).iter().map(|(name, value)| format!("{name} {value}\n")).collect();
    let watched = format!("tls-replication yes\nsentinel monitor mymaster 127.0.0.1 {master} 1\n");
    let _sentinel = RedisSentinel::start(&format!("{}{watched}", lines.concat()));
    let folder = folder("sentinel-tls", None);
    for (scheme, trusted, expected) in
        [("rediss", &certificate, Some(0)), ("rediss", &other, Some(1)), ("redis", &certificate, Some(1))]
    {
        let url = format!("{scheme}+sentinel://127.0.0.1:{sentinel}/mymaster");
        let config = json!({"mcpServers": {}, "toolwire": {"store": {"redis": url, "timeout": "5s"}}});
        fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
        let (code, stdout, stderr) = toolwire_with(&folder, &["keys", "list"], Some(trusted));
        assert_eq!(code, expected, "{scheme} {trusted}: {stdout}{stderr}");
    }
}
