//! Clients that others wrote, against a server made with the toolkit: over standard input and output and over HTTP, in both
//! eras. They are the official clients for JavaScript and Python, and MCP Inspector's command line.
//!
//! The clients start this same program as the server on stdio. Words on the command line choose cases.

#[path = "../fixture/mod.rs"]
mod fixture;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwire_testkit::InstalledServers;
use toolwire_toolkit::{Context, HttpOptions, Instruction, Outcome, Server, serve_http, serve_stdio, tool};

/// Set for the server that a client starts.
const SERVE: &str = "TOOLWIRE_SERVE_FIXTURE";

const REVISIONS: [(&str, &str); 2] = [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")];

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Order {
    /// What to order
    thing: String,
    /// How many
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 9))]
    count: u8,
}

fn one() -> u8 {
    1
}

/// Order something.
#[tool(explicit = "ORDER", prefix = "")]
async fn order(args: Order, cx: &Context) -> Outcome<Order> {
    if cx.cancelled.is_cancelled() {
        return Outcome::failure("cancelled", "nobody waits for it");
    }
    Outcome::ok(args).with_instruction(Instruction::present_and_stop())
}

/// The fixture, and a tool as people write them.
fn server() -> Server {
    fixture::builder().tool(order).build().expect("each name comes once")
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    // One of the tools panics on purpose.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    if std::env::var_os(SERVE).is_some() {
        runtime.block_on(async { serve_stdio(server()).expect("it can be served").finished().await });
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let address = ([127, 0, 0, 1], 0).into();
    let served = serve_http(server(), address, HttpOptions::default());
    let server = runtime.block_on(served).expect("a free port can be listened on");
    let ourselves = std::env::current_exe().expect("a running program has a path");
    let ourselves = ourselves.to_str().expect("the path of this program is text").to_owned();
    let servers = InstalledServers::find();

    let mut failures = 0;
    for (transport, target) in [("stdio", ourselves), ("http", server.url())] {
        for (era, revision) in REVISIONS {
            for client in [Client::JavaScript, Client::Python, Client::Inspector] {
                let name = format!("{client:?} over {transport}, {revision}");
                if !chosen.is_empty() && !chosen.iter().any(|word| name.contains(word.as_str())) {
                    continue;
                }
                match client.check(&servers, era, revision, &target) {
                    Ok(()) => println!("  {name}: passed"),
                    Err(problem) => {
                        failures += 1;
                        println!("  {name}: FAILED\n{problem}");
                    }
                }
            }
        }
    }
    runtime.block_on(server.shutdown(Duration::from_secs(5)));
    match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

#[derive(Clone, Copy, Debug)]
enum Client {
    JavaScript,
    Python,
    Inspector,
}

impl Client {
    fn check(
        self,
        servers: &InstalledServers,
        era: &str,
        revision: &str,
        target: &str,
    ) -> Result<(), String> {
        match self {
            Client::JavaScript => {
                let package = servers.package("@modelcontextprotocol/client");
                let mut command = Command::new(servers.node());
                command.arg(beside("client.mjs")).arg(package).args([era, target]);
                same(&run(command)?, &everything(revision))
            }
            Client::Python => {
                // Told which revision to use, it would not ask who the server is.
                let era = if era == "legacy" { "legacy" } else { "auto" };
                let mut command = Command::new(servers.python());
                command.arg(beside("client.py")).args([era, target]);
                same(&run(command)?, &everything(revision))
            }
            Client::Inspector => {
                let era = if era == "legacy" { "legacy" } else { "modern" };
                let ask = |arguments: &[&str]| -> Result<Value, String> {
                    let mut command = servers.inspector().to_command();
                    // It hands its own environment on to no one.
                    let serve = format!("{SERVE}=1");
                    command.args(["--cli", target, "-e", &serve, "--protocol-era", era]).args(arguments);
                    run(command)
                };
                let listed = ask(&["--method", "tools/list"])?;
                let names: Vec<&str> = listed["tools"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|tool| tool["name"].as_str())
                    .collect();
                let ours = server().tools();
                let expected: Vec<&str> = ours.iter().map(|tool| tool.name.as_str()).collect();
                if names != expected {
                    return Err(format!("it sees other tools: {names:?}"));
                }
                let said =
                    ask(&["--method", "tools/call", "--tool-name", "echo", "--tool-arg", "text=hello"])?;
                same(&said["content"], &json!([{"type": "text", "text": "hello"}]))?;
                let ordered = ["--tool-arg", "thing=tea", "count=2", "explicit_action=ORDER"];
                let ordered =
                    ask(&[&["--method", "tools/call", "--tool-name", "order"], &ordered[..]].concat())?;
                same(&ordered["structuredContent"], &everything(revision)["ordered"])
            }
        }
    }
}

/// What a client sees that does a little of everything.
fn everything(revision: &str) -> Value {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    json!({
        "revision": revision,
        "server": "toolkit-fixture",
        "tools": server().tools().len(),
        "extra": "addressDef",
        "echo": text("grüß dich"),
        "ordered": {
            "success": true,
            "value": {"thing": "tea", "count": 2},
            "instruction": Instruction::present_and_stop(),
        },
        "refused": [
            {"field": "thing", "message": "missing required property \"thing\""},
            {"field": "count", "message": "must be at most 9"},
        ],
        "failed": true,
        "panicked": true,
        "unknown": -32602,
        "asked": text("Hello, Oslo!"),
        "resource": r#"{"id":"7","templateTest":true,"data":"Data for ID: 7"}"#,
        "prompt": 1,
        "completed": ["paris", "park", "party"],
        "progress": [0, 50, 100],
    })
}

fn same(seen: &Value, expected: &Value) -> Result<(), String> {
    // Python writes whole numbers of progress with a fraction.
    let plain = |value: &Value| value.to_string().replace(".0", "");
    let (seen, expected): (Value, Value) = (
        serde_json::from_str(&plain(seen)).map_err(|error| error.to_string())?,
        serde_json::from_str(&plain(expected)).map_err(|error| error.to_string())?,
    );
    match seen == expected {
        true => Ok(()),
        false => Err(format!("seen:     {seen}\nexpected: {expected}")),
    }
}

fn run(mut command: Command) -> Result<Value, String> {
    let Output { status, stdout, stderr } =
        command.env(SERVE, "1").output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&stdout);
    let wrong = || format!("{status}\n{said}\n{}", String::from_utf8_lossy(&stderr));
    if !status.success() {
        return Err(wrong());
    }
    serde_json::from_str(&said).map_err(|_| wrong())
}

fn beside(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(file)
}
