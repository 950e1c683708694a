//! Servers in shell that do it wrong, each in one way.

use std::time::Duration;

use serde_json::{Map, json};
use toolwire_hub::{CallOptions, ConnectError, Ending, Era, SessionError, SessionEvent, Target};

use crate::support::{Connecting, DONE, PATIENCE, call, connect, shell, shell_server, stdio};

async fn failure(script: &str) -> ConnectError {
    let connecting = Connecting { timeout: Duration::from_secs(20), ..Connecting::default() };
    connecting.to(&shell(script)).await.err().unwrap()
}

#[tokio::test]
async fn a_command_that_does_not_exist() {
    let error = Connecting::default().to(&stdio("no-such-server", &[])).await.err().unwrap();
    assert!(error.to_string().starts_with("there is no command `no-such-server` in `"), "{error}");
    assert!(error.is_permanent());
}

#[tokio::test]
async fn it_exits_at_once() {
    let error = failure("echo 'no key given' >&2; exit 3").await;
    assert_eq!(error.to_string(), "the process ended with exit code 3 before the session began");
    assert_eq!(error.stderr(), ["no key given"]);
}

#[tokio::test]
async fn it_refuses_both_handshakes() {
    let script = r#"while read -r line; do
        id=${line#*'"id":'}; id=${id%%[,\}]*}
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"closed today"}}\n' "$id"
    done"#;
    let error = failure(script).await;
    assert_eq!(error.to_string(), "the server refused the session: closed today (code -32000)");
}

#[tokio::test]
async fn it_is_silent_about_discovery() {
    let target = shell_server("", DONE);
    let Target::Stdio { args, .. } = target else { unreachable!() };
    let script = args[1].replace("server/discover", "never/heard");
    let session = connect(&shell(&script)).await;
    assert_eq!(session.facts().era, Era::Legacy);
    assert_eq!(session.facts().protocol, "2025-06-18");
    session.close().await;
}

/// A server of the new era, and of no other. `first` runs at the start, `discover` before it is discovered.
fn modern(first: &str, discover: &str) -> Target {
    let script = r#"FIRST
    say() { printf '{"jsonrpc":"2.0",%s}\n' "$1"; }
    while read -r line; do
        id=${line#*'"id":'}; id=${id%%[,\}]*}
        case $line in
            *'"method":"server/discover"'*) DISCOVER
                say "\"id\":$id,\"result\":{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{\"listChanged\":true}},\"ttlMs\":0,\"cacheScope\":\"private\"}" ;;
            *'"method":"subscriptions/listen"'*)
                meta="\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":$id}"
                say "\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{$meta,\"notifications\":{\"toolsListChanged\":true}}"
                say "\"method\":\"notifications/tools/list_changed\",\"params\":{$meta}" ;;
            *'"method":"tools/call"'*) say "\"id\":$id,\"result\":{\"resultType\":\"complete\",\"content\":[]}" ;;
            *'"id":'*) say "\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"unknown\"}" ;;
        esac
    done"#;
    shell(&script.replace("FIRST", first).replace("DISCOVER", discover))
}

#[tokio::test]
async fn it_is_of_the_new_era_but_slow_to_start() {
    let session = connect(&modern("sleep 3", "")).await;
    assert_eq!(session.facts().era, Era::Modern);
    call(&session, "one", json!({})).await;
    session.close().await;
}

#[tokio::test]
async fn it_is_of_the_new_era_but_slow_to_say_so() {
    let session = connect(&modern("", "sleep 3")).await;
    assert_eq!(session.facts().era, Era::Modern);
    call(&session, "one", json!({})).await;
    session.close().await;
}

#[tokio::test]
async fn changes_of_its_tools_come_by_subscription() {
    let (session, mut events) = Connecting::default().to(&modern("", "")).await.unwrap();
    let told = tokio::time::timeout(PATIENCE, events.recv()).await.unwrap();
    assert_eq!(told, Some(SessionEvent::ToolsChanged));
    session.close().await;
}

#[tokio::test]
async fn what_was_remembered_of_it_is_out_of_date() {
    let connecting = Connecting { era: Some(Era::Modern), ..Connecting::default() };
    let (session, _) = connecting.to(&shell_server("", DONE)).await.unwrap();
    assert_eq!(session.facts().era, Era::Legacy);
    session.close().await;
}

#[tokio::test]
async fn it_prints_between_its_messages() {
    let session = connect(&shell_server("echo starting…", &format!("echo working; echo; {DONE}"))).await;
    call(&session, "one", json!({})).await;
    let noise = session.noise();
    assert_eq!((noise.unreadable, noise.last.as_deref()), (2, Some("working")));
    session.close().await;
}

#[tokio::test]
async fn it_answers_twice_and_what_was_not_asked() {
    let twice = format!("{DONE}; {DONE}; id=999; {DONE}");
    let session = connect(&shell_server("", &twice)).await;
    for _ in 0..3 {
        call(&session, "one", json!({})).await;
    }
    session.list_tools().await.unwrap();
    assert_eq!(session.noise().strays, 6);
    session.close().await;
}

#[tokio::test]
async fn it_exits_during_a_call() {
    let session = connect(&shell_server("", "echo 'out of memory' >&2; exit 137")).await;
    let error = session.call("one", Map::new(), CallOptions::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "the process ended with exit code 137");
    assert!(error.may_have_run() && error.is_lost());
    assert_eq!(session.stderr_tail(), ["out of memory"]);
    let again = session.call("one", Map::new(), CallOptions::default()).await.unwrap_err();
    assert!(!again.may_have_run(), "{again:?}");
    assert_eq!(session.closed().await, Ending::Exited { how: "exit code 137".into() });
    session.close().await;
}

#[tokio::test]
async fn it_answers_and_exits() {
    let session = connect(&shell_server("", &format!("{DONE}; exit 0"))).await;
    call(&session, "one", json!({})).await;
    assert_eq!(session.closed().await, Ending::Exited { how: "exit code 0".into() });
    session.close().await;
}

#[tokio::test]
async fn it_closes_its_output_but_lives_on() {
    let session = connect(&shell_server("", "exec >&-; sleep 1000")).await;
    let error = session.call("one", Map::new(), CallOptions::default()).await.unwrap_err();
    assert!(matches!(error, SessionError::Disconnected { ending: Ending::StdoutClosed }), "{error:?}");
    session.close().await;
}

#[tokio::test]
async fn it_never_answers_a_call() {
    let session = connect(&shell_server("", ":")).await;
    let options = CallOptions { timeout: Duration::from_millis(300), ..CallOptions::default() };
    let error = session.call("one", Map::new(), options).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer within 300ms");
    session.close().await;
}

#[tokio::test]
async fn it_is_told_of_calls_that_are_given_up() {
    let echo =
        r#"case $line in *'"name":"last"'*) answer "{\"content\":[],\"cancelled\":\"$cancelled\"}" ;; esac"#;
    let target = shell_server("", echo);
    let Target::Stdio { args, .. } = target else { unreachable!() };
    let noted = r#"*'"method":"notifications/cancelled"'*) cancelled=${line#*'"requestId":'}; cancelled=${cancelled%%[,\}]*} ;;
                *'"method":"tools/list"'*)"#;
    let script = args[1].replacen(r#"*'"method":"tools/list"'*)"#, noted, 1);
    let session = connect(&shell(&script)).await;
    let dropped = session.call("first", Map::new(), CallOptions::default());
    assert!(tokio::time::timeout(Duration::from_millis(300), dropped).await.is_err());
    // The notification goes its own way, so it may come after a call that was made later.
    let told = async {
        loop {
            let result = call(&session, "last", json!({})).await;
            if result["cancelled"] != "" {
                return result;
            }
        }
    };
    let result = tokio::time::timeout(PATIENCE, told).await.unwrap();
    let number: i64 = result["cancelled"].as_str().unwrap().parse().unwrap();
    assert!(number > 0, "{result:#}");
    session.close().await;
}

#[tokio::test]
async fn it_floods_us_with_notifications() {
    let flood = r#"i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'; echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'; done"#;
    let connecting = Connecting::default();
    let (session, mut events) = connecting.to(&shell_server("", &format!("{flood}; {DONE}"))).await.unwrap();
    call(&session, "one", json!({})).await;
    assert_eq!(events.recv().await, Some(SessionEvent::ToolsChanged));
    session.close().await;
}

#[tokio::test]
async fn it_sends_a_result_that_is_too_long_and_one_that_is_large() {
    let large = |kilobytes: usize| {
        format!(
            r#"printf '{{"result":{{"content":[{{"type":"text","text":"'; head -c {}000 /dev/zero | tr '\0' x; printf '"}}]}},"jsonrpc":"2.0","id":%s}}\n' "$id""#,
            kilobytes
        )
    };
    let script = format!("case $line in *huge*) {} ;; *) {} ;; esac", large(70_000), large(50_000));
    let session = connect(&shell_server("", &script)).await;
    let error = session.call("huge", Map::new(), CallOptions::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "the answer is longer than 67108864 bytes");
    let result = call(&session, "large", json!({})).await;
    assert_eq!(result["content"][0]["text"].as_str().map(str::len), Some(50_000_000));
    assert_eq!(session.noise().oversized, 1);
    session.close().await;
}

#[tokio::test]
async fn its_pages_run_in_circles() {
    let target = shell_server("", DONE);
    let Target::Stdio { args, .. } = target else { unreachable!() };
    let script = args[1].replace(r#"}}]}'"#, r#"}}],"nextCursor":"again"}'"#);
    let session = connect(&shell(&script)).await;
    let listing = session.list_tools().await.unwrap();
    assert_eq!(listing.tools.len(), 2);
    assert_eq!(listing.cut.as_deref(), Some("the server gave the cursor `again` twice"));
    session.close().await;
}
