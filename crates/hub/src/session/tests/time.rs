//! `mcp-server-time`, a modern server.

use serde_json::json;

use super::support::{Connector, call, connect, time_server};
use crate::session::ProtocolEra;

#[tokio::test]
async fn a_modern_server_is_detected() {
    let session = connect(&time_server()).await;
    assert_eq!(session.info().era, ProtocolEra::Modern);
    assert_eq!(session.info().protocol, "2026-07-28");
    let listing = session.list_tools().await.unwrap();
    let names: Vec<&str> = listing.tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["get_current_time", "convert_time"]);
    let result = call(&session, "get_current_time", json!({ "timezone": "Europe/Warsaw" })).await;
    assert!(result["content"][0]["text"].as_str().unwrap().contains("Europe/Warsaw"));
    session.close().await;
}

#[tokio::test]
async fn a_known_era_is_used() {
    for era in [ProtocolEra::Legacy, ProtocolEra::Modern] {
        let connector = Connector { era: Some(era), ..Connector::default() };
        let (session, _) = connector.connect(&time_server()).await.unwrap();
        assert_eq!(session.info().era, era);
        call(&session, "get_current_time", json!({ "timezone": "UTC" })).await;
        session.close().await;
    }
}
