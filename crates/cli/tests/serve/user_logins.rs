//! Logins of users at servers, and the tokens that they lead to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toolwire_testkit::{RedisServer, http_client};

use crate::account_server::AccountServer;
use crate::user_servers::{ALICE, BOB, HEADER, LIMITED, SECRET, User, gateway, until_listed};
use crate::{Served, folder, fs, serve};

/// A browser, which keeps cookies of one host and follows no redirect.
#[derive(Default)]
struct Browser {
    cookies: BTreeMap<String, String>,
    /// The last header that has set a cookie.
    set_cookie: String,
}

impl Browser {
    async fn send(&mut self, request: RequestBuilder) -> (u16, String) {
        let request = request.header("accept", "text/html");
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let response: Response = request.header("cookie", cookies.join("; ")).send().await.unwrap();
        if let Some(cookie) = response.headers().get("set-cookie") {
            self.set_cookie = cookie.to_str().unwrap().to_owned();
            assert!(self.set_cookie.contains("HttpOnly; SameSite="), "{}", self.set_cookie);
            let (name, rest) = self.set_cookie.split_once('=').unwrap();
            self.cookies.insert(name.to_owned(), rest.split(';').next().unwrap().to_owned());
        }
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// Opens a link of another site.
    async fn open(&mut self, url: &str) -> (u16, String) {
        let request = http_client().get(url).header("sec-fetch-site", "cross-site");
        self.send(request.header("sec-fetch-mode", "navigate").header("sec-fetch-dest", "document")).await
    }

    /// Sends the form of a login.
    async fn start_login(&mut self, served: &Served, server: &str, key: &str) -> (u16, String) {
        let request = http_client().post(format!("{}/-/login/{server}", served.url));
        let request = request.header("sec-fetch-site", "same-origin").header("origin", &served.url);
        self.send(with_key(request, key)).await
    }
}

/// Adds a form with a key.
fn with_key(request: RequestBuilder, key: &str) -> RequestBuilder {
    request.header("content-type", "application/x-www-form-urlencoded").body(format!("key={key}"))
}

/// Visits the page of the authorization server, and returns the address that the browser is redirected to.
async fn log_in_as(account: &str, page: &str) -> String {
    let link =
        page.split("href=\"").find(|part| part.contains("/authorize?")).unwrap_or_else(|| panic!("{page}"));
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let response = client.get(link).header("x-account", account).send().await.unwrap();
    response.headers()["location"].to_str().unwrap().to_owned()
}

fn with_logins(notes: &AccountServer) -> Value {
    let server = json!({"url": notes.url, "auth": "per-user"});
    json!({"mcpServers": {"notes": server}, "toolwire": {"gateway": gateway()}})
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Logs a user in with a browser.
async fn log_in(browser: &mut Browser, served: &Served, key: &str, account: &str) {
    let (status, started) = browser.start_login(served, "notes", key).await;
    assert_eq!(status, 200, "{started}");
    let (status, done) = browser.open(&log_in_as(account, &started).await).await;
    assert!(status == 200 && done.contains("Logged in to"), "{status} {done}");
}

/// A user logs in with a link, and has the tools of the account from then on, after a restart too. The tokens
/// are stored encrypted.
#[tokio::test]
async fn users_log_in_on_a_page_of_the_gateway() {
    toolwire_testkit::install_tls_provider();
    let notes = AccountServer::start(true).await;
    let folder = folder("user-logins", Some(&with_logins(&notes)));
    let served = serve(&folder, &[]);
    let alice = User::connect(&served, ALICE, None, "2025-11-25").await;
    let bob = User::connect(&served, BOB, None, "2025-11-25").await;
    until_listed(&bob, "log_in_to_notes").await;
    assert_eq!(until_listed(&alice, "log_in_to_notes").await, ["log_in_to_notes"]);
    let text = alice.call("log_in_to_notes", json!({})).await;
    let page = format!("{}/-/login/notes", served.url);
    assert!(text.contains(&format!("Show the user this link: {page}\n")), "{text}");

    let mut browser = Browser::default();
    let (status, form) = browser.open(&page).await;
    assert!(status == 200 && form.contains("action=\"/-/login/notes\""), "{status} {form}");
    let (_, refused) = browser.start_login(&served, "notes", "wrong-key").await;
    assert!(refused.contains("this is not a valid key") && browser.cookies.is_empty(), "{refused}");
    let (status, started) = browser.start_login(&served, "notes", ALICE).await;
    assert_eq!(status, 200, "{started}");
    let callback = log_in_as("alice", &started).await;
    assert!(callback.starts_with(&format!("{}/-/logged-in?", served.url)), "{callback}");
    let (status, done) = browser.open(&callback).await;
    assert!(status == 200 && done.contains("Logged in to"), "{status} {done}");

    assert_eq!(until_listed(&alice, "only_alice").await, ["ask", "only_alice", "whoami"]);
    assert_eq!(alice.call("whoami", json!({"nonce": "1"})).await, "alice 1");
    assert_eq!(bob.tools().await, ["log_in_to_notes"]);
    assert!(bob.call("whoami", json!({})).await.contains("-32602"));

    for file in files_below(&folder.join("data")) {
        let content = fs::read(&file).unwrap_or_default();
        for secret in [&b"secret-token-of"[..], SECRET.as_bytes()] {
            let has_secret = content.windows(secret.len()).any(|part| part == secret);
            assert!(!has_secret, "{}", file.display());
        }
    }
    drop(served);
    let served = serve(&folder, &[]);
    let alice = User::connect(&served, ALICE, None, "2026-07-28").await;
    until_listed(&alice, "only_alice").await;
    assert_eq!(alice.call("whoami", json!({"nonce": "2"})).await, "alice 2");
    assert_eq!(notes.record().token_requests, 1);

    // With another secret, the tokens cannot be decrypted.
    drop(served);
    let mut config = with_logins(&notes);
    config["toolwire"]["gateway"]["credentialKey"] = json!("another-secret-for-tokens-0123456789abcdef");
    fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
    let served = serve(&folder, &[]);
    let alice = User::connect(&served, ALICE, None, "2025-11-25").await;
    assert_eq!(until_listed(&alice, "log_in_to_notes").await, ["log_in_to_notes"]);
}

/// A login can be completed only by the user who started it, and only once.
#[tokio::test]
async fn a_login_belongs_to_a_browser_and_to_a_key() {
    toolwire_testkit::install_tls_provider();
    let notes = AccountServer::start(true).await;
    let served = serve(&folder("user-login-attacks", Some(&with_logins(&notes))), &[]);
    let page = format!("{}/-/login/notes", served.url);

    // Other sites can open the pages, but cannot embed them or send the form.
    let embedded = http_client().get(&page).header("sec-fetch-site", "cross-site");
    let embedded = embedded.header("sec-fetch-mode", "navigate").header("sec-fetch-dest", "iframe");
    assert_eq!(embedded.send().await.unwrap().status(), 403);
    let sent = http_client().post(&page).header("sec-fetch-site", "cross-site");
    assert_eq!(with_key(sent, BOB).send().await.unwrap().status(), 403);
    let without_origin = http_client().post(&page);
    assert_eq!(with_key(without_origin, BOB).send().await.unwrap().status(), 403);

    // Bob starts a login, and wants Alice to complete it, so that he gets her account.
    let (mut of_bob, mut of_alice) = (Browser::default(), Browser::default());
    let (_, started) = of_bob.start_login(&served, "notes", BOB).await;
    let callback = log_in_as("alice", &started).await;
    assert_eq!(of_alice.open(&callback).await.0, 400, "her browser has not started it");
    let (_, started_by_alice) = of_alice.start_login(&served, "notes", ALICE).await;
    assert_eq!(of_alice.open(&callback).await.0, 400, "her browser has started another one");
    assert_eq!(notes.record().token_requests, 0);
    for wrong in ["", "?state=", "?code=x", "?code=x&state=guess", "?code=x&state=a&state=b"] {
        assert_eq!(of_alice.open(&format!("{}/-/logged-in{wrong}", served.url)).await.0, 400, "{wrong}");
    }
    let bob = User::connect(&served, BOB, None, "2025-11-25").await;
    assert_eq!(until_listed(&bob, "log_in_to_notes").await, ["log_in_to_notes"]);

    let callback = log_in_as("alice", &started_by_alice).await;
    let cookies = of_alice.cookies.clone();
    assert_eq!(of_alice.open(&callback).await.0, 200);
    of_alice.cookies = cookies;
    assert_eq!(of_alice.open(&callback).await.0, 400, "it was completed");
    assert_eq!(notes.record().token_requests, 1);
    assert_eq!(bob.tools().await, ["log_in_to_notes"]);

    // A key without the right to a server cannot log in to it, as if it did not exist.
    let mut limited = Browser::default();
    let hidden = limited.start_login(&served, "notes", LIMITED).await;
    let missing = limited.start_login(&served, "none", LIMITED).await;
    assert_eq!((hidden.0, missing.0), (404, 404));
    assert_eq!(hidden.1.replace(">notes</code>", ">none</code>"), missing.1);
}

/// Ports of one host share cookies, but not logins.
#[tokio::test]
async fn two_gateways_on_one_host_have_different_cookies() {
    toolwire_testkit::install_tls_provider();
    let notes = AccountServer::start(true).await;
    let [one, other] = ["user-cookies-1", "user-cookies-2"]
        .map(|name| serve(&folder(name, Some(&with_logins(&notes))), &[]));
    let mut browser = Browser::default();
    let (_, first) = browser.start_login(&one, "notes", ALICE).await;
    let (_, second) = browser.start_login(&other, "notes", ALICE).await;
    for page in [first, second] {
        let (status, done) = browser.open(&log_in_as("alice", &page).await).await;
        assert!(status == 200 && done.contains("Logged in to"), "{status} {done}");
    }
}

/// Over HTTPS, the browser accepts the cookie only from the gateway itself.
#[tokio::test]
async fn over_https_the_cookie_of_a_login_belongs_to_the_host() {
    toolwire_testkit::install_tls_provider();
    let notes = AccountServer::start(true).await;
    let mut config = with_logins(&notes);
    config["toolwire"]["gateway"]["publicUrl"] = json!("https://gateway.example");
    let served = serve(&folder("user-cookies-https", Some(&config)), &[]);
    let mut browser = Browser::default();
    let (_, started) = browser.start_login(&served, "notes", ALICE).await;
    let (cookie, attributes) = browser.set_cookie.split_once("; ").unwrap();
    assert!(cookie.starts_with("__Host-toolwire-login-443="), "{cookie}");
    assert_eq!(attributes, "Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600");
    let callback = log_in_as("alice", &started).await;
    let path = callback.strip_prefix("https://gateway.example/-/logged-in?").unwrap();
    let (status, done) = browser.open(&format!("{}/-/logged-in?{path}", served.url)).await;
    assert!(status == 200 && done.contains("Logged in to"), "{status} {done}");
}

/// A login whose tokens cannot be stored is not a success: other gateways, and the next start, do not have
/// them.
#[tokio::test]
async fn a_login_whose_tokens_are_not_stored_is_reported() {
    toolwire_testkit::install_tls_provider();
    let (notes, redis) = (AccountServer::start(true).await, RedisServer::start());
    let mut config = with_logins(&notes);
    config["toolwire"]["store"] = json!(redis.url());
    let served = serve(&folder("user-full-store", Some(&config)), &[]);
    let mut browser = Browser::default();
    let (_, started) = browser.start_login(&served, "notes", ALICE).await;
    let callback = log_in_as("alice", &started).await;
    // Redis can be read, but stores nothing more.
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let (status, page) = browser.open(&callback).await;
    assert!(status == 502 && page.contains("cannot store its token"), "{status} {page}");
    assert!(!page.contains("Logged in to"), "{page}");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    log_in(&mut browser, &served, ALICE, "alice").await;
}

/// Each login is stored, and starts with requests to the authorization server.
#[tokio::test]
async fn a_key_starts_a_limited_number_of_logins() {
    toolwire_testkit::install_tls_provider();
    let notes = AccountServer::start(true).await;
    let served = serve(&folder("user-many-logins", Some(&with_logins(&notes))), &[]);
    let mut browser = Browser::default();
    for _ in 0..20 {
        assert_eq!(browser.start_login(&served, "notes", ALICE).await.0, 200);
    }
    let (status, page) = browser.start_login(&served, "notes", ALICE).await;
    assert!(status == 429 && page.contains("20 logins in ten minutes"), "{status} {page}");
    log_in(&mut browser, &served, BOB, "bob").await;
}

/// The id of a stored token gets the same errors as an unknown id in requests for responses and
/// conversations.
#[tokio::test]
async fn tokens_are_not_reached_by_the_ids_of_responses() {
    toolwire_testkit::install_tls_provider();
    let notes = AccountServer::start(true).await;
    let mut config = with_logins(&notes);
    // Without a tenant, the key owns its responses, and the owner of its tokens is derived from the key.
    config["toolwire"]["gateway"]["keys"] = json!({"alice": ALICE, "bob": BOB});
    let folder = folder("user-token-rows", Some(&config));
    let served = serve(&folder, &[]);
    log_in(&mut Browser::default(), &served, ALICE, "alice").await;
    let hash: String =
        Sha256::digest(notes.url.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let (row, unknown) = (format!("oauth_{hash}"), format!("oauth_{}", "0".repeat(64)));
    for (method, path) in [
        ("GET", "/v1/responses/ID"),
        ("GET", "/v1/responses/ID/input_items"),
        ("POST", "/v1/responses/ID/cancel"),
        ("DELETE", "/v1/responses/ID"),
        ("GET", "/v1/conversations/ID"),
        ("POST", "/v1/conversations/ID"),
        ("DELETE", "/v1/conversations/ID"),
    ] {
        let send = async |id: &str| {
            let url = format!("{}{}", served.url, path.replace("ID", id));
            let request = http_client().request(method.parse().unwrap(), url).bearer_auth(ALICE);
            let response = request.json(&json!({"metadata": {}})).send().await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap().replace(id, "ID"))
        };
        let found = send(&row).await;
        assert_eq!((found.0, &found), (404, &send(&unknown).await), "{method} {path}");
    }
    drop(served);
    let served = serve(&folder, &[]);
    let alice = User::connect(&served, ALICE, None, "2025-11-25").await;
    until_listed(&alice, "only_alice").await;
}

/// A change of a server on the page concerns the connections of users at once.
#[tokio::test]
async fn a_server_that_is_changed_on_the_page_is_used_at_once() {
    let (notes, others) = (AccountServer::start(false).await, AccountServer::start(false).await);
    let server =
        |url: &str| json!({"url": url, "auth": "per-user", "forwardHeaders": {"Authorization": HEADER}});
    let keys = json!({"alice": {"key": ALICE, "admin": true}, "bob": BOB});
    let gateway = json!({"keys": keys, "credentialKey": SECRET});
    let config = json!({"mcpServers": {"notes": server(&notes.url)}, "toolwire": {"gateway": gateway}});
    let folder = folder("user-changed-server", Some(&config));
    let served = serve(&folder, &[]);
    let bob = User::connect(&served, BOB, Some("token-of-bob"), "2025-11-25").await;
    assert_eq!(bob.call("whoami", json!({"nonce": "1"})).await, "bob 1");

    let mut browser = Browser::default();
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let form = |path: &str, fields: &[(&str, &str)]| {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = client.post(format!("{}{path}", served.url)).body(body);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        request.header("sec-fetch-site", "same-origin").header("origin", &served.url)
    };
    let (status, page) = browser.send(form("/sign-in", &[("key", ALICE)])).await;
    assert!((300..400).contains(&status), "{status} {page}");
    let page = http_client().get(format!("{}/servers/notes/edit", served.url));
    let (status, page) = browser.send(page.header("sec-fetch-site", "same-origin")).await;
    let hash = page.split("name=\"file\"").nth(1).and_then(|rest| rest.split("value=\"").nth(1));
    let hash = hash.unwrap_or_else(|| panic!("{status} {page}")).split('"').next().unwrap();
    let fields = |url| {
        [
            ("name", "notes"),
            ("configured", "yes"),
            ("kind", "url"),
            ("url", url),
            ("headers", ""),
            ("file", hash),
        ]
    };
    let (status, page) = browser.send(form("/-/servers/write", &fields(&others.url))).await;
    assert!((300..400).contains(&status), "{status} {page}");
    let written: Value = serde_json::from_str(&fs::read_to_string(folder.join("mcp.json")).unwrap()).unwrap();
    assert_eq!(written["mcpServers"]["notes"], server(&others.url));

    assert_eq!(bob.call("whoami", json!({"nonce": "2"})).await, "bob 2");
    assert!(!others.record().requests.is_empty(), "the new server gets the call");
}
