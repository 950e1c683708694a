//! A gateway with several tenants, and what each of them owns.

use std::collections::BTreeMap;
use std::path::PathBuf;

use regex::Regex;
use reqwest::Method;
use serde_json::{Value, json};
use toolwire_testkit::misbehaving_server;
use toolwire_testkit::provider::{Api, FakeProvider, ModelOutput, ReceivedRequest, Script, ScriptedResponse};
use toolwire_toolkit::transport::{HttpOptions, HttpServer, serve_http};

use crate::account_server::AccountServer;
use crate::issuer::Issuer;
use crate::mcp_client::{McpClient, read};
use crate::mcp_official_clients::fixture;
use crate::user_servers::{HEADER, SECRET};
use crate::{Served, folder, fs, serve, with_provider};

/// An administrator, who owns nothing.
pub(super) const BOSS: &str = "key-of-the-administrator-0123456789abc";

const AUDIENCE: &str = "https://gateway.example";

/// The tools that a response may call only after an approval.
pub(super) fn with_approval() -> Value {
    json!([{"type": "mcp", "server_label": "good", "require_approval": "always"}])
}

/// Somebody with a key, or with a token.
pub(super) struct Tenant {
    /// The name in the audit log.
    pub(super) name: &'static str,
    pub(super) key: String,
    /// The account at the server `notes`.
    pub(super) account: &'static str,
    /// A text that only this tenant's data contains.
    pub(super) secret: String,
}

pub(super) struct World {
    pub(super) served: Served,
    pub(super) folder: PathBuf,
    /// A key, another key, and a token with the name of the first one.
    pub(super) tenants: [Tenant; 3],
    pub(super) notes: AccountServer,
    client: reqwest::Client,
    _provider: FakeProvider,
    _issuer: Issuer,
    _fixture: HttpServer,
}

/// What one tenant owns.
pub(super) struct Owned {
    pub(super) response: String,
    item: String,
    conversation: String,
    conversation_item: String,
    background: String,
    paused: String,
    approval: String,
    /// The id of a request, and of an entry of the traffic.
    pub(super) request: String,
    pub(super) task: String,
    pub(super) session: McpClient,
    pub(super) result: String,
    /// The cookie of the page, and a call that was made there.
    pub(super) cookie: String,
    pub(super) call: String,
}

/// The parts of a response that could depend on whose id was sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

impl Seen {
    pub(super) async fn of(request: reqwest::RequestBuilder) -> Seen {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let varies = |name: &str| ["date", "x-request-id", "request-id", "etag"].contains(&name);
        let headers = response.headers().iter().filter(|(name, _)| !varies(name.as_str()));
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        Seen { status, headers: headers.collect(), body: response.text().await.unwrap() }
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Returns the response with `ID` instead of the id that was sent, and without new ids and times.
    pub(super) fn about(mut self, id: &str) -> Seen {
        let new_id = Regex::new(r"\b[a-z]{2,8}_[0-9A-Za-z]{16,}(i?[0-9]+)?\b").unwrap();
        let time = Regex::new("\"(created|created_at|completed_at)\":[0-9.]+").unwrap();
        let without = |text: &str| {
            // Errors repeat the beginning of a long id.
            let start: String = id.chars().take(100).collect();
            let text = text.replace(id, "ID").replace(&start, "ID");
            time.replace_all(&new_id.replace_all(&text, "NEW"), "$1").into_owned()
        };
        self.body = without(&self.body);
        self.headers.values_mut().for_each(|value| *value = without(value));
        self
    }
}

/// Returns an id of the same form that nobody has.
pub(super) fn unknown(id: &str) -> String {
    let next = |letter: char| match letter {
        '0'..='8' => char::from(letter as u8 + 1),
        '9' => '0',
        other => other,
    };
    let changed: String = id.chars().map(next).collect();
    if changed != id {
        return changed;
    }
    // One random id of a hundred has no digits.
    let last = if id.ends_with('a') { 'b' } else { 'a' };
    let mut changed = id.to_owned();
    changed.pop();
    changed.push(last);
    changed
}

/// Responds to the last text of the user: `say TEXT` or `call TOOL ARGUMENTS`.
fn play(request: &ReceivedRequest) -> ScriptedResponse {
    let messages = request.body["messages"].as_array().unwrap();
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        content => content[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    let last = messages.last().unwrap();
    let words = text(last);
    ScriptedResponse::Output(match words.split_once(' ') {
        _ if last["role"] == "tool" => ModelOutput::text(&format!("The result is {words}.")),
        Some(("call", call)) => {
            let (tool, arguments) = call.split_once(' ').unwrap();
            ModelOutput::default().call("call_1", tool, arguments)
        }
        Some(("say", text)) => ModelOutput::text(text),
        _ => ModelOutput::text("Nothing."),
    })
}

impl World {
    pub(super) async fn start(name: &str) -> World {
        toolwire_testkit::install_tls_provider();
        let provider = FakeProvider::start(Api::OpenAiChat, Script::from_fn(play)).await;
        let (issuer, notes) = (Issuer::start().await, AccountServer::start(false).await);
        let address = ([127, 0, 0, 1], 0).into();
        let fixture = serve_http(fixture::server(), address, HttpOptions::default()).await.unwrap();
        let tenant = |name, key: &str, account: &'static str| Tenant {
            name,
            key: key.to_owned(),
            account,
            secret: format!("secret-text-of-{account}"),
        };
        let token = issuer.token(AUDIENCE, "anna", &json!({"groups": ["users"], "name": "anna"}));
        let tenants = [
            tenant("anna", "key-of-the-first-tenant-0123456789abcd", "anna"),
            tenant("bert", "key-of-another-tenant-0123456789abcdef", "bert"),
            tenant("anna", &token, "carl"),
        ];
        let rule = json!({"claim": "groups", "value": "users", "rights": {}});
        let oidc =
            json!([{"issuer": issuer.url, "audience": AUDIENCE, "nameClaim": "name", "rules": [rule]}]);
        let keys = json!({
            "anna": {"key": tenants[0].key}, "bert": {"key": tenants[1].key}, "boss": {"key": BOSS, "admin": true},
        });
        let mut config = with_provider(&provider, "openai");
        config["mcpServers"] = json!({
            // Calls must run until the end of the test, however long that takes.
            "good": {"command": misbehaving_server(), "prefix": "good", "timeout": "1h"},
            "fixture": {"url": fixture.url(), "prefix": "fixture", "timeout": "1h"},
            "notes": {"url": notes.url, "auth": "per-user", "forwardHeaders": {"Authorization": HEADER}},
        });
        config["toolwire"]["agent"] = json!({"approvals": {"allow": ["*"]}});
        config["toolwire"]["gateway"] = json!({
            "keys": keys, "oidc": oidc, "credentialKey": SECRET, "sessionKey": SECRET,
            "audit": {"file": "audit.jsonl", "arguments": "full"},
            "limits": {"requestsPerKey": 1_000},
        });
        let folder = folder(name, Some(&config));
        let served = serve(&folder, &[]);
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        World {
            served,
            folder,
            tenants,
            notes,
            client,
            _provider: provider,
            _issuer: issuer,
            _fixture: fixture,
        }
    }

    /// Returns who attacks whom: two keys each other, and a key and a token with its name.
    pub(super) fn attacks(&self) -> [(usize, usize); 4] {
        [(0, 1), (1, 0), (0, 2), (2, 0)]
    }

    /// Prepares a request of a tenant.
    pub(super) fn request(&self, tenant: &Tenant, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method: Method = method.parse().unwrap();
        let request = self.client.request(method, format!("{}{path}", self.served.url));
        request.bearer_auth(&tenant.key).header(HEADER, format!("Bearer token-of-{}", tenant.account))
    }

    pub(super) async fn send(&self, tenant: &Tenant, method: &str, path: &str, body: Option<&Value>) -> Seen {
        let request = self.request(tenant, method, path);
        Seen::of(match body {
            Some(body) => request.json(body),
            None => request,
        })
        .await
    }

    /// Sends a request that must succeed.
    async fn ok(&self, tenant: &Tenant, method: &str, path: &str, body: Option<&Value>) -> Value {
        let seen = self.send(tenant, method, path, body).await;
        assert_eq!(seen.status, 200, "{method} {path}: {}", seen.body);
        seen.json()
    }

    /// Prepares a request of a browser to the page.
    pub(super) fn page(&self, cookie: &str, method: &str, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method.parse().unwrap(), format!("{}{path}", self.served.url));
        let request = request.header("sec-fetch-site", "same-origin").header("origin", &self.served.url);
        request.header("cookie", cookie).header("accept", "text/html")
    }

    pub(super) fn form(request: reqwest::RequestBuilder, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        request.header("content-type", "application/x-www-form-urlencoded").body(body)
    }

    /// Signs in on the page, and returns the cookie.
    pub(super) async fn sign_in(&self, key: &str) -> String {
        let signed_in = Seen::of(World::form(self.page("", "POST", "/sign-in"), &[("key", key)])).await;
        let cookie = signed_in.headers.get("set-cookie").unwrap_or_else(|| panic!("{signed_in:?}"));
        cookie.split(';').next().unwrap().to_owned()
    }

    pub(super) async fn mcp(&self, tenant: &Tenant, revision: &str) -> McpClient {
        let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}});
        McpClient::connect_with(&self.served.url, Some(&tenant.key), revision, capabilities).await
    }

    /// Creates one of everything.
    pub(super) async fn populate(&self, tenant: &Tenant) -> Owned {
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned();
        let secret = &tenant.secret;
        let create = async |body: Value| self.ok(tenant, "POST", "/v1/responses", Some(&body)).await;
        let response = create(json!({"model": "up", "input": format!("say {secret}")})).await;
        let paused = create(json!({
            "model": "up", "input": format!("call good_echo {{\"text\":\"{secret} approved\"}}"), "tools": with_approval(),
        }))
        .await;
        let requests = paused["output"].as_array().unwrap().iter();
        let approval = requests.clone().find(|item| item["type"] == "mcp_approval_request");
        let approval = approval.unwrap_or_else(|| panic!("{paused}"));
        let wait = "call good_wait {\"milliseconds\":3600000}";
        let background = create(json!({"model": "up", "input": wait, "background": true})).await;
        let item = json!({"type": "message", "role": "user", "content": secret});
        let conversation = json!({"items": [item], "metadata": {"note": secret}});
        let conversation = self.ok(tenant, "POST", "/v1/conversations", Some(&conversation)).await;
        let items = format!("/v1/conversations/{}/items", text(&conversation["id"]));
        let items = self.ok(tenant, "GET", &items, None).await;

        let question = json!([{"role": "user", "content": format!("say {secret}")}]);
        let request = self.request(tenant, "POST", "/v1/chat/completions");
        let asked = request.json(&json!({"model": "up", "messages": question})).send().await.unwrap();
        assert_eq!(asked.status(), 200);

        let modern = self.mcp(tenant, "2026-07-28").await;
        let task = crate::mcp_tasks::start(&modern, "fixture_slow_compute", json!({"seconds": 3_600})).await;
        let long =
            modern.call("good_echo", json!({"text": format!("{secret} {}", "x".repeat(150_000))})).await;
        let result = Regex::new(r"\br[0-9a-f]{16}\b").unwrap();
        let result = result.find(long["content"][0]["text"].as_str().unwrap()).unwrap().as_str().to_owned();

        let cookie = self.sign_in(&tenant.key).await;
        let call = [("s/text", "set"), ("v/text", secret.as_str()), ("act", "call")];
        let called = World::form(self.page(&cookie, "POST", "/-/tools/good_echo/call"), &call);
        let called = Seen::of(called).await;
        let id = Regex::new("/calls/([0-9A-Za-z]+)/result").unwrap();
        let call = id.captures(&called.body).unwrap_or_else(|| panic!("{called:?}"))[1].to_owned();
        Owned {
            response: text(&response["id"]),
            item: text(&response["output"][0]["id"]),
            conversation: text(&conversation["id"]),
            conversation_item: text(&items["data"][0]["id"]),
            background: text(&background["id"]),
            paused: text(&paused["id"]),
            approval: text(&approval["id"]),
            request: asked.headers()["x-request-id"].to_str().unwrap().to_owned(),
            task,
            session: self.mcp(tenant, "2025-11-25").await,
            result,
            cookie,
            call,
        }
    }

    /// Checks that everything is as before, and ends what runs.
    pub(super) async fn verify(&self, tenant: &Tenant, owned: &Owned) {
        let secret = &tenant.secret;
        let read = async |path: String| self.ok(tenant, "GET", &path, None).await;
        let response = read(format!("/v1/responses/{}", owned.response)).await;
        assert_eq!(response["output"][0]["content"][0]["text"], json!(secret));
        let input = read(format!("/v1/responses/{}/input_items", owned.response)).await;
        assert_eq!(input["data"].as_array().unwrap().len(), 1, "{input}");
        let background = read(format!("/v1/responses/{}", owned.background)).await;
        assert!(["queued", "in_progress"].contains(&background["status"].as_str().unwrap()), "{background}");
        let conversation = read(format!("/v1/conversations/{}", owned.conversation)).await;
        assert_eq!(conversation["metadata"], json!({"note": secret}));
        let items = read(format!("/v1/conversations/{}/items", owned.conversation)).await;
        let [item] = &items["data"].as_array().unwrap()[..] else { panic!("{items}") };
        assert_eq!(
            (&item["id"], &item["content"][0]["text"]),
            (&json!(owned.conversation_item), &json!(secret))
        );
        // The run still waits for the approval of its owner.
        let approval =
            json!({"type": "mcp_approval_response", "approval_request_id": owned.approval, "approve": true});
        let approve = json!({
            "model": "up", "previous_response_id": owned.paused, "input": [approval], "tools": with_approval(),
        });
        let approved = self.ok(tenant, "POST", "/v1/responses", Some(&approve)).await;
        assert!(approved["output"].to_string().contains(&format!("{secret} approved")), "{approved}");
        let cancel = format!("/v1/responses/{}/cancel", owned.background);
        assert_eq!(self.ok(tenant, "POST", &cancel, None).await["status"], "cancelled");

        assert!(owned.session.tool_names().await.contains(&"good_echo".to_owned()));
        let modern = self.mcp(tenant, "2026-07-28").await;
        let task = modern.request("tasks/get", json!({"taskId": owned.task})).await;
        assert_eq!(task["result"]["status"], "working", "{task}");
        modern.request("tasks/cancel", json!({"taskId": owned.task})).await;
        let result = modern.call("read_result", json!({"id": owned.result, "length": 100})).await;
        assert!(result["content"][0]["text"].as_str().unwrap().starts_with(secret.as_str()), "{result}");

        let call = format!("/-/tools/good_echo/calls/{}/result", owned.call);
        let recorded = Seen::of(self.page(&owned.cookie, "GET", &call)).await;
        assert!(recorded.status == 200 && recorded.body.contains(secret), "{recorded:?}");
    }

    /// Returns the lines of the audit log.
    pub(super) fn audit(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.join("audit.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Owned {
    /// Returns everything with an id: what it is, and the id.
    pub(super) fn ids(&self) -> Vec<(&'static str, &str)> {
        vec![
            ("response", &self.response),
            ("item", &self.item),
            ("conversation", &self.conversation),
            ("conversation item", &self.conversation_item),
            ("background response", &self.background),
            ("paused run", &self.paused),
            ("approval", &self.approval),
            ("request", &self.request),
            ("task", &self.task),
            ("session", self.session.session.as_deref().unwrap()),
            ("stored result", &self.result),
            ("call of the page", &self.call),
        ]
    }
}

/// Sends a message of MCP with the account of a tenant, and returns the response.
pub(super) async fn exchange(client: &McpClient, tenant: &Tenant, method: &str, params: Value) -> Value {
    let request = client.post(&client.message(method, params));
    let mut reply = read(request.header(HEADER, format!("Bearer token-of-{}", tenant.account))).await;
    reply.messages.pop().unwrap_or_else(|| panic!("{reply:?}"))
}
