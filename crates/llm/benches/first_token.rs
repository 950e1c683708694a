//! How much later than the bytes themselves the first piece of text comes.
//!
//! The same stream is read by a bare `reqwest` client (until the first event with text in it is there, not parsed) and
//! through an endpoint (until the first `ModelEvent::Text`), in turns, with 50 tools in the request. The server responses at
//! once, so what differs is what the endpoint does: writing the request, framing, parsing, reading.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::{Value, json};
use toolwire_contract::{Message, Model, ModelEvent, ModelRequest, Tool};
use toolwire_dialect::{Dialect, Options, RequestOptions, Toolset, write_request};
use toolwire_llm::{Endpoint, EndpointConfig};
use toolwire_testkit::provider::{API_KEY, Api, FakeProvider, ModelOutput, Script, ScriptedResponse};

const ROUNDS: usize = 400;
const GOAL: Duration = Duration::from_millis(1);

fn request() -> ModelRequest {
    let tool = |number: usize| {
        let properties: Value = (0..8)
            .map(|n| (format!("parameter_{n}"), json!({"type": "string", "description": "Something to say"})))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let schema = json!({"type": "object", "properties": properties, "required": ["parameter_0"]});
        Tool { description: Some("Does one thing".to_owned()), ..Tool::new(format!("tool_{number}"), schema) }
    };
    ModelRequest {
        messages: (0..20).map(|n| Message::user(format!("message {n} of a conversation")).into()).collect(),
        tools: (0..50).map(tool).collect(),
        ..ModelRequest::default()
    }
}

async fn bare(client: &reqwest::Client, url: &str, body: &str) -> Result<Duration, Box<dyn Error>> {
    let begun = Instant::now();
    let request = client
        .post(url)
        .bearer_auth(API_KEY)
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .body(body.to_owned());
    let mut bytes = request.send().await?.error_for_status()?.bytes_stream();
    let mut held = Vec::new();
    let mut first = None;
    while let Some(chunk) = bytes.next().await {
        held.extend_from_slice(&chunk?);
        let has_text = held.windows(11).any(|window| window == b"\"content\":\"");
        if first.is_none() && has_text && held.windows(5).any(|window| window == b"Hello") {
            first = Some(begun.elapsed());
        }
    }
    first.ok_or_else(|| "no text came".into())
}

async fn through(endpoint: &Endpoint, request: ModelRequest) -> Result<Duration, Box<dyn Error>> {
    let begun = Instant::now();
    let mut events = endpoint.ask(request);
    let mut first = None;
    while let Some(event) = events.next().await {
        if let ModelEvent::Text(_) = event?
            && first.is_none()
        {
            first = Some(begun.elapsed());
        }
    }
    first.ok_or_else(|| "no text came".into())
}

/// How long the processors have worked for this process, where that can be read; a busy machine does not change it.
fn worked() -> Option<Duration> {
    let mut all = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        all += text.split(' ').next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(all))
}

fn middle(mut times: Vec<Duration>, share: f64) -> Duration {
    times.sort();
    times[((times.len() - 1) as f64 * share) as usize]
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let said = ModelOutput::text("Hello there, this is a short response in a few pieces.");
    let script = Script::from_fn(move |_| ScriptedResponse::Output(said.clone()));
    let provider = FakeProvider::start(Api::OpenAiChat, script).await;
    let config: EndpointConfig =
        serde_json::from_value(json!({"baseUrl": provider.base_url(), "apiKey": API_KEY}))?;
    let endpoint = Endpoint::new("openai/m", &config, |_| None)?;
    let request = request();
    let toolset = Arc::new(Toolset::new(&request.tools, Dialect::OpenAi, &Options::default()));
    let options = RequestOptions { model: "m".to_owned(), stream: true, ..RequestOptions::default() };
    let body = write_request(Dialect::OpenAi, &request, &toolset, &options)?.to_string();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let url = format!("{}/chat/completions", provider.base_url());

    let (mut bare_times, mut times) = (Vec::new(), Vec::new());
    let (mut bare_work, mut work) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS + 20 {
        let begun = worked();
        let one = bare(&client, &url, &body).await?;
        let between = worked();
        let other = through(&endpoint, request.clone()).await?;
        let ended = worked();
        if round >= 20 {
            bare_times.push(one);
            times.push(other);
            if let (Some(begun), Some(between), Some(ended)) = (begun, between, ended) {
                bare_work.push(between.saturating_sub(begun));
                work.push(ended.saturating_sub(between));
            }
        }
    }
    println!(
        "first token of a streamed response, 50 tools and 20 messages in the request, {ROUNDS} rounds in turns"
    );
    println!("{:>6} {:>12} {:>12} {:>12}", "", "bare reqwest", "endpoint", "added");
    let mut added_in_the_middle = Duration::ZERO;
    for (label, share) in [("p10", 0.1), ("p50", 0.5), ("p90", 0.9)] {
        let (one, other) = (middle(bare_times.clone(), share), middle(times.clone(), share));
        let added = other.saturating_sub(one);
        if share == 0.5 {
            added_in_the_middle = added;
        }
        println!("{label:>6} {one:>12.1?} {other:>12.1?} {added:>12.1?}");
    }
    if !work.is_empty() {
        let (one, other) = (middle(bare_work, 0.5), middle(work, 0.5));
        let added = other.saturating_sub(one);
        println!("processor time of the whole response, server and client, p50:");
        println!("{:>6} {one:>12.1?} {other:>12.1?} {added:>12.1?}", "");
    }
    let mut writing = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let body = write_request(Dialect::OpenAi, &request, &toolset, &options)?;
        std::hint::black_box(serde_json::to_vec(&body)?);
        writing.push(begun.elapsed());
    }
    println!("of which writing the request of {} bytes: {:.1?}", body.len(), middle(writing, 0.5));
    let verdict = if added_in_the_middle < GOAL { "kept" } else { "MISSED" };
    println!("goal: under {GOAL:?} added in the middle: {verdict}");
    Ok(())
}
