//! Calls that continue as tasks.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, mpsc};
use toolwire_contract::toolbox::Progress;
use toolwire_contract::{Tool, ToolResult};
use toolwire_toolkit::client::{Form, FormReply};
use toolwire_toolkit::handler::{Handler, Registered};
use toolwire_toolkit::tasks::{TaskOptions, TaskStart, TaskSupport};
use toolwire_toolkit::transport::{HttpOptions, in_process};
use toolwire_toolkit::{Context, Outcome, Server, tool};

use crate::support::{HttpClient, StreamClient, modern, request, send, with_timeout};

/// A tool that waits until the test releases it, and reports when its future starts and when it is dropped.
struct Job {
    support: TaskSupport,
    events: mpsc::UnboundedSender<&'static str>,
    may_end: Arc<Notify>,
}

/// Reports when it is dropped.
struct ReportDrop(mpsc::UnboundedSender<&'static str>);

impl Drop for ReportDrop {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

impl Handler for Job {
    fn run<'a>(&'a self, _: Map<String, Value>, context: &'a Context) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let (token, events) = (context.cancelled.clone(), self.events.clone());
            tokio::spawn(async move {
                token.cancelled().await;
                let _ = events.send("cancelled");
            });
            let _report_drop = ReportDrop(self.events.clone());
            context.client.progress(Progress { done: 1.0, total: Some(2.0), message: None });
            context.client.continue_as_task().await;
            let _ = self.events.send("started");
            self.may_end.notified().await;
            let mut result = ToolResult::text("done");
            result.extra.insert("later".to_owned(), json!(1));
            result
        })
    }

    fn task_support(&self) -> Option<TaskSupport> {
        Some(self.support)
    }
}

/// A served job, and control over it.
struct TaskServer {
    http: HttpClient,
    events: mpsc::UnboundedReceiver<&'static str>,
    may_end: Arc<Notify>,
}

const AT_ONCE: TaskSupport = TaskSupport { is_required: false, start: TaskStart::AtOnce };

impl TaskServer {
    async fn serve(support: TaskSupport, options: TaskOptions, http: HttpOptions) -> TaskServer {
        let (sender, events) = mpsc::unbounded_channel();
        let may_end = Arc::new(Notify::new());
        let handler = Job { support, events: sender, may_end: may_end.clone() };
        let job = Registered {
            tool: Tool::new("job", json!({"type": "object"})),
            plain_name: "job".to_owned(),
            handler: Arc::new(handler),
        };
        let builder = Server::builder("jobs").prefix("").register(job).tool(choose).tasks(options);
        let server = builder.build().expect("unique names");
        TaskServer { http: HttpClient::serve(server, http).await, events, may_end }
    }

    async fn with_defaults() -> TaskServer {
        TaskServer::serve(AT_ONCE, TaskOptions::default(), HttpOptions::default()).await
    }

    /// Sends a request of a client that supports tasks, and returns the response.
    async fn request(&self, method: &str, params: Value) -> Value {
        let name = params["taskId"].as_str().or(params["name"].as_str()).unwrap_or_default().to_owned();
        let post = self
            .http
            .post(&request(1, method, with_tasks(params)))
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .header("mcp-name", name);
        send(post).await.body
    }

    async fn call(&self) -> Value {
        self.request("tools/call", json!({"name": "job", "arguments": {}})).await
    }

    async fn start(&self) -> String {
        id_of(&self.call().await)
    }

    async fn get(&self, id: &str) -> Value {
        self.request("tasks/get", json!({"taskId": id})).await
    }

    async fn wait_for_status(&self, id: &str, status: &str) -> Value {
        with_timeout(async {
            loop {
                let response = self.get(id).await;
                if response["result"]["status"] == status {
                    return response["result"].clone();
                }
            }
        })
        .await
    }

    /// Waits until the task no longer exists.
    async fn wait_until_expired(&self, id: &str) {
        with_timeout(async { while self.get(id).await["error"]["code"] != -32602 {} }).await;
    }

    async fn expect_event(&mut self, event: &str) {
        assert_eq!(with_timeout(self.events.recv()).await, Some(event));
    }
}

/// Adds the metadata of a client that supports tasks.
fn with_tasks(params: Value) -> Value {
    let mut params = modern(params);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"] =
        json!({"io.modelcontextprotocol/tasks": {}});
    params
}

fn id_of(response: &Value) -> String {
    assert_eq!(response["result"]["resultType"], "task", "{response}");
    response["result"]["taskId"].as_str().unwrap().to_owned()
}

/// Choose a colour.
#[tool(task(required))]
async fn choose(cx: &Context) -> Outcome<String> {
    let schema = json!({"type": "object", "properties": {"colour": {"type": "string"}}});
    let mut chosen = Vec::new();
    for _ in 0..2 {
        let form = Form::Fields { message: "Which colour?".to_owned(), schema: schema.clone() };
        if let FormReply::Accepted(fields) = cx.client.elicit_as("colour", form).await? {
            chosen.push(fields["colour"].as_str().unwrap_or_default().to_owned());
        }
    }
    Outcome::ok(chosen.join(" and "))
}

#[tokio::test]
async fn a_result_can_be_fetched_repeatedly() {
    let mut server = TaskServer::with_defaults().await;
    let id = server.start().await;
    server.expect_event("started").await;
    let task = server.get(&id).await;
    assert_eq!(task["result"]["status"], "working");
    assert_eq!(task["result"]["statusMessage"], "1 of 2");
    server.may_end.notify_one();
    let first = server.wait_for_status(&id, "completed").await;
    assert_eq!(first["result"]["content"][0]["text"], "done");
    assert_eq!(first["result"]["later"], 1, "an unknown field");
    assert_eq!(server.get(&id).await["result"], first);
    // Cancelling a finished task has no effect.
    assert_eq!(
        server.request("tasks/cancel", json!({"taskId": id})).await["result"]["resultType"],
        "complete"
    );
    assert_eq!(server.get(&id).await["result"], first);
    server.expect_event("dropped").await;
    assert!(server.events.try_recv().is_err(), "a call that ended is not cancelled");
}

#[tokio::test]
async fn cancelling_drops_the_future_of_the_tool() {
    let mut server = TaskServer::with_defaults().await;
    let id = server.start().await;
    server.expect_event("started").await;
    server.request("tasks/cancel", json!({"taskId": id})).await;
    let task = server.get(&id).await["result"].clone();
    assert_eq!((&task["status"], task.get("result")), (&json!("cancelled"), None));
    let mut received = [with_timeout(server.events.recv()).await, with_timeout(server.events.recv()).await];
    received.sort_unstable();
    assert_eq!(received, [Some("cancelled"), Some("dropped")]);
}

#[tokio::test]
async fn a_task_expires_whether_it_runs_or_has_ended() {
    let mut options = TaskOptions::default();
    options.lifetime = Duration::from_secs(1);
    options.max_tasks = 1;
    let mut server = TaskServer::serve(AT_ONCE, options, HttpOptions::default()).await;
    let running = server.start().await;
    server.expect_event("started").await;
    server.wait_until_expired(&running).await;
    let mut received = [with_timeout(server.events.recv()).await, with_timeout(server.events.recv()).await];
    received.sort_unstable();
    assert_eq!(received, [Some("cancelled"), Some("dropped")]);

    // The expired task is removed a moment later; until then, calls do not become tasks.
    server.may_end.notify_one();
    let ended = with_timeout(async {
        loop {
            let response = server.call().await;
            if response["result"]["resultType"] == "task" {
                return id_of(&response);
            }
            server.may_end.notify_one();
        }
    })
    .await;
    server.wait_until_expired(&ended).await;
}

#[tokio::test]
async fn at_the_limit_a_call_does_not_become_a_task_or_is_rejected() {
    let mut options = TaskOptions::default();
    options.max_tasks = 1;
    let mut server = TaskServer::serve(AT_ONCE, options, HttpOptions::default()).await;
    let first = server.start().await;
    server.expect_event("started").await;
    server.may_end.notify_one();
    server.wait_for_status(&first, "completed").await;
    server.expect_event("dropped").await;
    // A finished task counts, because its result is retained.
    server.may_end.notify_one();
    let second = server.call().await;
    assert_eq!(second["result"]["content"][0]["text"], "done");
    assert_eq!(second["result"]["resultType"], "complete");
    let third = server.request("tools/call", json!({"name": "choose", "arguments": {}})).await;
    assert_eq!(third["error"]["code"], -32000);
    assert_eq!(server.get(&first).await["result"]["status"], "completed");
}

#[tokio::test]
async fn a_result_over_the_size_limit_fails_the_task() {
    let mut options = TaskOptions::default();
    options.max_result_bytes = 10;
    let server = TaskServer::serve(AT_ONCE, options, HttpOptions::default()).await;
    server.may_end.notify_one();
    let id = server.start().await;
    let task = server.wait_for_status(&id, "failed").await;
    assert_eq!((task.get("result"), &task["error"]["code"]), (None, &json!(-32603)));
}

#[tokio::test]
async fn questions_of_a_task_have_unique_keys() {
    let server = TaskServer::with_defaults().await;
    let id = id_of(&server.request("tools/call", json!({"name": "choose", "arguments": {}})).await);
    let task = server.wait_for_status(&id, "input_required").await;
    assert_eq!(task["inputRequests"]["colour"]["method"], "elicitation/create");
    let reply = |key: &str, reply: Value| {
        let replies = Map::from_iter([(key.to_owned(), reply)]);
        server.request("tasks/update", json!({"taskId": id, "inputResponses": replies}))
    };
    // Invalid replies and replies to unknown questions leave the question open.
    reply("colour", json!(5)).await;
    reply("taste", json!({"action": "decline"})).await;
    let task = server.wait_for_status(&id, "input_required").await;
    assert!(task["inputRequests"]["colour"].is_object());
    reply("colour", json!({"action": "accept", "content": {"colour": "red"}})).await;
    let again = server.wait_for_status(&id, "input_required").await;
    let keys: Vec<&String> = again["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["colour-1"]);
    reply("colour-1", json!({"action": "accept", "content": {"colour": "blue"}})).await;
    let done = server.wait_for_status(&id, "completed").await;
    assert_eq!(done["result"]["structuredContent"]["value"], "red and blue");
}

#[tokio::test]
async fn a_task_does_not_count_as_a_request() {
    let mut options = HttpOptions::default();
    options.max_requests = 1;
    for start in [TaskStart::AtOnce, TaskStart::OnRequest] {
        let support = TaskSupport { is_required: true, start };
        let mut server = TaskServer::serve(support, TaskOptions::default(), options.clone()).await;
        let id = server.start().await;
        server.expect_event("started").await;
        // The permit is released after the response was sent, slightly later than the client receives it.
        server.wait_for_status(&id, "working").await;
        server.may_end.notify_one();
        server.wait_for_status(&id, "completed").await;
    }
}

#[tokio::test]
async fn shutdown_cancels_tasks_after_the_grace_period() {
    for has_time in [true, false] {
        let mut server = TaskServer::with_defaults().await;
        server.start().await;
        server.expect_event("started").await;
        let grace_period = if has_time { Duration::from_secs(60) } else { Duration::ZERO };
        if has_time {
            server.may_end.notify_one();
        }
        let TaskServer { http, mut events, .. } = server;
        with_timeout(http.server.shutdown(grace_period)).await;
        let mut received = vec![with_timeout(events.recv()).await];
        if !has_time {
            received.push(with_timeout(events.recv()).await);
            received.sort_unstable();
        }
        let expected: &[_] = if has_time { &["dropped"] } else { &["cancelled", "dropped"] };
        assert_eq!(received.into_iter().flatten().collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn tasks_belong_to_one_stream_and_end_with_it() {
    let (sender, mut events) = mpsc::unbounded_channel();
    let handler = Job { support: AT_ONCE, events: sender, may_end: Arc::default() };
    let job = Registered {
        tool: Tool::new("job", json!({"type": "object"})),
        plain_name: "job".to_owned(),
        handler: Arc::new(handler),
    };
    let server = Server::builder("jobs").register(job).build().expect("unique names");
    let (stream, _serving) = in_process(server.clone()).unwrap();
    let (other, _serving_other) = in_process(server).unwrap();
    let (mut client, mut other_client) = (StreamClient::new(stream), StreamClient::new(other));
    let call = request(1, "tools/call", with_tasks(json!({"name": "job"})));
    let id = id_of(&client.request(call).await);
    assert_eq!(with_timeout(events.recv()).await, Some("started"));
    let get = request(2, "tasks/get", with_tasks(json!({"taskId": id})));
    assert_eq!(client.request(get.clone()).await["result"]["status"], "working");
    assert_eq!(other_client.request(get).await["error"]["code"], -32602);
    drop(client);
    let mut received = [with_timeout(events.recv()).await, with_timeout(events.recv()).await];
    received.sort_unstable();
    assert_eq!(received, [Some("cancelled"), Some("dropped")]);
}

#[tokio::test]
async fn definitions_state_which_tools_may_become_tasks() {
    let server = TaskServer::with_defaults().await;
    let listed = send(server.http.modern("tools/list", json!({}))).await.body;
    let support = |index: usize| listed["result"]["tools"][index]["execution"]["taskSupport"].clone();
    assert_eq!((support(0), support(1)), (json!("optional"), json!("required")));
}
