//! Real clients for the tests, over an in-process stream, over HTTP and over the pipes of a separate process.
//! Results must be the same over every transport.

use std::cell::Cell;
use std::process::Stdio;

use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use serde_json::{Map, Value};
use toolwire_contract::Tool;
use toolwire_toolkit::transport::{
    HttpOptions, HttpServer, StreamServer, in_process, serve_http, serve_stdio,
};
use toolwire_toolkit::{Server, ServerBuilder, ToolResult};

/// A builder without prefix that ignores the environment.
pub(crate) fn plain() -> ServerBuilder {
    Server::builder("test").prefix("").environment::<&str, &str>([])
}

/// A transport within the process of the test.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    Stream,
    Http,
}

pub(crate) const TRANSPORTS: [Transport; 2] = [Transport::Stream, Transport::Http];

/// A client of the SDK that is connected to a server.
pub(crate) struct Client {
    client: RunningService<RoleClient, ()>,
    _server: RunningServer,
}

/// The server of a client. It stops when it is dropped.
enum RunningServer {
    Stream {
        _server: StreamServer,
    },
    Http {
        _server: HttpServer,
    },
    /// A process, which ends when its standard input is closed.
    Process,
}

impl Client {
    pub(crate) async fn connect(server: &Server, transport: Transport) -> Client {
        match transport {
            Transport::Stream => {
                let (stream, running) = in_process(server.clone()).unwrap();
                let client = rmcp::serve_client((), stream).await.unwrap();
                Client { client, _server: RunningServer::Stream { _server: running } }
            }
            Transport::Http => {
                let address = ([127, 0, 0, 1], 0).into();
                let running = serve_http(server.clone(), address, HttpOptions::default()).await.unwrap();
                toolwire_testkit::install_tls_provider();
                let transport = StreamableHttpClientTransport::from_uri(running.url());
                let client = rmcp::serve_client((), transport).await.unwrap();
                Client { client, _server: RunningServer::Http { _server: running } }
            }
        }
    }

    /// Runs this test in another process and connects to its server; see [`over_every_transport`].
    async fn connect_to_process(index: usize) -> Client {
        let thread = std::thread::current();
        let test =
            thread.name().filter(|name| *name != "main").expect("a test runs in a thread with its name");
        let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--include-ignored", "--nocapture"]).env(SERVE, index.to_string());
        let (process, _) = TokioChildProcess::builder(command).stderr(Stdio::null()).spawn().unwrap();
        Client { client: rmcp::serve_client((), process).await.unwrap(), _server: RunningServer::Process }
    }

    /// Returns the result, or the message of the protocol error.
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

/// Set in the process that only serves: the index of the request in the test whose server it serves.
const SERVE: &str = "TOOLWIRE_CONVENTIONS_SERVE";

thread_local! {
    /// The number of requests that this test has made.
    static REQUESTS: Cell<usize> = const { Cell::new(0) };
}

/// Makes a request over every transport and asserts that the results are equal.
///
/// A server cannot be passed to another process. Therefore the same test runs there up to the same request,
/// and serves the server on standard input and output.
#[track_caller]
fn over_every_transport<T: PartialEq + std::fmt::Debug>(
    server: &Server,
    request: impl AsyncFn(&Client) -> T,
) -> T {
    let index = REQUESTS.replace(REQUESTS.get() + 1);
    let served_index: Option<usize> = std::env::var(SERVE).ok().map(|index| index.parse().unwrap());
    if served_index == Some(index) {
        runtime().block_on(async { serve_stdio(server.clone()).unwrap().finished().await });
        std::process::exit(0);
    }
    let on =
        |transport| runtime().block_on(async { request(&Client::connect(server, transport).await).await });
    let result = on(Transport::Stream);
    if served_index.is_none() {
        assert_eq!(result, on(Transport::Http), "over a stream and over HTTP");
        let process = runtime().block_on(async { request(&Client::connect_to_process(index).await).await });
        assert_eq!(result, process, "over a stream and over the pipes of a process");
    }
    result
}

#[track_caller]
pub(crate) fn list(server: &Server) -> Vec<Tool> {
    serde_json::from_value(over_every_transport(server, async |client| client.list().await)).unwrap()
}

#[track_caller]
pub(crate) fn try_call(server: &Server, tool: &str, arguments: Value) -> Result<ToolResult, String> {
    let result = over_every_transport(server, async |client| client.call(tool, arguments.clone()).await)?;
    Ok(serde_json::from_value(result).unwrap())
}

#[track_caller]
pub(crate) fn call(server: &Server, tool: &str, arguments: Value) -> ToolResult {
    try_call(server, tool, arguments).unwrap()
}

/// Calls a tool and returns its outcome. The text must be the same JSON, and `isError` must match `success`.
#[track_caller]
pub(crate) fn outcome_of(server: &Server, tool: &str, arguments: Value) -> Value {
    let result = call(server, tool, arguments);
    let structured = result.structured_content.clone().expect("an outcome is structured");
    let [toolwire_toolkit::Content::Text { text, .. }] = result.blocks() else {
        panic!("an outcome has one text: {result:?}")
    };
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), structured);
    assert_eq!(result.is_error(), structured["success"] == false);
    structured
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
