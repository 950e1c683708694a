//! An MCP server with accounts, and its authorization server. Its tools and results show the account of each
//! request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) struct AccountServer {
    pub(crate) url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    url: String,
    /// Whether only tokens of the authorization server are accepted.
    has_logins: bool,
    /// The lifetime of tokens in seconds, if they are renewed with refresh tokens that are valid once.
    rotation: Option<u64>,
    state: Mutex<Record>,
}

#[derive(Default)]
pub(crate) struct Record {
    /// The headers of all requests to the MCP server.
    pub(crate) requests: Vec<HeaderMap>,
    /// Requests in a session of another account.
    pub(crate) violations: Vec<String>,
    pub(crate) token_requests: usize,
    /// Refresh tokens that were used for a second time.
    pub(crate) reused: Vec<String>,
    /// The account of each refresh token; `None` if it was used.
    refresh_tokens: HashMap<String, Option<String>>,
    count: usize,
    /// The credential of each session.
    sessions: HashMap<String, String>,
    /// The account and the redirect URI of each code.
    codes: HashMap<String, (String, String)>,
    /// The account of each token.
    tokens: HashMap<String, String>,
    /// The calls that wait for the answer to a question.
    questions: HashMap<String, oneshot::Sender<Value>>,
}

impl AccountServer {
    /// Starts a server that accepts `Bearer token-of-NAME`, or only its own tokens.
    pub(crate) async fn start(has_logins: bool) -> AccountServer {
        AccountServer::start_with(has_logins, None).await
    }

    /// Starts a server whose tokens expire after some seconds. A refresh token that is used twice ends all
    /// tokens, because it may have been stolen.
    pub(crate) async fn start_rotating(lifetime: u64) -> AccountServer {
        AccountServer::start_with(true, Some(lifetime)).await
    }

    async fn start_with(has_logins: bool, rotation: Option<u64>) -> AccountServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared { url: url.clone(), has_logins, rotation, state: Mutex::default() });
        let app = Router::new()
            .route("/mcp", post(handle).delete(|| async { StatusCode::OK }))
            .route("/.well-known/oauth-protected-resource/mcp", get(resource_metadata))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(shared.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        AccountServer { url: format!("{url}/mcp"), shared, serving }
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.shared.state.lock().unwrap()
    }

    /// Returns whether a text of any request's headers contains this one.
    pub(crate) fn has_seen(&self, text: &str) -> bool {
        self.record().requests.iter().any(|headers| format!("{headers:?}").contains(text))
    }
}

impl Drop for AccountServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

impl Shared {
    fn account(&self, credential: &str) -> Option<String> {
        let token = credential.strip_prefix("Bearer ")?;
        match self.has_logins {
            true => self.state.lock().unwrap().tokens.get(token).cloned(),
            false => token.strip_prefix("token-of-").map(str::to_owned),
        }
    }
}

async fn handle(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    shared.state.lock().unwrap().requests.push(headers.clone());
    let credential = text(&headers, "authorization").to_owned();
    let Some(account) = shared.account(&credential) else {
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", shared.url);
        let challenge = format!("Bearer resource_metadata=\"{metadata}\"");
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    };
    let message: Value = serde_json::from_slice(&body).unwrap();
    let respond = |result: Value| Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    let method = message["method"].as_str();
    if method == Some("initialize") {
        let mut state = shared.state.lock().unwrap();
        state.count += 1;
        let session = format!("session-{}", state.count);
        state.sessions.insert(session.clone(), credential);
        let result = json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "accounts", "version": "1"},
        });
        return ([("mcp-session-id", session)], respond(result)).into_response();
    }
    let session = text(&headers, "mcp-session-id").to_owned();
    {
        let mut state = shared.state.lock().unwrap();
        match state.sessions.get(&session).cloned() {
            None => return StatusCode::NOT_FOUND.into_response(),
            // A renewed token belongs to the same account.
            Some(opened) if opened == credential || shared.has_logins => {}
            Some(_) => state.violations.push(format!("{account} in {session}")),
        }
    }
    match method {
        Some("tools/list") => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            let tools = [tool("whoami"), tool("ask"), tool(&format!("only_{account}"))];
            respond(json!({"tools": tools})).into_response()
        }
        Some("tools/call") if message["params"]["name"] == "ask" => ask(&shared, &account, &message),
        Some("tools/call") => {
            let nonce = message["params"]["arguments"]["nonce"].as_str().unwrap_or_default();
            let text = format!("{account} {nonce}");
            respond(json!({"content": [{"type": "text", "text": text}]})).into_response()
        }
        Some(_) if message["id"].is_null() => StatusCode::ACCEPTED.into_response(),
        Some(_) => {
            let error = json!({"code": -32601, "message": "unknown"});
            Json(json!({"jsonrpc": "2.0", "id": message["id"], "error": error})).into_response()
        }
        None => {
            let id = message["id"].as_str().unwrap_or_default();
            if let Some(question) = shared.state.lock().unwrap().questions.remove(id) {
                let _ = question.send(message["result"].clone());
            }
            StatusCode::ACCEPTED.into_response()
        }
    }
}

/// Asks the user of a call, and returns the answer.
fn ask(shared: &Shared, account: &str, call: &Value) -> Response {
    let (sender, answer) = oneshot::channel();
    let id = {
        let mut state = shared.state.lock().unwrap();
        state.count += 1;
        let id = format!("question-{}", state.count);
        state.questions.insert(id.clone(), sender);
        id
    };
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let params = json!({"message": format!("Who is {account}?"), "requestedSchema": schema});
    let question = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params});
    let (account, call_id) = (account.to_owned(), call["id"].clone());
    let result = async move {
        let answer = answer.await.unwrap_or_default();
        let text = format!("{account}: {}", answer["content"]["name"].as_str().unwrap_or("no answer"));
        let result = json!({"content": [{"type": "text", "text": text}]});
        json!({"jsonrpc": "2.0", "id": call_id, "result": result})
    };
    let messages = futures::stream::iter([question]).chain(futures::stream::once(result));
    let events = messages.map(|message| Ok::<_, std::io::Error>(format!("data: {message}\n\n")));
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

async fn resource_metadata(State(shared): State<Arc<Shared>>) -> Response {
    if !shared.has_logins {
        return StatusCode::NOT_FOUND.into_response();
    }
    let url = &shared.url;
    Json(json!({"resource": format!("{url}/mcp"), "authorization_servers": [url]})).into_response()
}

async fn metadata(State(shared): State<Arc<Shared>>) -> Response {
    if !shared.has_logins {
        return StatusCode::NOT_FOUND.into_response();
    }
    let url = &shared.url;
    let metadata = json!({
        "issuer": url,
        "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"),
        "registration_endpoint": format!("{url}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
    });
    Json(metadata).into_response()
}

async fn register(Json(request): Json<Value>) -> Response {
    let response = json!({"client_id": "gateway", "redirect_uris": request["redirect_uris"]});
    (StatusCode::CREATED, Json(response)).into_response()
}

/// The login page. The header `x-account` says who visits it.
async fn authorize(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Query(request): Query<HashMap<String, String>>,
) -> Response {
    let mut state = shared.state.lock().unwrap();
    state.count += 1;
    let (code, uri) = (format!("code-{}", state.count), request["redirect_uri"].clone());
    state.codes.insert(code.clone(), (text(&headers, "x-account").to_owned(), uri.clone()));
    let location = format!("{uri}?code={code}&state={}", request["state"]);
    (StatusCode::FOUND, [(header::LOCATION, location)]).into_response()
}

async fn token(State(shared): State<Arc<Shared>>, Form(request): Form<HashMap<String, String>>) -> Response {
    let mut state = shared.state.lock().unwrap();
    state.token_requests += 1;
    let found = match request.get("refresh_token") {
        Some(token) => state.use_refresh_token(token),
        None => {
            let found = request.get("code").and_then(|code| state.codes.remove(code));
            found.filter(|(_, uri)| request.get("redirect_uri") == Some(uri)).map(|(account, _)| account)
        }
    };
    let Some(account) = found else {
        return (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))).into_response();
    };
    state.count += 1;
    let token = format!("secret-token-of-{account}-{}", state.count);
    state.tokens.insert(token.clone(), account.clone());
    let mut response = json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600});
    if let Some(lifetime) = shared.rotation {
        let refresh_token = format!("secret-refresh-token-{}", state.count);
        state.refresh_tokens.insert(refresh_token.clone(), Some(account));
        response["expires_in"] = json!(lifetime);
        response["refresh_token"] = json!(refresh_token);
    }
    Json(response).into_response()
}

impl Record {
    /// Returns the account of a refresh token that was not used before.
    fn use_refresh_token(&mut self, token: &str) -> Option<String> {
        let account = self.refresh_tokens.get_mut(token)?.take();
        if account.is_none() {
            self.reused.push(token.to_owned());
            self.tokens.clear();
            self.refresh_tokens.clear();
        }
        account
    }
}
