//! Calls that go on after they were answered.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, mpsc};
use toolwire_contract::{Progress, Tool, ToolResult};
use toolwire_toolkit::{
    Context, Form, FormReply, Handler, HttpOptions, Outcome, Registered, Server, TaskOptions, TaskStart,
    TaskSupport, in_process, tool,
};

use crate::support::{Http, Lines, answered, modern, request, soon};

/// A tool that tells when its future starts and when it is dropped, and waits until it may end.
struct Job {
    support: TaskSupport,
    events: mpsc::UnboundedSender<&'static str>,
    may_end: Arc<Notify>,
}

struct Dropped(mpsc::UnboundedSender<&'static str>);

impl Drop for Dropped {
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
            let _dropped = Dropped(self.events.clone());
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

struct Tested {
    http: Http,
    events: mpsc::UnboundedReceiver<&'static str>,
    may_end: Arc<Notify>,
}

const AT_ONCE: TaskSupport = TaskSupport { is_required: false, start: TaskStart::AtOnce };

impl Tested {
    async fn serve(support: TaskSupport, options: TaskOptions, http: HttpOptions) -> Tested {
        let (tell, events) = mpsc::unbounded_channel();
        let may_end = Arc::new(Notify::new());
        let handler = Job { support, events: tell, may_end: may_end.clone() };
        let job = Registered {
            tool: Tool::new("job", json!({"type": "object"})),
            plain_name: "job".to_owned(),
            handler: Arc::new(handler),
        };
        let builder = Server::builder("jobs").prefix("").register(job).tool(choose).tasks(options);
        let server = builder.build().expect("each name comes once");
        Tested { http: Http::serve(server, http).await, events, may_end }
    }

    async fn plainly() -> Tested {
        Tested::serve(AT_ONCE, TaskOptions::default(), HttpOptions::default()).await
    }

    /// The answer to a request of a client that knows tasks.
    async fn ask(&self, method: &str, params: Value) -> Value {
        let name = params["taskId"].as_str().or(params["name"].as_str()).unwrap_or_default().to_owned();
        let post = self
            .http
            .post(&request(1, method, knowing(params)))
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .header("mcp-name", name);
        answered(post).await.body
    }

    async fn call(&self) -> Value {
        self.ask("tools/call", json!({"name": "job", "arguments": {}})).await
    }

    async fn start(&self) -> String {
        id_of(&self.call().await)
    }

    async fn get(&self, id: &str) -> Value {
        self.ask("tasks/get", json!({"taskId": id})).await
    }

    async fn until(&self, id: &str, status: &str) -> Value {
        soon(async {
            loop {
                let seen = self.get(id).await;
                if seen["result"]["status"] == status {
                    return seen["result"].clone();
                }
            }
        })
        .await
    }

    /// When nothing is under that id any longer.
    async fn until_gone(&self, id: &str) {
        soon(async { while self.get(id).await["error"]["code"] != -32602 {} }).await;
    }

    async fn hear(&mut self, event: &str) {
        assert_eq!(soon(self.events.recv()).await, Some(event));
    }
}

/// The parameters of a client that knows tasks.
fn knowing(params: Value) -> Value {
    let mut params = modern(params);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"] =
        json!({"io.modelcontextprotocol/tasks": {}});
    params
}

fn id_of(answer: &Value) -> String {
    assert_eq!(answer["result"]["resultType"], "task", "{answer}");
    answer["result"]["taskId"].as_str().unwrap().to_owned()
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
    let mut tested = Tested::plainly().await;
    let id = tested.start().await;
    tested.hear("started").await;
    let seen = tested.get(&id).await;
    assert_eq!(seen["result"]["status"], "working");
    assert_eq!(seen["result"]["statusMessage"], "1 of 2");
    tested.may_end.notify_one();
    let first = tested.until(&id, "completed").await;
    assert_eq!(first["result"]["content"][0]["text"], "done");
    assert_eq!(first["result"]["later"], 1, "a field that nobody knows");
    assert_eq!(tested.get(&id).await["result"], first);
    // Too late to be cancelled: the result stays.
    assert_eq!(tested.ask("tasks/cancel", json!({"taskId": id})).await["result"]["resultType"], "complete");
    assert_eq!(tested.get(&id).await["result"], first);
    tested.hear("dropped").await;
    assert!(tested.events.try_recv().is_err(), "a call that ended is not cancelled");
}

#[tokio::test]
async fn cancelling_drops_the_future_of_the_tool() {
    let mut tested = Tested::plainly().await;
    let id = tested.start().await;
    tested.hear("started").await;
    tested.ask("tasks/cancel", json!({"taskId": id})).await;
    let seen = tested.get(&id).await["result"].clone();
    assert_eq!((&seen["status"], seen.get("result")), (&json!("cancelled"), None));
    let mut heard = [soon(tested.events.recv()).await, soon(tested.events.recv()).await];
    heard.sort_unstable();
    assert_eq!(heard, [Some("cancelled"), Some("dropped")]);
}

#[tokio::test]
async fn a_task_expires_whether_it_runs_or_has_ended() {
    let mut options = TaskOptions::default();
    options.lifetime = Duration::from_secs(1);
    options.max_tasks = 1;
    let mut tested = Tested::serve(AT_ONCE, options, HttpOptions::default()).await;
    let running = tested.start().await;
    tested.hear("started").await;
    tested.until_gone(&running).await;
    let mut heard = [soon(tested.events.recv()).await, soon(tested.events.recv()).await];
    heard.sort_unstable();
    assert_eq!(heard, [Some("cancelled"), Some("dropped")]);

    // Its place is free again, a moment after it has expired: until then a call stays a call.
    tested.may_end.notify_one();
    let ended = soon(async {
        loop {
            let answer = tested.call().await;
            if answer["result"]["resultType"] == "task" {
                return id_of(&answer);
            }
            tested.may_end.notify_one();
        }
    })
    .await;
    tested.until_gone(&ended).await;
}

#[tokio::test]
async fn above_the_limit_a_call_stays_a_call_or_is_rejected() {
    let mut options = TaskOptions::default();
    options.max_tasks = 1;
    let mut tested = Tested::serve(AT_ONCE, options, HttpOptions::default()).await;
    let first = tested.start().await;
    tested.hear("started").await;
    tested.may_end.notify_one();
    tested.until(&first, "completed").await;
    tested.hear("dropped").await;
    // A finished one counts: its result is kept.
    tested.may_end.notify_one();
    let second = tested.call().await;
    assert_eq!(second["result"]["content"][0]["text"], "done");
    assert_eq!(second["result"]["resultType"], "complete");
    let third = tested.ask("tools/call", json!({"name": "choose", "arguments": {}})).await;
    assert_eq!(third["error"]["code"], -32000);
    assert_eq!(tested.get(&first).await["result"]["status"], "completed");
}

#[tokio::test]
async fn a_result_over_the_size_limit_fails_the_task() {
    let mut options = TaskOptions::default();
    options.max_result_bytes = 10;
    let tested = Tested::serve(AT_ONCE, options, HttpOptions::default()).await;
    tested.may_end.notify_one();
    let id = tested.start().await;
    let seen = tested.until(&id, "failed").await;
    assert_eq!((seen.get("result"), &seen["error"]["code"]), (None, &json!(-32603)));
}

#[tokio::test]
async fn questions_of_a_task_have_unique_keys() {
    let tested = Tested::plainly().await;
    let id = id_of(&tested.ask("tools/call", json!({"name": "choose", "arguments": {}})).await);
    let asked = tested.until(&id, "input_required").await;
    assert_eq!(asked["inputRequests"]["colour"]["method"], "elicitation/create");
    let answer = |key: &str, answer: Value| {
        let answers = Map::from_iter([(key.to_owned(), answer)]);
        tested.ask("tasks/update", json!({"taskId": id, "inputResponses": answers}))
    };
    // Neither what cannot be read nor what was not asked for is an answer.
    answer("colour", json!(5)).await;
    answer("taste", json!({"action": "decline"})).await;
    let asked = tested.until(&id, "input_required").await;
    assert!(asked["inputRequests"]["colour"].is_object());
    answer("colour", json!({"action": "accept", "content": {"colour": "red"}})).await;
    let again = tested.until(&id, "input_required").await;
    let keys: Vec<&String> = again["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["colour-1"]);
    answer("colour-1", json!({"action": "accept", "content": {"colour": "blue"}})).await;
    let done = tested.until(&id, "completed").await;
    assert_eq!(done["result"]["structuredContent"]["value"], "red and blue");
}

#[tokio::test]
async fn a_task_does_not_count_as_a_request() {
    let mut options = HttpOptions::default();
    options.max_requests = 1;
    for start in [TaskStart::AtOnce, TaskStart::WhenTold] {
        let support = TaskSupport { is_required: true, start };
        let mut tested = Tested::serve(support, TaskOptions::default(), options.clone()).await;
        let id = tested.start().await;
        tested.hear("started").await;
        // The place is free when the answer has left, which the client sees a moment before the server.
        tested.until(&id, "working").await;
        tested.may_end.notify_one();
        tested.until(&id, "completed").await;
    }
}

#[tokio::test]
async fn shutting_down_lets_tasks_finish_and_then_cancels_them() {
    for is_patient in [true, false] {
        let mut tested = Tested::plainly().await;
        tested.start().await;
        tested.hear("started").await;
        let patience = if is_patient { Duration::from_secs(60) } else { Duration::ZERO };
        if is_patient {
            tested.may_end.notify_one();
        }
        let Tested { http, mut events, .. } = tested;
        soon(http.server.shutdown(patience)).await;
        let mut heard = vec![soon(events.recv()).await];
        if !is_patient {
            heard.push(soon(events.recv()).await);
            heard.sort_unstable();
        }
        let expected: &[_] = if is_patient { &["dropped"] } else { &["cancelled", "dropped"] };
        assert_eq!(heard.into_iter().flatten().collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn the_tasks_of_a_stream_are_its_own_and_end_with_it() {
    let (tell, mut events) = mpsc::unbounded_channel();
    let handler = Job { support: AT_ONCE, events: tell, may_end: Arc::default() };
    let job = Registered {
        tool: Tool::new("job", json!({"type": "object"})),
        plain_name: "job".to_owned(),
        handler: Arc::new(handler),
    };
    let server = Server::builder("jobs").register(job).build().expect("each name comes once");
    let (stream, _serving) = in_process(server.clone()).unwrap();
    let (other, _serving_other) = in_process(server).unwrap();
    let (mut lines, mut others) = (Lines::new(stream), Lines::new(other));
    let call = request(1, "tools/call", knowing(json!({"name": "job"})));
    let id = id_of(&lines.ask(call).await);
    assert_eq!(soon(events.recv()).await, Some("started"));
    let get = request(2, "tasks/get", knowing(json!({"taskId": id})));
    assert_eq!(lines.ask(get.clone()).await["result"]["status"], "working");
    assert_eq!(others.ask(get).await["error"]["code"], -32602);
    drop(lines);
    let mut heard = [soon(events.recv()).await, soon(events.recv()).await];
    heard.sort_unstable();
    assert_eq!(heard, [Some("cancelled"), Some("dropped")]);
}

#[tokio::test]
async fn definitions_state_which_tools_may_become_tasks() {
    let tested = Tested::plainly().await;
    let listed = answered(tested.http.modern("tools/list", json!({}))).await.body;
    let support = |place: usize| listed["result"]["tools"][place]["execution"]["taskSupport"].clone();
    assert_eq!((support(0), support(1)), (json!("optional"), json!("required")));
}
