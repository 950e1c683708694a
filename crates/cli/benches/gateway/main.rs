//! Measures the overhead of the gateway: a client, the gateway and a provider that responds at once, on one
//! machine.
//!
//! `cargo bench --workspace --bench gateway`, with `-- endurance` for a million requests, or with a part of a
//! row's name for only these rows. Requires Linux. Each row compares requests to the provider with the same
//! requests through the gateway, in alternating rounds. All three programs share the cores, so the client and
//! the provider limit the requests per second too. The CPU time is that of the gateway's process alone and
//! depends less on other load. Streams have 20 text events, each in its own chunk.

mod http;
mod load;
mod process;
mod upstream;

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use load::Request;
use process::Gateway;
use serde_json::{Value, json};
use upstream::Behaviour;

const CONNECTIONS: usize = 64;
const ROUNDS: usize = 3;
const OPEN_STREAMS: usize = 2_000;

/// Requests of one kind, as the client sends them to the gateway and to the provider.
struct Scenario {
    name: &'static str,
    behaviour: Behaviour,
    /// The API of the provider's model.
    provider: &'static str,
    /// The path of the client's API.
    path: &'static str,
    uses_tools: bool,
    client_tools: usize,
    requests: usize,
}

impl Scenario {
    const fn new(name: &'static str, behaviour: Behaviour, requests: usize) -> Scenario {
        let path = "/v1/chat/completions";
        Scenario { name, behaviour, provider: "openai", path, uses_tools: false, client_tools: 0, requests }
    }

    fn model(&self) -> String {
        format!("{}{}", self.provider, self.behaviour.path().replace('/', "-"))
    }

    fn body(&self) -> Value {
        let mut body = json!({
            "model": self.model(),
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": "What is 25 + 17?"}],
        });
        if matches!(self.behaviour, Behaviour::Stream | Behaviour::OpenStream) {
            body["stream"] = json!(true);
        }
        if self.client_tools > 0 {
            body["tools"] = (0..self.client_tools).map(client_tool).collect();
        }
        body
    }

    fn through(&self, gateway: &Gateway) -> Request {
        Request::new(gateway.address, self.path, &self.body())
    }

    fn direct(&self, provider: SocketAddr) -> Request {
        Request::new(provider, &format!("{}{}", self.behaviour.path(), self.path), &self.body())
    }
}

fn scenarios() -> Vec<Scenario> {
    use Behaviour::{Calls, Stream, Text};
    vec![
        Scenario::new("same API", Text, 40_000),
        Scenario { client_tools: 50, ..Scenario::new("same API, 50 tools of the client", Text, 20_000) },
        Scenario::new("same API, streamed", Stream, 30_000),
        Scenario { provider: "anthropic", ..Scenario::new("Chat Completions to Messages", Text, 20_000) },
        Scenario {
            provider: "anthropic",
            ..Scenario::new("Chat Completions to Messages, streamed", Stream, 15_000)
        },
        Scenario { path: "/v1/messages", ..Scenario::new("Messages to Chat Completions", Text, 20_000) },
        Scenario { uses_tools: true, ..Scenario::new("tools added, none called", Text, 10_000) },
        Scenario { uses_tools: true, ..Scenario::new("one call of an MCP tool", Calls(1), 8_000) },
    ]
}

fn client_tool(number: usize) -> Value {
    let properties: Value = (0..8)
        .map(|n| {
            (format!("parameter_{n}"), json!({"type": "string", "description": "A parameter of the tool"}))
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    let parameters = json!({"type": "object", "properties": properties, "required": ["parameter_0"]});
    let function =
        json!({"name": format!("tool_{number}"), "description": "Does one thing", "parameters": parameters});
    json!({"type": "function", "function": function})
}

/// Returns a configuration with a model for each API and behaviour, and the demo server if tools are used.
fn config(provider: SocketAddr, uses_tools: bool) -> Value {
    let mut models = serde_json::Map::new();
    for behaviour in
        [Behaviour::Text, Behaviour::Stream, Behaviour::OpenStream, Behaviour::Calls(1), Behaviour::Calls(2)]
    {
        for (api, base) in [("openai", "/v1"), ("anthropic", "")] {
            let scenario = Scenario { provider: api, ..Scenario::new("", behaviour, 0) };
            let base_url = format!("http://{provider}{}{base}", behaviour.path());
            models.insert(
                scenario.model(),
                json!({"provider": api, "model": "fixed", "baseUrl": base_url, "apiKey": "none"}),
            );
        }
    }
    let program =
        std::env::var("TOOLWIRE_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_toolwire").to_owned());
    let servers = match uses_tools {
        true => json!({"demo": {"command": program, "args": ["demo-server"]}}),
        false => json!({}),
    };
    json!({"mcpServers": servers, "toolwire": {"model": "openai-text", "models": models, "gateway": {"limits": {"requests": 2 * OPEN_STREAMS}}}})
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let provider = upstream::start()?;
    let plain = Gateway::start(&config(provider, false))?;
    if std::env::args().any(|argument| argument == "endurance") {
        return print_endurance(&plain, provider).await;
    }
    let with_tools = Gateway::start(&config(provider, true))?;
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    println!("| | direct/s | gateway/s | gateway CPU per request |\n|---|--:|--:|--:|");
    let is_selected = |name: &str| filter.as_deref().is_none_or(|filter| name.contains(filter));
    for scenario in scenarios().into_iter().filter(|scenario| is_selected(scenario.name)) {
        let gateway = if scenario.uses_tools { &with_tools } else { &plain };
        print_throughput(&scenario, gateway, provider).await?;
    }
    if filter.is_some() {
        return Ok(());
    }
    println!("\n| one request at a time | direct | gateway | added |\n|---|--:|--:|--:|");
    for (name, scenario, gateway) in [
        ("same API, streamed, to the first text", Scenario::new("", Behaviour::Stream, 3_000), &plain),
        ("two calls of MCP tools, to the end", Scenario::new("", Behaviour::Calls(2), 1_000), &with_tools),
    ] {
        print_latency(name, &scenario, gateway, provider).await?;
    }
    print_open_streams(&plain).await
}

/// Prints the best of some rounds: other load only ever makes a round slower.
async fn print_throughput(
    scenario: &Scenario,
    gateway: &Gateway,
    provider: SocketAddr,
) -> Result<(), Box<dyn Error>> {
    let (through, direct) = (scenario.through(gateway), scenario.direct(provider));
    load::run(&through, CONNECTIONS, scenario.requests / 10).await?;
    let (mut best_direct, mut best_through, mut best_cpu) = (0.0_f64, 0.0_f64, f64::INFINITY);
    for _ in 0..ROUNDS {
        let per_second = |load: &load::Load| load.requests as f64 / load.elapsed.as_secs_f64();
        best_direct = best_direct.max(per_second(&load::run(&direct, CONNECTIONS, scenario.requests).await?));
        let before = gateway.cpu_time()?;
        let load = load::run(&through, CONNECTIONS, scenario.requests).await?;
        let cpu = gateway.cpu_time()?.saturating_sub(before);
        best_through = best_through.max(per_second(&load));
        best_cpu = best_cpu.min(milliseconds(cpu) / load.requests as f64);
    }
    println!("| {} | {best_direct:.0} | {best_through:.0} | {best_cpu:.3} ms |", scenario.name);
    Ok(())
}

async fn print_latency(
    name: &str,
    scenario: &Scenario,
    gateway: &Gateway,
    provider: SocketAddr,
) -> Result<(), Box<dyn Error>> {
    let (through, direct) = (scenario.through(gateway), scenario.direct(provider));
    load::latencies(&through, scenario.requests / 10).await?;
    let median = |times: Vec<Duration>| milliseconds(times[times.len() / 2]);
    let direct = median(load::latencies(&direct, scenario.requests).await?);
    let through = median(load::latencies(&through, scenario.requests).await?);
    println!("| {name} | {direct:.3} ms | {through:.3} ms | {:.3} ms |", through - direct);
    Ok(())
}

async fn print_open_streams(gateway: &Gateway) -> Result<(), Box<dyn Error>> {
    let request = Scenario::new("", Behaviour::OpenStream, 0).through(gateway);
    let before = gateway.memory()?;
    let streams = load::open_streams(&request, OPEN_STREAMS).await?;
    let after = gateway.memory()?;
    println!(
        "\n{} open streams: {:.1} MB, {:.1} MB before",
        streams.len(),
        megabytes(after),
        megabytes(before)
    );
    Ok(())
}

/// Prints the memory during a million requests of all kinds.
async fn print_endurance(plain: &Gateway, provider: SocketAddr) -> Result<(), Box<dyn Error>> {
    let with_tools = Gateway::start(&config(provider, true))?;
    println!("| requests | memory | with tools |\n|--:|--:|--:|");
    let mut requests = 0;
    for _ in 0..10 {
        for scenario in scenarios() {
            let gateway = if scenario.uses_tools { &with_tools } else { plain };
            let share = if scenario.client_tools > 0 { 10_000 } else { 13_000 };
            requests += load::run(&scenario.through(gateway), CONNECTIONS, share).await?.requests;
        }
        let (plain, tools) = (megabytes(plain.memory()?), megabytes(with_tools.memory()?));
        println!("| {requests} | {plain:.1} MB | {tools:.1} MB |");
    }
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1_000_000.0
}
