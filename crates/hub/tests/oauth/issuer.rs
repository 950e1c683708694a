//! An MCP server and its authorization server on one port, as strict as the RFCs allow.
//!
//! Every generated secret contains the text `SECRET`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    Form, Json, Router,
    extract::{Query, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};

/// The behaviour of the servers. The default is a server of MCP 2026-07-28 that registers clients and rotates
/// refresh tokens.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) expires_in: Option<u64>,
    pub(crate) issues_refresh_tokens: bool,
    /// Overrides of the metadata; `null` removes a field.
    pub(crate) metadata: Value,
    /// Serves no metadata, which is valid in MCP 2025-03-26.
    pub(crate) no_metadata: bool,
    pub(crate) no_registration: bool,
    pub(crate) issuer_in_redirect: Option<String>,
    pub(crate) denies_login: bool,
    /// The URL of another authorization server that the server names.
    pub(crate) other_issuer: Option<String>,
    pub(crate) token_type: &'static str,
    /// The response to every token request, if set.
    pub(crate) token_failure: Option<(StatusCode, Value)>,
    /// The scopes in the challenge of a 401 response.
    pub(crate) scope_in_challenge: Option<&'static str>,
    /// The scopes that are granted instead of the requested ones.
    pub(crate) granted: Option<&'static str>,
    pub(crate) assertion_key: Option<&'static str>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            expires_in: Some(3600),
            issues_refresh_tokens: true,
            metadata: json!({}),
            no_metadata: false,
            no_registration: false,
            issuer_in_redirect: None,
            denies_login: false,
            other_issuer: None,
            token_type: "Bearer",
            token_failure: None,
            scope_in_challenge: None,
            granted: None,
            assertion_key: None,
        }
    }
}

/// The received requests.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) registrations: Vec<Value>,
    pub(crate) logins: Vec<HashMap<String, String>>,
    pub(crate) token_requests: Vec<HashMap<String, String>>,
    /// Requests that violate OAuth.
    pub(crate) violations: Vec<String>,
}

impl Record {
    pub(crate) fn grants(&self, kind: &str) -> usize {
        self.token_requests.iter().filter(|request| request["grant_type"] == kind).count()
    }
}

#[derive(Default)]
struct Issued {
    count: usize,
    clients: HashMap<String, Client>,
    codes: HashMap<String, Code>,
    access: HashMap<String, String>,
    refresh: HashMap<String, Refresh>,
}

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) secret: Option<String>,
    pub(crate) redirect_uris: Option<Vec<String>>,
}

struct Code {
    client: String,
    redirect_uri: String,
    challenge: String,
    scope: String,
}

struct Refresh {
    client: String,
    scope: String,
    is_used: bool,
}

pub(crate) struct Issuer {
    pub(crate) url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    url: String,
    rules: Mutex<Rules>,
    record: Mutex<Record>,
    issued: Mutex<Issued>,
    /// If set, the token endpoint accepts a request, notifies the test and waits.
    gate: Mutex<Option<Arc<Gate>>>,
}

#[derive(Default)]
pub(crate) struct Gate {
    pub(crate) arrived: Notify,
    pub(crate) open: Notify,
}

impl Issuer {
    pub(crate) async fn start(rules: Rules) -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            url: url.clone(),
            rules: Mutex::new(rules),
            record: Mutex::default(),
            issued: Mutex::default(),
            gate: Mutex::default(),
        });
        let app = Router::new()
            .route("/mcp", post(resource))
            .route("/.well-known/oauth-protected-resource/mcp", get(resource_metadata))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(shared.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.expect("serving") });
        Issuer { url, shared, serving }
    }

    pub(crate) fn mcp_url(&self) -> String {
        format!("{}/mcp", self.url)
    }

    pub(crate) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.shared.rules.lock().expect("not poisoned")
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.shared.record.lock().expect("not poisoned")
    }

    pub(crate) fn add_client(&self, id: &str, client: Client) {
        self.shared.issued().clients.insert(id.to_owned(), client);
    }

    pub(crate) fn delete_clients(&self) {
        self.shared.issued().clients.clear();
    }

    pub(crate) fn revoke_access(&self) {
        self.shared.issued().access.clear();
    }

    pub(crate) fn revoke_all(&self) {
        self.shared.issued().access.clear();
        self.shared.issued().refresh.clear();
    }

    pub(crate) fn close_gate(&self) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        *self.shared.gate.lock().expect("not poisoned") = Some(gate.clone());
        gate
    }

    #[track_caller]
    pub(crate) fn assert_no_violation(&self) {
        assert_eq!(self.record().violations, Vec::<String>::new());
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn issued(&self) -> MutexGuard<'_, Issued> {
        self.issued.lock().expect("not poisoned")
    }

    fn rules(&self) -> Rules {
        self.rules.lock().expect("not poisoned").clone()
    }

    fn resource(&self) -> String {
        format!("{}/mcp", self.url)
    }

    /// Records a violation and returns the error response.
    fn refuse(&self, error: &str, description: &str) -> Response {
        let violation = format!("{error}: {description}");
        self.record.lock().expect("not poisoned").violations.push(violation);
        oauth_error(error, description)
    }
}

fn oauth_error(error: &str, description: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({"error": error, "error_description": description}))).into_response()
}

/// The MCP server; the header `X-Required-Scope` is the scope that the operation requires.
async fn resource(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", shared.url);
    let rules = shared.rules();
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
    let scope = token.and_then(|token| shared.issued().access.get(token).cloned());
    let required = request.headers().get("x-required-scope").and_then(|value| value.to_str().ok());
    let (status, challenge) = match (scope, required) {
        (None, _) => {
            let scope =
                rules.scope_in_challenge.map(|scope| format!("scope=\"{scope}\", ")).unwrap_or_default();
            (StatusCode::UNAUTHORIZED, format!("Bearer {scope}resource_metadata=\"{metadata}\""))
        }
        (Some(scope), Some(required)) if !scope.split(' ').any(|scope| scope == required) => {
            let challenge = format!(
                "Bearer error=\"insufficient_scope\", scope=\"{required}\", resource_metadata=\"{metadata}\""
            );
            (StatusCode::FORBIDDEN, challenge)
        }
        _ => return serve_mcp(request).await,
    };
    if rules.no_metadata {
        return (status, [(header::WWW_AUTHENTICATE, "Bearer".to_owned())]).into_response();
    }
    (status, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
}

/// Serves an authorized MCP request, with one tool.
async fn serve_mcp(request: Request) -> Response {
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.expect("a short body");
    let Ok(message) = serde_json::from_slice::<Value>(&body) else { return StatusCode::OK.into_response() };
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "notes", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "read_note", "inputSchema": {"type": "object"}}]}),
        _ if message.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({"code": -32601, "message": "unknown"});
            return Json(json!({"jsonrpc": "2.0", "id": message["id"], "error": error})).into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

async fn resource_metadata(State(shared): State<Arc<Shared>>) -> Response {
    let rules = shared.rules();
    if rules.no_metadata {
        return StatusCode::NOT_FOUND.into_response();
    }
    let issuer = rules.other_issuer.unwrap_or_else(|| shared.url.clone());
    Json(json!({"resource": shared.resource(), "authorization_servers": [issuer]})).into_response()
}

async fn metadata(State(shared): State<Arc<Shared>>) -> Response {
    let (rules, url) = (shared.rules(), &shared.url);
    if rules.no_metadata {
        return StatusCode::NOT_FOUND.into_response();
    }
    let mut metadata = json!({
        "issuer": url,
        "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"),
        "registration_endpoint": format!("{url}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    });
    for (key, value) in rules.metadata.as_object().expect("an object") {
        metadata[key] = value.clone();
    }
    metadata.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    Json(metadata).into_response()
}

async fn register(State(shared): State<Arc<Shared>>, Json(request): Json<Value>) -> Response {
    if shared.rules().no_registration {
        return StatusCode::NOT_FOUND.into_response();
    }
    let uris: Vec<String> = serde_json::from_value(request["redirect_uris"].clone()).unwrap_or_default();
    let is_loopback = |uri: &String| uri.starts_with("http://127.0.0.1:");
    if uris.is_empty() || !uris.iter().all(is_loopback) || request["application_type"] != "native" {
        return shared.refuse("invalid_redirect_uri", "a native client must use loopback redirects");
    }
    shared.record.lock().expect("not poisoned").registrations.push(request);
    let mut issued = shared.issued();
    issued.count += 1;
    let id = format!("client-{}", issued.count);
    let client =
        Client { secret: Some(format!("SECRET-client-{}", issued.count)), redirect_uris: Some(uris.clone()) };
    let secret = client.secret.clone();
    issued.clients.insert(id.clone(), client);
    let response = json!({"client_id": id, "client_secret": secret, "redirect_uris": uris});
    (StatusCode::CREATED, Json(response)).into_response()
}

async fn authorize(
    State(shared): State<Arc<Shared>>,
    Query(request): Query<HashMap<String, String>>,
) -> Response {
    shared.record.lock().expect("not poisoned").logins.push(request.clone());
    let rules = shared.rules();
    let field = |name: &str| request.get(name).cloned().unwrap_or_default();
    let redirect_uri = field("redirect_uri");
    let Some(client) = shared.issued().clients.get(&field("client_id")).cloned() else {
        return shared.refuse("invalid_client", "unknown client");
    };
    if client.redirect_uris.is_some_and(|registered| !registered.contains(&redirect_uri)) {
        return shared.refuse("invalid_request", "unknown redirect_uri");
    }
    if field("response_type") != "code"
        || field("code_challenge_method") != "S256"
        || field("code_challenge").len() != 43
        || field("state").len() < 16
        || (field("resource") != shared.resource() && !rules.no_metadata && rules.other_issuer.is_none())
    {
        return shared.refuse("invalid_request", &format!("{request:?}"));
    }
    let issuer = rules.issuer_in_redirect.unwrap_or_else(|| shared.url.clone());
    let issuer = if rules.no_metadata || issuer.is_empty() { Vec::new() } else { vec![("iss", issuer)] };
    let mut redirect = reqwest::Url::parse(&redirect_uri).expect("a registered URI");
    redirect.query_pairs_mut().append_pair("state", &field("state")).extend_pairs(&issuer);
    if rules.denies_login {
        redirect
            .query_pairs_mut()
            .append_pair("error", "access_denied")
            .append_pair("error_description", "not allowed");
    } else {
        let mut issued = shared.issued();
        issued.count += 1;
        let code = format!("SECRET-code-{}", issued.count);
        let scope = rules.granted.map(str::to_owned).unwrap_or_else(|| field("scope"));
        let (client, challenge) = (field("client_id"), field("code_challenge"));
        issued.codes.insert(code.clone(), Code { client, redirect_uri, challenge, scope });
        redirect.query_pairs_mut().append_pair("code", &code);
    }
    (StatusCode::FOUND, [(header::LOCATION, redirect.to_string())]).into_response()
}

async fn token(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Form(request): Form<HashMap<String, String>>,
) -> Response {
    shared.record.lock().expect("not poisoned").token_requests.push(request.clone());
    let gate = shared.gate.lock().expect("not poisoned").take();
    let rules = shared.rules();
    if let Some((status, response)) = rules.token_failure.clone() {
        return (status, Json(response)).into_response();
    }
    let field = |name: &str| request.get(name).cloned().unwrap_or_default();
    let Some(client) = authenticate(&shared, &headers, &request) else {
        return oauth_error("invalid_client", &format!("unknown client, {}", field("client_secret")));
    };
    if field("resource") != shared.resource() && !rules.no_metadata && rules.other_issuer.is_none() {
        return shared.refuse("invalid_target", &field("resource"));
    }
    let scope = match field("grant_type").as_str() {
        "authorization_code" => {
            // A code is valid for one use, even a failed one.
            let Some(code) = shared.issued().codes.remove(&field("code")) else {
                return shared.refuse("invalid_grant", "unknown code");
            };
            let verifier = URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier")));
            if code.client != client
                || code.redirect_uri != field("redirect_uri")
                || code.challenge != verifier
                || field("code_verifier").len() < 43
            {
                return shared.refuse("invalid_grant", "the code was issued for another request");
            }
            code.scope
        }
        "refresh_token" => {
            let mut issued = shared.issued();
            let stored = issued.refresh.get_mut(&field("refresh_token"));
            let Some(stored) = stored.filter(|stored| stored.client == client) else {
                return oauth_error("invalid_grant", &format!("unknown {}", field("refresh_token")));
            };
            if stored.is_used {
                // The token may be stolen, so the grant is revoked (RFC 9700 section 4.14).
                issued.refresh.clear();
                issued.access.clear();
                drop(issued);
                return shared.refuse("invalid_grant", "a refresh token was used twice");
            }
            stored.is_used = true;
            let granted = stored.scope.clone();
            let requested = field("scope");
            let mut requested = requested.split_whitespace();
            if !requested.all(|scope| granted.split(' ').any(|granted| granted == scope)) {
                drop(issued);
                return shared.refuse("invalid_scope", "more scopes than were granted");
            }
            granted
        }
        "client_credentials" => field("scope"),
        _ => return shared.refuse("unsupported_grant_type", &field("grant_type")),
    };
    let response = {
        let mut issued = shared.issued();
        issued.count += 1;
        let (access, refresh) =
            (format!("SECRET-access-{}", issued.count), format!("SECRET-refresh-{}", issued.count));
        issued.access.insert(access.clone(), scope.clone());
        let mut response = json!({
            "access_token": access, "token_type": rules.token_type, "scope": scope, "id_token": "SECRET-id"
        });
        if let Some(seconds) = rules.expires_in {
            response["expires_in"] = seconds.into();
        }
        if rules.issues_refresh_tokens && field("grant_type") != "client_credentials" {
            response["refresh_token"] = refresh.clone().into();
            issued.refresh.insert(refresh, Refresh { client, scope, is_used: false });
        }
        response
    };
    // The new token exists, but the client has not received it yet.
    if let Some(gate) = gate {
        gate.arrived.notify_one();
        gate.open.notified().await;
    }
    Json(response).into_response()
}

/// Returns the id of the client if its authentication is valid.
fn authenticate(shared: &Shared, headers: &HeaderMap, request: &HashMap<String, String>) -> Option<String> {
    let rules = shared.rules();
    if let Some(assertion) = request.get("client_assertion") {
        let key = DecodingKey::from_ec_pem(rules.assertion_key?.as_bytes()).ok()?;
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_audience(&[&shared.url]);
        validation.set_required_spec_claims(&["exp", "iss", "sub", "aud"]);
        let claims = jsonwebtoken::decode::<Value>(assertion, &key, &validation).ok()?.claims;
        let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
        let is_valid = request.get("client_assertion_type")? == kind
            && claims["iss"] == claims["sub"]
            && claims["jti"].is_string();
        return is_valid.then(|| claims["sub"].as_str().map(str::to_owned))?;
    }
    let basic =
        headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Basic "));
    let (id, secret) = match basic {
        Some(basic) => {
            let pair = String::from_utf8(STANDARD.decode(basic).ok()?).ok()?;
            let (id, secret) = pair.split_once(':')?;
            (id.to_owned(), Some(secret.to_owned()))
        }
        None => (request.get("client_id")?.clone(), request.get("client_secret").cloned()),
    };
    let issued = shared.issued();
    let client = issued.clients.get(&id)?;
    (client.secret == secret).then_some(id)
}
