//! Calls that servers continue as tasks, for clients of `/mcp`.

use serde_json::{Value, json};
use toolwire_toolkit::transport::{HttpOptions, serve_http};

use crate::mcp_client::McpClient;
use crate::mcp_official_clients::fixture;
use crate::{folder, serve};

const ONE: &str = "key-of-the-first-client-0123456789abcdef";
const OTHER: &str = "key-of-another-client-0123456789abcdef";

pub(crate) async fn connect(origin: &str, key: &str) -> McpClient {
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}});
    McpClient::connect_with(origin, Some(key), "2026-07-28", capabilities).await
}

/// Starts a task, and returns its id.
pub(crate) async fn start(client: &McpClient, tool: &str, arguments: Value) -> String {
    let task = client.call(tool, arguments).await;
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    assert!(task["pollIntervalMs"].is_u64() && task["ttlMs"].is_u64(), "{task}");
    task["taskId"].as_str().unwrap().to_owned()
}

/// Requests the status of a task until it is this one.
async fn status(client: &McpClient, id: &str, status: &str) -> Value {
    loop {
        let response = client.request("tasks/get", json!({"taskId": id})).await;
        let task = response["result"].clone();
        assert_eq!(task["taskId"], id, "{response}");
        if task["status"] == status {
            return task;
        }
        assert_eq!(task["status"], "working", "{task}");
    }
}

/// A task goes on when its gateway is killed; another gateway with the same session key knows it.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_survive_their_gateway() {
    let address = ([127, 0, 0, 1], 0).into();
    let upstream = serve_http(fixture::server(), address, HttpOptions::default()).await.unwrap();
    let gateway = json!({
        "keys": {"one": {"key": ONE}, "other": {"key": OTHER}},
        "sessionKey": "a-shared-secret-0123456789-abcdefgh",
        "screenResults": true,
    });
    let config =
        json!({"mcpServers": {"fixture": {"url": upstream.url()}}, "toolwire": {"gateway": gateway}});
    let mut first = serve(&folder("mcp-tasks-1", Some(&config)), &[]);
    let second = serve(&folder("mcp-tasks-2", Some(&config)), &[]);

    let client = connect(&first.url, ONE).await;
    let label = "a\u{1b}[2Jb";
    let task = start(&client, "slow_compute", json!({"seconds": 0.2, "label": label})).await;
    let endless = start(&client, "slow_compute", json!({"seconds": 600})).await;
    let asking = start(&client, "confirm_delete", json!({"filename": "x.txt"})).await;
    first.child.kill().unwrap();
    first.child.wait().unwrap();

    let client = connect(&second.url, ONE).await;
    let completed = status(&client, &task, "completed").await;
    assert_eq!(completed["result"]["content"][0]["text"], "computed a\u{fffd}[2Jb", "the result is screened");

    let open = status(&client, &asking, "input_required").await;
    let (name, question) = open["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!((name.as_str(), &question["params"]["message"]), ("confirm", &json!("Delete it?")));
    let replies = json!({"confirm": {"action": "accept", "content": {"confirm": true}}});
    let updated = client.request("tasks/update", json!({"taskId": asking, "inputResponses": replies})).await;
    assert!(updated.get("result").is_some(), "{updated}");
    let completed = status(&client, &asking, "completed").await;
    assert_eq!(completed["result"]["content"][0]["text"], "deleted x.txt");

    let cancelled = client.request("tasks/cancel", json!({"taskId": endless})).await;
    assert!(cancelled.get("result").is_some(), "{cancelled}");
    status(&client, &endless, "cancelled").await;

    // For another key, the task does not exist.
    let other = connect(&second.url, OTHER).await;
    for (method, more) in [("tasks/get", None), ("tasks/update", Some(&replies)), ("tasks/cancel", None)] {
        let mut errors = Vec::new();
        for id in [task.as_str(), "unknown", "7:fixture1"] {
            let mut params = json!({"taskId": id});
            if let Some(replies) = more {
                params["inputResponses"] = replies.clone();
            }
            errors.push(other.request(method, params).await["error"].clone());
        }
        assert_eq!(errors[0]["code"], -32602, "{method}: {errors:?}");
        assert!(errors.iter().all(|error| *error == errors[0]), "{method}: {errors:?}");
    }

    // A client without tasks gets the result.
    for revision in ["2025-11-25", "2026-07-28"] {
        let simple = McpClient::connect(&second.url, Some(ONE), revision).await;
        let result = simple.call("slow_compute", json!({"seconds": 0.01, "label": "y"})).await;
        assert_eq!(result["content"][0]["text"], "computed y", "{revision}: {result}");
    }
}

/// A rule that is added while a task runs applies to the task too: its result does not reach the client.
#[tokio::test(flavor = "multi_thread")]
async fn later_rules_apply_to_running_tasks() {
    let address = ([127, 0, 0, 1], 0).into();
    let upstream = serve_http(fixture::server(), address, HttpOptions::default()).await.unwrap();
    let key = json!({"key": ONE, "tenant": "one"});
    let mut config = json!({
        "mcpServers": {"fixture": {"url": upstream.url()}},
        "toolwire": {"gateway": {"keys": {"one": key}, "sessionKey": "a-shared-secret-0123456789-abcdefgh"}},
    });
    let before = serve(&folder("mcp-task-rules-1", Some(&config)), &[]);
    // The rules of the key, and those of the configuration.
    config["toolwire"]["gateway"]["keys"]["one"]["deny"] = json!(["fixture/slow_*"]);
    let of_key = serve(&folder("mcp-task-rules-2", Some(&config)), &[]);
    config["toolwire"]["gateway"]["keys"]["one"]["deny"] = json!([]);
    config["toolwire"]["agent"] = json!({"approvals": {"deny": ["slow_compute"]}});
    let of_all = serve(&folder("mcp-task-rules-3", Some(&config)), &[]);

    let client = connect(&before.url, ONE).await;
    let task = start(&client, "slow_compute", json!({"seconds": 0.01, "label": "x"})).await;
    let asking = start(&client, "confirm_delete", json!({"filename": "x.txt"})).await;
    assert_eq!(status(&client, &task, "completed").await["result"]["content"][0]["text"], "computed x");
    for gateway in [&of_key, &of_all] {
        let client = connect(&gateway.url, ONE).await;
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let mut params = json!({"taskId": task});
            if method == "tasks/update" {
                params["inputResponses"] = json!({});
            }
            let response = client.request(method, params).await;
            assert_eq!(response["error"]["code"], -32602, "{method}: {response}");
        }
        status(&client, &asking, "input_required").await;
    }
    status(&connect(&before.url, ONE).await, &task, "completed").await;
}
