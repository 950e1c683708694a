use futures::{FutureExt as _, StreamExt as _};
use serde_json::json;

use super::*;

/// A pool with one server, which does not respond and gets a header of each user.
fn pool() -> (UserPool, Config) {
    let server = json!({"url": "http://127.0.0.1:1/mcp", "auth": "per-user", "forwardHeaders": ["x-token"]});
    let text = json!({"mcpServers": {"notes": server}}).to_string();
    let (config, _) =
        Config::parse(&text, std::path::Path::new("mcp.json"), &|_| None).expect("a valid configuration");
    let place = LoginPlace::new(None, None, None).expect("no settings");
    (UserPool::new(&config, &HubOptions::default(), place).expect("a valid configuration"), config)
}

fn user(id: &str) -> ServerUser {
    ServerUser::new(id, vec![("x-token".to_owned(), Secret::new(id))])
}

#[tokio::test]
async fn a_change_of_the_server_of_one_user_is_reported_to_this_user() {
    let (pool, config) = pool();
    let (mut alice, mut bob) = (pool.changes_of("key_a"), pool.changes_of("key_b"));
    // The list of the tools starts the connection, whose status changes.
    for (_, server) in pool.servers(&user("key_a")) {
        server.tools();
    }
    assert_eq!(alice.next().await, Some(()));
    assert_eq!(bob.next().now_or_never(), None);
    // A new configuration concerns all users.
    pool.reconfigure(&config);
    assert_eq!(bob.next().now_or_never(), Some(Some(())));
    drop((alice, bob));
    pool.pool.close_idle(Instant::now());
    assert!(pool.pool.changes().is_empty(), "no client receives changes");
}

#[tokio::test]
async fn each_configuration_has_another_version() {
    let (pool, config) = pool();
    let before = pool.version();
    pool.reconfigure(&config);
    assert!(pool.version() > before);
}
