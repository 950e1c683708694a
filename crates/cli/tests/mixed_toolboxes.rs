//! An agent with three kinds of toolboxes: functions, a server in the same process, and a hub of MCP servers.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use serde_json::json;
use toolwire_agent::{Agent, ApprovalPolicy, Ending, Functions};
use toolwire_contract::{Block, Content, Tool, ToolResult};
use toolwire_hub::{Config, Hub, HubOptions};
use toolwire_testkit::{ScriptedModel, ScriptedTurn};
use toolwire_toolkit::{Outcome, Server, tool};

/// Measure how loud a room is.
#[tool(read_only)]
async fn loudness(
    /// The room
    room: String,
) -> Outcome<u32> {
    Outcome::ok(u32::try_from(room.len()).unwrap())
}

#[tokio::test]
async fn one_step_can_call_tools_of_every_kind_of_toolbox() {
    let functions =
        Functions::new().with(Tool::new("shout", json!({"type": "object"})), |_| async { "HELLO" });
    let server = Server::builder("rooms").prefix("").tool(loudness).build().unwrap();
    let servers =
        json!({"mcpServers": {"demo": {"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]}}});
    let (config, _) = Config::parse(&servers.to_string(), "mcp.json".as_ref(), &|_| None).unwrap();
    let hub = Arc::new(Hub::connect(&config, HubOptions::default()).await);

    let model = Arc::new(ScriptedModel::new([
        ScriptedTurn::calls([
            ("1", "shout", json!({})),
            ("2", "loudness", json!({"room": "attic"})),
            ("3", "calculate", json!({"operator": "add", "argument1": 25, "argument2": 17})),
            ("4", "loudness", json!({"room": 7})),
        ]),
        ScriptedTurn::text("Done."),
    ]));
    let agent = Agent::builder()
        .model(model.clone())
        .tools(Arc::new(functions))
        .tools(Arc::new(server))
        .tools(hub.clone())
        .approvals(ApprovalPolicy::allow_all())
        .build()
        .unwrap();
    let finished = agent.run("Use them all.").await;
    assert_eq!((finished.outcome.ending, &*finished.outcome.text), (Ending::Finished, "Done."));

    let results = model.requests()[1].messages[2].content.clone().into_iter().map(|block| match block {
        Block::Result { id, result } => (id, result),
        other => panic!("{other:?}"),
    });
    let results: Vec<(String, ToolResult)> = results.collect();
    let text = |result: &ToolResult| match &result.content.as_ref().unwrap()[0] {
        Content::Text { text, .. } => text.clone(),
        other => panic!("{other:?}"),
    };
    let ids: Vec<&str> = results.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["1", "2", "3", "4"]);
    assert_eq!(text(&results[0].1), "HELLO");
    assert_eq!(results[1].1.structured_content.as_ref().unwrap()["value"], 5);
    assert!(text(&results[2].1).contains("42"), "{:?}", results[2]);
    assert!(results[3].1.is_error == Some(true) && text(&results[3].1).contains("room"), "{:?}", results[3]);
    hub.close().await;
}
