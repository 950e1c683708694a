//! The client closes the connection at each event of the provider's response in turn, and while tools run.
//! Then nothing is left running: no request to the provider, no call, and no task.

use std::time::Duration;

use serde_json::json;
use tokio::runtime::Handle;
use toolwire_testkit::http_client;
use toolwire_testkit::provider::{Api, Delivery, Gate, ModelOutput, Script, ScriptedResponse, render};

use crate::client::Client;
use crate::served_gateway::{answer, call, serve_script};
use crate::{CLIENTS, FORWARDED, FORWARDED_HEADERS, OPTIONAL_EVENTS, PATHS, client, delivered_in_turn};

/// The time that the end of something may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn within_timeout<T>(future: impl Future<Output = T>, problem: &str) -> T {
    tokio::time::timeout(TIMEOUT, future).await.unwrap_or_else(|_| panic!("{problem}"))
}

/// The number of tasks on this thread: those of the provider, of the gateway and of the client.
fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// The maximum number of tasks of the connections that the gateway keeps for later requests: two tasks for
/// each round of a response, and a timer.
const KEPT_CONNECTIONS: usize = 5;

/// Waits until at most this many tasks are running.
async fn check_tasks(expected: usize, label: &str) {
    let settled = async {
        while tasks() > expected {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within_timeout(settled, &format!("{label}: more than {expected} tasks are left")).await;
}

/// Sends a request and receives the response. Dropping the future closes the connection.
async fn request(client: &Client, url: &str) {
    let mut request = http_client().post(format!("{url}{}", client.path)).json(&client.body());
    for (name, value) in &client.headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap().bytes().await.unwrap();
}

/// Sends a request for each event of a response, and leaves before the event.
async fn leave_at_every_event(
    api: Api,
    first: Option<ModelOutput>,
    output: &ModelOutput,
    new_client: impl Fn(&str) -> Client,
) {
    let events = render(api, output, true).len();
    let gates: Vec<Gate> = (0..=events).map(|_| Gate::new()).collect();
    let deliveries = gates
        .iter()
        .enumerate()
        .map(|(number, gate)| Delivery { gates: vec![(number, gate.clone())], ..Delivery::default() });
    let script = delivered_in_turn(output, deliveries.collect(), first)
        .starting_with([ScriptedResponse::Output(answer("Hello."))]);
    let before = tasks();
    let served = serve_script(api, script).await;
    let idle = tasks() + KEPT_CONNECTIONS;
    let mut client = new_client(&served.url);
    client.history.push(json!({"role": "user", "content": "look"}));
    request(&client, &served.url).await;
    let label = format!("{api:?} {}, stream: {}", client.path, client.stream);
    for (number, gate) in gates.iter().enumerate() {
        let label = format!("{label}, before event {number} of {events}");
        tokio::select! {
            biased;
            () = gate.reached() => {}
            () = request(&client, &served.url) => {
                assert!(number + OPTIONAL_EVENTS > events, "{label}: the response is complete");
                continue;
            }
        }
        within_timeout(served.provider.abandoned(), &format!("{label}: the provider still sends")).await;
    }
    // The provider may still be at a gate after the last event of a complete response.
    gates.iter().for_each(Gate::open);
    served.calls.running(0).await;
    check_tasks(idle, &label).await;
    assert_eq!(served.provider.rejections(), [], "{label}");
    // Without the gateway and the provider, nothing is left at all.
    drop(served);
    check_tasks(before, &label).await;
}

#[tokio::test]
async fn a_client_may_leave_at_every_event_of_a_text() {
    let output = answer("Some words that are not read.");
    for api in Api::ALL {
        for (path, stream) in CLIENTS {
            for first in [None, Some(call("lookup"))] {
                leave_at_every_event(api, first, &output, |url| client(url, path, stream)).await;
            }
        }
    }
}

#[tokio::test]
async fn a_client_may_leave_at_every_event_of_a_call() {
    for api in Api::ALL {
        for (path, stream) in CLIENTS {
            for tool in ["lookup", "get_weather"] {
                leave_at_every_event(api, None, &call(tool), |url| client(url, path, stream)).await;
            }
        }
    }
}

#[tokio::test]
async fn a_client_may_leave_at_every_event_of_a_forwarded_stream() {
    for output in [answer("Some words that are not read."), call("get_weather")] {
        for (api, path) in FORWARDED {
            leave_at_every_event(api, None, &output, |url| {
                let mut client = client(url, path, true);
                client.headers = FORWARDED_HEADERS.to_vec();
                client
            })
            .await;
        }
    }
}

/// The client leaves while two tools of a server run, with or without a call of its own in the same step.
#[tokio::test]
async fn a_client_may_leave_while_tools_run() {
    let two = call("wait").call("call00002", "wait", "{}");
    let three = two.clone().call("call00003", "get_weather", "{}");
    for output in [two, three] {
        for path in PATHS {
            for stream in [false, true] {
                let played = output.clone();
                let script = Script::from_fn(move |_| ScriptedResponse::Output(played.clone()))
                    .starting_with([ScriptedResponse::Output(answer("Hello."))]);
                let before = tasks();
                let served = serve_script(Api::Anthropic, script).await;
                let idle = tasks() + KEPT_CONNECTIONS;
                let mut client = client(&served.url, path, stream);
                client.history.push(json!({"role": "user", "content": "look"}));
                request(&client, &served.url).await;
                let label = format!("{path}, stream: {stream}");
                for _ in 0..10 {
                    tokio::select! {
                        biased;
                        () = served.calls.running(2) => {}
                        () = request(&client, &served.url) => panic!("{label}: the response is complete"),
                    }
                    within_timeout(served.calls.running(0), &format!("{label}: a call is still running"))
                        .await;
                }
                check_tasks(idle, &label).await;
                drop(served);
                check_tasks(before, &label).await;
            }
        }
    }
}
