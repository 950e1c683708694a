//! Runs independent clients against a server of the toolkit, over stdio and HTTP and in both eras of the
//! protocol: the official clients for JavaScript and Python, and the command line of MCP Inspector.
//!
//! The clients start this program as the server on stdio. Arguments select cases by parts of their names.

#[path = "../fixture/mod.rs"]
mod fixture;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwire_testkit::InstalledServers;
use toolwire_toolkit::transport::{HttpOptions, serve_http, serve_stdio};
use toolwire_toolkit::{Context, Instruction, Outcome, Server, tool};

/// Set when a client starts this program as a server.
const SERVE: &str = "TOOLWIRE_SERVE_FIXTURE";

const REVISIONS: [(&str, &str); 2] = [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")];

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Order {
    /// The item to order
    thing: String,
    /// The number of items
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
        return Outcome::failure("cancelled", "the call was cancelled");
    }
    Outcome::ok(args).with_instruction(Instruction::present_and_stop())
}

/// The fixture with a tool that uses the macro.
fn server() -> Server {
    fixture::builder().tool(order).build().expect("unique names")
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // One of the tools panics on purpose; print only the message.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    if std::env::var_os(SERVE).is_some() {
        runtime.block_on(async { serve_stdio(server()).expect("a server").finished().await });
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let address = ([127, 0, 0, 1], 0).into();
    let serving = serve_http(server(), address, HttpOptions::default());
    let server = runtime.block_on(serving).expect("a free port");
    let program = std::env::current_exe().expect("the path of this program");
    let program = program.to_str().expect("a UTF-8 path").to_owned();
    let servers = InstalledServers::find();

    let mut failures = 0;
    for (transport, target) in [("stdio", program), ("http", server.url())] {
        for (era, revision) in REVISIONS {
            for client in [Client::JavaScript, Client::Python, Client::Inspector] {
                let name = format!("{client:?} over {transport}, {revision}");
                if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
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
                command.arg(script("client.mjs")).arg(package).args([era, target]);
                compare(&run(command)?, &expected_results(revision))
            }
            Client::Python => {
                // With a fixed revision, this client does not request the name of the server.
                let era = if era == "legacy" { "legacy" } else { "auto" };
                let mut command = Command::new(servers.python());
                command.arg(script("client.py")).args([era, target]);
                compare(&run(command)?, &expected_results(revision))
            }
            Client::Inspector => {
                let era = if era == "legacy" { "legacy" } else { "modern" };
                let inspect = |arguments: &[&str]| -> Result<Value, String> {
                    let mut command = servers.inspector().to_command();
                    // The inspector does not pass its environment to the server.
                    let serve = format!("{SERVE}=1");
                    command.args(["--cli", target, "-e", &serve, "--protocol-era", era]).args(arguments);
                    run(command)
                };
                let listed = inspect(&["--method", "tools/list"])?;
                let names: Vec<&str> = listed["tools"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|tool| tool["name"].as_str())
                    .collect();
                let tools = server().tools();
                let expected: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                if names != expected {
                    return Err(format!("unexpected tools: {names:?}"));
                }
                let echoed =
                    inspect(&["--method", "tools/call", "--tool-name", "echo", "--tool-arg", "text=hello"])?;
                compare(&echoed["content"], &json!([{"type": "text", "text": "hello"}]))?;
                let arguments = ["--tool-arg", "thing=tea", "count=2", "explicit_action=ORDER"];
                let ordered =
                    inspect(&[&["--method", "tools/call", "--tool-name", "order"], &arguments[..]].concat())?;
                compare(&ordered["structuredContent"], &expected_results(revision)["ordered"])
            }
        }
    }
}

/// The results that `client.mjs` and `client.py` must print.
fn expected_results(revision: &str) -> Value {
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
        "violations": [
            {"field": "thing", "message": "missing required property \"thing\""},
            {"field": "count", "message": "must be at most 9"},
        ],
        "failed": true,
        "panicked": true,
        "unknownTool": -32602,
        "elicited": text("Hello, Oslo!"),
        "resource": r#"{"id":"7","templateTest":true,"data":"Data for ID: 7"}"#,
        "prompt": 1,
        "completed": ["paris", "park", "party"],
        "progress": [0, 50, 100],
    })
}

fn compare(actual: &Value, expected: &Value) -> Result<(), String> {
    // Python prints whole numbers of progress as floats.
    let normalized = |value: &Value| value.to_string().replace(".0", "");
    let (actual, expected): (Value, Value) = (
        serde_json::from_str(&normalized(actual)).map_err(|error| error.to_string())?,
        serde_json::from_str(&normalized(expected)).map_err(|error| error.to_string())?,
    );
    match actual == expected {
        true => Ok(()),
        false => Err(format!("actual:   {actual}\nexpected: {expected}")),
    }
}

fn run(mut command: Command) -> Result<Value, String> {
    let Output { status, stdout, stderr } =
        command.env(SERVE, "1").output().map_err(|error| error.to_string())?;
    let stdout = String::from_utf8_lossy(&stdout);
    let failure = || format!("{status}\n{stdout}\n{}", String::from_utf8_lossy(&stderr));
    if !status.success() {
        return Err(failure());
    }
    serde_json::from_str(&stdout).map_err(|_| failure())
}

fn script(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(file)
}
