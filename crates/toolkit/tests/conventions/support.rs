//! How the tests reach a server: through a real client, over lines, over HTTP and over the pipes of a process of its own, which
//! must all say the same.

use std::cell::Cell;
use std::process::Stdio;

use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use serde_json::{Map, Value};
use toolwire_contract::Tool;
use toolwire_toolkit::{
    HttpOptions, HttpServer, Server, ServerBuilder, StreamServer, ToolResult, in_process, serve_http,
    serve_stdio,
};

/// A builder that no variable of the machine reaches, without prefix.
pub(crate) fn plain() -> ServerBuilder {
    Server::builder("test").prefix("").environment::<&str, &str>([])
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Lines,
    Http,
}

pub(crate) const WAYS: [Way; 2] = [Way::Lines, Way::Http];

/// A client at a server. What it says stands for what every client says.
pub(crate) struct Client {
    client: RunningService<RoleClient, ()>,
    _served: Served,
}

/// Held: it ends with the client.
enum Served {
    Lines {
        _server: StreamServer,
    },
    Http {
        _server: HttpServer,
    },
    /// The process ends when its input does.
    Pipes,
}

impl Client {
    pub(crate) async fn at(server: &Server, way: Way) -> Client {
        match way {
            Way::Lines => {
                let (stream, served) = in_process(server.clone()).unwrap();
                let client = rmcp::serve_client((), stream).await.unwrap();
                Client { client, _served: Served::Lines { _server: served } }
            }
            Way::Http => {
                let address = ([127, 0, 0, 1], 0).into();
                let served = serve_http(server.clone(), address, HttpOptions::default()).await.unwrap();
                let transport = StreamableHttpClientTransport::from_uri(served.url());
                let client = rmcp::serve_client((), transport).await.unwrap();
                Client { client, _served: Served::Http { _server: served } }
            }
        }
    }

    /// At the server of this same test, in another process: see [`each_way`].
    async fn at_another_process(number: usize) -> Client {
        let thread = std::thread::current();
        let test =
            thread.name().filter(|name| *name != "main").expect("tests run in threads with their names");
        let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--include-ignored", "--nocapture"]).env(SERVE, number.to_string());
        let (process, _) = TokioChildProcess::builder(command).stderr(Stdio::null()).spawn().unwrap();
        Client { client: rmcp::serve_client((), process).await.unwrap(), _served: Served::Pipes }
    }

    /// The result, or the error of the protocol in words.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        let arguments: Option<Map<String, Value>> = serde_json::from_value(arguments).unwrap();
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = arguments;
        match self.client.call_tool(params).await {
            Ok(result) => Ok(serde_json::to_value(result).unwrap()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn list(&self) -> Value {
        serde_json::to_value(self.client.list_all_tools().await.unwrap()).unwrap()
    }
}

/// Set for the process that serves what a test asks about; its value is which question of the test it is for.
const SERVE: &str = "TOOLWIRE_CONVENTIONS_SERVE";

thread_local! {
    /// How many questions this test has asked.
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

/// What is asked of a client each way, which must be the same.
///
/// A server cannot be handed to another process. So the same test is run there, up to the same question, and there the server is
/// served on standard input and output instead.
#[track_caller]
fn each_way<T: PartialEq + std::fmt::Debug>(server: &Server, ask: impl AsyncFn(&Client) -> T) -> T {
    let number = ASKED.replace(ASKED.get() + 1);
    let served: Option<usize> = std::env::var(SERVE).ok().map(|number| number.parse().unwrap());
    if served == Some(number) {
        runtime().block_on(async { serve_stdio(server.clone()).unwrap().finished().await });
        std::process::exit(0);
    }
    let lines = runtime().block_on(async { ask(&Client::at(server, Way::Lines).await).await });
    if served.is_none() {
        let http = runtime().block_on(async { ask(&Client::at(server, Way::Http).await).await });
        assert_eq!(lines, http, "over lines and over HTTP");
        let pipes = runtime().block_on(async { ask(&Client::at_another_process(number).await).await });
        assert_eq!(lines, pipes, "over lines and over the pipes of another process");
    }
    lines
}

#[track_caller]
pub(crate) fn list(server: &Server) -> Vec<Tool> {
    serde_json::from_value(each_way(server, async |client| client.list().await)).unwrap()
}

#[track_caller]
pub(crate) fn try_call(server: &Server, tool: &str, arguments: Value) -> Result<ToolResult, String> {
    let result = each_way(server, async |client| client.call(tool, arguments.clone()).await)?;
    Ok(serde_json::from_value(result).unwrap())
}

#[track_caller]
pub(crate) fn call(server: &Server, tool: &str, arguments: Value) -> ToolResult {
    try_call(server, tool, arguments).unwrap()
}

/// What the call said, as JSON; the text must say the same, and `isError` must follow `success`.
#[track_caller]
pub(crate) fn said(server: &Server, tool: &str, arguments: Value) -> Value {
    let result = call(server, tool, arguments);
    let structured = result.structured_content.clone().expect("an outcome is structured");
    let [toolwire_toolkit::Content::Text { text, .. }] = result.blocks() else {
        panic!("an outcome is one text: {result:?}")
    };
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), structured);
    assert_eq!(result.is_error(), structured["success"] == false);
    structured
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
