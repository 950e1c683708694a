//! Servers for which each user has credentials: nothing of one user reaches another.

use std::time::Duration;

use futures::future::join_all;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use toolwire_testkit::http_client;
use toolwire_testkit::provider::{Api, FakeProvider, ModelOutput, ReceivedRequest, Script, ScriptedResponse};

use crate::account_server::AccountServer;
use crate::mcp_client::{Events, McpClient, REVISIONS, read};
use crate::operations::doctor;
use crate::{Served, command, folder, serve, with_provider};

pub(crate) const ALICE: &str = "key-of-alice-0123456789abcdef0123456";
pub(crate) const BOB: &str = "key-of-bob-0123456789abcdef012345678";
pub(crate) const LIMITED: &str = "key-with-limits-0123456789abcdef0123";
pub(crate) const SECRET: &str = "a-secret-for-the-tokens-of-users-0123456789";

/// The header with which users send their credentials for the server `notes`.
pub(crate) const HEADER: &str = "x-notes-authorization";

pub(crate) fn gateway() -> Value {
    let keys = json!({
        "alice": {"key": ALICE, "tenant": "acme"},
        "bob": {"key": BOB, "tenant": "acme"},
        "limited": {"key": LIMITED, "servers": ["other"]},
    });
    json!({"keys": keys, "credentialKey": SECRET})
}

/// A client of a user, with the user's credentials for the server `notes`.
pub(crate) struct User {
    client: McpClient,
    token: Option<&'static str>,
}

impl User {
    pub(crate) async fn connect(
        served: &Served,
        key: &str,
        token: Option<&'static str>,
        revision: &str,
    ) -> User {
        let capabilities = json!({"elicitation": {}});
        let client = McpClient::connect_with(&served.url, Some(key), revision, capabilities).await;
        User { client, token }
    }

    fn prepare(&self, message: &Value) -> RequestBuilder {
        let request = self.client.post(message);
        match self.token {
            Some(token) => request.header(HEADER, format!("Bearer {token}")),
            None => request,
        }
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        let mut reply = read(self.prepare(&self.client.message(method, params))).await;
        reply.messages.pop().unwrap_or_else(|| panic!("{reply:?}"))
    }

    pub(crate) async fn tools(&self) -> Vec<String> {
        let response = self.request("tools/list", json!({})).await;
        let tools = response["result"]["tools"].as_array().unwrap_or_else(|| panic!("{response}"));
        let mut names: Vec<String> =
            tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    /// Returns the text of a result, or the complete response.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> String {
        let response = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
        let text = response["result"]["content"][0]["text"].as_str();
        text.map_or_else(|| response.to_string(), str::to_owned)
    }
}

fn with_headers(name: &str, notes: &AccountServer, other: &AccountServer, toolwire: Value) -> Served {
    let notes = json!({"url": notes.url, "auth": "per-user", "forwardHeaders": {"Authorization": HEADER}});
    let other =
        json!({"url": other.url, "prefix": "other", "headers": {"Authorization": "Bearer token-of-all"}});
    let config = json!({"mcpServers": {"notes": notes, "other": other}, "toolwire": toolwire});
    serve(&folder(name, Some(&config)), &[])
}

/// A server that gets the header of a user has tools, sessions and results for this user alone, also if keys
/// belong to one tenant. No other server gets the header, and this one gets nothing else of the request.
#[tokio::test]
async fn a_header_reaches_one_server_and_results_reach_one_user() {
    let (notes, other) = (AccountServer::start(false).await, AccountServer::start(false).await);
    let served = with_headers("user-headers", &notes, &other, json!({"gateway": gateway()}));
    // The server of all users may still be starting.
    let first = User::connect(&served, ALICE, Some("token-of-alice"), REVISIONS[0]).await;
    until_listed(&first, "other_whoami").await;
    for revision in REVISIONS {
        let alice = User::connect(&served, ALICE, Some("token-of-alice"), revision).await;
        let bob = User::connect(&served, BOB, Some("token-of-bob"), revision).await;
        let without = User::connect(&served, BOB, None, revision).await;
        let shared = ["other_ask", "other_only_all", "other_whoami"];
        let of_alice = alice.tools().await;
        assert!(of_alice.contains(&"only_alice".to_owned()), "{revision}: {of_alice:?}");
        assert!(!of_alice.contains(&"only_bob".to_owned()) && of_alice.len() == 6, "{of_alice:?}");
        assert!(bob.tools().await.contains(&"only_bob".to_owned()));
        assert_eq!(without.tools().await, shared, "{revision}");
        assert!(without.call("whoami", json!({})).await.contains("-32602"), "{revision}");
        let calls = (0..16).flat_map(|number| [(&alice, "alice", number), (&bob, "bob", number)]);
        let calls = calls.map(|(user, name, number)| async move {
            let nonce = format!("{name}-{number}");
            assert_eq!(user.call("whoami", json!({"nonce": nonce})).await, format!("{name} {nonce}"));
            assert_eq!(user.call("other_whoami", json!({"nonce": nonce})).await, format!("all {nonce}"));
        });
        join_all(calls).await;
        assert!(alice.call("only_bob", json!({})).await.contains("-32602"));
        // The key decides who a user is, and the header which account is used.
        let second = User::connect(&served, ALICE, Some("token-of-carol"), revision).await;
        assert_eq!(second.call("whoami", json!({"nonce": "1"})).await, "carol 1");
        assert_eq!(alice.call("whoami", json!({"nonce": "2"})).await, "alice 2");
        let limited = User::connect(&served, LIMITED, Some("token-of-alice"), revision).await;
        assert_eq!(limited.tools().await, shared);
        assert!(limited.call("whoami", json!({})).await.contains("-32602"));
    }
    assert_eq!(notes.record().violations, Vec::<String>::new());
    for text in ["token-of-alice", "token-of-bob", HEADER] {
        assert!(!other.has_seen(text), "{text}");
    }
    for text in [HEADER, ALICE, BOB] {
        assert!(!notes.has_seen(text), "{text}");
    }
}

/// A question of a server reaches the user of its call, and no other user can answer it.
#[tokio::test]
async fn a_question_reaches_the_user_of_its_call() {
    let (notes, other) = (AccountServer::start(false).await, AccountServer::start(false).await);
    let served = with_headers("user-questions", &notes, &other, json!({"gateway": gateway()}));
    let mut calls = Vec::new();
    for (key, token) in [(ALICE, "token-of-alice"), (BOB, "token-of-bob")] {
        let user = User::connect(&served, key, Some(token), "2025-11-25").await;
        let message = user.client.message("tools/call", json!({"name": "ask", "arguments": {}}));
        let mut listening = user.client.listen().await;
        let mut events = Events::new(user.prepare(&message).send().await.unwrap());
        // A request of the server may arrive on either stream.
        let asked = loop {
            let message = tokio::select! {
                message = events.next() => message.unwrap(),
                message = listening.next() => message.unwrap(),
            };
            if message["method"] == "elicitation/create" {
                break message;
            }
        };
        calls.push((user, events, listening, asked));
    }
    // Both calls wait at the same time.
    for ((user, mut events, _listening, asked), name) in calls.into_iter().zip(["alice", "bob"]) {
        assert_eq!(asked["params"]["message"], format!("Who is {name}?"), "{asked}");
        let reply = json!({"action": "accept", "content": {"name": format!("{name} herself")}});
        let response = json!({"jsonrpc": "2.0", "id": asked["id"], "result": reply});
        assert_eq!(read(user.prepare(&response)).await.status, 202);
        let result = events.next().await.unwrap();
        assert_eq!(result["result"]["content"][0]["text"], format!("{name}: {name} herself"), "{result}");
    }
    assert_eq!(notes.record().violations, Vec::<String>::new());
}

/// The tools of models are those of the user, in every API.
#[tokio::test]
async fn a_model_has_the_tools_of_the_user() {
    let (notes, other) = (AccountServer::start(false).await, AccountServer::start(false).await);
    // Calls the tool, and then repeats what it was sent.
    let respond = |request: &ReceivedRequest| {
        let messages = request.body["messages"].as_array().unwrap();
        let last = messages.last().unwrap();
        ScriptedResponse::Output(match last["role"] == "tool" {
            true => ModelOutput::text(&last["content"].to_string()),
            false => ModelOutput::default().call("call_1", "whoami", "{\"nonce\":\"1\"}"),
        })
    };
    let provider = FakeProvider::start(Api::OpenAiChat, Script::from_fn(respond)).await;
    let mut config = with_provider(&provider, "openai")["toolwire"].clone();
    config["gateway"] = gateway();
    config["agent"] = json!({"approvals": {"allow": ["*"]}});
    let served = with_headers("user-models", &notes, &other, config);
    let ask = async |path: &str, key: &str, account: Option<&str>| {
        let question = json!([{"role": "user", "content": "Who am I?"}]);
        let body = match path {
            "/v1/responses" => json!({"model": "up", "input": question}),
            _ => json!({"model": "up", "messages": question, "max_tokens": 100}),
        };
        let request = http_client().post(format!("{}{path}", served.url)).bearer_auth(key).json(&body);
        let request = match account {
            Some(account) => request.header(HEADER, format!("Bearer token-of-{account}")),
            None => request,
        };
        request.send().await.unwrap().text().await.unwrap()
    };
    for path in ["/v1/chat/completions", "/v1/responses", "/v1/messages"] {
        let (ask, users) = (&ask, [(ALICE, "alice"), (BOB, "bob"), (ALICE, "carol")]);
        let questions = users.map(|(key, account)| async move {
            let answer = ask(path, key, Some(account)).await;
            assert!(answer.contains(&format!("{account} 1")), "{path} {account}: {answer}");
        });
        join_all(questions).await;
        let answer = ask(path, BOB, None).await;
        assert!(!["alice 1", "bob 1", "carol 1"].iter().any(|other| answer.contains(other)), "{answer}");
    }
    assert_eq!(notes.record().violations, Vec::<String>::new());
}

/// Lists the tools until they include this one.
pub(crate) async fn until_listed(user: &User, tool: &str) -> Vec<String> {
    let listing = async {
        loop {
            let tools = user.tools().await;
            if tools.iter().any(|listed| listed == tool) {
                return tools;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), listing).await.expect("the tool is listed")
}

/// Logins of users need a secret for the tokens, and an address that browsers can use.
#[test]
fn missing_settings_are_reported_at_the_start() {
    let start = |name: &str, settings: Value, arguments: &[&str]| {
        let server = json!({"url": "http://127.0.0.1:1/mcp", "auth": "per-user"});
        let config = json!({"mcpServers": {"notes": server}, "toolwire": {"gateway": settings}});
        let output = command(&folder(name, Some(&config)), arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let local = ["--listen", "127.0.0.1:0"];
    let (code, stderr) = start("user-no-secret", json!({}), &local);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("which requires `toolwire.gateway.credentialKey`"), "{stderr}");
    let (code, stderr) = start("user-weak-secret", json!({"credentialKey": "short"}), &local);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("`toolwire.gateway.credentialKey` has 5 bytes"), "{stderr}");
    let keys = json!({"a": ALICE});
    let everywhere = ["--listen", "0.0.0.0:0"];
    let (code, stderr) = start("user-no-url", json!({"credentialKey": SECRET, "keys": keys}), &everywhere);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("which requires `toolwire.gateway.publicUrl`"), "{stderr}");
    for url in ["gateway.example", "ftp://gateway.example", "https://gateway.example/path", "https://a@b"] {
        let settings = json!({"credentialKey": SECRET, "keys": keys, "publicUrl": url});
        let (code, stderr) = start("user-wrong-url", settings, &everywhere);
        assert_eq!(code, Some(2), "{url}");
        assert!(stderr.contains("`toolwire.gateway.publicUrl`"), "{url}: {stderr}");
    }
}

/// `toolwire doctor` checks what users need, and leaves their accounts alone.
#[test]
fn doctor_knows_the_credentials_of_users() {
    let login = json!({"url": "http://127.0.0.1:1/mcp", "auth": "per-user"});
    let header = json!({"url": "http://127.0.0.1:1/mcp", "auth": "per-user", "forwardHeaders": ["x-token"]});
    let check = |gateway: Value| {
        let servers = json!({"notes": login, "tracker": header});
        let config = json!({"mcpServers": servers, "toolwire": {"gateway": gateway}});
        doctor(&folder("user-doctor", Some(&config)))
    };
    let (_, text) = check(json!({"listen": "127.0.0.1:1"}));
    assert!(
        text.contains("✗ credentials of users") && text.contains("`toolwire.gateway.credentialKey`"),
        "{text}"
    );
    let (_, text) = check(json!({"listen": "127.0.0.1:1", "credentialKey": SECRET}));
    assert!(text.contains("✓ notes  each user logs in"), "{text}");
    assert!(text.contains("✓ tracker  each user sends `x-token`"), "{text}");
}
