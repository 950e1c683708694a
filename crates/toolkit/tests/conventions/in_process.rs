//! A server is a toolbox: an agent calls its tools without a transport.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolwire_contract::toolbox::{CallError, CallOptions, Progress, Toolbox};
use toolwire_toolkit::{Context, tool};

use crate::support::{plain, runtime};

/// Echo a text.
#[tool]
async fn echo(
    /// The text
    text: String,
    cx: &Context,
) -> String {
    cx.client.progress(Progress { done: 1.0, total: Some(2.0), message: None });
    text
}

/// Wait until the call is cancelled.
#[tool]
async fn wait(cx: &Context) {
    let (cancelled, observed) = (cx.cancelled.clone(), cx.state::<CancellationObserved>().unwrap().clone());
    tokio::spawn(async move {
        cancelled.cancelled().await;
        observed.notify_one();
    });
    std::future::pending().await
}

type CancellationObserved = Arc<tokio::sync::Notify>;

#[track_caller]
fn check(arguments: Value, expected: Result<Value, CallError>) {
    let server: Arc<dyn Toolbox> = Arc::new(plain().tool(echo).build().unwrap());
    let result = runtime().block_on(server.call("echo", &arguments, CallOptions::default()));
    assert_eq!(result.map(|result| result.structured_content.unwrap()), expected);
}

#[test]
fn arguments_may_be_json_text() {
    check(json!({"text": "a"}), Ok(json!({"success": true, "value": "a"})));
    check(json!("{\"text\": \"a\"}"), Ok(json!({"success": true, "value": "a"})));
    let problem = "not a JSON object".to_owned();
    check(json!(["a"]), Err(CallError::InvalidArguments { tool: "echo".into(), problem }));
}

#[test]
fn progress_is_forwarded() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let sink = received.clone();
    let mut options = CallOptions::default();
    options.progress = Some(Arc::new(move |progress: Progress| sink.lock().unwrap().push(progress.done)));
    let server = plain().tool(echo).build().unwrap();
    runtime().block_on(Toolbox::call(&server, "echo", &json!({"text": "a"}), options)).unwrap();
    assert_eq!(*received.lock().unwrap(), [1.0]);
}

#[test]
fn a_call_that_times_out_is_cancelled() {
    let observed = CancellationObserved::default();
    let server = plain().state(observed.clone()).tool(wait).build().unwrap();
    let limit = Duration::from_millis(1);
    runtime().block_on(async {
        let mut options = CallOptions::default();
        options.timeout = Some(limit);
        let error = Toolbox::call(&server, "wait", &Value::Null, options).await.unwrap_err();
        assert_eq!(error, CallError::TimedOut { server: "test".into(), tool: "wait".into(), after: limit });
        observed.notified().await;
    });
}
