//! The client that the suite tests: a hub that runs the flow of the scenario.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolwire_contract::toolbox::{CallOptions, SchemaFingerprint, Toolbox, ValidationStamp};
use toolwire_contract::{Secret, Tool};
use toolwire_hub::auth::{AuthConfig, GrantKind};
use toolwire_hub::config::HttpKind;
use toolwire_hub::host::{ElicitKind, ElicitReply, ElicitRequest, Host};
use toolwire_hub::{Browser, Config, Hub, HubOptions, ServerConfig, ServerName, Transport};

use crate::scenarios::{self, Flow};

/// The maximum duration of a scenario. The suite stops a client after 30 seconds; ending earlier lets the
/// client report the error.
const MAX_RUN_TIME: Duration = Duration::from_secs(25);

/// The URL of this client's metadata document. The suite knows it and never fetches it.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";

const SERVER: &str = "conformance";

type Outcome<T> = Result<T, Box<dyn Error>>;

pub(crate) fn main(scenario: &str) -> ExitCode {
    let outcome = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| {
        runtime.block_on(async {
            tokio::time::timeout(MAX_RUN_TIME, run(scenario)).await.map_err(|_| "the scenario timed out")?
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
    let scenario = scenarios::named(scenario).ok_or("the scenario is not in the table")?;
    let url = std::env::args().next_back().ok_or("the URL is missing")?;
    let context: Value = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(context) => serde_json::from_str(&context)?,
        Err(_) => Value::Null,
    };
    // Tokens are stored in files; each run starts without any.
    let folder = tempfile::tempdir()?;
    let hub = connect(&url, oauth(scenario.flow, &context), folder.path()).await?;
    let outcome = match hub.missing_servers().pop() {
        Some(missing) => Err(missing.to_string().into()),
        None => run_flow(scenario.flow, &hub, &context).await,
    };
    hub.close().await;
    outcome
}

fn oauth(flow: Flow, context: &Value) -> Option<Box<AuthConfig>> {
    let text = |key: &str| context[key].as_str().map(str::to_owned);
    let mut config = AuthConfig::default();
    match flow {
        Flow::SignIn => config.client_metadata_url = Some(CLIENT_METADATA.into()),
        Flow::SignInRegistered | Flow::SignInAsClient => {
            config.client_id = text("client_id");
            config.client_secret = text("client_secret").map(Secret::new);
        }
        _ => return None,
    }
    if flow == Flow::SignInAsClient {
        config.grant = GrantKind::ClientCredentials;
        config.private_key = text("private_key_pem").map(Secret::new);
    }
    Some(Box::new(config))
}

async fn connect(url: &str, oauth: Option<Box<AuthConfig>>, folder: &Path) -> Outcome<Hub> {
    let transport = Transport::Http { url: url.parse()?, headers: Vec::new(), kind: HttpKind::Auto, oauth };
    let name = ServerName::new(SERVER).ok_or("the name is invalid")?;
    let mut server = ServerConfig::new(name, transport);
    server.connect_timeout = MAX_RUN_TIME;
    server.call_timeout = MAX_RUN_TIME;
    let options = HubOptions::default()
        .with_host(Arc::new(AcceptingHost))
        .with_data_folder(folder)
        .with_browser(Arc::new(AutomaticBrowser))
        .with_result_budget(None);
    Ok(Hub::connect(&Config { servers: vec![server], toolwire: None }, options).await)
}

async fn run_flow(flow: Flow, hub: &Hub, context: &Value) -> Outcome<()> {
    let tools = hub.tools_of(SERVER).unwrap_or_default();
    match flow {
        Flow::ListTools => Ok(()),
        Flow::CallTools | Flow::SignIn | Flow::SignInAsClient | Flow::SignInRegistered => {
            for tool in &tools {
                let arguments = Value::Object(example(&schema(tool)));
                call(hub, &tool.name, &arguments, CallOptions::default()).await?;
            }
            Ok(())
        }
        Flow::CallFromContext => {
            for planned in context["toolCalls"].as_array().ok_or("the context has no calls")? {
                let tool = tools.iter().find(|tool| planned["name"] == tool.name.as_str());
                let tool = tool.ok_or("a call names an unknown tool")?;
                let arguments = planned["arguments"].as_object().ok_or("a call has no arguments")?;
                // Some arguments do not match the schema, so the hub must not validate them.
                let validation = ValidationStamp::new(SchemaFingerprint::of(&schema(tool)), arguments);
                let mut options = CallOptions::default();
                options.validation = Some(validation);
                call(hub, &tool.name, &planned["arguments"], options).await?;
            }
            Ok(())
        }
        Flow::GiveInput => {
            let arguments = json!({});
            let calls = tools.iter().map(|tool| call(hub, &tool.name, &arguments, CallOptions::default()));
            futures::future::try_join_all(calls).await?;
            Ok(())
        }
        Flow::EchoSchema => {
            let tool = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
            let tool = tool.ok_or("the tool whose schema to echo is missing")?;
            let arguments = json!({"schema": schema(tool)});
            call(hub, "json_schema_echo", &arguments, CallOptions::default()).await
        }
        Flow::Skip(reason) => Err(reason.into()),
    }
}

fn schema(tool: &Tool) -> Value {
    tool.input_schema.clone().unwrap_or_default()
}

async fn call(hub: &Hub, name: &str, arguments: &Value, options: CallOptions) -> Outcome<()> {
    let result = hub.call(name, arguments, options).await?;
    match result.is_error() {
        true => Err(format!("`{name}` failed: {}", Value::from(result)).into()),
        false => Ok(()),
    }
}

/// Returns an object with an example value for each property.
fn example(schema: &Value) -> Map<String, Value> {
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

/// Accepts every request for input, and omits form fields that have a default.
struct AcceptingHost;

impl Host for AcceptingHost {
    fn can_elicit(&self) -> bool {
        true
    }

    fn can_sample(&self) -> bool {
        true
    }

    fn elicit<'a>(&'a self, _server: &'a str, request: ElicitRequest) -> BoxFuture<'a, ElicitReply> {
        let reply = match request.kind {
            ElicitKind::Form { schema } => {
                let mut values = example(&schema);
                values.retain(|name, _| schema["properties"][name].get("default").is_none());
                ElicitReply::Accept(Some(Value::Object(values)))
            }
            _ => ElicitReply::Accept(None),
        };
        Box::pin(std::future::ready(reply))
    }
}

/// Opens the login page and follows its redirects, like a user who accepts.
struct AutomaticBrowser;

impl Browser for AutomaticBrowser {
    fn open<'a>(&'a self, _server: &'a str, url: &'a str) -> BoxFuture<'a, std::io::Result<()>> {
        Box::pin(async move {
            toolwire_testkit::http_client().get(url).send().await.map(|_| ()).map_err(std::io::Error::other)
        })
    }
}
