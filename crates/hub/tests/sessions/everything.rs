//! `server-everything`, the reference server of the old era.

use serde_json::{Value, json};
use toolwire_hub::{Era, HttpKind, Session};

use crate::support::{call, connect, everything, http, listen_everything};

async fn check_session(session: &Session) {
    assert_eq!(session.facts().era, Era::Legacy);
    assert_eq!(session.facts().protocol, "2025-11-25");
    assert_eq!(session.facts().server_info["name"], "mcp-servers/everything");
    let listing = session.list_tools().await.unwrap();
    let names: Vec<&str> = listing.tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"echo") && names.contains(&"get-structured-content"), "{names:?}");
    assert!(listing.left_out.is_empty() && listing.cut.is_none());
    let result = call(session, "echo", json!({ "message": "hello" })).await;
    assert_eq!(result, json!({ "content": [{ "type": "text", "text": "Echo: hello" }] }));
    let noise = session.noise();
    assert_eq!((noise.unreadable, noise.strays, noise.oversized), (0, 0, 0), "{noise:?}");
}

#[tokio::test]
async fn over_stdio() {
    let session = connect(&everything()).await;
    check_session(&session).await;
    session.close().await;
}

#[tokio::test]
async fn over_streamable_http() {
    let server = listen_everything("streamableHttp", "/mcp", None).await;
    let session = connect(&http(server.url.clone(), HttpKind::Auto)).await;
    check_session(&session).await;
    session.close().await;
}

#[tokio::test]
async fn over_the_older_http() {
    let server = listen_everything("sse", "/sse", None).await;
    for kind in [HttpKind::Sse, HttpKind::Auto] {
        let session = connect(&http(server.url.clone(), kind)).await;
        check_session(&session).await;
        session.close().await;
    }
}

#[tokio::test]
async fn tools_keep_all_their_fields() {
    let session = connect(&everything()).await;
    let tools = session.list_tools().await.unwrap().tools;
    let long = tools.iter().find(|tool| tool["name"] == "simulate-research-query");
    println!("{}", serde_json::to_string_pretty(&tools).unwrap());
    assert!(long.is_none_or(|tool| tool.get("execution").is_some_and(Value::is_object)), "{long:?}");
    session.close().await;
}
