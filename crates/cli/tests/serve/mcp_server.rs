//! `/mcp`: the tools of all servers as one MCP server, for clients with different keys.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use toolwire_testkit::{InstalledServers, http_client, misbehaving_server};

use crate::mcp_client::{Events, McpClient, REVISIONS, read};
use crate::{Served, command, folder, fs, serve, serve_with};

const ALL: &str = "key-for-all-servers-0123456789abcdef";
const GOOD: &str = "key-for-one-server-0123456789abcdef";
const RULED: &str = "key-with-rules-0123456789abcdef012";

fn misbehaving(arguments: &[&str]) -> Value {
    json!({"command": misbehaving_server(), "args": arguments})
}

fn demo() -> Value {
    json!({"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]})
}

fn configuration(servers: Value, gateway: Value) -> Value {
    json!({"mcpServers": servers, "toolwire": {"gateway": gateway}})
}

/// A gateway with keys that have different rights.
fn with_keys(name: &str) -> Served {
    let keys = json!({
        "all": {"key": ALL},
        "one": {"key": GOOD, "servers": ["good"]},
        "ruled": {"key": RULED, "deny": ["calc*"], "ask": ["echo"]},
    });
    let servers = json!({"good": misbehaving(&[]), "demo": demo()});
    serve(&folder(name, Some(&configuration(servers, json!({"keys": keys})))), &[])
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// Every revision lists the tools as the hub does, and calls them.
#[tokio::test]
async fn every_revision_works() {
    let folder = folder(
        "mcp-revisions",
        Some(&configuration(json!({"good": misbehaving(&[]), "demo": demo()}), json!({}))),
    );
    let served = serve(&folder, &[]);
    let mut listing = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    listing.current_dir(&folder).args(["tools", "--json"]).env("XDG_DATA_HOME", folder.join("data"));
    let listed: Value = serde_json::from_slice(&listing.output().unwrap().stdout).unwrap();
    let mut expected: Vec<Value> = listed
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|server| server["tools"].as_array().unwrap().clone())
        .collect();
    assert!(expected.len() > 4, "{listed}");
    expected.sort_by_key(|tool| tool["name"].as_str().map(str::to_owned));
    for revision in REVISIONS {
        let client = McpClient::connect(&served.url, None, revision).await;
        let mut tools = client.tools().await;
        tools.sort_by_key(|tool| tool["name"].as_str().map(str::to_owned));
        assert_eq!(tools, expected, "{revision}");
        assert_eq!(text(&client.call("echo", json!({"text": "grüß dich"})).await), "grüß dich");
        let sum = client.call("calculate", json!({"operator": "add", "argument1": 1, "argument2": 2})).await;
        assert_eq!(sum["structuredContent"]["value"]["result"], 3, "{revision}: {sum}");
        assert_eq!(client.call("fail", json!({})).await["isError"], true);
        let refused = client.call("refuse", json!({})).await;
        assert!(text(&refused).contains("this tool refuses everything"), "{refused}");
        let invalid = client.call("calculate", json!({"operator": 5})).await;
        assert_eq!(invalid["isError"], true, "{invalid}");
        let unknown = client.call("ecko", json!({})).await;
        assert_eq!(unknown["code"], -32602, "{unknown}");
        assert_eq!(client.request("no/such/method", json!({})).await["error"]["code"], -32601);
    }
}

/// Definitions, content and errors that no type of the gateway represents are passed on.
#[tokio::test]
async fn unknown_fields_are_kept() {
    let server = json!({"odd": misbehaving(&["--behaviour", "bad-tools"])});
    let served = serve(&folder("mcp-unknown", Some(&configuration(server, json!({})))), &[]);
    for revision in ["2025-11-25", "2026-07-28"] {
        let client = McpClient::connect(&served.url, None, revision).await;
        let tools = client.tools().await;
        let extra = tools.iter().find(|tool| tool["name"] == "extra_fields").unwrap();
        assert_eq!(extra["execution"], json!({"taskSupport": "optional"}));
        assert_eq!(extra["com.example/vendor"], json!({"kept": [1, 2, {"deep": true}]}));
        let result = client.call("odd_content", json!({})).await;
        assert_eq!(result["content"][0], json!({"type": "hologram", "frames": [1, 2, 3]}));
        assert_eq!(result["content"][1]["mood"], "calm");
        assert_eq!(result["structuredContent"].to_string(), r#"{"precise":12345678901234567890}"#);
        assert_eq!(result["com.example/extra"], true);
    }
}

/// A key sees and calls only what its rights permit; for it, nothing else exists.
#[tokio::test]
async fn a_key_has_only_its_tools() {
    let served = with_keys("mcp-rights");
    for revision in ["2025-11-25", "2026-07-28"] {
        let all = McpClient::connect(&served.url, Some(ALL), revision).await;
        let names = all.tool_names().await;
        assert!(names.contains(&"echo".to_owned()) && names.contains(&"calculate".to_owned()), "{names:?}");
        let one = McpClient::connect(&served.url, Some(GOOD), revision).await;
        assert_eq!(one.tool_names().await, ["echo", "fail", "refuse", "wait"], "{revision}");
        let arguments = json!({"operator": "add", "argument1": 1, "argument2": 2});
        let hidden = one.call("calculate", arguments.clone()).await;
        let missing = one.call("calculatr", arguments.clone()).await;
        assert_eq!(hidden["code"], -32602);
        assert_eq!(hidden.to_string(), missing.to_string().replace("calculatr", "calculate"));
        assert_eq!(all.call("calculate", arguments).await["structuredContent"]["success"], true);

        let ruled = McpClient::connect(&served.url, Some(RULED), revision).await;
        let names = ruled.tool_names().await;
        assert!(names.contains(&"echo".to_owned()) && !names.contains(&"calculate".to_owned()), "{names:?}");
        assert_eq!(ruled.call("calculate", json!({})).await["code"], -32602);
        let refused = ruled.call("echo", json!({"text": "x"})).await;
        assert!(text(&refused).contains("requires approval") && refused["isError"] == true, "{refused}");
    }
}

/// The rules of the configuration apply without keys too.
#[tokio::test]
async fn the_rules_of_the_configuration_apply() {
    let mut config = configuration(json!({"good": misbehaving(&[])}), json!({}));
    config["toolwire"]["agent"] = json!({"approvals": {"deny": ["ref*"], "ask": ["wait"]}});
    let served = serve(&folder("mcp-rules", Some(&config)), &[]);
    let client = McpClient::connect(&served.url, None, "2025-11-25").await;
    assert_eq!(client.tool_names().await, ["echo", "fail", "wait"]);
    assert_eq!(client.call("refuse", json!({})).await["code"], -32602);
    assert_eq!(client.call("wait", json!({"milliseconds": 1})).await["isError"], true);
    assert_eq!(text(&client.call("echo", json!({"text": "x"})).await), "x");
}

/// A session belongs to the key that has opened it. For others, it does not exist.
#[tokio::test]
async fn a_session_belongs_to_its_key() {
    let served = with_keys("mcp-sessions");
    let owner = McpClient::connect(&served.url, Some(ALL), "2025-11-25").await;
    let list = owner.message("tools/list", json!({}));
    let mut foreign = owner.with_key(Some(GOOD));
    let refused = foreign.send(&list).await;
    assert_eq!(refused.status, 404, "{refused:?}");
    let mut invented = owner.with_key(Some(GOOD));
    invented.session = Some("0f8e1d2c-0000-4000-8000-000000000000".to_owned());
    let unknown = invented.send(&list).await;
    assert_eq!((unknown.status, &unknown.body), (404, &refused.body));
    for method in ["GET", "DELETE"] {
        let request = http_client().request(method.parse().unwrap(), format!("{}/mcp", served.url));
        let refused = read(foreign.prepared(request.try_clone().unwrap())).await;
        let unknown = read(invented.prepared(request)).await;
        assert_eq!((refused.status, refused.body), (unknown.status, unknown.body), "{method}");
    }
    assert_eq!(owner.tool_names().await.len(), 6, "the session still exists");
    for key in [None, Some("wrong")] {
        foreign = owner.with_key(key);
        let refused = foreign.send(&list).await;
        assert_eq!(refused.status, 401);
        assert_eq!(refused.headers["www-authenticate"], "Bearer");
        assert_eq!(refused.messages[0]["error"]["code"], -32000, "{}", refused.body);
    }
    let ended = owner.prepared(http_client().delete(format!("{}/mcp", served.url))).send().await.unwrap();
    assert!(ended.status().is_success(), "{ended:?}");
    assert_eq!(owner.send(&list).await.status, 404, "it has ended");
}

/// A second stream of notifications is refused, and does not replace the first one.
#[tokio::test]
async fn the_first_stream_gets_the_changes() {
    let server = json!({"bad": misbehaving(&["--behaviour", "changes-tools"])});
    let served = serve(&folder("mcp-changes", Some(&configuration(server, json!({})))), &[]);
    let client = McpClient::connect(&served.url, None, "2025-11-25").await;
    assert_eq!(client.tool_names().await, ["gone", "swapped"]);
    let mut first = client.listen().await;
    let second = client.prepared(http_client().get(format!("{}/mcp", served.url))).send().await.unwrap();
    assert_eq!(second.status(), 409);
    client.call("gone", json!({})).await;
    let news = first.next().await.unwrap();
    assert_eq!(news["method"], "notifications/tools/list_changed");
    assert!(client.tool_names().await.contains(&"new".to_owned()));
}

/// Host, origin, content type and size are checked as for the other paths.
#[tokio::test]
async fn requests_are_checked_like_others() {
    let served = with_keys("mcp-checks");
    let client = McpClient::connect(&served.url, Some(ALL), "2026-07-28").await;
    let list = client.message("tools/list", json!({}));
    for (name, value) in
        [("host", "evil.test"), ("origin", "http://evil.test"), ("sec-fetch-site", "cross-site")]
    {
        let refused = read(client.post(&list).header(name, value)).await;
        assert_eq!(refused.status, 403, "{name}");
        assert_eq!(refused.messages[0]["jsonrpc"], "2.0");
    }
    let url = format!("{}/mcp", served.url);
    let plain = http_client().post(&url).bearer_auth(ALL).header("content-type", "text/plain");
    assert_eq!(plain.body(list.to_string()).send().await.unwrap().status(), 415);
    let address = served.url.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {ALL}\r\ncontent-type: application/json\r\n\
         content-length: 5000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status).unwrap();
    assert!(status.starts_with("HTTP/1.1 413"), "{status}");
    let head = http_client().head(&url).bearer_auth(ALL).send().await.unwrap();
    assert_eq!(
        (head.status().as_u16(), head.headers()["allow"].to_str().unwrap()),
        (405, "GET, POST, DELETE")
    );
    for body in ["{", "[]", "5", "{\"jsonrpc\":\"2.0\"}"] {
        let request = http_client().post(&url).bearer_auth(ALL).header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream").body(body);
        let status = request.send().await.unwrap().status().as_u16();
        assert!((400..500).contains(&status), "{body}: {status}");
    }
    assert_eq!(client.tool_names().await.len(), 6);
}

/// Progress reaches the client that has made the call.
#[tokio::test]
async fn progress_is_passed_on() {
    let server =
        json!({"slow": misbehaving(&["--behaviour", "slow-progress", "--delay", "5", "--count", "3"])});
    let served = serve(&folder("mcp-progress", Some(&configuration(server, json!({})))), &[]);
    for revision in ["2025-11-25", "2026-07-28"] {
        let client = McpClient::connect(&served.url, None, revision).await;
        let params = json!({"name": "echo", "arguments": {"text": "x"}, "_meta": {"progressToken": "p-1"}});
        let (response, before) = client.exchange("tools/call", params).await;
        assert!(response.get("result").is_some(), "{response}");
        assert!(!before.is_empty(), "{revision}: no progress");
        for notification in before {
            assert_eq!(notification["method"], "notifications/progress", "{notification}");
            assert_eq!(notification["params"]["progressToken"], "p-1");
        }
        let (_, before) =
            client.exchange("tools/call", json!({"name": "echo", "arguments": {"text": "x"}})).await;
        assert_eq!(before, [] as [Value; 0], "without a token, there is no progress");
    }
}

/// A cancelled call is cancelled at its server: by a notification in a session, by a closed stream without
/// one.
#[tokio::test]
async fn cancelled_calls_are_cancelled_at_their_server() {
    let folder = folder("mcp-cancel", None);
    let log = folder.join("calls.log");
    let arguments = ["--behaviour", "never-responds", "--file", log.to_str().unwrap()];
    let config = configuration(json!({"never": misbehaving(&arguments)}), json!({}));
    fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
    let served = serve(&folder, &[]);
    let until = async |line: &str, count: usize| {
        let lines = || fs::read_to_string(&log).unwrap_or_default();
        while lines().lines().filter(|found| *found == line).count() < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let call = |client: &McpClient| client.message("tools/call", json!({"name": "never", "arguments": {}}));
    let session = McpClient::connect(&served.url, None, "2025-11-25").await;
    let message = call(&session);
    let pending = tokio::spawn(session.post(&message).send());
    until("called", 1).await;
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": message["id"]}});
    assert_eq!(session.send(&cancelled).await.status, 202);
    until("cancelled", 1).await;
    pending.abort();

    let modern = McpClient::connect(&served.url, None, "2026-07-28").await;
    let pending = tokio::spawn(modern.post(&call(&modern)).send());
    until("called", 2).await;
    pending.abort();
    until("cancelled", 2).await;
}

/// A server that does not start, and one that never returns a result, do not delay the others.
#[tokio::test]
async fn servers_that_hang_do_not_block() {
    let servers = json!({
        "silent": misbehaving(&["--behaviour", "never-initializes"]),
        "unlisted": misbehaving(&["--behaviour", "never-lists"]),
        "stuck": misbehaving(&["--behaviour", "never-responds"]),
        "good": misbehaving(&[]),
    });
    let config = configuration(servers, json!({"limits": {"serverStartTimeout": "300ms"}}));
    let mut command = command(&folder("mcp-hanging", Some(&config)), &["--listen", "127.0.0.1:0"]);
    let served = crate::serve_until(&mut command, "listening on ");
    for revision in ["2025-11-25", "2026-07-28"] {
        let client = McpClient::connect(&served.url, None, revision).await;
        // The first list may be requested before the good server has started.
        while !client.tool_names().await.contains(&"echo".to_owned()) {}
        let stuck = client.message("tools/call", json!({"name": "never", "arguments": {}}));
        let stuck = tokio::spawn(read(client.post(&stuck)));
        assert_eq!(text(&client.call("echo", json!({"text": "x"})).await), "x");
        assert!(!stuck.is_finished());
        stuck.abort();
    }
}

/// Calls are in the audit log with the key that made them, and their results are screened.
#[tokio::test]
async fn calls_are_logged_and_results_screened() {
    let gateway = json!({"keys": {"alice": {"key": ALL}}, "screenResults": true, "audit": "audit.jsonl"});
    let folder = folder("mcp-audit", Some(&configuration(json!({"good": misbehaving(&[])}), gateway)));
    let served = serve(&folder, &[]);
    let client = McpClient::connect(&served.url, Some(ALL), "2025-11-25").await;
    let evil = client.call("echo", json!({"text": "a\u{1b}[2Jb\u{202e}"})).await;
    assert_eq!(text(&evil), "a\u{fffd}[2Jb\u{fffd}");
    let lines = || -> Vec<Value> {
        let text = fs::read_to_string(folder.join("audit.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    while lines().len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let lines = lines();
    let [started, finished] = &lines[..] else { panic!("{lines:?}") };
    for line in [started, finished] {
        assert_eq!(
            (&line["tool"], &line["client"], &line["server"]),
            (&json!("echo"), &json!("alice"), &json!("good"))
        );
        assert!(line["request"].as_str().unwrap().starts_with("req_"), "{line}");
    }
    assert_eq!(finished["outcome"], "ok");
}

/// With `--search`, a client gets a search and a call instead of all tools.
#[tokio::test]
async fn tools_are_found_by_a_search() {
    let servers = json!({"good": misbehaving(&[]), "demo": demo()});
    let served = serve(&folder("mcp-search", Some(&configuration(servers, json!({})))), &["--search"]);
    for revision in ["2025-11-25", "2026-07-28"] {
        let client = McpClient::connect(&served.url, None, revision).await;
        assert_eq!(client.tool_names().await, ["search_tools", "call_tool"]);
        let found = client.call("search_tools", json!({"query": "the weather", "limit": 1})).await;
        let tools = &found["structuredContent"]["tools"];
        assert_eq!(
            (&tools[0]["name"], &tools[0]["server"]),
            (&json!("get_weather"), &json!("demo")),
            "{found}"
        );
        assert_eq!(tools[0]["inputSchema"]["type"], "object");
        let arguments = json!({"name": "echo", "arguments": {"text": "x"}});
        assert_eq!(text(&client.call("call_tool", arguments).await), "x");
        assert_eq!(client.call("echo", json!({"text": "x"})).await["code"], -32602);
    }
}

/// A gateway that stops ends the streams of its clients.
#[tokio::test]
async fn a_stopping_gateway_ends_its_streams() {
    let server = json!({"good": misbehaving(&[])});
    let config = configuration(server, json!({"limits": {"drain": "10m"}}));
    let folder = folder("mcp-drain", Some(&config));
    let mut served = serve_with(&mut command(&folder, &["--listen", "127.0.0.1:0"]));
    let client = McpClient::connect(&served.url, None, "2025-11-25").await;
    let mut events = client.listen().await;
    let id = served.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(events.next().await, None);
    assert!(served.child.wait().unwrap().success());
}

/// Prompts and resources are those of the servers that a key permits.
#[tokio::test]
async fn a_key_has_only_the_prompts_and_resources_of_its_servers() {
    let everything = InstalledServers::find().everything();
    let server = json!({"command": everything.command, "args": everything.args});
    let keys = json!({"all": {"key": ALL}, "one": {"key": GOOD, "servers": ["a"]}, "none": {"key": RULED, "servers": ["c"]}});
    let config = configuration(json!({"a": server, "b": server}), json!({"keys": keys}));
    let served = serve(&folder("mcp-offers", Some(&config)), &[]);
    for revision in ["2025-11-25", "2026-07-28"] {
        let names = async |key: &str, method: &str, list: &str, field: &str| -> Vec<String> {
            let client = McpClient::connect(&served.url, Some(key), revision).await;
            let response = client.request(method, json!({})).await;
            let listed = response["result"][list].as_array().unwrap_or_else(|| panic!("{response}"));
            listed.iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
        };
        let all = names(ALL, "prompts/list", "prompts", "name").await;
        let (of_a, of_b): (Vec<&String>, Vec<&String>) = all.iter().partition(|name| name.starts_with("a_"));
        assert!(!of_a.is_empty() && of_a.len() == of_b.len(), "{all:?}");
        assert!(of_b.iter().all(|name| name.starts_with("b_")), "{all:?}");
        let own = names(GOOD, "prompts/list", "prompts", "name").await;
        assert_eq!(own.iter().collect::<Vec<_>>(), of_a);
        let resources = names(GOOD, "resources/list", "resources", "uri").await;
        assert!(!resources.is_empty());
        for (method, list, field) in [
            ("prompts/list", "prompts", "name"),
            ("resources/list", "resources", "uri"),
            ("resources/templates/list", "resourceTemplates", "name"),
        ] {
            assert_eq!(names(RULED, method, list, field).await, [] as [String; 0], "{method}");
        }

        let one = McpClient::connect(&served.url, Some(GOOD), revision).await;
        let get = async |name: &str| one.request("prompts/get", json!({"name": name})).await;
        let simple = own.iter().find(|name| name.contains("simple")).unwrap();
        assert!(get(simple).await["result"]["messages"].is_array());
        let (foreign, unknown) =
            (get(of_b[0]).await["error"].clone(), get("b_unknown").await["error"].clone());
        assert_eq!(foreign["code"], -32602, "{foreign}");
        assert_eq!(foreign.to_string().replace(of_b[0].as_str(), "b_unknown"), unknown.to_string());
        let read = one.request("resources/read", json!({"uri": resources[0]})).await;
        assert!(read["result"]["contents"].is_array(), "{read}");
        let none = McpClient::connect(&served.url, Some(RULED), revision).await;
        let refused = none.request("resources/read", json!({"uri": resources[0]})).await;
        assert_eq!(refused["error"]["message"], "resource not found", "{refused}");
    }
}

/// A question of a server goes to the client that has made the call, in both eras, and only once.
#[tokio::test]
async fn questions_reach_the_client_of_the_call() {
    let server = json!({"asking": misbehaving(&["--behaviour", "asks"])});
    let keys = json!({"a": {"key": ALL}, "b": {"key": GOOD}});
    let served = serve(&folder("mcp-questions", Some(&configuration(server, json!({"keys": keys})))), &[]);
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let question = json!({"message": "Who?", "requestedSchema": schema});
    let params = json!({"name": "ask", "arguments": {"method": "elicitation/create", "params": question}});
    let reply = json!({"action": "accept", "content": {"name": "Oslo"}});

    let client =
        McpClient::connect_with(&served.url, Some(ALL), "2025-11-25", json!({"elicitation": {}})).await;
    // A request of the server may arrive on either stream.
    let mut listening = client.listen().await;
    let message = client.message("tools/call", params.clone());
    let mut events = Events::new(client.post(&message).send().await.unwrap());
    let asked = tokio::select! {
        asked = events.next() => asked.unwrap(),
        asked = listening.next() => asked.unwrap(),
    };
    assert_eq!(
        (&asked["method"], &asked["params"]["message"]),
        (&json!("elicitation/create"), &json!("Who?"))
    );
    let response = json!({"jsonrpc": "2.0", "id": asked["id"], "result": reply});
    assert_eq!(client.send(&response).await.status, 202);
    let result = events.next().await.unwrap();
    assert!(text(&result["result"]).contains("Oslo"), "{result}");

    let modern =
        McpClient::connect_with(&served.url, Some(ALL), "2026-07-28", json!({"elicitation": {}})).await;
    let first = modern.request("tools/call", params.clone()).await["result"].clone();
    assert_eq!(first["resultType"], "input_required", "{first}");
    let (key, asked) = first["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(
        (&asked["method"], &asked["params"]["message"]),
        (&json!("elicitation/create"), &json!("Who?"))
    );
    let mut again = params.clone();
    again["inputResponses"] = json!({key: reply});
    again["requestState"] = first["requestState"].clone();
    let other =
        McpClient::connect_with(&served.url, Some(GOOD), "2026-07-28", json!({"elicitation": {}})).await;
    let refused = other.request("tools/call", again.clone()).await;
    assert_eq!(refused["error"]["code"], -32602, "another key cannot continue the call: {refused}");
    let result = modern.request("tools/call", again.clone()).await;
    assert!(text(&result["result"]).contains("Oslo"), "{result}");
    let repeated = modern.request("tools/call", again).await;
    assert_eq!(repeated["error"]["code"], -32602, "the state is valid once: {repeated}");

    for revision in ["2025-11-25", "2026-07-28"] {
        let silent = McpClient::connect(&served.url, Some(ALL), revision).await;
        let declined = silent.request("tools/call", params.clone()).await;
        assert!(
            declined.to_string().contains("decline") || declined["error"]["code"] == -32021,
            "{declined}"
        );
    }
}

/// Gateways with the same session key continue each other's sessions, also after one was killed.
#[tokio::test]
async fn another_gateway_continues_a_session() {
    let config = |key: Value| {
        let keys = json!({"a": {"key": ALL}, "b": {"key": GOOD}});
        configuration(json!({"good": misbehaving(&[])}), json!({"keys": keys, "sessionKey": key}))
    };
    let shared = config(json!("a-shared-secret-0123456789-abcdefgh"));
    let mut first = serve(&folder("mcp-shared-1", Some(&shared)), &[]);
    let second = serve(&folder("mcp-shared-2", Some(&shared)), &[]);
    let other =
        serve(&folder("mcp-shared-3", Some(&config(json!("another-secret-0123456789-abcdefghi")))), &[]);
    for revision in ["2024-11-05", "2025-11-25"] {
        let opened = McpClient::connect(&first.url, Some(ALL), revision).await;
        let continued = opened.at(&second.url, Some(ALL));
        assert_eq!(continued.tool_names().await, ["echo", "fail", "refuse", "wait"]);
        assert_eq!(text(&continued.call("echo", json!({"text": "x"})).await), "x");
        assert_eq!(text(&opened.call("echo", json!({"text": "y"})).await), "y", "the first one has it too");
        let list = continued.message("tools/list", json!({}));
        assert_eq!(opened.at(&second.url, Some(GOOD)).send(&list).await.status, 404, "another key");
        assert_eq!(opened.at(&other.url, Some(ALL)).send(&list).await.status, 404, "another secret");
    }
    let opened = McpClient::connect(&first.url, Some(ALL), "2025-11-25").await;
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let continued = opened.at(&second.url, Some(ALL));
    // Many requests at once open it only once.
    let names = futures::future::join_all((0..8).map(|_| continued.tool_names())).await;
    assert!(names.iter().all(|names| names.len() == 4), "{names:?}");

    let weak = folder("mcp-shared-weak", Some(&config(json!("short"))));
    let output = command(&weak, &["--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`toolwire.gateway.sessionKey` has 5 bytes"));
}
