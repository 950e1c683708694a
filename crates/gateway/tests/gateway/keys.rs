//! Keys of a key table: their validity, rights and limits. The numbers are those of `docs/security-tests.md`.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{MODEL, TestGateway};
use futures::StreamExt as _;
use futures::future::join_all;
use serde_json::{Value, json};
use toolwire_contract::conversations::Timestamp;
use toolwire_contract::keys::{KeyRecord, KeyRights, KeyTable, UsageCounter as _};
use toolwire_gateway::{GatewaySettings, IssuedKey, Keys, stored_key_owner};
use toolwire_store::InMemoryKeys;
use toolwire_testkit::http_client;

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A gateway with a key table.
struct KeyedGateway {
    gateway: TestGateway,
    table: Arc<InMemoryKeys>,
    admin_token: String,
}

/// A key with its text.
struct NewKey {
    text: String,
    record: KeyRecord,
}

impl KeyedGateway {
    async fn start() -> KeyedGateway {
        KeyedGateway::with(GatewaySettings::default()).await
    }

    async fn with(mut settings: GatewaySettings) -> KeyedGateway {
        let table = Arc::new(InMemoryKeys::new());
        settings.keys = settings.keys.with_table(table.clone(), table.clone());
        let (gateway, admin_token) = TestGateway::with_page(settings).await;
        KeyedGateway { gateway, table, admin_token }
    }

    async fn key(&self, name: &str, rights: KeyRights) -> NewKey {
        self.add(name, None, None, rights).await
    }

    async fn add(
        &self,
        name: &str,
        tenant: Option<&str>,
        expires: Option<Timestamp>,
        rights: KeyRights,
    ) -> NewKey {
        let IssuedKey { id, secret, digest, .. } = IssuedKey::generate().unwrap();
        let record = KeyRecord {
            id,
            name: name.to_owned(),
            tenant: tenant.map(str::to_owned),
            digest,
            rights,
            created: Timestamp(1),
            expires,
            revoked: None,
        };
        assert!(self.table.add(record.clone()).await.unwrap());
        NewKey { text: secret.expose().to_owned(), record }
    }

    async fn send(&self, key: &str, path: &str, body: &Value) -> Reply {
        let request = http_client().post(self.gateway.url(path)).bearer_auth(key).json(body);
        Reply::of(request.send().await.unwrap()).await
    }

    async fn get(&self, key: &str, path: &str) -> Reply {
        let request = http_client().get(self.gateway.url(path)).bearer_auth(key);
        Reply::of(request.send().await.unwrap()).await
    }

    /// Asks with each API.
    async fn ask_all(&self, key: &str, model: &str, text: &str) -> [Reply; 3] {
        [
            self.send(key, "/v1/chat/completions", &chat(model, text)).await,
            self.send(key, "/v1/responses", &json!({"model": model, "input": text})).await,
            self.send(key, "/v1/messages", &chat(model, text)).await,
        ]
    }

    /// The names of the tools in the last request to the model.
    fn offered(&self) -> Vec<String> {
        let requests = self.gateway.model.requests();
        requests.last().unwrap().tools.iter().map(|tool| tool.name.clone()).collect()
    }
}

#[derive(Debug)]
struct Reply {
    status: u16,
    headers: http::HeaderMap,
    body: Value,
}

impl Reply {
    async fn of(response: reqwest::Response) -> Reply {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Reply { status, headers, body: response.json().await.unwrap_or_default() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

fn chat(model: &str, text: &str) -> Value {
    json!({"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": text}]})
}

fn list(patterns: &[&str]) -> Option<Vec<String>> {
    Some(patterns.iter().map(|pattern| (*pattern).to_owned()).collect())
}

/// Adds the headers of a form of the page.
fn form(request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    request.header("accept", "application/json").header("sec-fetch-site", "same-origin")
}

/// Waits until a condition holds.
async fn until(condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, waiting).await.expect("the condition holds at last");
}

#[tokio::test]
async fn the_first_key_closes_the_gateway_and_revoking_it_does_not_open_it() {
    let server = KeyedGateway::start().await;
    assert_eq!(server.get("none", "/v1/models").await.status, 200);
    let key = server.key("one", KeyRights::default()).await;
    until(async || server.get("none", "/v1/models").await.status == 401).await;
    assert_eq!(server.get(&key.text, "/v1/models").await.status, 200);
    let x_api_key = http_client().get(server.gateway.url("/v1/models")).header("x-api-key", &key.text);
    assert_eq!(x_api_key.send().await.unwrap().status(), 200);
    server.table.revoke(&key.record.id, Timestamp(5)).await.unwrap();
    until(async || server.get(&key.text, "/v1/models").await.status == 401).await;
    assert_eq!(server.get("none", "/v1/models").await.status, 401);
}

/// Security rule 14: other keys, in all forms that are close to a valid one.
#[tokio::test]
async fn wrong_and_expired_keys_are_refused() {
    let server = KeyedGateway::start().await;
    let valid = server.key("valid", KeyRights::default()).await;
    let other = server.key("other", KeyRights::default()).await;
    let expired = server.add("expired", None, Some(Timestamp(2)), KeyRights::default()).await;
    let (start, secret) = valid.text.split_at(16);
    let unknown = IssuedKey::generate().unwrap();
    for wrong in [
        expired.text.as_str(),
        unknown.secret.expose(),
        // The id of one key with the secret of another.
        &format!("{start}{}", &other.text[16..]),
        &format!("{}{secret}", &other.text[..16]),
        &valid.text[..valid.text.len() - 1],
        &format!("{}a", valid.text),
        &valid.text.to_lowercase(),
        valid.record.id.as_str(),
        &String::from(valid.record.digest.clone()),
        "tw_",
    ] {
        let refused = server.get(wrong, "/v1/models").await;
        assert_eq!(refused.status, 401, "{wrong}");
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("a valid key is required"), "{message}");
    }
    assert_eq!(server.get(&valid.text, "/v1/models").await.status, 200);
}

/// Security rule 31: the models of a key, in each API, and in the list.
#[tokio::test]
async fn a_key_may_use_only_its_models() {
    let server = KeyedGateway::start().await;
    let rights = KeyRights { models: list(&["vendor/*"]), ..KeyRights::default() };
    let key = server.key("one", rights).await.text;
    let models = server.get(&key, "/v1/models").await.body;
    let ids: Vec<&str> =
        models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["vendor/scripted"]);
    assert_eq!(server.get(&key, "/v1/models/vendor/scripted").await.status, 200);
    for (model, status) in
        [("vendor/scripted", 200), (MODEL, 404), ("anthropic/scripted", 404), ("absent", 404)]
    {
        for (index, reply) in server.ask_all(&key, model, "say hi").await.into_iter().enumerate() {
            assert_eq!(reply.status, status, "{model} {index}: {reply:?}");
            if status != 200 {
                let message = reply.body["error"]["message"].as_str().unwrap();
                // Whether a model exists is not revealed.
                let expected = format!("the model `{model}` does not exist, or this key may not use it");
                assert_eq!(message, expected, "{index}");
            }
        }
        if status != 200 {
            assert_eq!(server.get(&key, &format!("/v1/models/{model}")).await.status, 404, "{model}");
            let body = json!({"model": model, "input": "a"});
            assert_eq!(server.send(&key, "/v1/embeddings", &body).await.status, 404, "{model}");
            let count = server.send(&key, "/v1/messages/count_tokens", &chat(model, "a")).await;
            assert_eq!(count.status, 404, "{model}");
        }
    }
    let chat_error = &server.ask_all(&key, MODEL, "say hi").await[0].body["error"];
    assert_eq!(chat_error["code"], "model_not_found");
}

/// Security rule 31: the tools of a key are the only ones that are offered and can be called, whatever a
/// request names.
#[tokio::test]
async fn a_key_may_use_only_its_servers_and_tools() {
    let server = KeyedGateway::start().await;
    let tools = |tools: &[&str]| KeyRights { tools: list(tools), ..KeyRights::default() };
    let servers = |servers: &[&str]| KeyRights { servers: list(servers), ..KeyRights::default() };
    let deny = |deny: &str| KeyRights { deny: vec![deny.to_owned()], ..KeyRights::default() };
    for (rights, expected) in [
        (tools(&["lookup", "demo/fa*"]), "lookup fail"),
        (servers(&["demo"]), "lookup fail picture delete wait"),
        (servers(&["other"]), ""),
        (deny("hint:writes"), "lookup fail picture wait"),
        (deny("demo/*"), ""),
    ] {
        let key = server.key("one", rights.clone()).await.text;
        let expected: Vec<&str> = expected.split_whitespace().collect();
        for reply in server.ask_all(&key, MODEL, "say hi").await {
            assert_eq!(reply.status, 200, "{reply:?}");
            assert_eq!(server.offered(), expected, "{rights:?}");
        }
        // A request cannot select more.
        let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "say hi"}], "toolwire": {"tools": ["*"]}});
        server.send(&key, "/v1/chat/completions", &body).await;
        assert_eq!(server.offered(), expected);
        // The model may call any name.
        let before = server.gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst);
        for tool in ["delete", "lookup"] {
            let reply = &server.ask_all(&key, MODEL, &format!("call {tool}")).await[0];
            let text = reply.body["choices"][0]["message"]["content"].as_str().unwrap();
            let has_run = text.contains("value of a") || text.contains("deleted");
            assert_eq!(has_run, tool == "lookup" && expected.contains(&tool), "{rights:?} {tool}: {text}");
        }
        let after = server.gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(after - before, if expected.contains(&"lookup") { 3 } else { 0 });
        // Servers that the request names.
        let hosted = json!([{"type": "mcp", "server_label": "demo", "require_approval": "never"}]);
        let body = json!({"model": MODEL, "input": "say hi", "tools": hosted});
        let reply = server.send(&key, "/v1/responses", &body).await;
        if expected.is_empty() {
            assert_eq!(reply.status, 400, "{reply:?}");
            assert_eq!(reply.body["error"]["message"], "no server named `demo` is configured");
        } else {
            let listed = reply.body["output"][0]["tools"].as_array().unwrap();
            let listed: Vec<&str> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
            assert_eq!(listed, expected, "{rights:?}");
        }
    }
}

#[tokio::test]
async fn a_key_has_its_own_rules_for_approvals() {
    let server = KeyedGateway::start().await;
    let rights = KeyRights {
        allow: vec!["delete".to_owned()],
        ask: vec!["lookup".to_owned()],
        ..KeyRights::default()
    };
    let key = server.key("one", rights).await.text;
    let plain = server.key("two", KeyRights::default()).await.text;
    let ask = async |key: &str, text: &str| {
        let reply = server.send(key, "/v1/chat/completions", &chat(MODEL, text)).await;
        reply.body["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    assert!(ask(&key, "delete").await.contains("deleted"));
    assert!(!ask(&plain, "delete").await.contains("deleted"), "it needs approval, and no user can give it");
    assert!(!ask(&key, "ours").await.contains("value of a"));
    assert!(ask(&plain, "ours").await.contains("value of a"));
    // Where the client can approve, it is asked.
    let hosted = json!([{"type": "mcp", "server_label": "demo", "require_approval": "never"}]);
    let body = json!({"model": MODEL, "input": "ours", "tools": hosted});
    let reply = server.send(&key, "/v1/responses", &body).await;
    let output = reply.body["output"].as_array().unwrap();
    assert_eq!(output.last().unwrap()["type"], "mcp_approval_request", "{output:?}");
}

/// Security rule 47: of many requests at the same time, as many are admitted as the limit says.
#[tokio::test]
async fn limits_are_exact_under_concurrency() {
    let server = KeyedGateway::start().await;
    let rights = KeyRights { requests_per_minute: Some(10), ..KeyRights::default() };
    let key = server.key("one", rights).await.text;
    let body = chat(MODEL, "say hi");
    let replies = join_all((0..60).map(|_| server.send(&key, "/v1/chat/completions", &body))).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 200).count(), 10);
    for refused in replies.iter().filter(|reply| reply.status != 200) {
        assert_eq!(refused.status, 429, "{refused:?}");
        assert_eq!(refused.body["error"]["code"], "rate_limit_exceeded");
        let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
    }
    assert_eq!(server.gateway.model.requests().len(), 10);
    let refused = server.send(&key, "/v1/messages", &body).await;
    assert_eq!((refused.status, &refused.body["error"]["type"]), (429, &json!("rate_limit_error")));
    assert!(refused.header("retry-after").is_some());
    // The list of models is not limited, and neither are other keys.
    assert_eq!(server.get(&key, "/v1/models").await.status, 200);
    let other = server.key("other", KeyRights::default()).await.text;
    assert_eq!(server.send(&other, "/v1/chat/completions", &body).await.status, 200);
}

/// Security rule 47: the tokens of a month are those that the model reports, and requests that fail count no
/// tokens.
#[tokio::test]
async fn a_budget_is_counted_from_the_usage() {
    let server = KeyedGateway::start().await;
    let rights = KeyRights { tokens_per_month: Some(5_000), ..KeyRights::default() };
    let key = server.key("one", rights).await;
    let owner = stored_key_owner(&key.record.id);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let month = Timestamp(now.as_millis() as u64).month();
    let used = async || server.table.used(&owner, &month).await.unwrap();
    let body = chat(MODEL, "say hi");
    let whole = server.send(&key.text, "/v1/chat/completions", &body).await;
    let expected = whole.body["usage"]["total_tokens"].as_u64().unwrap();
    assert!(expected > 0, "{whole:?}");
    until(async || used().await == expected).await;
    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let request = http_client().post(server.gateway.url("/v1/chat/completions")).bearer_auth(&key.text);
    let events = request.json(&streamed).send().await.unwrap().text().await.unwrap();
    assert!(events.contains("[DONE]"));
    until(async || used().await == 2 * expected).await;
    for failing in [chat("absent", "say hi"), json!({"model": MODEL, "messages": 7})] {
        assert!(server.send(&key.text, "/v1/chat/completions", &failing).await.status >= 400);
    }
    // A successful request after them shows that they were settled with nothing.
    server.send(&key.text, "/v1/chat/completions", &body).await;
    until(async || used().await == 3 * expected).await;

    // Many at the same time never reserve more than the rest.
    let mut large = body.clone();
    large["max_tokens"] = json!(4_096);
    let replies = join_all((0..20).map(|_| server.send(&key.text, "/v1/chat/completions", &large))).await;
    let admitted = replies.iter().filter(|reply| reply.status == 200).count();
    assert!(admitted >= 1, "{replies:?}");
    for refused in replies.iter().filter(|reply| reply.status != 200) {
        assert_eq!((refused.status, &refused.body["error"]["code"]), (429, &json!("insufficient_quota")));
        assert_eq!(refused.header("x-should-retry"), Some("false"));
    }
    until(async || used().await == (3 + admitted as u64) * expected).await;
}

/// Security rule 34: revoking a key ends its running requests.
#[tokio::test]
async fn revoking_a_key_ends_its_streams() {
    let server = KeyedGateway::start().await;
    let key = server.key("one", KeyRights::default()).await;
    let mut body = chat(MODEL, "wait");
    body["stream"] = json!(true);
    let request = http_client().post(server.gateway.url("/v1/chat/completions")).bearer_auth(&key.text);
    let request = request.json(&body).send();
    let running = server.gateway.running.clone();
    let is_running = async || running.now.load(std::sync::atomic::Ordering::SeqCst) == 1;
    let response = tokio::spawn(request);
    until(is_running).await;
    server.table.revoke(&key.record.id, Timestamp(5)).await.unwrap();
    // The tool would run for an hour.
    until(async || running.now.load(std::sync::atomic::Ordering::SeqCst) == 0).await;
    if let Ok(response) = response.await.unwrap() {
        match response.status().as_u16() {
            200 => {
                let parts: Vec<_> = response.bytes_stream().collect().await;
                assert!(parts.iter().any(Result::is_err), "the stream is interrupted");
            }
            status => assert_eq!(status, 401),
        }
    }
}

/// Security rules 27 and 50: two tenants with everything that a request or the page can name.
#[tokio::test]
async fn tenants_do_not_reach_each_other() {
    let server = KeyedGateway::start().await;
    let mine = server.add("a", Some("acme"), None, KeyRights::default()).await;
    let ours = server.add("b", Some("acme"), None, KeyRights::default()).await;
    let theirs = server.add("a", Some("other"), None, KeyRights::default()).await;
    let hosted = json!([{"type": "mcp", "server_label": "demo", "require_approval": "always"}]);
    let first = json!({"model": MODEL, "input": "delete", "tools": hosted});
    let output = server.send(&mine.text, "/v1/responses", &first).await.body["output"].clone();
    let request = output.as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
    let approve = |id: &str| {
        let approval = json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": true});
        json!({"model": MODEL, "input": [approval], "tools": hosted})
    };
    // A foreign id has the same response as one that never existed.
    let unknown: String = format!("{}0", &request[..request.len() - 1]);
    let foreign = server.send(&theirs.text, "/v1/responses", &approve(&request)).await;
    let absent = server.send(&theirs.text, "/v1/responses", &approve(&unknown)).await;
    let text =
        |reply: &Reply| reply.body["error"].to_string().replace(&request, "ID").replace(&unknown, "ID");
    assert_eq!((foreign.status, text(&foreign)), (absent.status, text(&absent)));
    assert!(foreign.status >= 400, "{foreign:?}");
    // Items that a later request refers to.
    let item = output[0]["id"].as_str().unwrap();
    let reference = json!({"model": MODEL, "input": [
        {"type": "item_reference", "id": item}, {"role": "user", "content": "say hi"}]});
    assert!(server.send(&theirs.text, "/v1/responses", &reference).await.status >= 400);
    assert_eq!(server.send(&ours.text, "/v1/responses", &reference).await.status, 200);
    // Another key of the same tenant may approve.
    let approved = server.send(&ours.text, "/v1/responses", &approve(&request)).await;
    assert!(approved.body["output"].to_string().contains("deleted"), "{approved:?}");

    // The page: sessions, requests, conversations.
    let cookie = async |key: &str| {
        let body = form_urlencoded::Serializer::new(String::new()).append_pair("key", key).finish();
        let request = http_client().post(server.gateway.url("/sign-in")).body(body);
        let response = form(request).send().await.unwrap();
        let cookie = response.headers().get("set-cookie").unwrap().to_str().unwrap();
        cookie.split(';').next().unwrap().to_owned()
    };
    let page = async |cookie: &str, path: &str| {
        let request = http_client().get(server.gateway.url(path)).header("cookie", cookie);
        Reply::of(request.header("accept", "application/json").send().await.unwrap()).await
    };
    let (my_page, their_page) = (cookie(&mine.text).await, cookie(&theirs.text).await);
    let requests = async |cookie: &str| {
        let body = page(cookie, "/traffic.json").await.body;
        body["requests"].as_array().unwrap().iter().map(|request| request["id"].clone()).collect::<Vec<_>>()
    };
    let (my_requests, their_requests) = (requests(&my_page).await, requests(&their_page).await);
    assert!(!my_requests.is_empty() && !their_requests.is_empty());
    assert!(my_requests.iter().all(|request| !their_requests.contains(request)));
    let id = my_requests[0].as_str().unwrap();
    assert_eq!(page(&my_page, &format!("/traffic/{id}.json")).await.status, 200);
    assert_eq!(page(&their_page, &format!("/traffic/{id}.json")).await.status, 404);
    assert_eq!(page(&their_page, "/chat/0198f1c2-7d3a-7b11-9c55-2f6b0a1d4e83.json").await.status, 403);
    // A session ends with its key, and the other one goes on.
    server.table.revoke(&theirs.record.id, Timestamp(5)).await.unwrap();
    until(async || page(&their_page, "/tools.json").await.status == 401).await;
    assert_eq!(page(&my_page, "/tools.json").await.status, 200);
}

/// Security rule 31: the page offers only what the key may use.
#[tokio::test]
async fn the_page_shows_only_what_a_key_may_use() {
    let server = KeyedGateway::start().await;
    let rights = KeyRights { tools: list(&["lookup"]), ..KeyRights::default() };
    let key = server.key("one", rights).await.text;
    let sign_in = async |key: &str| {
        let body = form_urlencoded::Serializer::new(String::new()).append_pair("key", key).finish();
        let request = http_client().post(server.gateway.url("/sign-in")).body(body);
        let response = form(request).send().await.unwrap();
        let cookie = response.headers().get("set-cookie").unwrap().to_str().unwrap();
        cookie.split(';').next().unwrap().to_owned()
    };
    let (cookie, admin) = (sign_in(&key).await, sign_in(&server.admin_token).await);
    let page = async |cookie: &str, path: &str| {
        let request = http_client().get(server.gateway.url(path)).header("cookie", cookie);
        Reply::of(request.header("accept", "application/json").send().await.unwrap()).await
    };
    for (path, lists) in [("/tools.json", "tools"), ("/-/palette?q=@", "entries")] {
        let text = page(&cookie, path).await.body[lists].to_string();
        assert!(text.contains("lookup") && !text.contains("delete"), "{text}");
        assert!(page(&admin, path).await.body[lists].to_string().contains("delete"));
    }
    assert_eq!(page(&cookie, "/tools/lookup.json").await.status, 200);
    for path in ["/tools/delete.json", "/dialects/delete.json"] {
        assert_eq!(page(&cookie, path).await.status, 404, "{path}");
    }
    for path in ["/servers.json", "/servers/demo.json", "/-/events?topics=servers"] {
        assert_eq!(page(&cookie, path).await.status, 403, "{path}");
    }
    let call = async |cookie: &str, tool: &str| {
        let request = http_client().post(server.gateway.url(&format!("/-/tools/{tool}/call")));
        form(request.header("cookie", cookie)).body("").send().await.unwrap().status().as_u16()
    };
    assert_eq!(call(&cookie, "delete").await, 404);
    assert_eq!(call(&cookie, "lookup").await, 200);
}

/// The keys of the configuration and those of the table are used side by side.
#[tokio::test]
async fn configured_keys_work_beside_a_table() {
    let configured = "configured-0123456789abcdef01234567";
    let rights = KeyRights { requests_per_minute: Some(1), ..KeyRights::default() };
    let mut settings = GatewaySettings::default();
    settings.keys = Keys::default().with_rights("one", configured, rights);
    let server = KeyedGateway::with(settings).await;
    let stored = server.key("two", KeyRights::default()).await.text;
    assert_eq!(server.get("none", "/v1/models").await.status, 401);
    let ask = async |key: &str| server.send(key, "/v1/chat/completions", &chat(MODEL, "say hi")).await.status;
    assert_eq!([ask(&stored).await, ask(configured).await, ask(configured).await], [200, 200, 429]);
}
