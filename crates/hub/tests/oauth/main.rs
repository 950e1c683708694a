//! OAuth as a server on the network sees it, against an authorization server that is strict.

mod issuer;

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
use tokio::time::timeout;
use toolwire_hub::{
    Auth, AuthConfig, AuthError, Bearer, Browser, Config, GrantKind, HttpKind, Hub, HubOptions, OAuth, Phase,
    Secret, ServerConfig, ServerName, Transport,
};

/// Goes where it is sent, as a browser of somebody who agrees to everything.
#[derive(Default)]
struct Visitor {
    visits: AtomicUsize,
}

impl Browser for Visitor {
    fn open<'a>(&'a self, _: &'a str, url: &'a str) -> BoxFuture<'a, io::Result<()>> {
        self.visits.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { reqwest::get(url).await.map(|_| ()).map_err(io::Error::other) })
    }
}

impl Visitor {
    fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}

/// Looks at the page and does nothing.
struct Sleeper;

impl Browser for Sleeper {
    fn open<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// A person at a computer with a token folder.
struct Desk {
    issuer: Issuer,
    visitor: Arc<Visitor>,
    folder: TempDir,
}

impl Desk {
    async fn with(rules: Rules) -> Desk {
        let issuer = Issuer::start(rules).await;
        Desk { issuer, visitor: Arc::default(), folder: tempfile::tempdir().expect("a folder") }
    }

    fn tokens(&self) -> PathBuf {
        self.folder.path().join("tokens")
    }

    /// A process that may open the person's browser.
    fn process(&self, config: AuthConfig) -> OAuth {
        let browser: Arc<dyn Browser> = self.visitor.clone();
        OAuth::new("notes", &self.issuer.mcp(), config, self.tokens(), Some(browser)).expect("it is valid")
    }

    /// A process with nobody in front of it.
    fn lonely_process(&self) -> OAuth {
        OAuth::new("notes", &self.issuer.mcp(), AuthConfig::default(), self.tokens(), None)
            .expect("it is valid")
    }

    /// One request, as a transport makes it.
    async fn call(&self, bearer: &dyn Bearer, wants: Option<&str>) -> Result<StatusCode, AuthError> {
        let send = async |token: Option<&Secret>| {
            let mut request = reqwest::Client::new().post(self.issuer.mcp());
            if let Some(token) = token {
                request = request.bearer_auth(token.expose());
            }
            if let Some(wants) = wants {
                request = request.header("x-wants", wants);
            }
            let response = request.send().await.expect("it answers");
            let challenge = response.headers().get("www-authenticate").cloned();
            let challenge = challenge.map(|value| value.to_str().expect("it is text").to_owned());
            (response.status(), challenge.unwrap_or_default())
        };
        let token = bearer.token(None).await?;
        let (status, challenge) = send(token.as_ref()).await;
        if status == StatusCode::OK {
            return Ok(status);
        }
        let token = bearer.replace(token.as_ref(), &challenge).await?;
        Ok(send(token.as_ref()).await.0)
    }

    fn token_file(&self) -> PathBuf {
        let files = fs::read_dir(self.tokens()).expect("it was made").flatten().map(|entry| entry.path());
        let mut files = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let file = files.next().expect("a token was kept");
        assert_eq!(files.next(), None);
        file
    }

    fn edit_token_file(&self, edit: impl FnOnce(&mut Value)) {
        let file = self.token_file();
        let mut grant = serde_json::from_slice(&fs::read(&file).expect("it is there")).expect("it is JSON");
        edit(&mut grant);
        fs::write(&file, grant.to_string()).expect("written");
    }
}

/// Leaves a token half a minute of its hour.
fn end_soon(grant: &mut Value) {
    let issued_at = grant["issued_at"].as_u64().expect("a time");
    grant["issued_at"] = (issued_at - 3570).into();
    grant["expires_at"] = (issued_at + 30).into();
}

/// An error as a person sees it, after a look at all of it.
#[track_caller]
fn shown(error: AuthError) -> String {
    let mut text = format!("{error}");
    let mut source = error.source();
    while let Some(cause) = source {
        write!(text, ": {cause}").expect("it is a string");
        source = cause.source();
    }
    let hint = error.hint().unwrap_or_default();
    for seen in [&text, &hint, &format!("{error:?}"), &format!("{error:#?}")] {
        assert!(!seen.contains("SECRET"), "{seen}");
    }
    assert!(text.contains("`notes`"), "{text}");
    text
}

#[track_caller]
fn assert_shown(result: Result<impl std::fmt::Debug, AuthError>, expected: &str) {
    let text = shown(result.expect_err("it cannot work"));
    assert!(text.contains(expected), "{text}");
}

#[tokio::test]
async fn a_person_logs_in_once_and_the_token_survives_a_restart() {
    let desk = Desk::with(Rules::default()).await;
    let first = desk.process(AuthConfig::default());
    assert_eq!(first.token(None).await.expect("none is needed yet"), None);
    assert_eq!(desk.call(&first, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(desk.call(&first, None).await.expect("logged in"), StatusCode::OK);
    drop(first);
    let second = desk.lonely_process();
    assert_eq!(desk.call(&second, None).await.expect("still logged in"), StatusCode::OK);
    assert_eq!(desk.visitor.visits(), 1);
    assert_eq!(desk.issuer.record().token_requests.len(), 1);
    desk.issuer.assert_no_offence();
}

#[cfg(unix)]
#[tokio::test]
async fn tokens_are_for_the_owners_eyes() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::with(Rules::default()).await;
    desk.call(&desk.process(AuthConfig::default()), None).await.expect("logged in");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&desk.tokens()), mode(&desk.token_file())), (0o700, 0o600));
}

#[tokio::test]
async fn logging_out_forgets_the_token() {
    let desk = Desk::with(Rules::default()).await;
    let process = desk.process(AuthConfig::default());
    desk.call(&process, None).await.expect("logged in");
    process.forget().await.expect("forgotten");
    assert_eq!(process.token(None).await.expect("none"), None);
    assert_shown(desk.call(&desk.lonely_process(), None).await, "there is nobody to ask");
    desk.call(&process, None).await.expect("logged in again");
    assert_eq!(desk.visitor.visits(), 2);
}

#[tokio::test]
async fn many_callers_share_one_login() {
    let desk = Desk::with(Rules { refresh_tokens: false, ..Rules::default() }).await;
    let process = desk.process(AuthConfig::default());
    let calls = join_all((0..20).map(|_| desk.call(&process, None))).await;
    assert!(calls.into_iter().all(|status| status.expect("logged in") == StatusCode::OK));
    assert_eq!(desk.visitor.visits(), 1);
}

#[tokio::test]
async fn many_callers_share_one_refresh_of_a_token_that_has_run_out() {
    let desk = Desk::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let process = desk.process(AuthConfig::default());
    desk.call(&process, None).await.expect("logged in");
    desk.issuer.rules().expires_in = Some(3600);
    let tokens = join_all((0..20).map(|_| process.token(None))).await;
    let tokens: Vec<_> = tokens.into_iter().map(|token| token.expect("refreshed")).collect();
    assert!(tokens[0].is_some() && tokens.iter().all(|token| *token == tokens[0]));
    assert_eq!(desk.issuer.record().grants("refresh_token"), 1);
    desk.issuer.assert_no_offence();
}

#[tokio::test]
async fn a_token_is_refreshed_before_it_runs_out() {
    let desk = Desk::with(Rules::default()).await;
    desk.call(&desk.process(AuthConfig::default()), None).await.expect("logged in");
    desk.edit_token_file(end_soon);
    let process = desk.lonely_process();
    assert_eq!(desk.call(&process, None).await.expect("refreshed"), StatusCode::OK);
    assert_eq!(desk.issuer.record().grants("refresh_token"), 1);
    desk.issuer.assert_no_offence();
}

#[tokio::test]
async fn a_token_that_was_revoked_is_refreshed_without_a_person() {
    let desk = Desk::with(Rules::default()).await;
    let process = desk.process(AuthConfig::default());
    desk.call(&process, None).await.expect("logged in");
    desk.issuer.revoke_access();
    let calls = join_all((0..20).map(|_| desk.call(&process, None))).await;
    assert!(calls.into_iter().all(|status| status.expect("refreshed") == StatusCode::OK));
    assert_eq!((desk.visitor.visits(), desk.issuer.record().grants("refresh_token")), (1, 1));
    desk.issuer.assert_no_offence();
}

#[tokio::test]
async fn two_processes_never_use_a_refresh_token_twice() {
    // Each token has run out when it arrives, so that every question is a refresh.
    let desk = Desk::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    desk.call(&desk.process(AuthConfig::default()), None).await.expect("logged in");
    let (one, two) = (desk.lonely_process(), desk.lonely_process());
    for _ in 0..8 {
        let (first, second) = futures::join!(one.token(None), two.token(None));
        assert!(first.expect("refreshed").is_some() && second.expect("refreshed").is_some());
    }
    assert_eq!(desk.issuer.record().grants("refresh_token"), 16);
    desk.issuer.assert_no_offence();
}

/// What the test below runs in processes of their own: some refreshes.
#[tokio::test]
async fn refreshes_for_the_next_test() {
    let Ok(place) = std::env::var("OAUTH_TEST_PLACE") else { return };
    let (url, tokens) = place.split_once(' ').expect("two words");
    let process = OAuth::new("notes", url, AuthConfig::default(), tokens, None).expect("it is valid");
    for _ in 0..5 {
        assert!(process.token(None).await.expect("refreshed").is_some());
    }
    process.close().await;
}

#[tokio::test]
async fn real_processes_never_use_a_refresh_token_twice_either() {
    let desk = Desk::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    desk.call(&desk.process(AuthConfig::default()), None).await.expect("logged in");
    let run = || {
        tokio::process::Command::new(std::env::current_exe().expect("this file"))
            .args(["--exact", "refreshes_for_the_next_test"])
            .env("OAUTH_TEST_PLACE", format!("{} {}", desk.issuer.mcp(), desk.tokens().display()))
            .kill_on_drop(true)
            .output()
    };
    let ended = timeout(Duration::from_secs(120), join_all([run(), run(), run()])).await.expect("they end");
    for output in ended {
        let output = output.expect("it ran");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert_eq!(desk.issuer.record().grants("refresh_token"), 15);
    desk.issuer.assert_no_offence();
}

#[tokio::test]
async fn what_another_process_refreshed_is_used() {
    let desk = Desk::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let one = desk.process(AuthConfig::default());
    desk.call(&one, None).await.expect("logged in");
    desk.issuer.rules().expires_in = Some(3600);
    let two = desk.lonely_process();
    let (first, second) = futures::join!(one.token(None), two.token(None));
    assert_eq!(first.expect("refreshed"), second.expect("read"));
    assert_eq!(desk.issuer.record().grants("refresh_token"), 1);
}

#[tokio::test]
async fn a_caller_that_leaves_does_not_lose_the_new_token() {
    let desk = Desk::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let process = desk.process(AuthConfig::default());
    desk.call(&process, None).await.expect("logged in");
    desk.issuer.rules().expires_in = Some(3600);
    let gate = desk.issuer.close_gate();
    tokio::select! {
        _ = process.token(None) => panic!("the gate is closed"),
        () = gate.arrived.notified() => {}
    }
    gate.open.notify_one();
    assert_eq!(desk.call(&process, None).await.expect("refreshed"), StatusCode::OK);
    assert_eq!(desk.issuer.record().grants("refresh_token"), 1);
    desk.issuer.assert_no_offence();
}

#[tokio::test]
async fn closing_lets_a_refresh_finish() {
    let desk = Desk::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let process = desk.process(AuthConfig::default());
    desk.call(&process, None).await.expect("logged in");
    desk.issuer.rules().expires_in = Some(3600);
    let gate = desk.issuer.close_gate();
    tokio::select! {
        _ = process.token(None) => panic!("the gate is closed"),
        () = gate.arrived.notified() => {}
    }
    gate.open.notify_one();
    process.close().await;
    drop(process);
    assert_eq!(desk.call(&desk.lonely_process(), None).await.expect("kept"), StatusCode::OK);
    assert_eq!(desk.issuer.record().grants("refresh_token"), 1);
}

#[tokio::test]
async fn closing_the_hub_lets_a_refresh_finish() {
    let desk = Desk::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    desk.call(&desk.process(AuthConfig::default()), None).await.expect("logged in");
    desk.issuer.rules().expires_in = Some(3600);
    let gate = desk.issuer.close_gate();
    let transport = Transport::Http {
        url: desk.issuer.mcp().parse().expect("a URL"),
        headers: Vec::new(),
        kind: HttpKind::Streamable,
        auth: Auth::OAuth(Box::default()),
    };
    let server = ServerConfig::new(ServerName::new("notes").expect("a name"), transport);
    let folder = Some(desk.folder.path().to_owned());
    let hub = Hub::start(
        &Config { servers: vec![server], toolwire: None },
        HubOptions { folder, ..HubOptions::default() },
    );
    timeout(Duration::from_secs(60), gate.arrived.notified()).await.expect("it refreshes its token");
    let answered_late = async {
        while hub.status()[0].phase != Phase::Stopped {
            tokio::task::yield_now().await;
        }
        gate.open.notify_one();
    };
    futures::join!(hub.close(), answered_late);
    drop(hub);
    assert_eq!(desk.call(&desk.lonely_process(), None).await.expect("kept"), StatusCode::OK);
    assert_eq!(desk.issuer.record().grants("refresh_token"), 1);
    desk.issuer.assert_no_offence();
}

/// Takes longer over the login than a server may take to come up.
struct Thinker(Visitor);

impl Browser for Thinker {
    fn open<'a>(&'a self, server: &'a str, url: &'a str) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            tokio::time::sleep(2 * CONNECTING + Duration::from_secs(1)).await;
            self.0.open(server, url).await
        })
    }
}

const CONNECTING: Duration = Duration::from_secs(5);

#[tokio::test]
async fn the_time_a_person_takes_is_not_the_servers() {
    let desk = Desk::with(Rules::default()).await;
    let transport = Transport::Http {
        url: desk.issuer.mcp().parse().expect("a URL"),
        headers: Vec::new(),
        kind: HttpKind::Streamable,
        auth: Auth::OAuth(Box::default()),
    };
    let mut server = ServerConfig::new(ServerName::new("notes").expect("a name"), transport);
    server.connect_timeout = CONNECTING;
    let folder = Some(desk.folder.path().to_owned());
    let browser: Option<Arc<dyn Browser>> = Some(Arc::new(Thinker(Visitor::default())));
    let config = Config { servers: vec![server], toolwire: None };
    let hub = Hub::connect(&config, HubOptions { folder, browser, ..HubOptions::default() }).await;
    let status = &hub.status()[0];
    assert_eq!((&status.phase, status.restarts), (&Phase::Ready, 0));
    hub.close().await;
    desk.issuer.assert_no_offence();
}

#[tokio::test]
async fn a_refused_refresh_token_means_a_login_when_the_server_asks_for_it() {
    let desk = Desk::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let process = desk.process(AuthConfig::default());
    desk.call(&process, None).await.expect("logged in");
    desk.issuer.revoke_all();
    assert_eq!(process.token(None).await.expect("no token is left"), None);
    assert_eq!(desk.visitor.visits(), 1);
    assert_eq!(desk.call(&process, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(desk.visitor.visits(), 2);
    desk.issuer.assert_no_offence();
}

#[tokio::test]
async fn a_forgotten_registration_is_made_again() {
    let desk = Desk::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let process = desk.process(AuthConfig::default());
    desk.call(&process, None).await.expect("logged in");
    desk.issuer.forget_clients();
    desk.issuer.revoke_access();
    assert_eq!(desk.call(&process, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(desk.issuer.record().registrations.len(), 2);
    desk.issuer.assert_no_offence();
}

#[tokio::test]
async fn an_authorization_server_that_is_down_does_not_stop_a_token_that_works() {
    let desk = Desk::with(Rules::default()).await;
    desk.call(&desk.process(AuthConfig::default()), None).await.expect("logged in");
    desk.edit_token_file(end_soon);
    desk.issuer.rules().token_failure =
        Some((StatusCode::SERVICE_UNAVAILABLE, json!("SECRET come back later")));
    let process = desk.lonely_process();
    for _ in 0..3 {
        assert_eq!(desk.call(&process, None).await.expect("it still works"), StatusCode::OK);
    }
    assert_eq!(desk.issuer.record().grants("refresh_token"), 1, "it is not asked again and again");
    desk.issuer.revoke_access();
    assert_shown(desk.call(&process, None).await, "has run out and could not be refreshed: the answer of");
    desk.issuer.rules().token_failure = None;
    assert_eq!(desk.call(&process, None).await.expect("refreshed"), StatusCode::OK);
}

#[tokio::test]
async fn a_spoilt_token_file_costs_a_login() {
    let desk = Desk::with(Rules::default()).await;
    desk.call(&desk.process(AuthConfig::default()), None).await.expect("logged in");
    fs::write(desk.token_file(), "{\"access_token\": \"SEC").expect("written");
    assert_eq!(
        desk.call(&desk.process(AuthConfig::default()), None).await.expect("logged in"),
        StatusCode::OK
    );
    assert_eq!(desk.call(&desk.lonely_process(), None).await.expect("kept"), StatusCode::OK);
    assert_eq!(desk.visitor.visits(), 2);
}

#[cfg(unix)]
#[tokio::test]
async fn a_token_that_cannot_be_kept_works_all_the_same() {
    let desk = Desk::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    fs::write(desk.tokens(), "a file where the folder should be").expect("written");
    let process = desk.process(AuthConfig::default());
    for _ in 0..3 {
        assert_eq!(desk.call(&process, None).await.expect("logged in"), StatusCode::OK);
    }
    assert_eq!(desk.visitor.visits(), 1);
    desk.issuer.assert_no_offence();
}

#[tokio::test]
async fn the_scopes_asked_for_are_those_of_the_challenge_or_the_configuration() {
    let rules = Rules { scope_in_challenge: Some("read list"), ..Rules::default() };
    for (scopes, expected) in [(vec![], "read list"), (vec!["all".to_owned()], "all")] {
        let desk = Desk::with(rules.clone()).await;
        let process = desk.process(AuthConfig { scopes, ..AuthConfig::default() });
        desk.call(&process, None).await.expect("logged in");
        assert_eq!(desk.issuer.record().logins[0]["scope"], expected);
    }
    let metadata = json!({"scopes_supported": ["read", "list", "offline_access"]});
    let desk = Desk::with(Rules { metadata, ..rules }).await;
    desk.call(&desk.process(AuthConfig::default()), None).await.expect("logged in");
    assert_eq!(desk.issuer.record().logins[0]["scope"], "read list offline_access");
}

#[tokio::test]
async fn more_rights_are_added_to_those_granted() {
    let desk = Desk::with(Rules { scope_in_challenge: Some("read"), ..Rules::default() }).await;
    let process = desk.process(AuthConfig::default());
    assert_eq!(desk.call(&process, Some("read")).await.expect("logged in"), StatusCode::OK);
    let calls = join_all((0..5).map(|_| desk.call(&process, Some("write")))).await;
    assert!(calls.into_iter().all(|status| status.expect("allowed") == StatusCode::OK));
    assert_eq!(desk.call(&process, Some("read")).await.expect("still allowed"), StatusCode::OK);
    let scopes: Vec<_> = desk.issuer.record().logins.iter().map(|login| login["scope"].clone()).collect();
    assert_eq!(scopes, ["read", "read write"]);
    desk.issuer.assert_no_offence();
}

#[tokio::test]
async fn rights_that_are_never_granted_are_asked_for_once() {
    let rules = Rules { scope_in_challenge: Some("read"), granted: Some("read"), ..Rules::default() };
    let desk = Desk::with(rules).await;
    let process = desk.process(AuthConfig::default());
    desk.call(&process, Some("read")).await.expect("logged in");
    assert_eq!(desk.call(&process, Some("write")).await.expect("asked for"), StatusCode::FORBIDDEN);
    for _ in 0..3 {
        assert_shown(desk.call(&process, Some("write")).await, "still asks for more rights");
    }
    assert_eq!(desk.visitor.visits(), 2);
    assert_eq!(desk.call(&process, Some("read")).await.expect("the old ones hold"), StatusCode::OK);
}

#[tokio::test]
async fn more_rights_that_a_person_first_refused_can_be_asked_for_again() {
    let desk = Desk::with(Rules { scope_in_challenge: Some("read"), ..Rules::default() }).await;
    let process = desk.process(AuthConfig::default());
    desk.call(&process, Some("read")).await.expect("logged in");
    desk.issuer.rules().deny = true;
    assert_shown(desk.call(&process, Some("write")).await, "was refused");
    assert_eq!(desk.call(&process, Some("read")).await.expect("the old ones hold"), StatusCode::OK);
    desk.issuer.rules().deny = false;
    process.allow_login();
    assert_eq!(desk.call(&process, Some("write")).await.expect("allowed"), StatusCode::OK);
    assert_eq!(desk.visitor.visits(), 3);
}

#[tokio::test]
async fn an_answer_from_another_issuer_gives_no_token() {
    for (issuer, metadata) in [
        ("https://evil.example", json!({})),
        ("https://evil.example", json!({"authorization_response_iss_parameter_supported": null})),
        ("", json!({})),
    ] {
        for deny in [false, true] {
            let issuer_in_redirect = Some(issuer.to_owned());
            let metadata = metadata.clone();
            let desk = Desk::with(Rules { issuer_in_redirect, metadata, deny, ..Rules::default() }).await;
            let result = desk.call(&desk.process(AuthConfig::default()), None).await;
            assert!(matches!(result, Err(AuthError::WrongIssuer { .. })), "{issuer} {deny}: {result:?}");
            assert_shown(result, "from another authorization server");
            assert_eq!(desk.issuer.record().token_requests.len(), 0);
        }
    }
    let metadata = json!({"authorization_response_iss_parameter_supported": null});
    let issuer_in_redirect = Some(String::new());
    let desk = Desk::with(Rules { issuer_in_redirect, metadata, ..Rules::default() }).await;
    let result = desk.call(&desk.process(AuthConfig::default()), None).await;
    assert_eq!(result.expect("older ones do not send it"), StatusCode::OK);
}

#[tokio::test]
async fn a_refused_login_is_told_and_not_repeated() {
    let desk = Desk::with(Rules { deny: true, ..Rules::default() }).await;
    let process = desk.process(AuthConfig::default());
    for _ in 0..3 {
        assert_shown(desk.call(&process, None).await, "was refused: access_denied: not you");
    }
    assert_eq!(desk.visitor.visits(), 1);
    desk.issuer.rules().deny = false;
    process.allow_login();
    assert_eq!(desk.call(&process, None).await.expect("logged in"), StatusCode::OK);
}

#[tokio::test]
async fn a_login_that_nobody_finishes_ends() {
    let desk = Desk::with(Rules::default()).await;
    let browser: Arc<dyn Browser> = Arc::new(Sleeper);
    let url = desk.issuer.mcp();
    let process = OAuth::new("notes", &url, AuthConfig::default(), desk.tokens(), Some(browser));
    let process = process.expect("it is valid").with_login_timeout(Duration::from_millis(50));
    assert_shown(desk.call(&process, None).await, "nobody logged in to server `notes` within 50ms");
}

#[tokio::test]
async fn closing_ends_the_wait_for_a_person() {
    let desk = Desk::with(Rules::default()).await;
    let browser: Arc<dyn Browser> = Arc::new(Sleeper);
    let url = desk.issuer.mcp();
    let process = OAuth::new("notes", &url, AuthConfig::default(), desk.tokens(), Some(browser));
    let process = process.expect("it is valid");
    let close = async {
        while desk.issuer.record().registrations.is_empty() {
            tokio::task::yield_now().await;
        }
        process.close().await;
    };
    let both = async { futures::join!(desk.call(&process, None), close) };
    let (called, ()) = timeout(Duration::from_secs(60), both).await.expect("it ends");
    assert_shown(called, "was stopped");
}

#[tokio::test]
async fn nobody_to_ask_is_an_error_with_a_hint() {
    let desk = Desk::with(Rules::default()).await;
    let error = desk.call(&desk.lonely_process(), None).await.expect_err("nobody can log in");
    assert!(error.is_permanent());
    assert_eq!(error.hint().expect("a hint"), "log in once from a terminal: `toolwire tools --server notes`");
    assert_shown(Err::<(), _>(error), "asks for a login and there is nobody to ask");
    assert_eq!(desk.issuer.record().registrations.len(), 0);
}

#[tokio::test]
async fn a_client_that_was_registered_beforehand_registers_no_more() {
    let metadata = json!({"registration_endpoint": null});
    let desk = Desk::with(Rules { metadata, expires_in: Some(0), ..Rules::default() }).await;
    let unregistered = desk.call(&desk.process(AuthConfig::default()), None).await;
    assert_eq!(
        unregistered.as_ref().map_err(AuthError::hint),
        Err(Some("register a client by hand and set `oauth.clientId` of `notes` in mcp.json".to_owned()))
    );
    assert_shown(unregistered, "cannot register");
    desk.issuer.know_client("known", Client { secret: Some("SECRET-known".to_owned()), redirect_uris: None });
    let config = AuthConfig {
        client_id: Some("known".to_owned()),
        client_secret: Some(Secret::new("SECRET-known")),
        ..AuthConfig::default()
    };
    assert!(!format!("{config:?}").contains("SECRET"));
    let process = desk.process(config.clone());
    assert_eq!(desk.call(&process, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(desk.call(&process, None).await.expect("refreshed"), StatusCode::OK);
    assert_eq!(desk.call(&desk.process(config), None).await.expect("refreshed"), StatusCode::OK);
    assert!(!fs::read_to_string(desk.token_file()).expect("kept").contains("SECRET-known"));
    assert_eq!(desk.visitor.visits(), 1);
    desk.issuer.assert_no_offence();

    let wrong = AuthConfig {
        client_id: Some("known".to_owned()),
        client_secret: Some(Secret::new("SECRET-wrong")),
        ..AuthConfig::default()
    };
    desk.issuer.revoke_access();
    assert_shown(desk.call(&desk.process(wrong), None).await, "could not be refreshed: invalid_client");
}

#[tokio::test]
async fn another_clients_token_is_not_taken() {
    let desk = Desk::with(Rules::default()).await;
    desk.call(&desk.process(AuthConfig::default()), None).await.expect("logged in");
    desk.issuer.know_client("known", Client { secret: None, redirect_uris: None });
    let config = AuthConfig { client_id: Some("known".to_owned()), ..AuthConfig::default() };
    let process = desk.process(config);
    assert_eq!(process.token(None).await.expect("none"), None);
    assert_eq!(desk.call(&process, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(desk.issuer.record().logins[1]["client_id"], "known");
}

#[tokio::test]
async fn a_published_client_is_used_where_it_is_supported() {
    let document = "https://toolwire.example/client.json";
    let config = AuthConfig { client_metadata_url: Some(document.to_owned()), ..AuthConfig::default() };
    let metadata = json!({"client_id_metadata_document_supported": true});
    let desk = Desk::with(Rules { metadata, expires_in: Some(0), ..Rules::default() }).await;
    desk.issuer.know_client(document, Client { secret: None, redirect_uris: None });
    let process = desk.process(config.clone());
    assert_eq!(desk.call(&process, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(desk.call(&desk.process(config.clone()), None).await.expect("refreshed"), StatusCode::OK);
    assert_eq!(desk.issuer.record().registrations.len(), 0);
    desk.issuer.assert_no_offence();

    let older = Desk::with(Rules::default()).await;
    assert_eq!(older.call(&older.process(config), None).await.expect("logged in"), StatusCode::OK);
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

fn itself(secret: Option<&str>, key: Option<&str>) -> AuthConfig {
    AuthConfig {
        client_id: Some("robot".to_owned()),
        client_secret: secret.map(Secret::new),
        private_key: key.map(Secret::new),
        grant: GrantKind::ClientCredentials,
        ..AuthConfig::default()
    }
}

#[tokio::test]
async fn a_client_with_its_own_credentials_needs_no_person() {
    let rules = Rules {
        expires_in: Some(0),
        scope_in_challenge: Some("read"),
        assertion_key: Some(PUBLIC_KEY),
        ..Rules::default()
    };
    for (methods, config) in [
        (json!(["client_secret_basic"]), itself(Some("SECRET-robot"), None)),
        (json!(["client_secret_post"]), itself(Some("SECRET-robot"), None)),
        (json!(null), itself(Some("SECRET-robot"), None)),
        (json!(["private_key_jwt"]), itself(None, Some(PRIVATE_KEY))),
    ] {
        let metadata = json!({"token_endpoint_auth_methods_supported": methods});
        let desk = Desk::with(Rules { metadata, ..rules.clone() }).await;
        let robot = Client { secret: Some("SECRET-robot".to_owned()), redirect_uris: None };
        desk.issuer.know_client("robot", robot);
        let url = desk.issuer.mcp();
        let process = OAuth::new("notes", &url, config, desk.tokens(), None).expect("it is valid");
        assert_eq!(desk.call(&process, Some("read")).await.expect("it has credentials"), StatusCode::OK);
        assert_eq!(desk.issuer.record().token_requests[0]["scope"], "read");
        // The token has run out: the next one is asked for before the request, not after a refusal.
        assert!(process.token(None).await.expect("renewed").is_some());
        assert_eq!(desk.call(&process, Some("write")).await.expect("more rights"), StatusCode::OK);
        desk.issuer.assert_no_offence();
    }
}

#[tokio::test]
async fn wrong_credentials_are_told_without_them() {
    for (config, expected) in [
        (itself(Some("SECRET-wrong"), None), "gave no token: invalid_client: do not know you, …"),
        (itself(None, Some(PRIVATE_KEY)), "gave no token: invalid_client"),
        (itself(None, Some("/no/such/file")), "key `oauth.privateKey` of server `notes` is neither"),
    ] {
        let desk = Desk::with(Rules::default()).await;
        let url = desk.issuer.mcp();
        let process = OAuth::new("notes", &url, config, desk.tokens(), None).expect("it is valid");
        assert_shown(desk.call(&process, None).await, expected);
    }
}

#[tokio::test]
async fn another_authorization_server_sees_nothing_of_the_first_ones() {
    let desk = Desk::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let process = desk.process(AuthConfig::default());
    desk.call(&process, None).await.expect("logged in");
    let rules = Rules { moved_to: Some(String::new()), ..Rules::default() };
    let next = Issuer::start(rules).await;
    desk.issuer.rules().moved_to = Some(next.url.clone());
    desk.issuer.revoke_access();
    // The first server does not know the new one's tokens, so the call fails in the end; what counts is the way.
    assert_eq!(desk.call(&process, None).await.expect("logged in"), StatusCode::UNAUTHORIZED);
    assert_eq!(next.record().registrations.len(), 1);
    assert_eq!(next.record().grants("refresh_token"), 0);
    assert_eq!(next.record().grants("authorization_code"), 1);
    next.assert_no_offence();
}

#[tokio::test]
async fn a_server_of_2025_03_26_needs_no_metadata() {
    let desk = Desk::with(Rules { silent: true, expires_in: Some(0), ..Rules::default() }).await;
    let process = desk.process(AuthConfig::default());
    assert_eq!(desk.call(&process, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(desk.call(&desk.lonely_process(), None).await.expect("refreshed"), StatusCode::OK);
    desk.issuer.assert_no_offence();
}

#[tokio::test]
async fn a_server_that_takes_a_fixed_token_gets_a_hint_about_headers() {
    let desk = Desk::with(Rules { silent: true, closed: true, ..Rules::default() }).await;
    let error = desk.call(&desk.process(AuthConfig::default()), None).await.expect_err("there is no way");
    assert_eq!(
        error.hint().expect("a hint"),
        "check `url` of `notes` in mcp.json; if it takes a fixed token, set it under `headers`"
    );
    assert_shown(Err::<(), _>(error), "it wants a token, and does not say where to get one");
    assert_eq!(desk.visitor.visits(), 0);
}

#[tokio::test]
async fn a_request_does_not_wait_for_a_person_it_has_no_need_of() {
    let desk = Desk::with(Rules { scope_in_challenge: Some("read"), ..Rules::default() }).await;
    desk.call(&desk.process(AuthConfig::default()), None).await.expect("logged in");
    desk.edit_token_file(end_soon);
    let url = desk.issuer.mcp();
    let process = OAuth::new("notes", &url, AuthConfig::default(), desk.tokens(), Some(Arc::new(Sleeper)));
    let process = process.expect("it is valid");
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    let old = Secret::new("another");
    let requests = async {
        // Some of these join the attempt before it asks the person, some come after.
        while desk.issuer.record().registrations.len() < 2 {
            assert!(process.token(None).await.expect("it still works").is_some());
            tokio::task::yield_now().await;
        }
        assert!(process.token(None).await.expect("it still works").is_some());
    };
    let both = async {
        tokio::select! {
            _ = process.replace(Some(&old), challenge) => panic!("nobody logs in"),
            () = requests => {}
        }
    };
    timeout(Duration::from_secs(60), both).await.expect("nobody waits");
}

#[tokio::test]
async fn an_unsafe_authorization_server_is_refused() {
    for (metadata, expected) in [
        (json!({"authorization_endpoint": "file:///etc/passwd"}), "is not safe: it is no web page"),
        (json!({"authorization_endpoint": "javascript:alert(1)"}), "is not safe: it is no web page"),
        (json!({"authorization_endpoint": "not a url"}), "is not safe: it is no URL"),
        (json!({"token_endpoint": "http://elsewhere.example/token"}), "is not safe: it is not encrypted"),
        (json!({"registration_endpoint": "http://elsewhere.example/"}), "is not safe: it is not encrypted"),
        (json!({"issuer": "https://evil.example"}), "issuer mismatch"),
        (json!({"issuer": null}), "missing required issuer"),
        (json!({"code_challenge_methods_supported": ["plain"]}), "S256"),
        (json!({"code_challenge_methods_supported": null}), "PKCE"),
    ] {
        let desk = Desk::with(Rules { metadata: metadata.clone(), ..Rules::default() }).await;
        assert_shown(desk.call(&desk.process(AuthConfig::default()), None).await, expected);
        assert_eq!(desk.visitor.visits(), 0, "{metadata}");
    }
}

#[tokio::test]
async fn a_state_in_the_metadata_is_not_the_state_of_a_login() {
    let desk = Desk::with(Rules::default()).await;
    let endpoint = format!("{}/authorize?state=guessed-by-somebody", desk.issuer.url);
    desk.issuer.rules().metadata = json!({"authorization_endpoint": endpoint});
    struct Guesser;
    impl Browser for Guesser {
        fn open<'a>(&'a self, _: &'a str, url: &'a str) -> BoxFuture<'a, io::Result<()>> {
            Box::pin(async move {
                let url = reqwest::Url::parse(url).map_err(io::Error::other)?;
                let redirect =
                    url.query_pairs().find(|(key, _)| key == "redirect_uri").expect("it has one").1;
                let guess = format!("{redirect}?code=evil&state=guessed-by-somebody");
                let answer = reqwest::get(guess).await.map_err(io::Error::other)?;
                assert_eq!(answer.status(), 404);
                Err(io::Error::other("enough"))
            })
        }
    }
    let url = desk.issuer.mcp();
    let process = OAuth::new("notes", &url, AuthConfig::default(), desk.tokens(), Some(Arc::new(Guesser)));
    assert_shown(desk.call(&process.expect("it is valid"), None).await, "cannot open a browser");
}

#[tokio::test]
async fn an_answer_that_is_no_token_is_told_without_it() {
    for (status, answer) in [
        (StatusCode::OK, json!("SECRET")),
        (StatusCode::OK, json!({"access_token": ["SECRET"], "token_type": "Bearer"})),
        (StatusCode::OK, json!({"access_token": "SECRET", "token_type": "DPoP"})),
        (StatusCode::OK, json!({"access_token": "SECRET\n", "token_type": "Bearer"})),
        (StatusCode::OK, json!({"access_token": "SECRET", "token_type": "Bearer", "expires_in": "SECRET"})),
        (StatusCode::INTERNAL_SERVER_ERROR, json!({"trace": "SECRET"})),
    ] {
        let desk = Desk::with(Rules { token_failure: Some((status, answer)), ..Rules::default() }).await;
        assert_shown(desk.call(&desk.process(AuthConfig::default()), None).await, "gave no token: ");
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = taken.local_addr().expect("it has one").port();
    let desk = Desk::with(Rules::default()).await;
    let process = desk.process(AuthConfig { redirect_port: Some(port), ..AuthConfig::default() });
    assert_shown(desk.call(&process, None).await, &format!("cannot listen on port {port}"));
    drop(taken);
    assert_eq!(desk.call(&process, None).await.expect("logged in"), StatusCode::OK);
    let redirect_uri = format!("http://127.0.0.1:{port}/callback");
    assert_eq!(desk.issuer.record().logins[0]["redirect_uri"], redirect_uri);
}

#[test]
fn a_configuration_that_cannot_work_is_refused_at_once() {
    for (config, url, expected) in [
        (
            AuthConfig { client_secret: Some(Secret::new("SECRET")), ..AuthConfig::default() },
            "https://a.example",
            "key `oauth.clientId` of server `notes` is missing",
        ),
        (itself(None, None), "https://a.example", "`oauth.clientSecret` of server `notes` is missing"),
        (
            AuthConfig { private_key: Some(Secret::new("SECRET")), ..AuthConfig::default() },
            "https://a.example",
            "`oauth.privateKey` of server `notes` needs `oauth.grant`",
        ),
        (
            AuthConfig {
                client_metadata_url: Some("http://a.example/c".to_owned()),
                ..AuthConfig::default()
            },
            "https://a.example",
            "is not an https URL",
        ),
        (AuthConfig::default(), "ftp://a.example", "its URL is not http"),
        (AuthConfig::default(), "nonsense", "its URL is not http"),
    ] {
        assert_shown(OAuth::new("notes", url, config, "tokens", None), expected);
    }
}

/// Everything that any test of this file logs, at every level.
struct Log(&'static Mutex<String>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        span.record(&mut Line(&mut self.0.lock().expect("no test failed")));
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut Line(&mut self.0.lock().expect("no test failed")));
    }
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Line(&mut self.0.lock().expect("no test failed")));
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

struct Line<'a>(&'a mut String);

impl tracing::field::Visit for Line<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        writeln!(self.0, "{field}={value:?}").expect("it is a string");
    }
}

#[tokio::test]
async fn nothing_secret_is_logged_or_shown() {
    static LOG: Mutex<String> = Mutex::new(String::new());
    tracing::subscriber::set_global_default(Log(&LOG)).expect("it is the only one");
    let rules = Rules { expires_in: Some(0), scope_in_challenge: Some("read"), ..Rules::default() };
    let desk = Desk::with(rules.clone()).await;
    let process = desk.process(AuthConfig::default());
    desk.call(&process, None).await.expect("logged in");
    desk.call(&process, Some("write")).await.expect("refreshed, and more rights");
    desk.issuer.revoke_all();
    desk.call(&process, None).await.expect("logged in again");
    assert_eq!(format!("{process:?}"), "OAuth { server: \"notes\", .. }");
    let robot = Desk::with(rules).await;
    robot
        .issuer
        .know_client("robot", Client { secret: Some("SECRET-robot".to_owned()), redirect_uris: None });
    let config = itself(Some("SECRET-robot"), Some("SECRET-key"));
    assert!(!format!("{config:?} {config:#?}").contains("SECRET"));
    let config = AuthConfig { private_key: None, ..config };
    let process = robot.process(config);
    robot.call(&process, None).await.expect("it has credentials");
    let closed = "http://127.0.0.1:1/mcp?key=SECRET-query";
    let away = OAuth::new("notes", closed, AuthConfig::default(), desk.tokens(), Some(desk.visitor.clone()));
    let away = away.expect("it is valid");
    assert_shown(away.token(Some("Bearer")).await, "cannot find out how to log in");
    let log = LOG.lock().expect("no test failed");
    assert!(log.contains("discovery url"), "the SDK's own lines are among them");
    let seen: Vec<&str> = log.lines().filter(|line| line.contains("SECRET")).collect();
    assert_eq!(seen, Vec::<&str>::new());
}
