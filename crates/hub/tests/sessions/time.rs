//! `mcp-server-time`, which speaks the new era.

use serde_json::json;
use toolwire_hub::Era;

use crate::support::{Connecting, call, connect, time};

#[tokio::test]
async fn a_server_of_the_new_era_is_found_out() {
    let session = connect(&time()).await;
    assert_eq!(session.facts().era, Era::Modern);
    assert_eq!(session.facts().protocol, "2026-07-28");
    let listing = session.list_tools().await.unwrap();
    let names: Vec<&str> = listing.tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["get_current_time", "convert_time"]);
    let result = call(&session, "get_current_time", json!({ "timezone": "Europe/Warsaw" })).await;
    assert!(result["content"][0]["text"].as_str().unwrap().contains("Europe/Warsaw"));
    session.close().await;
}

#[tokio::test]
async fn either_era_can_be_remembered() {
    for era in [Era::Legacy, Era::Modern] {
        let connecting = Connecting { era: Some(era), ..Connecting::default() };
        let (session, _) = connecting.to(&time()).await.unwrap();
        assert_eq!(session.facts().era, era);
        call(&session, "get_current_time", json!({ "timezone": "UTC" })).await;
        session.close().await;
    }
}
