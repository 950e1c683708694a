//! A server with its authorization server, on one port, as strict as the RFCs allow.
//!
//! Everything secret that it makes up holds the word `SECRET`.

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

/// How it behaves. The default is a server of 2026-07-28 that registers clients and rotates refresh tokens.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) expires_in: Option<u64>,
    pub(crate) refresh_tokens: bool,
    /// What it puts into its metadata, over the usual; `null` removes.
    pub(crate) metadata: Value,
    /// Has no metadata at all, as a server of 2025-03-26 may.
    pub(crate) silent: bool,
    /// Registers nobody.
    pub(crate) closed: bool,
    pub(crate) issuer_in_redirect: Option<String>,
    pub(crate) deny: bool,
    /// Where the server says its authorization server is, if elsewhere.
    pub(crate) moved_to: Option<String>,
    pub(crate) token_type: &'static str,
    /// Answered to every token request, if set.
    pub(crate) token_failure: Option<(StatusCode, Value)>,
    /// Scopes named in the 401.
    pub(crate) scope_in_challenge: Option<&'static str>,
    /// Scopes granted, whatever is asked for.
    pub(crate) granted: Option<&'static str>,
    pub(crate) assertion_key: Option<&'static str>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            expires_in: Some(3600),
            refresh_tokens: true,
            metadata: json!({}),
            silent: false,
            closed: false,
            issuer_in_redirect: None,
            deny: false,
            moved_to: None,
            token_type: "Bearer",
            token_failure: None,
            scope_in_challenge: None,
            granted: None,
            assertion_key: None,
        }
    }
}

/// What happened.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) registrations: Vec<Value>,
    pub(crate) logins: Vec<HashMap<String, String>>,
    pub(crate) token_requests: Vec<HashMap<String, String>>,
    /// What a client did that no client may do.
    pub(crate) offences: Vec<String>,
}

impl Record {
    pub(crate) fn grants(&self, kind: &str) -> usize {
        self.token_requests.iter().filter(|request| request["grant_type"] == kind).count()
    }
}

#[derive(Default)]
struct Books {
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
    used: bool,
}

pub(crate) struct Issuer {
    pub(crate) url: String,
    world: Arc<World>,
    serving: JoinHandle<()>,
}

struct World {
    url: String,
    rules: Mutex<Rules>,
    record: Mutex<Record>,
    books: Mutex<Books>,
    /// Set: the token endpoint takes a request, says so, and waits.
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
        let url = format!("http://{}", listener.local_addr().expect("it has one"));
        let world = Arc::new(World {
            url: url.clone(),
            rules: Mutex::new(rules),
            record: Mutex::default(),
            books: Mutex::default(),
            gate: Mutex::default(),
        });
        let app = Router::new()
            .route("/mcp", post(resource))
            .route("/.well-known/oauth-protected-resource/mcp", get(resource_metadata))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(world.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.expect("it serves") });
        Issuer { url, world, serving }
    }

    pub(crate) fn mcp(&self) -> String {
        format!("{}/mcp", self.url)
    }

    pub(crate) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.world.rules.lock().expect("no test failed")
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.world.record.lock().expect("no test failed")
    }

    pub(crate) fn know_client(&self, id: &str, client: Client) {
        self.world.books().clients.insert(id.to_owned(), client);
    }

    pub(crate) fn forget_clients(&self) {
        self.world.books().clients.clear();
    }

    pub(crate) fn revoke_access(&self) {
        self.world.books().access.clear();
    }

    pub(crate) fn revoke_all(&self) {
        self.world.books().access.clear();
        self.world.books().refresh.clear();
    }

    pub(crate) fn close_gate(&self) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        *self.world.gate.lock().expect("no test failed") = Some(gate.clone());
        gate
    }

    /// Fails if a client did what no client may do.
    #[track_caller]
    pub(crate) fn assert_no_offence(&self) {
        assert_eq!(self.record().offences, Vec::<String>::new());
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl World {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("no test failed")
    }

    fn rules(&self) -> Rules {
        self.rules.lock().expect("no test failed").clone()
    }

    fn resource(&self) -> String {
        format!("{}/mcp", self.url)
    }

    fn offence(&self, what: impl Into<String>) {
        self.record.lock().expect("no test failed").offences.push(what.into());
    }

    fn refuse(&self, error: &str, why: &str) -> Response {
        self.offence(format!("{error}: {why}"));
        oauth_error(error, why)
    }
}

fn oauth_error(error: &str, why: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({"error": error, "error_description": why}))).into_response()
}

/// The server itself: `X-Wants` names the scope an operation needs.
async fn resource(State(world): State<Arc<World>>, request: Request) -> Response {
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", world.url);
    let rules = world.rules();
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
    let scope = token.and_then(|token| world.books().access.get(token).cloned());
    let wants = request.headers().get("x-wants").and_then(|value| value.to_str().ok());
    let (status, challenge) = match (scope, wants) {
        (None, _) => {
            let scope =
                rules.scope_in_challenge.map(|scope| format!("scope=\"{scope}\", ")).unwrap_or_default();
            (StatusCode::UNAUTHORIZED, format!("Bearer {scope}resource_metadata=\"{metadata}\""))
        }
        (Some(scope), Some(wants)) if !scope.split(' ').any(|scope| scope == wants) => {
            let challenge = format!(
                "Bearer error=\"insufficient_scope\", scope=\"{wants}\", resource_metadata=\"{metadata}\""
            );
            (StatusCode::FORBIDDEN, challenge)
        }
        _ => return answer(request).await,
    };
    if rules.silent {
        return (status, [(header::WWW_AUTHENTICATE, "Bearer".to_owned())]).into_response();
    }
    (status, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
}

/// What there is behind the door: a server with one tool.
async fn answer(request: Request) -> Response {
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.expect("it is short");
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

async fn resource_metadata(State(world): State<Arc<World>>) -> Response {
    let rules = world.rules();
    if rules.silent {
        return StatusCode::NOT_FOUND.into_response();
    }
    let issuer = rules.moved_to.unwrap_or_else(|| world.url.clone());
    Json(json!({"resource": world.resource(), "authorization_servers": [issuer]})).into_response()
}

async fn metadata(State(world): State<Arc<World>>) -> Response {
    let (rules, url) = (world.rules(), &world.url);
    if rules.silent {
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

async fn register(State(world): State<Arc<World>>, Json(asked): Json<Value>) -> Response {
    if world.rules().closed {
        return StatusCode::NOT_FOUND.into_response();
    }
    let uris: Vec<String> = serde_json::from_value(asked["redirect_uris"].clone()).unwrap_or_default();
    let is_loopback = |uri: &String| uri.starts_with("http://127.0.0.1:");
    if uris.is_empty() || !uris.iter().all(is_loopback) || asked["application_type"] != "native" {
        return world.refuse("invalid_redirect_uri", "a native client has loopback redirects");
    }
    world.record.lock().expect("no test failed").registrations.push(asked);
    let mut books = world.books();
    books.count += 1;
    let id = format!("client-{}", books.count);
    let client =
        Client { secret: Some(format!("SECRET-client-{}", books.count)), redirect_uris: Some(uris.clone()) };
    let secret = client.secret.clone();
    books.clients.insert(id.clone(), client);
    let answer = json!({"client_id": id, "client_secret": secret, "redirect_uris": uris});
    (StatusCode::CREATED, Json(answer)).into_response()
}

async fn authorize(
    State(world): State<Arc<World>>,
    Query(asked): Query<HashMap<String, String>>,
) -> Response {
    world.record.lock().expect("no test failed").logins.push(asked.clone());
    let rules = world.rules();
    let field = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let redirect_uri = field("redirect_uri");
    let Some(client) = world.books().clients.get(&field("client_id")).cloned() else {
        return world.refuse("invalid_client", "unknown client");
    };
    if client.redirect_uris.is_some_and(|known| !known.contains(&redirect_uri)) {
        return world.refuse("invalid_request", "unknown redirect_uri");
    }
    if field("response_type") != "code"
        || field("code_challenge_method") != "S256"
        || field("code_challenge").len() != 43
        || field("state").len() < 16
        || (field("resource") != world.resource() && !rules.silent && rules.moved_to.is_none())
    {
        return world.refuse("invalid_request", &format!("{asked:?}"));
    }
    let issuer = rules.issuer_in_redirect.unwrap_or_else(|| world.url.clone());
    let issuer = if rules.silent || issuer.is_empty() { Vec::new() } else { vec![("iss", issuer)] };
    let mut back = reqwest::Url::parse(&redirect_uri).expect("it was registered");
    back.query_pairs_mut().append_pair("state", &field("state")).extend_pairs(&issuer);
    if rules.deny {
        back.query_pairs_mut()
            .append_pair("error", "access_denied")
            .append_pair("error_description", "not you");
    } else {
        let mut books = world.books();
        books.count += 1;
        let code = format!("SECRET-code-{}", books.count);
        let scope = rules.granted.map(str::to_owned).unwrap_or_else(|| field("scope"));
        let (client, challenge) = (field("client_id"), field("code_challenge"));
        books.codes.insert(code.clone(), Code { client, redirect_uri, challenge, scope });
        back.query_pairs_mut().append_pair("code", &code);
    }
    (StatusCode::FOUND, [(header::LOCATION, back.to_string())]).into_response()
}

async fn token(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    Form(asked): Form<HashMap<String, String>>,
) -> Response {
    world.record.lock().expect("no test failed").token_requests.push(asked.clone());
    let gate = world.gate.lock().expect("no test failed").take();
    let rules = world.rules();
    if let Some((status, answer)) = rules.token_failure.clone() {
        return (status, Json(answer)).into_response();
    }
    let field = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let Some(client) = authenticate(&world, &headers, &asked) else {
        return oauth_error("invalid_client", &format!("do not know you, {}", field("client_secret")));
    };
    if field("resource") != world.resource() && !rules.silent && rules.moved_to.is_none() {
        return world.refuse("invalid_target", &field("resource"));
    }
    let scope = match field("grant_type").as_str() {
        "authorization_code" => {
            // Good for one use: whatever comes of it, it is gone.
            let Some(code) = world.books().codes.remove(&field("code")) else {
                return world.refuse("invalid_grant", "unknown code");
            };
            let verifier = URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier")));
            if code.client != client
                || code.redirect_uri != field("redirect_uri")
                || code.challenge != verifier
                || field("code_verifier").len() < 43
            {
                return world.refuse("invalid_grant", "not your code");
            }
            code.scope
        }
        "refresh_token" => {
            let mut books = world.books();
            let known = books.refresh.get_mut(&field("refresh_token"));
            let Some(known) = known.filter(|known| known.client == client) else {
                return oauth_error("invalid_grant", &format!("unknown {}", field("refresh_token")));
            };
            if known.used {
                // Stolen or lost: nobody may go on with this grant (RFC 9700 section 4.14).
                books.refresh.clear();
                books.access.clear();
                drop(books);
                return world.refuse("invalid_grant", "a refresh token was used twice");
            }
            known.used = true;
            let granted = known.scope.clone();
            let asked = field("scope");
            let mut asked = asked.split_whitespace();
            if !asked.all(|asked| granted.split(' ').any(|granted| granted == asked)) {
                drop(books);
                return world.refuse("invalid_scope", "more than was granted");
            }
            granted
        }
        "client_credentials" => field("scope"),
        _ => return world.refuse("unsupported_grant_type", &field("grant_type")),
    };
    let answer = {
        let mut books = world.books();
        books.count += 1;
        let (access, refresh) =
            (format!("SECRET-access-{}", books.count), format!("SECRET-refresh-{}", books.count));
        books.access.insert(access.clone(), scope.clone());
        let mut answer = json!({
            "access_token": access, "token_type": rules.token_type, "scope": scope, "id_token": "SECRET-id"
        });
        if let Some(seconds) = rules.expires_in {
            answer["expires_in"] = seconds.into();
        }
        if rules.refresh_tokens && field("grant_type") != "client_credentials" {
            answer["refresh_token"] = refresh.clone().into();
            books.refresh.insert(refresh, Refresh { client, scope, used: false });
        }
        answer
    };
    // The new token exists, and the one who asked does not have it yet.
    if let Some(gate) = gate {
        gate.arrived.notify_one();
        gate.open.notified().await;
    }
    Json(answer).into_response()
}

/// The client's id, if it is who it says it is.
fn authenticate(world: &World, headers: &HeaderMap, asked: &HashMap<String, String>) -> Option<String> {
    let rules = world.rules();
    if let Some(assertion) = asked.get("client_assertion") {
        let key = DecodingKey::from_ec_pem(rules.assertion_key?.as_bytes()).ok()?;
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_audience(&[&world.url]);
        validation.set_required_spec_claims(&["exp", "iss", "sub", "aud"]);
        let claims = jsonwebtoken::decode::<Value>(assertion, &key, &validation).ok()?.claims;
        let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
        let sound = asked.get("client_assertion_type")? == kind
            && claims["iss"] == claims["sub"]
            && claims["jti"].is_string();
        return sound.then(|| claims["sub"].as_str().map(str::to_owned))?;
    }
    let basic =
        headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Basic "));
    let (id, secret) = match basic {
        Some(basic) => {
            let pair = String::from_utf8(STANDARD.decode(basic).ok()?).ok()?;
            let (id, secret) = pair.split_once(':')?;
            (id.to_owned(), Some(secret.to_owned()))
        }
        None => (asked.get("client_id")?.clone(), asked.get("client_secret").cloned()),
    };
    let books = world.books();
    let client = books.clients.get(&id)?;
    (client.secret == secret).then_some(id)
}
