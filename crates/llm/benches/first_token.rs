//! Measures how much an endpoint delays the first text of a streamed response.
//!
//! The same stream is read by a bare `reqwest` client (until the first event with text arrives, without
//! parsing) and through an endpoint (until the first `ModelEvent::Text`), in turns, with 50 tools in the
//! request. The server responds at once, so the difference is the work of the endpoint: writing the request,
//! framing, parsing and reading.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::{Value, json};
use toolwire_contract::model::{Model, ModelEvent, ModelRequest};
use toolwire_contract::{Message, Tool};
use toolwire_dialect::request::{RequestOptions, write_request};
use toolwire_dialect::{Dialect, Options, Toolset};
use toolwire_llm::{Endpoint, EndpointConfig};
use toolwire_testkit::provider::{API_KEY, Api, FakeProvider, ModelOutput, Script, ScriptedResponse};

const ROUNDS: usize = 400;
const GOAL: Duration = Duration::from_millis(1);

fn request() -> ModelRequest {
    let tool = |number: usize| {
        let properties: Value = (0..8)
            .map(|n| (format!("parameter_{n}"), json!({"type": "string", "description": "A parameter"})))
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

async fn time_bare_client(
    client: &reqwest::Client,
    url: &str,
    body: &str,
) -> Result<Duration, Box<dyn Error>> {
    let start = Instant::now();
    let request = client
        .post(url)
        .bearer_auth(API_KEY)
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .body(body.to_owned());
    let mut bytes = request.send().await?.error_for_status()?.bytes_stream();
    let mut buffer = Vec::new();
    let mut first = None;
    while let Some(chunk) = bytes.next().await {
        buffer.extend_from_slice(&chunk?);
        let has_text = buffer.windows(11).any(|window| window == b"\"content\":\"");
        if first.is_none() && has_text && buffer.windows(5).any(|window| window == b"Hello") {
            first = Some(start.elapsed());
        }
    }
    first.ok_or_else(|| "no text was received".into())
}

async fn time_endpoint(endpoint: &Endpoint, request: ModelRequest) -> Result<Duration, Box<dyn Error>> {
    let start = Instant::now();
    let mut events = endpoint.ask(request);
    let mut first = None;
    while let Some(event) = events.next().await {
        if let ModelEvent::Text(_) = event?
            && first.is_none()
        {
            first = Some(start.elapsed());
        }
    }
    first.ok_or_else(|| "no text was received".into())
}

/// Returns the CPU time of this process, if the system reports it. It does not depend on other load.
fn cpu_time() -> Option<Duration> {
    let mut nanoseconds = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        nanoseconds += text.split(' ').next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(nanoseconds))
}

fn percentile(mut times: Vec<Duration>, fraction: f64) -> Duration {
    times.sort();
    times[((times.len() - 1) as f64 * fraction) as usize]
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let output = ModelOutput::text("Hello there, this is a short response in a few chunks.");
    let script = Script::from_fn(move |_| ScriptedResponse::Output(output.clone()));
    let provider = FakeProvider::start(Api::OpenAiChat, script).await;
    let config: EndpointConfig =
        serde_json::from_value(json!({"baseUrl": provider.base_url(), "apiKey": API_KEY}))?;
    let endpoint = Endpoint::new("openai/m", &config, |_| None)?;
    let request = request();
    let toolset = Arc::new(Toolset::new(&request.tools, Dialect::OpenAi, &Options::default()));
    let mut options = RequestOptions::default();
    options.model = "m".to_owned();
    options.stream = true;
    let body = write_request(Dialect::OpenAi, &request, &toolset, &options)?.to_string();
    toolwire_testkit::install_tls_provider();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let url = format!("{}/chat/completions", provider.base_url());

    let (mut bare_times, mut times) = (Vec::new(), Vec::new());
    let (mut bare_cpu_times, mut cpu_times) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS + 20 {
        let start = cpu_time();
        let bare = time_bare_client(&client, &url, &body).await?;
        let middle = cpu_time();
        let through_endpoint = time_endpoint(&endpoint, request.clone()).await?;
        let end = cpu_time();
        if round >= 20 {
            bare_times.push(bare);
            times.push(through_endpoint);
            if let (Some(start), Some(middle), Some(end)) = (start, middle, end) {
                bare_cpu_times.push(middle.saturating_sub(start));
                cpu_times.push(end.saturating_sub(middle));
            }
        }
    }
    println!(
        "first token of a streamed response, 50 tools and 20 messages in the request, {ROUNDS} alternating rounds"
    );
    println!("{:>6} {:>12} {:>12} {:>12}", "", "bare reqwest", "endpoint", "added");
    let mut median_added = Duration::ZERO;
    for (label, fraction) in [("p10", 0.1), ("p50", 0.5), ("p90", 0.9)] {
        let (bare, through_endpoint) =
            (percentile(bare_times.clone(), fraction), percentile(times.clone(), fraction));
        let added = through_endpoint.saturating_sub(bare);
        if fraction == 0.5 {
            median_added = added;
        }
        println!("{label:>6} {bare:>12.1?} {through_endpoint:>12.1?} {added:>12.1?}");
    }
    if !cpu_times.is_empty() {
        let (bare, through_endpoint) = (percentile(bare_cpu_times, 0.5), percentile(cpu_times, 0.5));
        let added = through_endpoint.saturating_sub(bare);
        println!("CPU time of the complete response, server and client, p50:");
        println!("{:>6} {bare:>12.1?} {through_endpoint:>12.1?} {added:>12.1?}", "");
    }
    let mut write_times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let body = write_request(Dialect::OpenAi, &request, &toolset, &options)?;
        std::hint::black_box(serde_json::to_vec(&body)?);
        write_times.push(start.elapsed());
    }
    println!("of which writing the request of {} bytes: {:.1?}", body.len(), percentile(write_times, 0.5));
    let verdict = if median_added < GOAL { "met" } else { "MISSED" };
    println!("goal: median under {GOAL:?} added: {verdict}");
    Ok(())
}
