//! How the tests reach a server: through a real client, over lines and over HTTP, which must say the same.

use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Map, Value};
use toolwire_contract::Tool;
use toolwire_toolkit::{
    HttpOptions, HttpServer, Server, ServerBuilder, StreamServer, ToolResult, in_process, serve_http,
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
    Lines { _server: StreamServer },
    Http { _server: HttpServer },
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

/// What is asked of a client each way, which must be the same.
#[track_caller]
fn each_way<T: PartialEq + std::fmt::Debug>(server: &Server, ask: impl AsyncFn(&Client) -> T) -> T {
    let [lines, http] =
        WAYS.map(|way| runtime().block_on(async { ask(&Client::at(server, way).await).await }));
    assert_eq!(lines, http, "over lines and over HTTP");
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
    assert_eq!(result.failed(), structured["success"] == false);
    structured
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
