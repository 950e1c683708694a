//! OAuth against a strict authorization server.

mod issuer;
mod users;

use std::{
    error::Error,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::http::StatusCode;
use futures::future::{BoxFuture, join_all};
use issuer::{Client, Issuer, Rules};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{task::JoinHandle, time::timeout};
use toolwire_contract::Secret;
use toolwire_hub::auth::{AuthConfig, AuthError, GrantKind, OAuth};
use toolwire_hub::config::HttpKind;
use toolwire_hub::{Browser, Config, Hub, HubOptions, Phase, ServerConfig, ServerName, Transport};
use toolwire_testkit::http_client;

/// Opens every page and follows its redirects, like a user who accepts everything.
#[derive(Default)]
struct AcceptingBrowser {
    visits: AtomicUsize,
    /// The page where the last login ended.
    last_page: Mutex<Option<JoinHandle<String>>>,
}

impl Browser for AcceptingBrowser {
    fn open<'a>(&'a self, _: &'a str, url: &'a str) -> BoxFuture<'a, io::Result<()>> {
        self.visits.fetch_add(1, Ordering::SeqCst);
        let request = http_client().get(url).send();
        // The page is complete only after the login, which does not wait for the browser.
        let page = async { request.await.expect("a response").text().await.expect("a page") };
        *self.last_page.lock().expect("not poisoned") = Some(tokio::spawn(page));
        Box::pin(std::future::ready(Ok(())))
    }
}

impl AcceptingBrowser {
    fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }

    async fn last_page(&self) -> String {
        let page = self.last_page.lock().expect("not poisoned").take().expect("a login");
        timeout(Duration::from_secs(60), page)
            .await
            .expect("the browser is not left waiting")
            .expect("a page")
    }
}

/// Never completes a login.
struct IdleBrowser;

impl Browser for IdleBrowser {
    fn open<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// An issuer, a browser and a token folder.
struct Setup {
    issuer: Issuer,
    browser: Arc<AcceptingBrowser>,
    folder: TempDir,
}

impl Setup {
    async fn with(rules: Rules) -> Setup {
        let issuer = Issuer::start(rules).await;
        Setup { issuer, browser: Arc::default(), folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn tokens(&self) -> PathBuf {
        self.folder.path().join("tokens")
    }

    fn client(&self, config: AuthConfig) -> OAuth {
        self.client_with(config, Some(self.browser.clone()))
    }

    fn client_without_browser(&self) -> OAuth {
        self.client_with(AuthConfig::default(), None)
    }

    fn client_with(&self, config: AuthConfig, browser: Option<Arc<dyn Browser>>) -> OAuth {
        OAuth::new("notes", &self.issuer.mcp_url(), config, self.tokens(), browser)
            .expect("a valid configuration")
    }

    /// Returns a client with default configuration after a login.
    async fn logged_in(&self) -> OAuth {
        let client = self.client(AuthConfig::default());
        self.call(&client, None).await.expect("logged in");
        client
    }

    /// The configuration of a hub with the server `notes`.
    fn hub_config(&self) -> Config {
        let transport = Transport::Http {
            url: self.issuer.mcp_url().parse().expect("a URL"),
            headers: Vec::new(),
            kind: HttpKind::Streamable,
            oauth: Some(Box::default()),
        };
        let server = ServerConfig::new(ServerName::new("notes").expect("a name"), transport);
        Config { servers: vec![server], toolwire: None }
    }

    /// Sends one request like a transport; `scope` is the scope that the operation requires.
    async fn call(&self, bearer: &OAuth, scope: Option<&str>) -> Result<StatusCode, AuthError> {
        let send = async |token: Option<&Secret>| {
            let mut request = http_client().post(self.issuer.mcp_url());
            if let Some(token) = token {
                request = request.bearer_auth(token.expose());
            }
            if let Some(scope) = scope {
                request = request.header("x-required-scope", scope);
            }
            let response = request.send().await.expect("a response");
            let challenge = response.headers().get("www-authenticate").cloned();
            let challenge = challenge.map(|value| value.to_str().expect("a text header").to_owned());
            (response.status(), challenge.unwrap_or_default())
        };
        let token = bearer.token().await?;
        let (status, challenge) = send(token.as_ref()).await;
        if status == StatusCode::OK {
            return Ok(status);
        }
        let token = bearer.replace(token.as_ref(), &challenge).await?;
        Ok(send(token.as_ref()).await.0)
    }

    fn token_file(&self) -> PathBuf {
        let files =
            fs::read_dir(self.tokens()).expect("the folder exists").flatten().map(|entry| entry.path());
        let mut files = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let file = files.next().expect("a stored token");
        assert_eq!(files.next(), None);
        file
    }

    fn edit_token_file(&self, edit: impl FnOnce(&mut Value)) {
        let file = self.token_file();
        let mut grant =
            serde_json::from_slice(&fs::read(&file).expect("the file exists")).expect("valid JSON");
        edit(&mut grant);
        fs::write(&file, grant.to_string()).expect("written");
    }
}

/// Changes a token of one hour so that it expires in half a minute.
fn expire_soon(grant: &mut Value) {
    let issued_at = grant["issued_at"].as_u64().expect("a time");
    grant["issued_at"] = (issued_at - 3570).into();
    grant["expires_at"] = (issued_at + 30).into();
}

/// Returns the message of an error with its sources, and checks that no part of the error contains a secret.
#[track_caller]
fn auth(set: impl FnOnce(&mut AuthConfig)) -> AuthConfig {
    let mut config = AuthConfig::default();
    set(&mut config);
    config
}

fn message(error: AuthError) -> String {
    let mut text = format!("{error}");
    let mut source = error.source();
    while let Some(cause) = source {
        write!(text, ": {cause}").expect("writing to a string");
        source = cause.source();
    }
    let hint = error.hint().unwrap_or_default();
    for output in [&text, &hint, &format!("{error:?}"), &format!("{error:#?}")] {
        assert!(!output.contains("SECRET"), "{output}");
    }
    assert!(text.contains("`notes`"), "{text}");
    text
}

#[track_caller]
fn assert_error(result: Result<impl std::fmt::Debug, AuthError>, expected: &str) {
    let text = message(result.expect_err("an error"));
    assert!(text.contains(expected), "{text}");
}

#[tokio::test]
async fn a_token_survives_a_restart() {
    let setup = Setup::with(Rules::default()).await;
    let first = setup.client(AuthConfig::default());
    assert_eq!(first.token().await.expect("none is needed yet"), None);
    assert_eq!(setup.call(&first, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(setup.call(&first, None).await.expect("logged in"), StatusCode::OK);
    drop(first);
    let second = setup.client_without_browser();
    assert_eq!(setup.call(&second, None).await.expect("still logged in"), StatusCode::OK);
    assert_eq!(setup.browser.visits(), 1);
    assert_eq!(setup.issuer.record().token_requests.len(), 1);
    setup.issuer.assert_no_violation();
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_token_files() {
    use std::os::unix::fs::PermissionsExt;
    let setup = Setup::with(Rules::default()).await;
    setup.logged_in().await;
    let mode = |path: &Path| fs::metadata(path).expect("the file exists").permissions().mode() & 0o777;
    assert_eq!((mode(&setup.tokens()), mode(&setup.token_file())), (0o700, 0o600));
}

#[tokio::test]
async fn logging_out_deletes_the_token() {
    let setup = Setup::with(Rules::default()).await;
    let client = setup.logged_in().await;
    assert!(client.is_logged_in().await);
    assert!(client.forget().await.expect("forgotten"));
    assert!(!client.is_logged_in().await);
    assert!(!client.forget().await.expect("there is nothing left to forget"));
    assert_eq!(client.token().await.expect("none"), None);
    assert_error(
        setup.call(&setup.client_without_browser(), None).await,
        "there is no browser to log in with",
    );
    setup.call(&client, None).await.expect("logged in again");
    assert_eq!(setup.browser.visits(), 2);
}

#[tokio::test]
async fn a_user_can_log_in_before_the_server_requires_it() {
    let setup = Setup::with(Rules::default()).await;
    assert!(setup.client(AuthConfig::default()).log_in().await.expect("logged in"));
    assert_eq!(setup.call(&setup.client_without_browser(), None).await.expect("stored"), StatusCode::OK);
    let without_login = Rules { no_metadata: true, no_registration: true, ..Rules::default() };
    let setup = Setup::with(without_login).await;
    assert!(!setup.client(AuthConfig::default()).log_in().await.expect("there is no login"));
    assert_eq!(setup.browser.visits(), 0);
}

#[tokio::test]
async fn many_callers_share_one_login() {
    let setup = Setup::with(Rules { issues_refresh_tokens: false, ..Rules::default() }).await;
    let client = setup.client(AuthConfig::default());
    let calls = join_all((0..20).map(|_| setup.call(&client, None))).await;
    assert!(calls.into_iter().all(|status| status.expect("logged in") == StatusCode::OK));
    assert_eq!(setup.browser.visits(), 1);
}

#[tokio::test]
async fn many_callers_share_one_refresh_of_an_expired_token() {
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let client = setup.logged_in().await;
    setup.issuer.rules().expires_in = Some(3600);
    let tokens = join_all((0..20).map(|_| client.token())).await;
    let tokens: Vec<_> = tokens.into_iter().map(|token| token.expect("refreshed")).collect();
    assert!(tokens[0].is_some() && tokens.iter().all(|token| *token == tokens[0]));
    assert_eq!(setup.issuer.record().grants("refresh_token"), 1);
    setup.issuer.assert_no_violation();
}

#[tokio::test]
async fn a_token_is_refreshed_before_it_expires() {
    let setup = Setup::with(Rules::default()).await;
    setup.logged_in().await;
    setup.edit_token_file(expire_soon);
    let client = setup.client_without_browser();
    assert_eq!(setup.call(&client, None).await.expect("refreshed"), StatusCode::OK);
    assert_eq!(setup.issuer.record().grants("refresh_token"), 1);
    setup.issuer.assert_no_violation();
}

#[tokio::test]
async fn a_revoked_token_is_refreshed_without_a_login() {
    let setup = Setup::with(Rules::default()).await;
    let client = setup.logged_in().await;
    setup.issuer.revoke_access();
    let calls = join_all((0..20).map(|_| setup.call(&client, None))).await;
    assert!(calls.into_iter().all(|status| status.expect("refreshed") == StatusCode::OK));
    assert_eq!((setup.browser.visits(), setup.issuer.record().grants("refresh_token")), (1, 1));
    setup.issuer.assert_no_violation();
}

#[tokio::test]
async fn the_reason_of_a_refused_refresh_is_reported_without_a_browser() {
    let setup = Setup::with(Rules::default()).await;
    setup.logged_in().await;
    setup.edit_token_file(expire_soon);
    let body = json!({"error": "invalid_grant", "error_description": "the session was revoked"});
    setup.issuer.rules().token_failure = Some((StatusCode::BAD_REQUEST, body));
    setup.issuer.revoke_access();
    let options = HubOptions::default().with_data_folder(setup.folder.path());
    let hub = Hub::start(&setup.hub_config(), options);
    hub.settled().await;
    let status = hub.status().remove(0);
    let reason = status.phase.unavailable_reason().unwrap_or_default();
    assert!(
        reason.contains("a new login is required") && reason.contains("the session was revoked"),
        "{reason}"
    );
    assert_eq!(status.hint.as_deref(), Some("log in with `toolwire login notes`"));
    hub.close().await;
}

#[tokio::test]
async fn two_clients_never_use_a_refresh_token_twice() {
    // Every token is already expired, so each call refreshes it.
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    setup.logged_in().await;
    let (one, two) = (setup.client_without_browser(), setup.client_without_browser());
    for _ in 0..8 {
        let (first, second) = futures::join!(one.token(), two.token());
        assert!(first.expect("refreshed").is_some() && second.expect("refreshed").is_some());
    }
    assert_eq!(setup.issuer.record().grants("refresh_token"), 16);
    setup.issuer.assert_no_violation();
}

/// Does nothing unless the next test runs it in a separate process.
#[tokio::test]
async fn helper_process_refreshes_tokens() {
    let (Ok(url), Ok(tokens)) = (std::env::var("OAUTH_TEST_URL"), std::env::var("OAUTH_TEST_TOKENS")) else {
        return;
    };
    let client =
        OAuth::new("notes", &url, AuthConfig::default(), tokens, None).expect("a valid configuration");
    for _ in 0..5 {
        assert!(client.token().await.expect("refreshed").is_some());
    }
    client.close().await;
}

#[tokio::test]
async fn separate_processes_never_use_a_refresh_token_twice() {
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    setup.logged_in().await;
    let run = || {
        tokio::process::Command::new(std::env::current_exe().expect("the path of this test"))
            .args(["--exact", "helper_process_refreshes_tokens"])
            .env("OAUTH_TEST_URL", setup.issuer.mcp_url())
            .env("OAUTH_TEST_TOKENS", setup.tokens())
            .kill_on_drop(true)
            .output()
    };
    let outputs =
        timeout(Duration::from_secs(120), join_all([run(), run(), run()])).await.expect("the processes exit");
    for output in outputs {
        let output = output.expect("the process started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert_eq!(setup.issuer.record().grants("refresh_token"), 15);
    setup.issuer.assert_no_violation();
}

#[tokio::test]
async fn a_token_that_another_process_refreshed_is_used() {
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let one = setup.client(AuthConfig::default());
    setup.call(&one, None).await.expect("logged in");
    setup.issuer.rules().expires_in = Some(3600);
    let two = setup.client_without_browser();
    let (first, second) = futures::join!(one.token(), two.token());
    assert_eq!(first.expect("refreshed"), second.expect("read"));
    assert_eq!(setup.issuer.record().grants("refresh_token"), 1);
}

#[tokio::test]
async fn a_refresh_continues_when_its_caller_stops_waiting() {
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let client = setup.logged_in().await;
    setup.issuer.rules().expires_in = Some(3600);
    let gate = setup.issuer.close_gate();
    tokio::select! {
        _ = client.token() => panic!("the gate is closed"),
        () = gate.arrived.notified() => {}
    }
    gate.open.notify_one();
    assert_eq!(setup.call(&client, None).await.expect("refreshed"), StatusCode::OK);
    assert_eq!(setup.issuer.record().grants("refresh_token"), 1);
    setup.issuer.assert_no_violation();
}

#[tokio::test]
async fn closing_waits_for_a_refresh() {
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let client = setup.logged_in().await;
    setup.issuer.rules().expires_in = Some(3600);
    let gate = setup.issuer.close_gate();
    tokio::select! {
        _ = client.token() => panic!("the gate is closed"),
        () = gate.arrived.notified() => {}
    }
    gate.open.notify_one();
    client.close().await;
    drop(client);
    assert_eq!(setup.call(&setup.client_without_browser(), None).await.expect("stored"), StatusCode::OK);
    assert_eq!(setup.issuer.record().grants("refresh_token"), 1);
}

#[tokio::test]
async fn closing_the_hub_waits_for_a_refresh() {
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    setup.logged_in().await;
    setup.issuer.rules().expires_in = Some(3600);
    let gate = setup.issuer.close_gate();
    let options = HubOptions::default().with_data_folder(setup.folder.path());
    let hub = Hub::start(&setup.hub_config(), options);
    timeout(Duration::from_secs(60), gate.arrived.notified()).await.expect("a refresh");
    let late_response = async {
        while hub.status()[0].phase != Phase::Stopped {
            tokio::task::yield_now().await;
        }
        gate.open.notify_one();
    };
    futures::join!(hub.close(), late_response);
    drop(hub);
    assert_eq!(setup.call(&setup.client_without_browser(), None).await.expect("stored"), StatusCode::OK);
    assert_eq!(setup.issuer.record().grants("refresh_token"), 1);
    setup.issuer.assert_no_violation();
}

/// Completes a login after the connection timeout.
struct SlowBrowser(AcceptingBrowser);

impl Browser for SlowBrowser {
    fn open<'a>(&'a self, server: &'a str, url: &'a str) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            tokio::time::sleep(2 * CONNECT_TIMEOUT + Duration::from_secs(1)).await;
            self.0.open(server, url).await
        })
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn the_time_of_a_login_does_not_count_against_the_connection_timeout() {
    let setup = Setup::with(Rules::default()).await;
    let mut config = setup.hub_config();
    config.servers[0].connect_timeout = CONNECT_TIMEOUT;
    let browser = Arc::new(SlowBrowser(AcceptingBrowser::default()));
    let options = HubOptions::default().with_data_folder(setup.folder.path()).with_browser(browser);
    let hub = Hub::connect(&config, options).await;
    let status = &hub.status()[0];
    assert_eq!((&status.phase, status.restarts), (&Phase::Ready, 0));
    hub.close().await;
    setup.issuer.assert_no_violation();
}

#[tokio::test]
async fn a_rejected_refresh_token_requires_a_login_only_after_a_challenge() {
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let client = setup.logged_in().await;
    setup.issuer.revoke_all();
    assert_eq!(client.token().await.expect("no token is left"), None);
    assert_eq!(setup.browser.visits(), 1);
    assert_eq!(setup.call(&client, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(setup.browser.visits(), 2);
    setup.issuer.assert_no_violation();
}

#[tokio::test]
async fn a_deleted_registration_is_repeated() {
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let client = setup.logged_in().await;
    setup.issuer.delete_clients();
    setup.issuer.revoke_access();
    assert_eq!(setup.call(&client, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(setup.issuer.record().registrations.len(), 2);
    setup.issuer.assert_no_violation();
}

#[tokio::test]
async fn a_valid_token_is_used_while_the_authorization_server_is_down() {
    let setup = Setup::with(Rules::default()).await;
    setup.logged_in().await;
    setup.edit_token_file(expire_soon);
    setup.issuer.rules().token_failure =
        Some((StatusCode::SERVICE_UNAVAILABLE, json!("SECRET come back later")));
    let client = setup.client_without_browser();
    for _ in 0..3 {
        assert_eq!(setup.call(&client, None).await.expect("still valid"), StatusCode::OK);
    }
    assert_eq!(setup.issuer.record().grants("refresh_token"), 1, "the refresh is not repeated immediately");
    setup.issuer.revoke_access();
    assert_error(
        setup.call(&client, None).await,
        "could not be refreshed: HTTP 503 Service Unavailable from",
    );
    setup.issuer.rules().token_failure = None;
    assert_eq!(setup.call(&client, None).await.expect("refreshed"), StatusCode::OK);
}

#[tokio::test]
async fn an_invalid_token_file_requires_a_new_login() {
    let setup = Setup::with(Rules::default()).await;
    setup.logged_in().await;
    fs::write(setup.token_file(), "{\"access_token\": \"SEC").expect("written");
    assert_eq!(
        setup.call(&setup.client(AuthConfig::default()), None).await.expect("logged in"),
        StatusCode::OK
    );
    assert_eq!(setup.call(&setup.client_without_browser(), None).await.expect("stored"), StatusCode::OK);
    assert_eq!(setup.browser.visits(), 2);
}

#[cfg(unix)]
#[tokio::test]
async fn a_token_that_cannot_be_stored_is_still_used() {
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    fs::write(setup.tokens(), "a file instead of a folder").expect("written");
    let client = setup.client(AuthConfig::default());
    for _ in 0..3 {
        assert_eq!(setup.call(&client, None).await.expect("logged in"), StatusCode::OK);
    }
    assert_eq!(setup.browser.visits(), 1);
    setup.issuer.assert_no_violation();
}

#[tokio::test]
async fn scopes_come_from_the_challenge_or_the_configuration() {
    let rules = Rules { scope_in_challenge: Some("read list"), ..Rules::default() };
    for (scopes, expected) in [(vec![], "read list"), (vec!["all".to_owned()], "all")] {
        let setup = Setup::with(rules.clone()).await;
        let client = setup.client(auth(|config| config.scopes = scopes));
        setup.call(&client, None).await.expect("logged in");
        assert_eq!(setup.issuer.record().logins[0]["scope"], expected);
    }
    let metadata = json!({"scopes_supported": ["read", "list", "offline_access"]});
    let setup = Setup::with(Rules { metadata, ..rules }).await;
    setup.logged_in().await;
    assert_eq!(setup.issuer.record().logins[0]["scope"], "read list offline_access");
}

#[tokio::test]
async fn additional_scopes_are_requested_together_with_the_granted_ones() {
    let setup = Setup::with(Rules { scope_in_challenge: Some("read"), ..Rules::default() }).await;
    let client = setup.client(AuthConfig::default());
    assert_eq!(setup.call(&client, Some("read")).await.expect("logged in"), StatusCode::OK);
    let calls = join_all((0..5).map(|_| setup.call(&client, Some("write")))).await;
    assert!(calls.into_iter().all(|status| status.expect("allowed") == StatusCode::OK));
    assert_eq!(setup.call(&client, Some("read")).await.expect("still allowed"), StatusCode::OK);
    let scopes: Vec<_> = setup.issuer.record().logins.iter().map(|login| login["scope"].clone()).collect();
    assert_eq!(scopes, ["read", "read write"]);
    setup.issuer.assert_no_violation();
}

#[tokio::test]
async fn scopes_that_are_never_granted_are_requested_once() {
    let rules = Rules { scope_in_challenge: Some("read"), granted: Some("read"), ..Rules::default() };
    let setup = Setup::with(rules).await;
    let client = setup.client(AuthConfig::default());
    setup.call(&client, Some("read")).await.expect("logged in");
    assert_eq!(setup.call(&client, Some("write")).await.expect("requested"), StatusCode::FORBIDDEN);
    for _ in 0..3 {
        assert_error(
            setup.call(&client, Some("write")).await,
            "still requires these scopes after a new login: write",
        );
    }
    assert_eq!(setup.browser.visits(), 2);
    assert_eq!(setup.call(&client, Some("read")).await.expect("still valid"), StatusCode::OK);
}

#[tokio::test]
async fn scopes_that_the_user_refused_can_be_requested_again() {
    let setup = Setup::with(Rules { scope_in_challenge: Some("read"), ..Rules::default() }).await;
    let client = setup.client(AuthConfig::default());
    setup.call(&client, Some("read")).await.expect("logged in");
    setup.issuer.rules().denies_login = true;
    assert_error(setup.call(&client, Some("write")).await, "was refused");
    assert_eq!(setup.call(&client, Some("read")).await.expect("still valid"), StatusCode::OK);
    setup.issuer.rules().denies_login = false;
    client.allow_login();
    assert_eq!(setup.call(&client, Some("write")).await.expect("allowed"), StatusCode::OK);
    assert_eq!(setup.browser.visits(), 3);
}

#[tokio::test]
async fn a_login_response_from_another_issuer_is_rejected() {
    for (issuer, metadata) in [
        ("https://evil.example", json!({})),
        ("https://evil.example", json!({"authorization_response_iss_parameter_supported": null})),
        ("", json!({})),
    ] {
        for denies_login in [false, true] {
            let issuer_in_redirect = Some(issuer.to_owned());
            let metadata = metadata.clone();
            let setup =
                Setup::with(Rules { issuer_in_redirect, metadata, denies_login, ..Rules::default() }).await;
            let client = setup.client(AuthConfig::default());
            let expected = match issuer {
                "" => "does not name its authorization server (`iss` is missing)",
                _ => "came from a different authorization server",
            };
            for _ in 0..2 {
                assert_error(setup.call(&client, None).await, expected);
            }
            assert_eq!(setup.browser.visits(), 1);
            assert_eq!(setup.issuer.record().token_requests.len(), 0);
            let page = setup.browser.last_page().await;
            assert!(page.contains("The login failed"), "{page}");
        }
    }
    let metadata = json!({"authorization_response_iss_parameter_supported": null});
    let issuer_in_redirect = Some(String::new());
    let setup = Setup::with(Rules { issuer_in_redirect, metadata, ..Rules::default() }).await;
    let result = setup.call(&setup.client(AuthConfig::default()), None).await;
    assert_eq!(result.expect("servers without this feature send no issuer"), StatusCode::OK);
    let page = setup.browser.last_page().await;
    assert!(page.contains("Logged in"), "{page}");
}

#[tokio::test]
async fn a_refused_login_is_reported_and_not_repeated() {
    let setup = Setup::with(Rules { denies_login: true, ..Rules::default() }).await;
    let client = setup.client(AuthConfig::default());
    for _ in 0..3 {
        assert_error(setup.call(&client, None).await, "was refused: access_denied: not allowed");
    }
    assert_eq!(setup.browser.visits(), 1);
    setup.issuer.rules().denies_login = false;
    client.allow_login();
    assert_eq!(setup.call(&client, None).await.expect("logged in"), StatusCode::OK);
}

#[tokio::test]
async fn a_login_times_out() {
    let setup = Setup::with(Rules::default()).await;
    let client = setup.client_with(AuthConfig::default(), Some(Arc::new(IdleBrowser)));
    let client = client.with_login_timeout(Duration::from_millis(50));
    assert_error(setup.call(&client, None).await, "the login was not completed within 50ms");
}

#[tokio::test]
async fn closing_cancels_a_login() {
    let setup = Setup::with(Rules::default()).await;
    let client = setup.client_with(AuthConfig::default(), Some(Arc::new(IdleBrowser)));
    let close = async {
        while setup.issuer.record().registrations.is_empty() {
            tokio::task::yield_now().await;
        }
        client.close().await;
    };
    let both = async { futures::join!(setup.call(&client, None), close) };
    let (result, ()) = timeout(Duration::from_secs(60), both).await.expect("the call ends");
    assert_error(result, "was cancelled");
}

#[tokio::test]
async fn a_login_without_a_browser_is_an_error_with_a_hint() {
    let setup = Setup::with(Rules::default()).await;
    let error = setup.call(&setup.client_without_browser(), None).await.expect_err("no login is possible");
    assert_eq!(error.hint().expect("a hint"), "log in with `toolwire login notes`");
    assert_error(Err::<(), _>(error), "a login is required, but there is no browser to log in with");
    assert_eq!(setup.issuer.record().registrations.len(), 0);
}

#[tokio::test]
async fn a_configured_client_does_not_register() {
    let metadata = json!({"registration_endpoint": null});
    let setup = Setup::with(Rules { metadata, expires_in: Some(0), ..Rules::default() }).await;
    let unregistered = setup.call(&setup.client(AuthConfig::default()), None).await;
    assert_eq!(
        unregistered.as_ref().map_err(AuthError::hint),
        Err(Some(
            "register a client manually and set `oauth.clientId` of `notes` in the configuration".to_owned()
        ))
    );
    assert_error(unregistered, "cannot register");
    setup.issuer.add_client("known", Client { secret: Some("SECRET-known".to_owned()), redirect_uris: None });
    let known = |secret: &str| {
        auth(|config| {
            config.client_id = Some("known".to_owned());
            config.client_secret = Some(Secret::new(secret));
        })
    };
    let config = known("SECRET-known");
    assert!(!format!("{config:?}").contains("SECRET"));
    let client = setup.client(config.clone());
    assert_eq!(setup.call(&client, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(setup.call(&client, None).await.expect("refreshed"), StatusCode::OK);
    assert_eq!(setup.call(&setup.client(config), None).await.expect("refreshed"), StatusCode::OK);
    assert!(!fs::read_to_string(setup.token_file()).expect("stored").contains("SECRET-known"));
    assert_eq!(setup.browser.visits(), 1);
    setup.issuer.assert_no_violation();

    let wrong = known("SECRET-wrong");
    setup.issuer.revoke_access();
    assert_error(setup.call(&setup.client(wrong), None).await, "could not be refreshed: invalid_client");
}

#[tokio::test]
async fn the_token_of_another_client_is_not_used() {
    let setup = Setup::with(Rules::default()).await;
    setup.logged_in().await;
    setup.issuer.add_client("known", Client { secret: None, redirect_uris: None });
    let config = auth(|config| config.client_id = Some("known".to_owned()));
    let client = setup.client(config);
    assert_eq!(client.token().await.expect("none"), None);
    assert_eq!(setup.call(&client, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(setup.issuer.record().logins[1]["client_id"], "known");
}

#[tokio::test]
async fn a_client_metadata_document_is_used_if_supported() {
    let document = "https://toolwire.example/client.json";
    let config = auth(|config| config.client_metadata_url = Some(document.to_owned()));
    let metadata = json!({"client_id_metadata_document_supported": true});
    let setup = Setup::with(Rules { metadata, expires_in: Some(0), ..Rules::default() }).await;
    setup.issuer.add_client(document, Client { secret: None, redirect_uris: None });
    let client = setup.client(config.clone());
    assert_eq!(setup.call(&client, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(setup.call(&setup.client(config.clone()), None).await.expect("refreshed"), StatusCode::OK);
    assert_eq!(setup.issuer.record().registrations.len(), 0);
    setup.issuer.assert_no_violation();

    let older = Setup::with(Rules::default()).await;
    assert_eq!(older.call(&older.client(config), None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(older.issuer.record().registrations.len(), 1);
}

const PRIVATE_KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgYpsroGX0NzVK9rpJ
ZRVu+bcmqESxii4trLnWXU09mKShRANCAATXw86jdCGDelqCkq9PRJpZcB6dKXCZ
A9PiW//TbLa/vl4SYXf4OwAyU13w7qJD1GmyTmZFkIMEmn/9UTw2T73r
-----END PRIVATE KEY-----";
const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE18POo3Qhg3pagpKvT0SaWXAenSlw
mQPT4lv/02y2v75eEmF3+DsAMlNd8O6iQ9Rpsk5mRZCDBJp//VE8Nk+96w==
-----END PUBLIC KEY-----";

fn client_credentials(secret: Option<&str>, key: Option<&str>) -> AuthConfig {
    auth(|config| {
        config.client_id = Some("robot".to_owned());
        config.client_secret = secret.map(Secret::new);
        config.private_key = key.map(Secret::new);
        config.grant = GrantKind::ClientCredentials;
    })
}

#[tokio::test]
async fn client_credentials_need_no_login() {
    let rules = Rules {
        expires_in: Some(0),
        scope_in_challenge: Some("read"),
        assertion_key: Some(PUBLIC_KEY),
        ..Rules::default()
    };
    for (methods, config) in [
        (json!(["client_secret_basic"]), client_credentials(Some("SECRET-robot"), None)),
        (json!(["client_secret_post"]), client_credentials(Some("SECRET-robot"), None)),
        (json!(null), client_credentials(Some("SECRET-robot"), None)),
        (json!(["private_key_jwt"]), client_credentials(None, Some(PRIVATE_KEY))),
    ] {
        let metadata = json!({"token_endpoint_auth_methods_supported": methods});
        let setup = Setup::with(Rules { metadata, ..rules.clone() }).await;
        let robot = Client { secret: Some("SECRET-robot".to_owned()), redirect_uris: None };
        setup.issuer.add_client("robot", robot);
        let client = setup.client_with(config, None);
        assert_eq!(setup.call(&client, Some("read")).await.expect("authorized"), StatusCode::OK);
        assert_eq!(setup.issuer.record().token_requests[0]["scope"], "read");
        // The token has expired, so the next one is requested before the request and not after a refusal.
        assert!(client.token().await.expect("renewed").is_some());
        assert_eq!(setup.call(&client, Some("write")).await.expect("more scopes"), StatusCode::OK);
        setup.issuer.assert_no_violation();
    }
}

#[tokio::test]
async fn errors_about_wrong_credentials_do_not_contain_them() {
    for (config, expected) in [
        (
            client_credentials(Some("SECRET-wrong"), None),
            "issued no token: invalid_client: unknown client, …",
        ),
        (client_credentials(None, Some(PRIVATE_KEY)), "issued no token: invalid_client"),
        (client_credentials(None, Some("/no/such/file")), "`oauth.privateKey` is neither"),
    ] {
        let setup = Setup::with(Rules::default()).await;
        let client = setup.client_with(config, None);
        assert_error(setup.call(&client, None).await, expected);
    }
}

#[tokio::test]
async fn a_different_authorization_server_gets_no_tokens_of_the_first_one() {
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let client = setup.logged_in().await;
    let rules = Rules { other_issuer: Some(String::new()), ..Rules::default() };
    let next = Issuer::start(rules).await;
    setup.issuer.rules().other_issuer = Some(next.url.clone());
    setup.issuer.revoke_access();
    // The call fails because the server does not know the tokens of the new issuer.
    assert_eq!(setup.call(&client, None).await.expect("logged in"), StatusCode::UNAUTHORIZED);
    assert_eq!(next.record().registrations.len(), 1);
    assert_eq!(next.record().grants("refresh_token"), 0);
    assert_eq!(next.record().grants("authorization_code"), 1);
    next.assert_no_violation();
}

#[tokio::test]
async fn a_server_of_mcp_2025_03_26_needs_no_metadata() {
    let setup = Setup::with(Rules { no_metadata: true, expires_in: Some(0), ..Rules::default() }).await;
    let client = setup.client(AuthConfig::default());
    assert_eq!(setup.call(&client, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(setup.call(&setup.client_without_browser(), None).await.expect("refreshed"), StatusCode::OK);
    setup.issuer.assert_no_violation();
}

#[tokio::test]
async fn the_hint_for_a_server_without_oauth_mentions_headers() {
    let setup = Setup::with(Rules { no_metadata: true, no_registration: true, ..Rules::default() }).await;
    let error =
        setup.call(&setup.client(AuthConfig::default()), None).await.expect_err("no authorization server");
    assert_eq!(
        error.hint().expect("a hint"),
        "check `url` of `notes` in the configuration, or set a fixed token under `headers`"
    );
    assert_error(Err::<(), _>(error), "it requires a token but names no authorization server");
    assert_eq!(setup.browser.visits(), 0);
}

#[tokio::test]
async fn a_request_does_not_wait_for_a_login_it_does_not_need() {
    let setup = Setup::with(Rules { scope_in_challenge: Some("read"), ..Rules::default() }).await;
    setup.logged_in().await;
    setup.edit_token_file(expire_soon);
    let client = setup.client_with(AuthConfig::default(), Some(Arc::new(IdleBrowser)));
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    let old = Secret::new("another");
    let requests = async {
        // Some of these requests join the attempt before the login starts, others come later.
        while setup.issuer.record().registrations.len() < 2 {
            assert!(client.token().await.expect("still valid").is_some());
            tokio::task::yield_now().await;
        }
        assert!(client.token().await.expect("still valid").is_some());
    };
    let both = async {
        tokio::select! {
            _ = client.replace(Some(&old), challenge) => panic!("the login never completes"),
            () = requests => {}
        }
    };
    timeout(Duration::from_secs(60), both).await.expect("requests do not wait");
}

#[tokio::test]
async fn an_unsafe_authorization_server_is_rejected() {
    for (metadata, expected) in [
        (json!({"authorization_endpoint": "file:///etc/passwd"}), "it is not a web address"),
        (json!({"authorization_endpoint": "javascript:alert(1)"}), "it is not a web address"),
        (json!({"authorization_endpoint": "not a url"}), "it is not a URL"),
        (json!({"token_endpoint": "http://elsewhere.example/token"}), "it is not encrypted"),
        (json!({"registration_endpoint": "http://elsewhere.example/"}), "it is not encrypted"),
        (json!({"issuer": "https://evil.example"}), "issuer mismatch"),
        (json!({"issuer": null}), "missing required issuer"),
        (json!({"code_challenge_methods_supported": ["plain"]}), "S256"),
        (json!({"code_challenge_methods_supported": null}), "PKCE"),
    ] {
        let setup = Setup::with(Rules { metadata: metadata.clone(), ..Rules::default() }).await;
        assert_error(setup.call(&setup.client(AuthConfig::default()), None).await, expected);
        assert_error(setup.client(AuthConfig::default()).log_in().await, expected);
        assert_eq!(setup.browser.visits(), 0, "{metadata}");
    }
}

#[tokio::test]
async fn a_state_parameter_in_the_metadata_is_not_used_for_the_login() {
    let setup = Setup::with(Rules::default()).await;
    let endpoint = format!("{}/authorize?state=guessed-state", setup.issuer.url);
    setup.issuer.rules().metadata = json!({"authorization_endpoint": endpoint});
    struct Guesser;
    impl Browser for Guesser {
        fn open<'a>(&'a self, _: &'a str, url: &'a str) -> BoxFuture<'a, io::Result<()>> {
            Box::pin(async move {
                let url = reqwest::Url::parse(url).map_err(io::Error::other)?;
                let redirect = url.query_pairs().find(|(key, _)| key == "redirect_uri").expect("present").1;
                let guess = format!("{redirect}?code=evil&state=guessed-state");
                let response = http_client().get(guess).send().await.map_err(io::Error::other)?;
                assert_eq!(response.status(), 404);
                Err(io::Error::other("done"))
            })
        }
    }
    let client = setup.client_with(AuthConfig::default(), Some(Arc::new(Guesser)));
    assert_error(setup.call(&client, None).await, "cannot open a browser");
}

#[tokio::test]
async fn errors_about_an_invalid_token_response_do_not_quote_it() {
    for (status, response) in [
        (StatusCode::OK, json!("SECRET")),
        (StatusCode::OK, json!({"access_token": ["SECRET"], "token_type": "Bearer"})),
        (StatusCode::OK, json!({"access_token": "SECRET", "token_type": "DPoP"})),
        (StatusCode::OK, json!({"access_token": "SECRET\n", "token_type": "Bearer"})),
        (StatusCode::OK, json!({"access_token": "SECRET", "token_type": "Bearer", "expires_in": "SECRET"})),
        (StatusCode::INTERNAL_SERVER_ERROR, json!({"trace": "SECRET"})),
    ] {
        let setup = Setup::with(Rules { token_failure: Some((status, response)), ..Rules::default() }).await;
        assert_error(setup.call(&setup.client(AuthConfig::default()), None).await, "issued no token: ");
    }
}

#[tokio::test]
async fn an_error_about_an_occupied_port_names_it() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let setup = Setup::with(Rules::default()).await;
    let client = setup.client(auth(|config| config.redirect_port = Some(port)));
    assert_error(setup.call(&client, None).await, &format!("cannot listen on port {port}"));
    drop(listener);
    assert_eq!(setup.call(&client, None).await.expect("logged in"), StatusCode::OK);
    let redirect_uri = format!("http://127.0.0.1:{port}/callback");
    assert_eq!(setup.issuer.record().logins[0]["redirect_uri"], redirect_uri);
}

#[test]
fn an_invalid_configuration_is_rejected() {
    for (config, url, expected) in [
        (
            auth(|config| config.client_secret = Some(Secret::new("SECRET"))),
            "https://a.example",
            "`oauth.clientId` is missing",
        ),
        (client_credentials(None, None), "https://a.example", "`oauth.clientSecret` is missing"),
        (
            auth(|config| config.private_key = Some(Secret::new("SECRET"))),
            "https://a.example",
            "`oauth.privateKey` requires `oauth.grant`",
        ),
        (
            auth(|config| config.client_metadata_url = Some("http://a.example/c".to_owned())),
            "https://a.example",
            "is not an https URL",
        ),
        (AuthConfig::default(), "ftp://a.example", "its URL is not http or https"),
        (AuthConfig::default(), "nonsense", "its URL is not http or https"),
    ] {
        assert_error(OAuth::new("notes", url, config, "tokens", None), expected);
    }
}

/// Collects the log messages of all tests in this file, at every level.
struct LogCollector(&'static Mutex<String>);

impl tracing::Subscriber for LogCollector {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        span.record(&mut Line(&mut self.0.lock().expect("not poisoned")));
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut Line(&mut self.0.lock().expect("not poisoned")));
    }
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Line(&mut self.0.lock().expect("not poisoned")));
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

struct Line<'a>(&'a mut String);

impl tracing::field::Visit for Line<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        writeln!(self.0, "{field}={value:?}").expect("writing to a string");
    }
}

#[tokio::test]
async fn logs_and_debug_output_contain_no_secrets() {
    static LOG: Mutex<String> = Mutex::new(String::new());
    tracing::subscriber::set_global_default(LogCollector(&LOG)).expect("the only subscriber");
    let rules = Rules { expires_in: Some(0), scope_in_challenge: Some("read"), ..Rules::default() };
    let setup = Setup::with(rules.clone()).await;
    let client = setup.logged_in().await;
    setup.call(&client, Some("write")).await.expect("refreshed, with more scopes");
    setup.issuer.revoke_all();
    setup.call(&client, None).await.expect("logged in again");
    assert_eq!(format!("{client:?}"), "OAuth { server: \"notes\", .. }");
    let robot = Setup::with(rules).await;
    robot.issuer.add_client("robot", Client { secret: Some("SECRET-robot".to_owned()), redirect_uris: None });
    let mut config = client_credentials(Some("SECRET-robot"), Some("SECRET-key"));
    assert!(!format!("{config:?} {config:#?}").contains("SECRET"));
    config.private_key = None;
    let client = robot.client(config);
    robot.call(&client, None).await.expect("authorized");
    let closed = "http://127.0.0.1:1/mcp?key=SECRET-query";
    let browser: Arc<dyn Browser> = setup.browser.clone();
    let unreachable = OAuth::new("notes", closed, AuthConfig::default(), setup.tokens(), Some(browser));
    let unreachable = unreachable.expect("a valid configuration");
    assert_error(unreachable.replace(None, "Bearer").await, "cannot discover its authorization server");
    let log = LOG.lock().expect("not poisoned");
    assert!(log.contains("discovery url"), "the SDK's log messages are collected");
    let leaks: Vec<&str> = log.lines().filter(|line| line.contains("SECRET")).collect();
    assert_eq!(leaks, Vec::<&str>::new());
}
