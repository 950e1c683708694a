//! Shell servers, each with one misbehaviour.

use std::time::Duration;

use serde_json::{Map, json};

use super::support::{
    Connector, RESPOND_DONE, TEST_TIMEOUT, call, connect, options, shell, shell_script, shell_server, stdio,
};
use crate::config::Transport;
use crate::session::{ConnectFailure, ProtocolEra, SessionCall, SessionError, SessionEvent};
use crate::transport::ConnectionEnd;

async fn failure(script: &str) -> ConnectFailure {
    let connector = Connector { timeout: Duration::from_secs(20), ..Connector::default() };
    connector.connect_error(&shell(script)).await
}

#[tokio::test]
async fn a_missing_command_is_a_permanent_error() {
    let error = Connector::default().connect_error(&stdio("no-such-server", &[])).await.error;
    assert!(error.to_string().starts_with("command `no-such-server` not found in `"), "{error}");
    assert!(error.is_permanent());
}

#[tokio::test]
async fn an_immediate_exit_is_reported_with_its_stderr() {
    let failure = failure("echo 'no key given' >&2; exit 3").await;
    assert_eq!(failure.error.to_string(), "the process exited with code 3 before the session started");
    assert_eq!(failure.stderr, ["no key given"]);
}

#[tokio::test]
async fn a_server_that_rejects_both_handshakes_is_reported() {
    let script = r#"while read -r line; do
        id=${line#*'"id":'}; id=${id%%[,\}]*}
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"closed today"}}\n' "$id"
    done"#;
    let error = failure(script).await.error;
    assert_eq!(error.to_string(), "the server rejected the session: closed today (code -32000)");
}

#[tokio::test]
async fn a_server_that_ignores_discovery_is_legacy() {
    let script = shell_script("", RESPOND_DONE).replace("server/discover", "never/sent");
    let session = connect(&shell(&script)).await;
    assert_eq!(session.info().era, ProtocolEra::Legacy);
    assert_eq!(session.info().protocol, "2025-06-18");
    session.close().await;
}

/// A server that supports only the modern era. The command `first` runs at the start, and `discover` before
/// the response to `server/discover`.
fn modern(first: &str, discover: &str) -> Transport {
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
async fn a_modern_server_may_start_slowly() {
    let session = connect(&modern("sleep 3", "")).await;
    assert_eq!(session.info().era, ProtocolEra::Modern);
    call(&session, "one", json!({})).await;
    session.close().await;
}

#[tokio::test]
async fn a_modern_server_may_respond_slowly_to_discovery() {
    let session = connect(&modern("", "sleep 3")).await;
    assert_eq!(session.info().era, ProtocolEra::Modern);
    call(&session, "one", json!({})).await;
    session.close().await;
}

#[tokio::test]
async fn subscribers_are_notified_of_changed_tools() {
    let (session, mut events) = Connector::default().connect(&modern("", "")).await.unwrap();
    let event = tokio::time::timeout(TEST_TIMEOUT, events.recv()).await.unwrap();
    assert_eq!(event, Some(SessionEvent::ToolsChanged));
    session.close().await;
}

#[tokio::test]
async fn an_outdated_known_era_is_corrected() {
    let connector = Connector { era: Some(ProtocolEra::Modern), ..Connector::default() };
    let (session, _) = connector.connect(&shell_server("", RESPOND_DONE)).await.unwrap();
    assert_eq!(session.info().era, ProtocolEra::Legacy);
    session.close().await;
}

#[tokio::test]
async fn output_between_messages_is_ignored() {
    let session =
        connect(&shell_server("echo starting…", &format!("echo working; echo; {RESPOND_DONE}"))).await;
    call(&session, "one", json!({})).await;
    let ignored = session.ignored_output();
    assert_eq!((ignored.unreadable, ignored.last_unreadable.as_deref()), (2, Some("working")));
    session.close().await;
}

#[tokio::test]
async fn unexpected_responses_are_ignored() {
    let twice = format!("{RESPOND_DONE}; {RESPOND_DONE}; id=999; {RESPOND_DONE}");
    let session = connect(&shell_server("", &twice)).await;
    for _ in 0..3 {
        call(&session, "one", json!({})).await;
    }
    session.list_tools().await.unwrap();
    assert_eq!(session.ignored_output().unexpected, 6);
    session.close().await;
}

#[tokio::test]
async fn an_exit_during_a_call_ends_the_session() {
    let session = connect(&shell_server("", "echo 'out of memory' >&2; exit 137")).await;
    let error = session.call("one", Map::new(), options()).await.unwrap_err();
    assert_eq!(error.to_string(), "the process exited with code 137");
    assert!(error.may_have_run() && error.ends_session());
    assert_eq!(session.stderr_tail(), ["out of memory"]);
    let second_error = session.call("one", Map::new(), options()).await.unwrap_err();
    assert!(!second_error.may_have_run(), "{second_error:?}");
    assert_eq!(session.ended().await, ConnectionEnd::Exited { how: "exited with code 137".into() });
    session.close().await;
}

#[tokio::test]
async fn a_response_before_an_exit_is_received() {
    let session = connect(&shell_server("", &format!("{RESPOND_DONE}; exit 0"))).await;
    call(&session, "one", json!({})).await;
    assert_eq!(session.ended().await, ConnectionEnd::Exited { how: "exited with code 0".into() });
    session.close().await;
}

#[tokio::test]
async fn a_closed_stdout_ends_the_session() {
    let session = connect(&shell_server("", "exec >&-; sleep 1000")).await;
    let error = session.call("one", Map::new(), options()).await.unwrap_err();
    assert!(matches!(error, SessionError::Disconnected { end: ConnectionEnd::StdoutClosed }), "{error:?}");
    session.close().await;
}

#[tokio::test]
async fn a_call_without_a_response_times_out() {
    let session = connect(&shell_server("", ":")).await;
    let options = SessionCall { timeout: Duration::from_millis(300), ..options() };
    let error = session.call("one", Map::new(), options).await.unwrap_err();
    assert_eq!(error.to_string(), "no response within 300ms");
    session.close().await;
}

#[tokio::test]
async fn servers_are_notified_of_cancelled_calls() {
    let echo =
        r#"case $line in *'"name":"last"'*) respond "{\"content\":[],\"cancelled\":\"$cancelled\"}" ;; esac"#;
    let record = r#"*'"method":"notifications/cancelled"'*) cancelled=${line#*'"requestId":'}; cancelled=${cancelled%%[,\}]*} ;;
                *'"method":"tools/list"'*)"#;
    let script = shell_script("", echo).replacen(r#"*'"method":"tools/list"'*)"#, record, 1);
    let session = connect(&shell(&script)).await;
    let dropped = session.call("first", Map::new(), options());
    assert!(tokio::time::timeout(Duration::from_millis(300), dropped).await.is_err());
    // The notification is sent separately, so it may arrive after a later call.
    let notified = async {
        loop {
            let result = call(&session, "last", json!({})).await;
            if result["cancelled"] != "" {
                return result;
            }
        }
    };
    let result = tokio::time::timeout(TEST_TIMEOUT, notified).await.unwrap();
    let number: i64 = result["cancelled"].as_str().unwrap().parse().unwrap();
    assert!(number > 0, "{result:#}");
    session.close().await;
}

#[tokio::test]
async fn a_flood_of_notifications_does_not_block_calls() {
    let flood = r#"i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'; echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'; done"#;
    let server = shell_server("", &format!("{flood}; {RESPOND_DONE}"));
    let (session, mut events) = Connector::default().connect(&server).await.unwrap();
    call(&session, "one", json!({})).await;
    assert_eq!(events.recv().await, Some(SessionEvent::ToolsChanged));
    session.close().await;
}

#[tokio::test]
async fn an_oversized_result_fails_and_a_large_result_is_received() {
    let large = |kilobytes: usize| {
        format!(
            r#"printf '{{"result":{{"content":[{{"type":"text","text":"'; head -c {}000 /dev/zero | tr '\0' x; printf '"}}]}},"jsonrpc":"2.0","id":%s}}\n' "$id""#,
            kilobytes
        )
    };
    let script = format!("case $line in *huge*) {} ;; *) {} ;; esac", large(70_000), large(50_000));
    let session = connect(&shell_server("", &script)).await;
    let error = session.call("huge", Map::new(), options()).await.unwrap_err();
    assert_eq!(error.to_string(), "the response is longer than 67108864 bytes");
    let result = call(&session, "large", json!({})).await;
    assert_eq!(result["content"][0]["text"].as_str().map(str::len), Some(50_000_000));
    assert_eq!(session.ignored_output().oversized, 1);
    session.close().await;
}

#[tokio::test]
async fn a_loop_of_pages_ends() {
    let script = shell_script("", RESPOND_DONE).replace(r#"}}]}'"#, r#"}}],"nextCursor":"again"}'"#);
    let session = connect(&shell(&script)).await;
    let listing = session.list_tools().await.unwrap();
    assert_eq!(listing.tools.len(), 2);
    assert_eq!(listing.incomplete.as_deref(), Some("the server returned the cursor `again` twice"));
    session.close().await;
}

#[tokio::test]
async fn requests_before_the_session_starts_get_a_response() {
    // The server waits for each response before it continues.
    let ask = r#"
        ask() { printf '{"jsonrpc":"2.0","id":"early","method":"%s"}\n' "$1"; read -r early; echo "$early" >&2; }
    "#;
    let before = |method: &str| {
        format!("*'\"method\":\"{method}\"'*) ask ping; ask roots/list; ask sampling/createMessage; ")
    };
    let script = shell_script(ask, RESPOND_DONE);
    let script = ["server/discover", "initialize"].iter().fold(script, |script, method| {
        script.replace(&format!("*'\"method\":\"{method}\"'*) "), &before(method))
    });
    let session = connect(&shell(&script)).await;
    call(&session, "one", json!({})).await;
    let lines = session.stderr_tail();
    let responses = [
        r#"{"jsonrpc":"2.0","id":"early","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"early","result":{"roots":[]}}"#,
        r#"{"jsonrpc":"2.0","id":"early","error":{"code":-32600,"message":"the session has not started"}}"#,
    ];
    assert_eq!(lines, responses.repeat(2));
    session.close().await;
}

#[tokio::test]
async fn a_server_that_floods_stdout_is_reported() {
    let check = async |script: &str, expected: &str| {
        // Long enough for a busy machine.
        let connector = Connector { timeout: Duration::from_secs(8), ..Connector::default() };
        let failure = connector.connect_error(&shell(script)).await;
        assert_eq!(failure.error.to_string(), "the server was not ready within 8s");
        let hint = failure.hint().unwrap();
        assert!(hint.starts_with(&format!("it wrote {expected}")), "{hint}");
    };
    tokio::join!(
        check("exec yes starting", "lines that are not messages ("),
        check("exec cat /dev/zero", "a line that does not end to stdout"),
    );
}

#[tokio::test]
async fn mistakes_in_a_command_have_their_own_hints() {
    let hint =
        async |transport: &Transport| Connector::default().connect_error(transport).await.hint().unwrap();
    assert_eq!(hint(&stdio(".", &[])).await, "set `command` to a program in the directory");
    assert_eq!(hint(&stdio(" npx", &[])).await, "remove the spaces at the start and the end of `command`");
    let mut in_file = stdio("sh", &[]);
    if let Transport::Stdio { cwd, .. } = &mut in_file {
        *cwd = Some("/etc/passwd".into());
    }
    assert_eq!(hint(&in_file).await, "set `cwd` to a directory");
    let missing =
        failure("echo \"npm error 404  'nope@*' is not in this registry.\" >&2; echo later >&2; exit 1")
            .await;
    assert_eq!(missing.hint().unwrap(), "check the name of the package in `args`");
}
