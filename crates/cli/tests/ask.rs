//! `toolwire ask` as a script runs it: real servers, the whole loop, and a provider that refuses what the real one refuses.
//! Transcripts are compared whole.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolwire_testkit::misbehaving_server;
use toolwire_testkit::provider::{
    API_KEY, Api, FakeProvider, FinishReason, ModelOutput, Script, ScriptedResponse,
};

/// A folder with an `mcp.json`, and a provider behind it.
struct World {
    folder: PathBuf,
    provider: FakeProvider,
    /// Runs the provider.
    _runtime: Runtime,
}

struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

impl World {
    fn new(name: &str, servers: Value, script: impl Into<Script>) -> World {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ask").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("mcp.json"), json!({"mcpServers": servers}).to_string()).unwrap();
        let runtime = Runtime::new().unwrap();
        let provider = runtime.block_on(FakeProvider::start(Api::OpenAiChat, script.into()));
        World { folder, provider, _runtime: runtime }
    }

    fn ask(&self, arguments: &[&str], stdin: &[u8]) -> Outcome {
        let mut command = self.command("ask");
        outcome(command.args(["--model", "openai/gpt-5.2"]).args(arguments).write_stdin(stdin))
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
        command
            .current_dir(&self.folder)
            .env("XDG_DATA_HOME", self.folder.join("data"))
            .env("OPENAI_BASE_URL", self.provider.base_url())
            .env("OPENAI_API_KEY", API_KEY)
            .env("NO_COLOR", "1")
            .env_remove("TOOLWIRE_CONFIG")
            .arg(name);
        command
    }

    /// Asks, and gives the whole run with what the provider was sent.
    #[track_caller]
    fn transcript(&self, arguments: &[&str], code: i32) -> (Value, Vec<Value>) {
        let outcome = self.ask(&[&["--json"], arguments].concat(), b"");
        assert_eq!(outcome.code, code, "{}", outcome.stderr);
        let run: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let sent = self.provider.requests().into_iter().map(|request| {
            assert_eq!(request.rejection, None, "the provider took every request");
            request.body["messages"].clone()
        });
        (run, sent.collect())
    }
}

fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Outcome { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn server(arguments: &[&str]) -> Value {
    json!({"command": misbehaving_server(), "args": arguments})
}

fn said(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn called(id: &str, name: &str, arguments: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": arguments})
}

fn returned(id: &str, text: &str) -> Value {
    json!({"type": "tool_result", "toolUseId": id, "content": [said(text)]})
}

fn failed(id: &str, text: &str) -> Value {
    json!({"type": "tool_result", "toolUseId": id, "content": [said(text)], "isError": true})
}

fn user(content: &[Value]) -> Value {
    json!({"role": "user", "content": content})
}

fn assistant(content: &[Value]) -> Value {
    json!({"role": "assistant", "content": content})
}

#[test]
fn without_tools_the_model_just_answers() {
    let world = World::new("no_tools", json!({}), [ModelOutput::text("Hello to you.")]);
    let (run, sent) = world.transcript(&["Hello?"], 0);
    let usage = json!({"inputTokens": 12, "outputTokens": 5, "cachedTokens": 0, "reasoningTokens": 0});
    assert_eq!(
        run,
        json!({
            "answer": "Hello to you.", "ending": "finished", "stop": "end", "model": "openai/gpt-5.2", "steps": 1, "usage": usage,
            "messages": [user(&[said("Hello?")]), assistant(&[said("Hello to you.")])],
        })
    );
    assert_eq!(sent, [json!([{"role": "user", "content": "Hello?"}])]);
}

#[test]
fn one_tool_is_called_and_its_result_is_read() {
    let script = [
        ModelOutput::default().call("call_1", "echo", r#"{"text":"high tide at nine"}"#),
        ModelOutput::text("At nine."),
    ];
    let world = World::new("one_tool", json!({"tides": server(&[])}), script);
    let (run, sent) = world.transcript(&["When is high tide?"], 0);
    assert_eq!(run["answer"], "At nine.");
    assert_eq!(
        run["messages"],
        json!([
            user(&[said("When is high tide?")]),
            assistant(&[called("call_1", "echo", json!({"text": "high tide at nine"}))]),
            user(&[returned("call_1", "high tide at nine")]),
            assistant(&[said("At nine.")]),
        ])
    );
    assert_eq!(sent.len(), 2);
    assert_eq!(
        sent[1][2],
        json!({"role": "tool", "tool_call_id": "call_1", "content": "high tide at nine"}),
        "{:#}",
        sent[1]
    );
}

#[test]
fn calls_of_two_servers_run_together_and_are_answered_in_their_order() {
    let script = [
        ModelOutput::text("Let me see.")
            .call("call_1", "slow_echo", r#"{"text":"one"}"#)
            .call("call_2", "quick_echo", r#"{"text":"two"}"#)
            .call("call_3", "slow_echo", r#"{"text":"three"}"#),
        ModelOutput::text("One, two, three."),
    ];
    let mut slow = server(&["--behaviour", "responds-late", "--delay", "300"]);
    let mut quick = server(&[]);
    slow["prefix"] = json!("slow");
    quick["prefix"] = json!("quick");
    let world = World::new("parallel", json!({"a": slow, "b": quick}), script);
    let (run, _) = world.transcript(&["Count."], 0);
    assert_eq!(
        run["messages"],
        json!([
            user(&[said("Count.")]),
            assistant(&[
                said("Let me see."),
                called("call_1", "slow_echo", json!({"text": "one"})),
                called("call_2", "quick_echo", json!({"text": "two"})),
                called("call_3", "slow_echo", json!({"text": "three"})),
            ]),
            user(&[returned("call_1", "one"), returned("call_2", "two"), returned("call_3", "three")]),
            assistant(&[said("One, two, three.")]),
        ])
    );
}

#[test]
fn a_tool_that_fails_is_read_by_the_model_which_goes_on() {
    let script = [
        ModelOutput::default().call("call_1", "fail", "{}"),
        ModelOutput::default().call("call_2", "echo", r#"{"text":"it works"}"#),
        ModelOutput::text("It worked in the end."),
    ];
    let world = World::new("recovers", json!({"one": server(&[])}), script);
    let (run, _) = world.transcript(&["Try.", "--allow", "fail"], 0);
    assert_eq!(
        run["messages"],
        json!([
            user(&[said("Try.")]),
            assistant(&[called("call_1", "fail", json!({}))]),
            user(&[failed("call_1", "it failed")]),
            assistant(&[called("call_2", "echo", json!({"text": "it works"}))]),
            user(&[returned("call_2", "it works")]),
            assistant(&[said("It worked in the end.")]),
        ])
    );
}

#[test]
fn a_server_that_dies_in_a_call_costs_that_call_alone() {
    let script = [
        ModelOutput::default().call("call_1", "dying_wait", "{}").call(
            "call_2",
            "good_echo",
            r#"{"text":"here"}"#,
        ),
        ModelOutput::text("One of them is gone."),
    ];
    let mut dying = server(&["--behaviour", "exits-mid-call"]);
    let mut good = server(&[]);
    dying["prefix"] = json!("dying");
    good["prefix"] = json!("good");
    let world = World::new("dies", json!({"dying": dying, "good": good}), script);
    let (run, _) = world.transcript(&["Call both.", "--allow", "dying_*"], 0);
    let results = run["messages"][2]["content"].as_array().unwrap();
    let lost = results[0]["content"][0]["text"].as_str().unwrap();
    assert!(lost.contains("it is unknown whether the call took effect"), "{lost}");
    assert_eq!(
        run["messages"],
        json!([
            user(&[said("Call both.")]),
            assistant(&[
                called("call_1", "dying_wait", json!({})),
                called("call_2", "good_echo", json!({"text": "here"})),
            ]),
            user(&[failed("call_1", lost), returned("call_2", "here")]),
            assistant(&[said("One of them is gone.")]),
        ])
    );
}

#[test]
fn the_answer_alone_is_on_standard_output() {
    let script = [
        ModelOutput::text("Looking…").call("call_1", "echo", r#"{"text":"x"}"#),
        ModelOutput::text("Here it is."),
    ];
    let world = World::new("plain", json!({"one": server(&[])}), script);
    let outcome = world.ask(&["Look."], b"");
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (0, "Here it is.\n", ""));
}

#[test]
fn standard_input_is_attached() {
    let world = World::new("attached", json!({}), [ModelOutput::text("Three lines.")]);
    let outcome = world.ask(&["How many lines?"], b"a\nb\nc\n");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let sent = world.provider.requests()[0].body["messages"][0]["content"].to_string();
    assert!(sent.contains("How many lines?") && sent.contains(r"a\nb\nc\n"), "{sent}");
}

#[test]
fn a_tool_that_may_change_things_does_not_run_unless_it_is_allowed() {
    let script = [ModelOutput::default().call("call_1", "wait", "{}"), ModelOutput::text("I may not.")];
    let world = World::new("approval", json!({"one": server(&[])}), script);
    let (run, _) = world.transcript(&["Wait."], 0);
    let result = &run["messages"][2]["content"][0];
    assert_eq!(result["isError"], true, "{run:#}");
    assert!(!result.to_string().contains("wait was called"), "{run:#}");
    let world = World::new(
        "approval-told",
        json!({"one": server(&[])}),
        [ModelOutput::default().call("call_1", "wait", "{}"), ModelOutput::text("I may not.")],
    );
    let outcome = world.ask(&["Wait."], b"");
    let words = [
        "note: `wait` was not run: it does not declare whether it changes or deletes data",
        "hint: `--allow wait` lets it run",
    ];
    assert!(words.iter().all(|words| outcome.stderr.contains(words)), "{}", outcome.stderr);
}

#[test]
fn an_answer_that_is_refused_is_no_answer() {
    let refused = ModelOutput { text: None, finish: Some(FinishReason::Refusal), ..ModelOutput::text("") };
    let half = ModelOutput { finish: Some(FinishReason::Refusal), ..ModelOutput::text("One begins by") };
    let world = World::new("refused-answer", json!({}), [refused.clone(), half, refused]);
    for printed in ["", "One begins by\n"] {
        let outcome = world.ask(&["How does one do that?"], b"");
        assert_eq!((outcome.code, &*outcome.stdout), (1, printed), "{}", outcome.stderr);
        let words =
            "error: the model refused to answer, or a content filter of its provider blocked the response";
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
    let outcome = world.ask(&["--json", "How does one do that?"], b"");
    let run: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((outcome.code, &run["stop"], &run["answer"]), (1, &json!("refusal"), &json!("")), "{run}");
}

#[test]
fn a_conversation_that_is_kept_goes_on() {
    let script = [ModelOutput::text("Your name is Ada."), ModelOutput::text("Ada.")];
    let world = World::new("kept", json!({}), script);
    let (run, _) = world.transcript(&["I am Ada.", "--keep"], 0);
    let id = run["conversation"].as_str().unwrap();
    let (run, sent) = world.transcript(&["Who am I?", "--resume", id], 0);
    assert_eq!(run["answer"], "Ada.");
    assert_eq!(sent[1].as_array().unwrap().len(), 3, "{:#}", sent[1]);

    let outcome = world.ask(&["Who?", "--resume", "0198f1c2-7d3a-7b11-9c55-2f6b0a1d4e83"], b"");
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("does not exist"), "{}", outcome.stderr);
}

#[test]
fn what_a_provider_refuses_is_told_and_the_exit_code_says_so() {
    let body = json!({"error": {"message": "Incorrect API key provided", "type": "invalid_request_error", "code": "invalid_api_key"}});
    let world = World::new("refused", json!({}), Script::new([ScriptedResponse::error(401, body)]));
    let outcome = world.ask(&["Hello?"], b"");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""));
    assert!(outcome.stderr.contains("Incorrect API key provided"), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("hint:") && outcome.stderr.contains("OPENAI_API_KEY"),
        "{}",
        outcome.stderr
    );
    assert!(!outcome.stderr.contains(API_KEY), "{}", outcome.stderr);
}

#[test]
fn doctor_asks_the_configured_model_for_a_word() {
    let body = json!({"error": {"message": "The model `gpt-5.2` does not exist", "code": "model_not_found"}});
    let script =
        Script::new([ScriptedResponse::Output(ModelOutput::text("OK")), ScriptedResponse::error(404, body)]);
    let world = World::new("doctor", json!({}), script);
    let config = json!({"mcpServers": {}, "toolwire": {"model": "openai/gpt-5.2"}});
    fs::write(world.folder.join("mcp.json"), config.to_string()).unwrap();
    let well = outcome(&mut world.command("doctor"));
    assert_eq!(well.code, 0, "{}{}", well.stdout, well.stderr);
    assert!(well.stdout.contains("model  openai/gpt-5.2 answers"), "{}", well.stdout);
    let ill = outcome(&mut world.command("doctor"));
    assert_eq!(ill.code, 1, "{}{}", ill.stdout, ill.stderr);
    assert!(ill.stdout.contains("The model `gpt-5.2` does not exist"), "{}", ill.stdout);
}

/// Runs `ask` where nothing is configured.
fn bare(name: &str, arguments: &[&str]) -> Outcome {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ask-bare").join(name);
    fs::create_dir_all(&folder).unwrap();
    outcome(
        Command::new(env!("CARGO_BIN_EXE_toolwire"))
            .current_dir(&folder)
            .env("XDG_CONFIG_HOME", folder.join("config"))
            .env("XDG_DATA_HOME", folder.join("data"))
            .env("NO_COLOR", "1")
            .env_remove("TOOLWIRE_CONFIG")
            .env_remove("OPENAI_BASE_URL")
            .env_remove("OPENAI_API_KEY")
            .args(["ask"])
            .args(arguments),
    )
}

#[test]
fn with_nothing_configured_the_stand_in_makes_both_calls_in_one_step() {
    let question = "What is the weather in Paris, and what is 25 + 17?";
    let outcome = bare("demo", &[question]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("42") && outcome.stdout.contains("Paris"), "{}", outcome.stdout);
    assert!(
        outcome.stderr.contains("not a language model") && outcome.stderr.contains("demo server"),
        "{}",
        outcome.stderr
    );

    let outcome = bare("demo", &[question, "--json"]);
    let run: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let calls: Vec<(&str, &Value)> = run["messages"][1]["content"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|block| block["type"] == "tool_use")
        .map(|block| (block["name"].as_str().unwrap(), &block["input"]))
        .collect();
    let sum = json!({"operator": "add", "argument1": 25, "argument2": 17});
    assert_eq!(calls, [("get_weather", &json!({"location": "Paris"})), ("calculate", &sum)]);
    assert_eq!((run["steps"].as_u64(), run["ending"].as_str()), (Some(2), Some("finished")));
}

#[test]
fn wrong_usage_is_told_with_what_to_write() {
    for (arguments, problem, hint) in [
        (
            vec!["Hi", "--model", "opnai/gpt-5.2"],
            "unknown provider `opnai`",
            "did you mean `openai/gpt-5.2`?",
        ),
        (vec!["Hi", "--model", "openai/gpt-5.2"], "no API key is set", "OPENAI_API_KEY"),
        (vec!["  "], "the question is empty", "toolwire ask"),
        (vec!["Hi", "--resume", "last"], "is not a conversation id", ""),
    ] {
        let outcome = bare("usage", &arguments);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(problem) && outcome.stderr.contains(hint), "{}", outcome.stderr);
    }
}
