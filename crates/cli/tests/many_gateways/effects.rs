//! An MCP server with a tool that must not be repeated.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolwire_contract::{Tool, ToolResult};
use toolwire_toolkit::handler::{Handler, Registered};
use toolwire_toolkit::transport::{HttpOptions, HttpServer, serve_http};
use toolwire_toolkit::{Context, Server};

use crate::model::APPENDED;

/// The server, and the file to which it writes.
pub(crate) struct Effects {
    pub(crate) url: String,
    path: PathBuf,
    _serving: HttpServer,
}

/// Appends a line with the id to the file. It is neither read-only nor idempotent. It needs no approval,
/// because it only adds data.
struct Append(Mutex<File>);

impl Handler for Append {
    fn run<'a>(&'a self, arguments: Map<String, Value>, _: &'a Context) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let id = arguments["id"].as_str().unwrap_or_default();
            writeln!(self.0.lock().unwrap_or_else(PoisonError::into_inner), "{id}").unwrap();
            // A gateway may be killed between an effect and its result.
            tokio::time::sleep(Duration::from_millis(20)).await;
            ToolResult::text(format!("{APPENDED}{id}"))
        })
    }
}

/// Takes some time, so that gateways are killed during responses.
struct Pause;

impl Handler for Pause {
    fn run<'a>(&'a self, _: Map<String, Value>, _: &'a Context) -> BoxFuture<'a, ToolResult> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            ToolResult::text("done")
        })
    }
}

fn registered(name: &str, annotations: &Value, handler: Arc<dyn Handler>) -> Registered {
    let mut tool = Tool::new(name, json!({"type": "object", "properties": {"id": {"type": "string"}}}));
    tool.description = Some(format!("The tool {name}"));
    tool.annotations = annotations.as_object().cloned();
    Registered { tool, plain_name: name.to_owned(), handler }
}

impl Effects {
    pub(crate) async fn start(folder: &Path) -> Effects {
        let path = folder.join("effects");
        let file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let append = registered("append", &json!({"destructiveHint": false}), Arc::new(Append(file.into())));
        let pause = registered("pause", &json!({"readOnlyHint": true}), Arc::new(Pause));
        let server = Server::builder("effects").register(append).register(pause).build().unwrap();
        let serving = serve_http(server, ([127, 0, 0, 1], 0).into(), HttpOptions::default()).await.unwrap();
        Effects { url: serving.url(), path, _serving: serving }
    }

    /// Returns the ids of all effects.
    pub(crate) fn all(&self) -> Vec<String> {
        std::fs::read_to_string(&self.path).unwrap().lines().map(str::to_owned).collect()
    }
}
