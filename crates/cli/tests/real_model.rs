//! Runs with a real language model. `scripts/real-model` installs and serves a small one and runs these
//! tests.
//!
//! The tests check only the structure: a required call is made, is valid for the schema of its tool and is
//! executed. Which tool a small model selects and whether its text makes sense is printed but not checked.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use assert_cmd::Command;
use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};
use toolwire_agent::approval::ApprovalPolicy;
use toolwire_agent::{Agent, AgentEvent, Functions};
use toolwire_contract::model::{Model, ModelError, ModelRequest, ModelResponse, StopReason, ToolChoice};
use toolwire_contract::toolbox::{CallOptions, Toolbox};
use toolwire_contract::{Message, Tool, ToolResult};
use toolwire_dialect::{Dialect, Options, Status, Toolset};
use toolwire_llm::{Endpoint, EndpointConfigs, collect};

fn url() -> String {
    std::env::var("TOOLWIRE_REAL_MODEL_URL").expect("`scripts/real-model` sets the URL of the model")
}

fn endpoint(streams: bool) -> Endpoint {
    let configs = json!({"local": {
        "provider": "llamacpp", "model": "local", "baseUrl": url(), "stream": streams, "maxOutputTokens": 512,
    }});
    let configs = EndpointConfigs::read(&configs).unwrap();
    Endpoint::new("local", &configs.endpoints["local"], |_| None).unwrap()
}

/// Selects real tools that a small model can call: short, with required properties, each from another server.
fn tools(count: usize) -> Vec<Tool> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/shapes.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let is_suitable = |tool: &Tool| {
        let Some(input) = &tool.input_schema else { return false };
        let schema = input.to_string();
        let properties = input.get("properties").and_then(Value::as_object).map_or(0, Map::len);
        // The server is known to fail on lookahead in regular expressions, and a small model on long schemas.
        // Keywords that the server's grammar does not enforce are excluded, too: it allows arrays of any
        // length, numbers above `maximum`, and nested objects without their required properties.
        let unbounded = ["\"pattern\"", "\"array\"", "\"minimum\"", "\"maximum\""];
        let required = input.get("required").and_then(Value::as_array).map_or(0, Vec::len);
        let is_convertible = || {
            let conversion = Toolset::new(std::slice::from_ref(tool), Dialect::OpenAi, &Options::default());
            conversion.reports()[0].status != Status::Refused
        };
        let is_bounded = !unbounded.iter().any(|keyword| schema.contains(keyword))
            && schema.matches("\"object\"").count() == 1;
        required > 0 && properties <= 4 && schema.len() < 700 && is_bounded && is_convertible()
    };
    let mut chosen: Vec<Tool> = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let listed = line["tools"].as_array().unwrap();
        let tool =
            listed.iter().filter_map(|tool| serde_json::from_value(tool.clone()).ok()).find(is_suitable);
        let is_new = |tool: &Tool| chosen.iter().all(|other| other.name != tool.name);
        chosen.extend(tool.filter(is_new));
    }
    let step = chosen.len() / count;
    chosen.into_iter().step_by(step).take(count).collect()
}

/// Prompts for the attempts of one call. A small model sometimes never ends a string, so there are several.
const PROMPTS: [&str; 4] = [
    "Use the tool with short values.",
    "Call the tool. Every value is one word: Lima.",
    "Please call it now with the number 7 and the word blue, nothing else.",
    "Hello",
];

async fn request_call(endpoint: &Endpoint, tool: &Tool) -> Result<ModelResponse, ModelError> {
    for (attempt, prompt) in PROMPTS.iter().enumerate() {
        let response = try_request_call(endpoint, tool, prompt).await;
        let is_endless = match &response {
            Ok(response) => response.stop == StopReason::Length,
            // When streaming, the server itself fails to parse the incomplete call.
            Err(ModelError::Refused { status, .. }) => *status == Some(500),
            Err(_) => false,
        };
        if !is_endless || attempt + 1 == PROMPTS.len() {
            return response;
        }
        println!("{}: an argument never ended; trying again", tool.name);
    }
    unreachable!("the last attempt returns")
}

async fn try_request_call(
    endpoint: &Endpoint,
    tool: &Tool,
    prompt: &str,
) -> Result<ModelResponse, ModelError> {
    let request = ModelRequest {
        messages: vec![Message::user(prompt).into()],
        tools: Arc::new([tool.clone()]),
        tool_choice: ToolChoice::Required,
        ..ModelRequest::default()
    };
    collect(endpoint.ask(request)).await
}

#[test]
#[ignore = "needs a model: scripts/real-model"]
fn fifty_real_tools_are_called_decoded_and_executed() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let tools = tools(50);
        assert_eq!(tools.len(), 50);
        let mut failures = Vec::new();
        for (streams, tool) in tools.iter().flat_map(|tool| [(true, tool), (false, tool)]) {
            let response = match request_call(&endpoint(streams), tool).await {
                Ok(response) => response,
                Err(problem) => {
                    failures.push(format!("{} (streamed: {streams}): {problem}", tool.name));
                    continue;
                }
            };
            let executed = Arc::new(Mutex::new(Vec::new()));
            let seen = executed.clone();
            let toolbox = Functions::new().with(tool.clone(), move |arguments| {
                seen.lock().unwrap().push(arguments);
                async { ToolResult::text("done") }
            });
            // The server's grammar supports few formats, and MCP does not require that they are validated.
            let options = jsonschema::options().should_validate_formats(false);
            let validator = options.build(tool.input_schema.as_ref().unwrap()).unwrap();
            if response.message.calls().count() == 0 || !response.unusable.is_empty() {
                failures.push(format!("{} (streamed: {streams}): {response:?}", tool.name));
            }
            for (_, call) in response.message.calls() {
                let arguments = Value::Object(call.arguments.clone().unwrap_or_default());
                if let Err(error) = validator.validate(&arguments) {
                    failures.push(format!("{} (streamed: {streams}): {arguments}: {error}", tool.name));
                }
                toolbox.call(&call.name, &arguments, CallOptions::default()).await.unwrap();
            }
            assert_eq!(executed.lock().unwrap().len(), response.message.calls().count());
        }
        println!("{} failures in 100 responses", failures.len());
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    });
}

#[test]
#[ignore = "needs a model: scripts/real-model"]
fn an_agent_executes_a_required_call_and_responds() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let tool: Tool = serde_json::from_value(json!({
            "name": "get_weather", "description": "Get the current weather in a given location",
            "inputSchema": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
        }))
        .unwrap();
        for streams in [true, false] {
            let tools = Functions::new().with(tool.clone(), |arguments| async move {
                assert!(arguments["location"].is_string());
                ToolResult::text("sunny, 21 degrees")
            });
            let agent = Agent::builder()
                .model(Arc::new(endpoint(streams)))
                .tools(Arc::new(tools))
                .approvals(ApprovalPolicy::allow_all())
                .tool_choice(ToolChoice::Required)
                .max_steps(3)
                .build()
                .unwrap();
            let mut events = agent.stream("What is the weather in Paris?");
            let mut finished_calls = 0;
            let mut pieces = 0;
            let finished = loop {
                match futures::StreamExt::next(&mut events).await.unwrap() {
                    AgentEvent::CallFinished { result, .. } => {
                        finished_calls += 1;
                        assert_eq!(result, ToolResult::text("sunny, 21 degrees"));
                    }
                    AgentEvent::Text(_) => pieces += 1,
                    AgentEvent::Done(finished) => break finished,
                    _ => {}
                }
            };
            println!("streamed: {streams}: {pieces} pieces: {}", finished.outcome.text);
            assert!(finished_calls >= 1);
            assert!(finished.outcome.usage.input_tokens > 0, "{:?}", finished.outcome);
        }
    });
}

#[test]
#[ignore = "needs a model: scripts/real-model"]
fn ask_runs_the_demo_tools_through_the_model() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("real-model");
    fs::create_dir_all(&folder).unwrap();
    for streams in [true, false] {
        let program = env!("CARGO_BIN_EXE_toolwire");
        let config = json!({
            "mcpServers": {"demo": {"command": program, "args": ["demo-server"]}},
            "toolwire": {
                "model": "local",
                "models": {"local": {
                    "provider": "llamacpp", "model": "local", "baseUrl": url(), "stream": streams, "maxOutputTokens": 256,
                }},
                "agent": {"toolChoice": "required", "maxSteps": 3},
            },
        });
        fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
        for question in ["What is the weather in Paris?", "What is 25 + 17?", "Divide 100 by 8."] {
            let output = Command::new(program)
                .current_dir(&folder)
                .env("XDG_DATA_HOME", folder.join("data"))
                .args(["ask", "--json", question])
                .output()
                .unwrap();
            let report: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
            let messages: Vec<Message> = serde_json::from_value(report["messages"].clone()).unwrap();
            let call = messages[1].calls().next().map(|(_, call)| call.clone()).expect("a call was required");
            println!("{question} → {} {:?} → {}", call.name, call.arguments, report["answer"]);
            let is_known = ["get_weather", "calculate"].contains(&call.name.as_str());
            assert!(is_known, "{report:#}");
            let result = &report["messages"][2]["content"][0];
            assert_eq!(result["type"], "tool_result", "{report:#}");
        }
    }
}

/// A conversation that is longer than the window of the model is reduced, and its summary is used and stored.
#[test]
#[ignore = "needs a model: scripts/real-model"]
fn a_long_conversation_is_reduced_and_summarized() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let store =
            toolwire_store::Sqlite::open(folder.path().join("c.db"), Default::default()).await.unwrap();
        let model = Arc::new(endpoint(true));
        model.prepare().await;
        println!("the window of the model: {:?}", model.limits().context_tokens);
        let mut context = toolwire_agent::ContextSettings::default();
        context.tokens = Some(model.limits().context_tokens.unwrap_or(2_048).min(2_048));
        let agent = Agent::builder()
            .model(model)
            .conversations(Arc::new(store))
            .context(context)
            .max_output_tokens(64)
            .build()
            .unwrap();
        let mut run = agent.new_run();
        for number in 0..8 {
            let filler = "The river is long and the hills are green. ".repeat(20);
            run.say(format!("Note {number}: the code word is heron. {filler} Say yes."));
            let finished = agent.drive(run).finish().await;
            println!("{number}: {:?} {}", finished.outcome.ending, finished.outcome.text);
            assert!(
                !matches!(finished.outcome.ending, toolwire_agent::Ending::Failed(_)),
                "{:?}",
                finished.outcome
            );
            run = finished.run;
        }
        let messages = run.messages().len();
        let covered = agent.compact(&mut run, Some("the code word")).await.unwrap();
        println!("{covered:?} of {messages} messages are summarized");
        assert_eq!(covered, Some(messages));
        let id = run.stored_in().unwrap().0.clone();
        let mut resumed = agent.load(&id).await.unwrap();
        assert_eq!(resumed.messages().len(), messages);
        resumed.say("What is the code word?");
        let finished = agent.drive(resumed).finish().await;
        println!("after the summary: {:?}", finished.outcome.text);
        assert!(
            !matches!(finished.outcome.ending, toolwire_agent::Ending::Failed(_)),
            "{:?}",
            finished.outcome
        );
    });
}

/// The window is unknown, because this provider is not asked for it. The server refuses a longer request.
#[test]
#[ignore = "needs a model: scripts/real-model"]
fn a_request_that_the_server_refuses_as_too_long_is_reduced_and_sent_again() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let known = endpoint(true);
        known.prepare().await;
        let Some(window) = known.limits().context_tokens.filter(|window| *window <= 16_384) else {
            println!("skipped: the window of the model is unknown or large");
            return;
        };
        let configs = json!({"local": {
            "provider": "openai", "api": "chat", "model": "local", "baseUrl": url(), "apiKey": "none", "maxOutputTokens": 16,
        }});
        let configs = EndpointConfigs::read(&configs).unwrap();
        let model = Endpoint::new("local", &configs.endpoints["local"], |_| None).unwrap();
        let agent = Agent::builder().model(Arc::new(model)).build().unwrap();
        // Each message takes about two thirds of the window: a sentence has ten tokens.
        let filler = "The river is long and the hills are green. ".repeat(usize::try_from(window).unwrap() / 15);
        let mut run = agent.new_run();
        let mut omitted = 0;
        for number in 0..2 {
            run.say(format!("{filler} Note {number}: say yes."));
            let mut running = agent.drive(run);
            run = loop {
                match futures::StreamExt::next(&mut running).await.unwrap() {
                    AgentEvent::ContextReduced(reduction) => omitted = reduction.messages_omitted,
                    AgentEvent::Done(finished) => {
                        println!("{number}: {:?} {}", finished.outcome.ending, finished.outcome.text);
                        let is_failed = matches!(finished.outcome.ending, toolwire_agent::Ending::Failed(_));
                        assert!(!is_failed, "{:?}", finished.outcome);
                        break finished.run;
                    }
                    _ => {}
                }
            };
        }
        assert!(omitted > 0);
        assert_eq!(run.context().size, Some(window), "the server has stated its window");
    });
}

/// The text of an attached file reaches the model: it counts more tokens than without the file.
#[test]
#[ignore = "needs a model: scripts/real-model"]
fn ask_sends_the_text_of_an_attached_file() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"mcpServers": {}, "toolwire": {"model": "local", "models": {"local": {
        "provider": "llamacpp", "model": "local", "baseUrl": url(), "maxOutputTokens": 64,
    }}}});
    fs::write(folder.path().join("mcp.json"), config.to_string()).unwrap();
    let filler = "The river is long and the hills are green. ".repeat(20);
    fs::write(folder.path().join("notes.md"), format!("# Notes\n\nThe code word is heron.\n\n{filler}\n"))
        .unwrap();
    let ask = |arguments: &[&str]| -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_toolwire"))
            .current_dir(folder.path())
            .env("XDG_DATA_HOME", folder.path().join("data"))
            .args([&["ask", "--json", "What is the code word?"], arguments].concat())
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        // The model may reach the output limit.
        assert_ne!(report["ending"], "failed", "{report:#}");
        report
    };
    let (without, with) = (ask(&[]), ask(&["--file", "notes.md"]));
    println!("without the file: {}\nwith the file: {}", without["answer"], with["answer"]);
    assert_eq!(with["messages"][0]["content"][0]["resource"]["uri"], "file:notes.md");
    let tokens = |report: &Value| report["usage"]["inputTokens"].as_u64().unwrap();
    assert!(tokens(&with) > tokens(&without) + 150, "{} and {}", tokens(&with), tokens(&without));
}
