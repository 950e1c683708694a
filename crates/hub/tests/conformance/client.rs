//! The client that the suite watches: a session of the hub, doing what the scenario's flow says.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolwire_hub::auth::{AuthConfig, GrantKind, OAuth, TokenProvider};
use toolwire_hub::{
    Browser, CallOptions, ConnectContext, ElicitKind, ElicitReply, ElicitRequest, Host, HttpKind, Listing,
    Secret, Session, Target,
};

use crate::scenarios::{self, Flow};

/// Below the half minute that the suite gives a client, so that it is told what went wrong.
const LONGEST_RUN: Duration = Duration::from_secs(25);

/// Where this client's metadata document would be; the suite knows it by this address and never reads it.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";

type Outcome<T> = Result<T, Box<dyn Error>>;

pub(crate) fn main(scenario: &str) -> ExitCode {
    let outcome = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| {
        runtime.block_on(async {
            tokio::time::timeout(LONGEST_RUN, run(scenario)).await.map_err(|_| "it took too long")?
        })
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(scenario: &str) -> Outcome<()> {
    let scenario = scenarios::named(scenario).ok_or("this scenario is not in the table")?;
    let url = std::env::args().next_back().ok_or("there is no address")?;
    let context: Value = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(context) => serde_json::from_str(&context)?,
        Err(_) => Value::Null,
    };
    // Tokens are kept in files, here as everywhere; each run starts without.
    let folder = tempfile::tempdir()?;
    let bearer = sign_in(scenario.flow, &url, &context, folder.path())?;
    let session = connect(&url, bearer).await?;
    let done = converse(scenario.flow, &session, &context).await;
    session.close().await;
    done
}

fn sign_in(flow: Flow, url: &str, context: &Value, folder: &Path) -> Outcome<Option<Arc<dyn TokenProvider>>> {
    let text = |key: &str| context[key].as_str().map(str::to_owned);
    let registered = AuthConfig {
        client_id: text("client_id"),
        client_secret: text("client_secret").map(Secret::new),
        ..AuthConfig::default()
    };
    let config = match flow {
        Flow::SignIn => {
            AuthConfig { client_metadata_url: Some(CLIENT_METADATA.into()), ..AuthConfig::default() }
        }
        Flow::SignInRegistered => registered,
        Flow::SignInAsClient => AuthConfig {
            grant: GrantKind::ClientCredentials,
            private_key: text("private_key_pem").map(Secret::new),
            ..registered
        },
        _ => return Ok(None),
    };
    let oauth = OAuth::new("conformance", url, config, folder, Some(Arc::new(Visitor)))?;
    Ok(Some(Arc::new(oauth)))
}

async fn connect(url: &str, bearer: Option<Arc<dyn TokenProvider>>) -> Outcome<Session> {
    let target = Target::Http { url: url.to_owned(), headers: Vec::new(), kind: HttpKind::Auto };
    let (events, _) = mpsc::channel(1);
    let context = ConnectContext {
        server: "conformance".into(),
        host: Arc::new(Obliging),
        events,
        // Found out by asking, as with any server seen for the first time.
        era: None,
        bearer,
        environment: Arc::new([]),
        timeout: LONGEST_RUN,
        stop: CancellationToken::new(),
    };
    Ok(Session::connect(&target, context).await?)
}

async fn converse(flow: Flow, session: &Session, context: &Value) -> Outcome<()> {
    let listing = session.list_tools().await?;
    match flow {
        Flow::ListTools => Ok(()),
        Flow::CallTools | Flow::SignIn | Flow::SignInAsClient | Flow::SignInRegistered => {
            for tool in offered(&listing) {
                call(session, text(tool, "name")?, fitting(&tool["inputSchema"])).await?;
            }
            Ok(())
        }
        Flow::CallAsTold => {
            for told in context["toolCalls"].as_array().ok_or("the context has no calls")? {
                let arguments = told["arguments"].as_object().ok_or("a call has no arguments")?;
                call(session, text(told, "name")?, arguments.clone()).await?;
            }
            Ok(())
        }
        Flow::GiveInput => {
            let calls =
                offered(&listing).map(|tool| async { call(session, text(tool, "name")?, Map::new()).await });
            futures::future::try_join_all(calls).await?;
            Ok(())
        }
        Flow::EchoSchema => {
            let shown = offered(&listing).find(|tool| tool["name"] == "json_schema_2020_12_tool");
            let schema = shown.ok_or("there is no tool whose schema to echo")?["inputSchema"].clone();
            call(session, "json_schema_echo", Map::from_iter([("schema".into(), schema)])).await
        }
        Flow::Skip(reason) => Err(reason.into()),
    }
}

fn offered(listing: &Listing) -> impl Iterator<Item = &Value> {
    let is_left_out =
        |tool: &Value| listing.left_out.iter().any(|left_out| tool["name"] == left_out.name.as_str());
    listing.tools.iter().filter(move |tool| !is_left_out(tool))
}

async fn call(session: &Session, name: &str, arguments: Map<String, Value>) -> Outcome<()> {
    let options = CallOptions { timeout: LONGEST_RUN, ..CallOptions::default() };
    let result = session.call(name, arguments, options).await?;
    match result["isError"] == true {
        true => Err(format!("`{name}` failed: {result}").into()),
        false => Ok(()),
    }
}

fn text<'value>(value: &'value Value, key: &str) -> Outcome<&'value str> {
    value[key].as_str().ok_or_else(|| format!("`{key}` is missing in {value}").into())
}

/// A value for each property.
fn fitting(schema: &Value) -> Map<String, Value> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let values = properties.map(|(name, schema)| {
        let value = match schema["type"].as_str() {
            Some("integer" | "number") => json!(2),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => json!("text"),
        };
        (name.clone(), value)
    });
    values.collect()
}

/// Agrees to everything, and leaves what has a default as it is.
struct Obliging;

impl Host for Obliging {
    fn can_elicit(&self) -> bool {
        true
    }

    fn can_sample(&self) -> bool {
        true
    }

    fn elicit<'a>(&'a self, _server: &'a str, request: ElicitRequest) -> BoxFuture<'a, ElicitReply> {
        let answer = match request.kind {
            ElicitKind::Form { schema } => {
                let mut values = fitting(&schema);
                values.retain(|name, _| schema["properties"][name].get("default").is_none());
                ElicitReply::Accept(Some(Value::Object(values)))
            }
            ElicitKind::Url { .. } => ElicitReply::Accept(None),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// Follows the login page to where it leads, as a browser with a willing person in front of it.
struct Visitor;

impl Browser for Visitor {
    fn open<'a>(&'a self, _server: &'a str, url: &'a str) -> BoxFuture<'a, std::io::Result<()>> {
        Box::pin(async move { reqwest::get(url).await.map(|_| ()).map_err(std::io::Error::other) })
    }
}
