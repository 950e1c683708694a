//! An agent with three kinds of toolboxes: functions, a server in the same process, and a hub of MCP servers.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use serde_json::json;
use toolwire_agent::approval::ApprovalPolicy;
use toolwire_agent::{Agent, Ending, Functions};
use toolwire_contract::toolbox::{CallOptions, Toolbox};
use toolwire_contract::{Block, Content, Tool, ToolResult};
use toolwire_hub::{Config, Hub, HubOptions};
use toolwire_testkit::{ScriptedModel, ScriptedTurn};
use toolwire_toolkit::transport::{HttpOptions, serve_http};
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

/// Delete a document.
#[tool(explicit = "DELETE_DOCUMENT")]
async fn delete_document(
    /// The name of the document
    name: String,
) -> Outcome<String> {
    Outcome::ok(name)
}

#[tokio::test]
async fn a_call_without_consent_gets_the_response_of_the_server() {
    let server = Server::builder("documents").prefix("").tool(delete_document).build().unwrap();
    let serving = serve_http(server, "127.0.0.1:0".parse().unwrap(), HttpOptions::default()).await.unwrap();
    let servers = json!({"mcpServers": {"documents": {"url": serving.url()}}});
    let (config, _) = Config::parse(&servers.to_string(), "mcp.json".as_ref(), &|_| None).unwrap();
    let hub = Hub::connect(&config, HubOptions::default()).await;
    let call = async |arguments| hub.call("delete_document", &arguments, CallOptions::default()).await;
    for arguments in [json!({"name": "plan"}), json!({"name": "plan", "explicit_action": "delete_document"})]
    {
        let result = call(arguments).await.unwrap();
        let response = result.structured_content.unwrap();
        assert_eq!(response["error_type"], "explicit_action_required", "{response}");
        assert!(response["instruction"].as_str().unwrap().contains("ask for explicit consent"), "{response}");
    }
    let consented = json!({"name": "plan", "explicit_action": "DELETE_DOCUMENT"});
    assert_eq!(call(consented).await.unwrap().structured_content.unwrap()["value"], "plan");
    let error = call(json!({})).await.unwrap_err().to_string();
    assert!(error.contains("\"name\"") && !error.contains("explicit_action"), "{error}");
    hub.close().await;
}
