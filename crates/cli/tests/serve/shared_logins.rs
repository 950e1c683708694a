//! Gateways with one Redis share the logins at servers that all users share.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use toolwire_testkit::RedisServer;

use crate::account_server::AccountServer;
use crate::mcp_client::McpClient;
use crate::{Served, command, folder, serve};

const ADMIN: &str = "key-of-the-admin-0123456789abcdef012345";
const SECRET: &str = "a-secret-for-the-tokens-of-servers-0123456789";

/// The lifetime of the server's tokens in seconds. It is so short that each gateway refreshes them many
/// times.
const LIFETIME: u64 = 1;

fn config(notes: &AccountServer, redis: &RedisServer, secret: Option<&str>) -> Value {
    let gateway = json!({"keys": {"admin": {"key": ADMIN, "admin": true}}, "credentialKey": secret});
    let toolwire = json!({"store": redis.url(), "gateway": gateway});
    json!({"mcpServers": {"notes": {"url": notes.url}}, "toolwire": toolwire})
}

/// Returns a command with the configuration and the environment of a gateway.
fn toolwire(folder: &Path, arguments: &[&str]) -> Command {
    let serve = command(&folder.to_owned(), &[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Visits the login page of a server and follows its redirects, as an account.
async fn visit(page: &str, account: &str) -> String {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let response = client.get(page).header("x-account", account).send().await.unwrap();
    let callback = response.headers()["location"].to_str().unwrap().to_owned();
    client.get(callback).send().await.unwrap().text().await.unwrap()
}

/// Runs `toolwire login notes`, and returns what it prints.
async fn log_in(folder: &Path, account: &str) -> (String, String) {
    let mut login = toolwire(folder, &["login", "notes"]);
    let mut login = login.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(login.stderr.take().unwrap()).lines().map(Result::unwrap);
    let page = lines.find_map(|line| Some(format!("http{}", line.strip_prefix("  http")?))).unwrap();
    let done = visit(&page, account).await;
    assert!(done.contains("Logged in."), "{done}");
    let rest: Vec<String> = lines.collect();
    let output = login.wait_with_output().unwrap();
    assert!(output.status.success(), "{rest:?}");
    (String::from_utf8(output.stdout).unwrap(), rest.join("\n"))
}

fn doctor(folder: &Path) -> String {
    String::from_utf8(toolwire(folder, &["doctor"]).output().unwrap().stdout).unwrap()
}

/// Logs in on the page of a gateway.
async fn log_in_on_page(served: &Served, account: &str) {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let form = client.post(format!("{}/sign-in", served.url)).header("origin", &served.url);
    let form = form.header("content-type", "application/x-www-form-urlencoded").body(format!("key={ADMIN}"));
    let session = form.header("accept", "text/html").send().await.unwrap();
    let cookie = session.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let started = client.get(format!("{}/servers/notes/sign-in", served.url)).header("cookie", cookie);
    let started = started.header("accept", "text/html").send().await.unwrap();
    let page = started.headers()["location"].to_str().unwrap().to_owned();
    assert!(page.contains("/authorize?"), "{page}");
    let done = visit(&page, account).await;
    assert!(done.contains("Logged in."), "{done}");
}

async fn client(served: &Served) -> McpClient {
    McpClient::connect(&served.url, Some(ADMIN), "2025-11-25").await
}

/// Repeats an action until it has this result.
async fn until<T: PartialEq>(expected: T, mut action: impl AsyncFnMut() -> T) {
    let waiting = async {
        while action().await != expected {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), waiting).await.expect("the expected result");
}

async fn is_listed(client: &McpClient, tool: &str) -> bool {
    client.tool_names().await.iter().any(|name| name == tool)
}

/// Calls the tool that returns the account of the login; `None` if the call fails.
async fn account(client: &McpClient, nonce: usize) -> Option<String> {
    let result = client.call("whoami", json!({"nonce": nonce.to_string()})).await;
    let text = result["content"][0]["text"].as_str()?;
    text.strip_suffix(&format!(" {nonce}")).map(str::to_owned)
}

/// A login at one gateway, or with the command, is used by all of them without a restart. Their refreshes
/// never use a refresh token twice, and a logout ends the login everywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_is_shared_by_all_gateways() {
    toolwire_testkit::install_tls_provider();
    let (redis, notes) = (RedisServer::start(), AccountServer::start_rotating(LIFETIME).await);
    let config = config(&notes, &redis, Some(SECRET));
    let folders =
        ["one", "two", "commands"].map(|name| folder(&format!("shared-logins-{name}"), Some(&config)));
    let gateways = [serve(&folders[0], &[]), serve(&folders[1], &[])];
    let (one, two) = (client(&gateways[0]).await, client(&gateways[1]).await);
    for client in [&one, &two] {
        assert!(!is_listed(client, "whoami").await);
    }

    log_in_on_page(&gateways[0], "alice").await;
    for client in [&one, &two] {
        until(true, async || is_listed(client, "only_alice").await).await;
    }
    let mut nonce = 0;
    until(true, async || {
        let calls = [&one, &two, &one, &two].map(|client| {
            nonce += 1;
            account(client, nonce)
        });
        let accounts = futures::future::join_all(calls).await;
        assert!(accounts.iter().all(|account| account.as_deref() == Some("alice")), "{accounts:?}");
        notes.record().token_requests > 6
    })
    .await;
    assert_eq!(notes.record().reused, Vec::<String>::new());

    // The tokens are in Redis, encrypted, and in no file.
    let keys = redis.command(&["KEYS", "toolwire:{servers:oauth_*}:state"]);
    let [key] = keys.lines().collect::<Vec<_>>()[..] else { panic!("{keys}") };
    let stored = redis.command(&["GET", key]);
    assert!(stored.starts_with("1.") && !stored.contains("secret-"), "{stored}");
    for folder in &folders {
        assert!(!folder.join("data/toolwire/tokens").exists());
    }

    assert!(doctor(&folders[2]).contains("logins  stored in Redis for all gateways"));

    // A gateway that starts later needs no login.
    let later = serve(&folders[2], &[]);
    let three = client(&later).await;
    until(true, async || is_listed(&three, "only_alice").await).await;

    let logout = toolwire(&folders[2], &["logout", "notes"]).output().unwrap();
    assert_eq!(String::from_utf8(logout.stdout).unwrap(), "logged out of `notes`\n");
    for client in [&two, &three] {
        until(None, async || account(client, 0).await).await;
    }
    // At the first gateway, a login was allowed on the page: a call waits for it, and continues with a login
    // elsewhere.
    let (waiting, (stdout, _)) = futures::join!(account(&one, 0), log_in(&folders[2], "bob"));
    assert_eq!((waiting.as_deref(), stdout.as_str()), (Some("bob"), "logged in to `notes`\n"));
    for client in [&one, &two, &three] {
        until(Some("bob".to_owned()), async || account(client, 0).await).await;
    }
    assert_eq!(notes.record().reused, Vec::<String>::new());
}

/// `toolwire login` reaches gateways that wait for a login.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_logs_in_for_running_gateways() {
    toolwire_testkit::install_tls_provider();
    let (mut redis, notes) = (RedisServer::start(), AccountServer::start_rotating(LIFETIME).await);
    let config = config(&notes, &redis, Some(SECRET));
    let folders = ["three", "four"].map(|name| folder(&format!("shared-logins-{name}"), Some(&config)));
    let served = serve(&folders[0], &[]);
    let client = client(&served).await;
    assert!(!is_listed(&client, "whoami").await);
    let (_, stderr) = log_in(&folders[1], "alice").await;
    assert!(!stderr.contains("on this machine only"), "{stderr}");
    until(true, async || is_listed(&client, "only_alice").await).await;

    // Without Redis, a token that has expired is not refreshed, because another gateway may do the same.
    until(Some("alice".to_owned()), async || account(&client, 0).await).await;
    redis.kill();
    let refreshes = notes.record().token_requests;
    until(true, async || {
        let hint = toolwire(&folders[1], &["tools"]).output().unwrap();
        String::from_utf8_lossy(&hint.stderr).contains("its stored token cannot be read")
    })
    .await;
    assert_eq!(notes.record().token_requests, refreshes);
    assert_eq!(notes.record().reused, Vec::<String>::new());
}

/// Without a secret, tokens are not stored in Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_without_a_secret_stays_on_its_machine() {
    toolwire_testkit::install_tls_provider();
    let (redis, notes) = (RedisServer::start(), AccountServer::start(true).await);
    let folder = folder("local-login", Some(&config(&notes, &redis, None)));
    let (stdout, stderr) = log_in(&folder, "alice").await;
    assert_eq!(stdout, "logged in to `notes`\n");
    assert!(stderr.contains("the login is stored on this machine only"), "{stderr}");
    assert!(stderr.contains("set `toolwire.gateway.credentialKey`"), "{stderr}");
    assert!(folder.join("data/toolwire/tokens").exists());
    assert_eq!(redis.command(&["KEYS", "*oauth*"]), "");
    assert!(doctor(&folder).contains("logins  stored on this machine only"));
    // A login of this machine reaches its running gateway too.
    let logout = toolwire(&folder, &["logout", "notes"]).output().unwrap();
    assert!(logout.status.success());
    let served = serve(&folder, &[]);
    let client = client(&served).await;
    assert!(!is_listed(&client, "whoami").await);
    log_in(&folder, "bob").await;
    until(true, async || is_listed(&client, "only_bob").await).await;
}

#[test]
fn a_short_secret_is_refused_by_every_command() {
    let store = "redis://127.0.0.1:1/";
    let toolwire_keys = json!({"store": store, "gateway": {"credentialKey": "short"}});
    let config =
        json!({"mcpServers": {"notes": {"url": "http://127.0.0.1:1/mcp"}}, "toolwire": toolwire_keys});
    let folder = folder("short-secret", Some(&config));
    let output = toolwire(&folder, &["login", "notes"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("`toolwire.gateway.credentialKey` has 5 bytes"), "{stderr}");
}
