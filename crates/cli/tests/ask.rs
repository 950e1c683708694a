//! `toolwire ask` with real servers, the complete agent loop, and a fake provider that rejects invalid
//! requests like the real one.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolwire_testkit::provider::{
    API_KEY, Api, FakeProvider, FinishReason, ModelOutput, Script, ScriptedResponse,
};
use toolwire_testkit::{api_key_variables, misbehaving_server};

/// A folder with an `mcp.json`, and a fake provider.
struct Setup {
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

impl Setup {
    fn new(name: &str, servers: Value, script: impl Into<Script>) -> Setup {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ask").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("mcp.json"), json!({"mcpServers": servers}).to_string()).unwrap();
        let runtime = Runtime::new().unwrap();
        let provider = runtime.block_on(FakeProvider::start(Api::OpenAiChat, script.into()));
        Setup { folder, provider, _runtime: runtime }
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

    /// Runs `ask` and returns its report, with the messages of every request to the provider.
    #[track_caller]
    fn transcript(&self, arguments: &[&str], code: i32) -> (Value, Vec<Value>) {
        let outcome = self.ask(&[&["--json"], arguments].concat(), b"");
        assert_eq!(outcome.code, code, "{}", outcome.stderr);
        let run: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let sent = self.provider.requests().into_iter().map(|request| {
            assert_eq!(request.rejection, None, "the provider accepts every request");
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

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call_block(id: &str, name: &str, arguments: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": arguments})
}

fn result_block(id: &str, text: &str) -> Value {
    json!({"type": "tool_result", "toolUseId": id, "content": [text_block(text)]})
}

fn error_block(id: &str, text: &str) -> Value {
    json!({"type": "tool_result", "toolUseId": id, "content": [text_block(text)], "isError": true})
}

fn user(content: &[Value]) -> Value {
    json!({"role": "user", "content": content})
}

fn assistant(content: &[Value]) -> Value {
    json!({"role": "assistant", "content": content})
}

#[test]
fn a_run_without_tools_has_one_step() {
    let setup = Setup::new("no_tools", json!({}), [ModelOutput::text("Hello to you.")]);
    let (run, sent) = setup.transcript(&["Hello?"], 0);
    let context = json!({"tokens": 12, "window": 272_000});
    let usage = json!({"inputTokens": 12, "outputTokens": 5, "cachedTokens": 0, "reasoningTokens": 0});
    assert_eq!(
        run,
        json!({
            "answer": "Hello to you.", "ending": "finished", "stop": "end", "model": "openai/gpt-5.2", "steps": 1, "usage": usage,
            "context": context,
            "messages": [user(&[text_block("Hello?")]), assistant(&[text_block("Hello to you.")])],
        })
    );
    assert_eq!(sent, [json!([{"role": "user", "content": "Hello?"}])]);
}

/// The fake provider refuses requests over its window, which is unknown to Toolwire.
#[test]
fn omitted_parts_of_a_long_conversation_are_reported() {
    let output = ModelOutput::text(&"A long line of a long response. ".repeat(300));
    let script = Script::from_fn(move |_| ScriptedResponse::Output(output.clone())).with_window(8_000, false);
    let setup = Setup::new("long", json!({}), script);
    let ask = |arguments: &[&str]| {
        let mut command = setup.command("ask");
        outcome(command.args(["--model", "openai/m", "--json"]).args(arguments).write_stdin(b""))
    };
    let first = ask(&["--keep", "Number 0?"]);
    let report = |outcome: &Outcome| serde_json::from_str::<Value>(&outcome.stdout).unwrap();
    let id = report(&first)["conversation"].as_str().unwrap().to_owned();
    let mut last = first;
    for number in 1..5 {
        last = ask(&["--resume", &id, &format!("Number {number}?")]);
        assert_eq!(last.code, 0, "{}", last.stderr);
    }
    assert!(!setup.provider.rejections().is_empty(), "the window was exceeded");
    let context = report(&last)["context"].clone();
    assert_eq!(context["window"], 8_000, "{context}");
    assert!(context["messagesOmitted"].as_u64().unwrap() > 0, "{context}");
    assert!(last.stderr.contains("older messages omitted"), "{}", last.stderr);
    assert_eq!(report(&last)["messages"].as_array().unwrap().len(), 10, "the history stays complete");
}

#[test]
fn the_result_of_a_call_is_sent_to_the_model() {
    let script = [
        ModelOutput::default().call("call_1", "echo", r#"{"text":"high tide at nine"}"#),
        ModelOutput::text("At nine."),
    ];
    let setup = Setup::new("one_tool", json!({"tides": server(&[])}), script);
    let (run, sent) = setup.transcript(&["When is high tide?"], 0);
    assert_eq!(run["answer"], "At nine.");
    assert_eq!(
        run["messages"],
        json!([
            user(&[text_block("When is high tide?")]),
            assistant(&[call_block("call_1", "echo", json!({"text": "high tide at nine"}))]),
            user(&[result_block("call_1", "high tide at nine")]),
            assistant(&[text_block("At nine.")]),
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
fn results_of_two_servers_are_in_the_order_of_the_calls() {
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
    let setup = Setup::new("parallel", json!({"a": slow, "b": quick}), script);
    let (run, _) = setup.transcript(&["Count."], 0);
    assert_eq!(
        run["messages"],
        json!([
            user(&[text_block("Count.")]),
            assistant(&[
                text_block("Let me see."),
                call_block("call_1", "slow_echo", json!({"text": "one"})),
                call_block("call_2", "quick_echo", json!({"text": "two"})),
                call_block("call_3", "slow_echo", json!({"text": "three"})),
            ]),
            user(&[
                result_block("call_1", "one"),
                result_block("call_2", "two"),
                result_block("call_3", "three")
            ]),
            assistant(&[text_block("One, two, three.")]),
        ])
    );
}

#[test]
fn the_model_continues_after_a_failed_call() {
    let script = [
        ModelOutput::default().call("call_1", "fail", "{}"),
        ModelOutput::default().call("call_2", "echo", r#"{"text":"it works"}"#),
        ModelOutput::text("It worked in the end."),
    ];
    let setup = Setup::new("recovers", json!({"one": server(&[])}), script);
    let (run, _) = setup.transcript(&["Try.", "--allow", "fail"], 0);
    assert_eq!(
        run["messages"],
        json!([
            user(&[text_block("Try.")]),
            assistant(&[call_block("call_1", "fail", json!({}))]),
            user(&[error_block("call_1", "it failed")]),
            assistant(&[call_block("call_2", "echo", json!({"text": "it works"}))]),
            user(&[result_block("call_2", "it works")]),
            assistant(&[text_block("It worked in the end.")]),
        ])
    );
}

#[test]
fn a_server_that_exits_during_a_call_fails_only_that_call() {
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
    let setup = Setup::new("dies", json!({"dying": dying, "good": good}), script);
    let (run, _) = setup.transcript(&["Call both.", "--allow", "dying_*"], 0);
    let results = run["messages"][2]["content"].as_array().unwrap();
    let lost = results[0]["content"][0]["text"].as_str().unwrap();
    assert!(lost.contains("it is unknown whether the call took effect"), "{lost}");
    assert_eq!(
        run["messages"],
        json!([
            user(&[text_block("Call both.")]),
            assistant(&[
                call_block("call_1", "dying_wait", json!({})),
                call_block("call_2", "good_echo", json!({"text": "here"})),
            ]),
            user(&[error_block("call_1", lost), result_block("call_2", "here")]),
            assistant(&[text_block("One of them is gone.")]),
        ])
    );
}

#[test]
fn only_the_answer_is_on_standard_output() {
    let script = [
        ModelOutput::text("Looking…").call("call_1", "echo", r#"{"text":"x"}"#),
        ModelOutput::text("Here it is."),
    ];
    let setup = Setup::new("plain", json!({"one": server(&[])}), script);
    let outcome = setup.ask(&["Look."], b"");
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (0, "Here it is.\n", ""));
}

#[test]
fn standard_input_is_attached() {
    let setup = Setup::new("attached", json!({}), [ModelOutput::text("Three lines.")]);
    let outcome = setup.ask(&["How many lines?"], b"a\nb\nc\n");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let sent = setup.provider.requests()[0].body["messages"][0]["content"].to_string();
    assert!(sent.contains("How many lines?") && sent.contains(r"a\nb\nc\n"), "{sent}");
}

#[test]
fn a_tool_that_is_not_read_only_runs_only_if_it_is_allowed() {
    let script = [ModelOutput::default().call("call_1", "wait", "{}"), ModelOutput::text("I may not.")];
    let setup = Setup::new("approval", json!({"one": server(&[])}), script);
    let (run, _) = setup.transcript(&["Wait."], 0);
    let result = &run["messages"][2]["content"][0];
    assert_eq!(result["isError"], true, "{run:#}");
    assert!(!result.to_string().contains("wait was called"), "{run:#}");
    let setup = Setup::new(
        "approval-note",
        json!({"one": server(&[])}),
        [ModelOutput::default().call("call_1", "wait", "{}"), ModelOutput::text("I may not.")],
    );
    let outcome = setup.ask(&["Wait."], b"");
    let expected = [
        "note: `wait` was not run: it does not declare whether it changes or deletes data",
        "hint: `--allow wait` lets it run",
    ];
    assert!(expected.iter().all(|line| outcome.stderr.contains(line)), "{}", outcome.stderr);
}

#[test]
fn a_refused_answer_is_an_error() {
    let refused = ModelOutput { text: None, finish: Some(FinishReason::Refusal), ..ModelOutput::text("") };
    let half = ModelOutput { finish: Some(FinishReason::Refusal), ..ModelOutput::text("One begins by") };
    let setup = Setup::new("refused-answer", json!({}), [refused.clone(), half, refused]);
    for printed in ["", "One begins by\n"] {
        let outcome = setup.ask(&["How does one do that?"], b"");
        assert_eq!((outcome.code, &*outcome.stdout), (1, printed), "{}", outcome.stderr);
        let error =
            "error: the model refused to answer, or a content filter of its provider blocked the response";
        assert!(outcome.stderr.contains(error), "{}", outcome.stderr);
    }
    let outcome = setup.ask(&["--json", "How does one do that?"], b"");
    let run: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((outcome.code, &run["stop"], &run["answer"]), (1, &json!("refusal"), &json!("")), "{run}");
}

#[test]
fn a_kept_conversation_can_be_resumed() {
    let script = [ModelOutput::text("Your name is Ada."), ModelOutput::text("Ada.")];
    let setup = Setup::new("kept", json!({}), script);
    let (run, _) = setup.transcript(&["I am Ada.", "--keep"], 0);
    let id = run["conversation"].as_str().unwrap();
    let (run, sent) = setup.transcript(&["Who am I?", "--resume", id], 0);
    assert_eq!(run["answer"], "Ada.");
    assert_eq!(sent[1].as_array().unwrap().len(), 3, "{:#}", sent[1]);

    let outcome = setup.ask(&["Who?", "--resume", "0198f1c2-7d3a-7b11-9c55-2f6b0a1d4e83"], b"");
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("does not exist"), "{}", outcome.stderr);
}

#[test]
fn a_question_is_answered_if_the_store_cannot_be_opened() {
    let script = Script::from_fn(|_| ScriptedResponse::Output(ModelOutput::text("Hello.")));
    let setup = Setup::new("unopenable", json!({}), script);
    let config = json!({"mcpServers": {}, "toolwire": {"store": "notes.txt"}});
    fs::write(setup.folder.join("mcp.json"), config.to_string()).unwrap();
    fs::write(setup.folder.join("notes.txt"), "This is not a database.").unwrap();
    let outcome = setup.ask(&["Hello?", "--keep"], b"");
    assert_eq!((outcome.code, &*outcome.stdout), (0, "Hello.\n"), "{}", outcome.stderr);
    assert!(outcome.stderr.starts_with("warning: the conversation is not stored: "), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("\nconversation "), "{}", outcome.stderr);
    // A conversation that cannot be read cannot be continued.
    let outcome = setup.ask(&["And now?", "--continue"], b"");
    assert_eq!((outcome.code, &*outcome.stdout), (1, ""), "{}", outcome.stderr);
    assert_eq!(setup.provider.requests().len(), 1);
}

#[cfg(unix)]
#[test]
fn a_question_is_answered_if_the_store_is_full() {
    let redis = toolwire_testkit::RedisServer::start();
    let script = Script::from_fn(|_| ScriptedResponse::Output(ModelOutput::text("Hello.")));
    let setup = Setup::new("full", json!({}), script);
    let config = json!({"mcpServers": {}, "toolwire": {"store": redis.url()}});
    fs::write(setup.folder.join("mcp.json"), config.to_string()).unwrap();
    let (run, _) = setup.transcript(&["I am Ada.", "--keep"], 0);
    let id = run["conversation"].as_str().unwrap();
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    for (option, value, messages) in [("--keep", None, 1), ("--resume", Some(id), 3)] {
        let arguments: Vec<&str> = ["Hello?", option].into_iter().chain(value).collect();
        let outcome = setup.ask(&[&arguments[..], &["--json"]].concat(), b"");
        let run: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!((outcome.code, &run["answer"]), (0, &json!("Hello.")), "{}", outcome.stderr);
        assert_eq!(run.get("conversation"), None, "{run}");
        assert!(
            outcome.stderr.starts_with("warning: the conversation is not stored: "),
            "{}",
            outcome.stderr
        );
        let sent = setup.provider.requests().last().unwrap().body["messages"].clone();
        assert_eq!(sent.as_array().unwrap().len(), messages, "{sent}");
    }
}

#[test]
fn the_last_conversation_or_one_with_these_words_is_continued() {
    let script = ["Noted.", "Noted too.", "Ada.", "Grace."].map(ModelOutput::text);
    let setup = Setup::new("continued", json!({}), script);
    setup.transcript(&["I am Ada Lovelace.", "--keep"], 0);
    setup.transcript(&["I am Grace.", "--keep"], 0);
    let (_, sent) = setup.transcript(&["Who am I?", "--resume", "ada lovelace"], 0);
    assert_eq!(sent[2][0]["content"], "I am Ada Lovelace.", "{:#}", sent[2]);
    // The conversation that was continued is now the last one.
    let (_, sent) = setup.transcript(&["Really?", "--continue"], 0);
    assert_eq!(sent[3].as_array().unwrap().len(), 5, "{:#}", sent[3]);
    let outcome = setup.ask(&["Who?", "--resume", "I am"], b"");
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("2 conversations match `I am`"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("  I am Grace."), "{}", outcome.stderr);
}

#[test]
fn a_key_selects_the_default_model_of_its_provider() {
    let setup = Setup::new("default-model", json!({}), [ModelOutput::text("Hello.")]);
    let outcome = outcome(setup.command("ask").arg("Hi").write_stdin(""));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "Hello.\n"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("because OPENAI_API_KEY is set"), "{}", outcome.stderr);
    assert_eq!(setup.provider.requests()[0].body["model"], "gpt-5.2");
}

#[test]
fn only_the_tools_of_one_server_are_offered() {
    let demo = json!({"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]});
    let servers = json!({"one": server(&[]), "demo": demo});
    let setup = Setup::new("one-server", servers, [ModelOutput::text("Hello.")]);
    let outcome = setup.ask(&["Hi", "--server", "demo"], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let tools = setup.provider.requests()[0].body["tools"].to_string();
    assert!(tools.contains("get_weather") && !tools.contains("echo"), "{tools}");
}

#[test]
fn a_password_in_the_base_url_is_not_printed() {
    let body = json!({"error": {"message": "no such route for sesame-123", "code": "not_found"}});
    let responses = [ScriptedResponse::error(404, body.clone()), ScriptedResponse::error(404, body)];
    let setup = Setup::new("password", json!({}), Script::new(responses));
    let url = setup.provider.base_url().replace("://", "://me:sesame-123@");
    for arguments in [vec!["Hi"], vec!["Hi", "--json"]] {
        let mut command = setup.command("ask");
        command.env("OPENAI_BASE_URL", format!("{url}?team=t")).args(["-m", "openai/x"]).args(arguments);
        let outcome = outcome(command.write_stdin(""));
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("check that the provider has a model named `x`"),
            "{}",
            outcome.stderr
        );
        assert!(!format!("{}{}", outcome.stdout, outcome.stderr).contains("sesame"), "{}", outcome.stderr);
    }
}

#[test]
fn a_provider_error_is_reported_with_a_hint() {
    let body = json!({"error": {"message": "Incorrect API key provided", "type": "invalid_request_error", "code": "invalid_api_key"}});
    let setup = Setup::new("refused", json!({}), Script::new([ScriptedResponse::error(401, body)]));
    let outcome = setup.ask(&["Hello?"], b"");
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
fn doctor_checks_the_configured_model() {
    let body = json!({"error": {"message": "The model `gpt-5.2` does not exist", "code": "model_not_found"}});
    let script =
        Script::new([ScriptedResponse::Output(ModelOutput::text("OK")), ScriptedResponse::error(404, body)]);
    let setup = Setup::new("doctor", json!({}), script);
    let config = json!({"mcpServers": {}, "toolwire": {"model": "openai/gpt-5.2"}});
    fs::write(setup.folder.join("mcp.json"), config.to_string()).unwrap();
    let healthy = outcome(&mut setup.command("doctor"));
    assert_eq!(healthy.code, 0, "{}{}", healthy.stdout, healthy.stderr);
    assert!(healthy.stdout.contains("model  openai/gpt-5.2 responds"), "{}", healthy.stdout);
    let broken = outcome(&mut setup.command("doctor"));
    assert_eq!(broken.code, 1, "{}{}", broken.stdout, broken.stderr);
    assert!(broken.stdout.contains("The model `gpt-5.2` does not exist"), "{}", broken.stdout);
}

#[test]
fn doctor_checks_the_model_that_a_key_selects() {
    let script = Script::new([ScriptedResponse::Output(ModelOutput::text("OK"))]);
    let setup = Setup::new("doctor-default", json!({}), script);
    let doctor = |variables: &[(&str, String)]| {
        let mut command = setup.command("doctor");
        api_key_variables().for_each(|name| {
            command.env_remove(name);
        });
        command.env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL");
        outcome(command.envs(variables.iter().map(|(name, value)| (name, value))))
    };
    let key = [("OPENAI_API_KEY", API_KEY.to_owned()), ("OPENAI_BASE_URL", setup.provider.base_url())];
    let selected = doctor(&key);
    let line = "✓ model  openai/gpt-5.2 responds (";
    assert!(selected.code == 0 && selected.stdout.contains(line), "{}", selected.stdout);
    assert!(selected.stdout.contains("because OPENAI_API_KEY is set"), "{}", selected.stdout);
    let without_key = doctor(&[]);
    assert!(
        without_key.stdout.contains("✓ model  none is configured; using `demo`"),
        "{}",
        without_key.stdout
    );

    // A model that cannot be used is a problem among others.
    let config =
        json!({"mcpServers": {"bad": {"command": "no-such-command"}}, "toolwire": {"model": "openai/m"}});
    fs::write(setup.folder.join("mcp.json"), config.to_string()).unwrap();
    let unusable = doctor(&[]);
    let expected = "✗ model  no API key is set for `openai/m`\n    set `OPENAI_API_KEY`\n";
    assert!(
        unusable.code == 1 && unusable.stdout.contains(expected),
        "{}{}",
        unusable.stdout,
        unusable.stderr
    );
    assert!(
        unusable.stdout.contains("✗ bad") && unusable.stdout.contains("2 problems found"),
        "{}",
        unusable.stdout
    );
}

/// Runs `ask` without any configuration.
fn ask_unconfigured(name: &str, arguments: &[&str]) -> Outcome {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ask-bare").join(name);
    fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    api_key_variables().for_each(|name| {
        command.env_remove(name);
    });
    outcome(
        command
            .current_dir(&folder)
            .env("XDG_CONFIG_HOME", folder.join("config"))
            .env("XDG_DATA_HOME", folder.join("data"))
            .env("NO_COLOR", "1")
            .env_remove("TOOLWIRE_CONFIG")
            .env_remove("OPENAI_BASE_URL")
            .args(["ask"])
            .args(arguments),
    )
}

#[test]
fn without_configuration_the_demo_model_makes_both_calls_in_one_step() {
    let question = "What is the weather in Paris, and what is 25 + 17?";
    let outcome = ask_unconfigured("demo", &[question]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("42") && outcome.stdout.contains("Paris"), "{}", outcome.stdout);
    assert!(
        outcome.stderr.contains("not a language model") && outcome.stderr.contains("demo server"),
        "{}",
        outcome.stderr
    );

    let outcome = ask_unconfigured("demo", &[question, "--json"]);
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

/// A schema that strict mode accepts only in another form.
const SCHEMA: &str = r#"{"type": "object", "properties": {"sum": {"type": "integer"}, "note": {"type": "string"}}, "required": ["sum"]}"#;

#[test]
fn a_schema_makes_the_response_json() {
    let call = ModelOutput::default().call("call_1", "echo", r#"{"text":"42"}"#);
    let outputs = [
        call,
        ModelOutput::text(r#"{"sum":"?","note":null}"#),
        ModelOutput::text(r#"{"sum":42,"note":null}"#),
    ];
    let setup = Setup::new("schema", json!({"one": server(&[])}), outputs.clone());
    fs::write(setup.folder.join("sum.json"), SCHEMA).unwrap();
    let outcome = setup.ask(&["--schema", "sum.json", "--allow", "*", "What is 25 + 17?"], b"");
    assert_eq!((outcome.code, &*outcome.stdout), (0, "{\"sum\":42}\n"), "{}", outcome.stderr);
    for request in setup.provider.requests() {
        assert_eq!(request.rejection, None);
        assert_eq!(request.body["response_format"]["json_schema"]["strict"], json!(true));
    }
    let setup = Setup::new("schema_json", json!({"one": server(&[])}), outputs);
    fs::write(setup.folder.join("sum.json"), SCHEMA).unwrap();
    let (run, _) = setup.transcript(&["--schema", "sum.json", "--allow", "*", "What is 25 + 17?"], 0);
    assert_eq!((&run["output"], &run["answer"]), (&json!({"sum": 42}), &json!("{\"sum\":42}")));
    // The rejected response is not part of the run.
    assert_eq!(run["messages"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_response_that_does_not_match_the_schema_is_not_printed() {
    let outputs = [ModelOutput::text("It is 42."), ModelOutput::text("42, as I said.")];
    let setup = Setup::new("schema_failed", json!({}), outputs);
    fs::write(setup.folder.join("sum.json"), SCHEMA).unwrap();
    let outcome = setup.ask(&["--schema", "sum.json", "What is 25 + 17?"], b"");
    assert_eq!((outcome.code, &*outcome.stdout), (1, ""));
    assert!(outcome.stderr.contains("the response does not have the required format"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("hint: retry"), "{}", outcome.stderr);
}

#[test]
fn an_unusable_schema_is_a_usage_error() {
    let setup = Setup::new("schema_invalid", json!({}), [ModelOutput::text("Hi")]);
    for (name, text) in [("text.json", "no"), ("type.json", r#"{"type": "objekt"}"#), ("list.json", "[1]")] {
        fs::write(setup.folder.join(name), text).unwrap();
    }
    for (name, problem) in [
        ("missing.json", "cannot read `missing.json`"),
        ("text.json", "`text.json` is not JSON: expected ident at line 1 column 2"),
        ("type.json", "`type.json`: the schema of the response is not a JSON Schema: "),
        ("list.json", "`list.json`: the schema of the response is not a JSON Schema: it is an array"),
    ] {
        let outcome = setup.ask(&["--schema", name, "Hi"], b"");
        assert_eq!((outcome.code, &*outcome.stdout), (2, ""), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(problem) && outcome.stderr.contains("hint:"), "{}", outcome.stderr);
    }
    assert!(setup.provider.requests().is_empty());
}

/// The demo model copies properties of tool results. Without them, it returns an error.
#[test]
fn the_demo_model_fills_a_schema_from_tool_results() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ask");
    fs::create_dir_all(&folder).unwrap();
    let schema = folder.join("weather.schema.json");
    let properties = json!({"location": {"type": "string"}, "temperature": {"type": "integer"}});
    let required =
        json!({"type": "object", "properties": properties, "required": ["location", "temperature"]});
    fs::write(&schema, required.to_string()).unwrap();
    let schema = schema.to_str().unwrap();
    let outcome = ask_unconfigured("demo_schema", &["What is the weather in Paris?", "--schema", schema]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let weather: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(weather["location"], "Paris");
    assert!(weather["temperature"].is_i64() && weather.as_object().unwrap().len() == 2, "{weather}");
    let outcome = ask_unconfigured("demo_schema", &["Write a poem.", "--schema", schema]);
    assert_eq!((outcome.code, &*outcome.stdout), (1, ""));
    assert!(
        outcome.stderr.contains("`demo` cannot be used: it is not a language model"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn usage_errors_have_a_hint() {
    for (arguments, problem, hint) in [
        (
            vec!["Hi", "--model", "opnai/gpt-5.2"],
            "unknown provider `opnai`",
            "did you mean `openai/gpt-5.2`?",
        ),
        (vec!["Hi", "--model", "openai/gpt-5.2"], "no API key is set", "OPENAI_API_KEY"),
        (vec!["  "], "the question is empty", "toolwire ask"),
        (vec!["Hi", "--resume", "last"], "no conversation matches `last`", "conversations list"),
        (vec!["Hi", "--resume"], "`--resume` does not name a conversation", "`--continue`"),
        (vec!["Hi", "--continue"], "no conversation is stored yet", "remove `--continue`"),
        (vec!["Hi", "--server", "nowhere"], "unknown server `nowhere`", "configured servers: `demo`"),
    ] {
        let outcome = ask_unconfigured("usage", &arguments);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(problem) && outcome.stderr.contains(hint), "{}", outcome.stderr);
    }
}

/// A PNG image of one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";

#[test]
fn files_are_attached_before_the_question() {
    let setup =
        Setup::new("files", json!({}), [ModelOutput::text("Tides."), ModelOutput::text("Still tides.")]);
    fs::write(setup.folder.join("my notes.md"), "Low tide is at ```six```.\n").unwrap();
    fs::write(setup.folder.join("photo.dat"), PNG).unwrap();
    fs::write(setup.folder.join("report.pdf"), "%PDF-1.4 tides").unwrap();
    let files = ["-f", "my notes.md", "--file", "photo.dat", "-f", "report.pdf"];
    let outcome = setup.ask(&[&["What is this?", "--keep"], &files[..]].concat(), b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "Tides.\n");
    let image = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAA=";
    let content = json!([
        {"type": "text", "text": "Attached file `my notes.md`:\n````\nLow tide is at ```six```.\n````"},
        {"type": "text", "text": "Attached file `photo.dat`:"},
        {"type": "image_url", "image_url": {"url": image}},
        {"type": "text", "text": "Attached file `report.pdf`:"},
        {"type": "file", "file": {
            "filename": "report.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQgdGlkZXM=",
        }},
        {"type": "text", "text": "What is this?"},
    ]);
    // The stored conversation sends the files again.
    let outcome = setup.ask(&["Really?", "--continue", "--json"], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for request in setup.provider.requests() {
        assert_eq!(request.rejection, None);
        assert_eq!(request.body["messages"][0], json!({"role": "user", "content": content}));
    }
    let run: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let stored = &run["messages"][0]["content"][0];
    let resource = json!({
        "uri": "file:my%20notes.md", "mimeType": "text/plain", "text": "Low tide is at ```six```.\n",
    });
    assert_eq!(*stored, json!({"type": "resource", "resource": resource}));
}

#[test]
fn files_that_cannot_be_sent_are_reported_before_the_request() {
    let setup = Setup::new("bad_files", json!({}), [ModelOutput::text("never")]);
    fs::write(setup.folder.join("a.zip"), b"PK\x03\x04\xff\0").unwrap();
    fs::write(setup.folder.join("a.bmp"), b"BM\x40\0\0\0\0\0\0\0").unwrap();
    fs::write(setup.folder.join("a.pdf"), "%PDF-1.4").unwrap();
    fs::write(setup.folder.join("long.txt"), "tide ".repeat(800_000)).unwrap();
    let check = |arguments: &[&str], expected: &str| {
        let outcome = setup.ask(&[&["What is this?"], arguments].concat(), b"");
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("hint: "), "{}", outcome.stderr);
    };
    check(&["-f", "missing"], "cannot attach `missing`: no such file or directory");
    check(&["-f", "."], "cannot attach `.`: is a directory");
    check(
        &["-f", "a.zip"],
        "cannot attach `a.zip`: neither UTF-8 text (invalid byte at 4) nor an image or a PDF",
    );
    check(
        &["-f", "a.bmp"],
        "`a.bmp` cannot be sent to `openai/gpt-5.2`: the model does not accept image/bmp",
    );
    check(&["-f", "long.txt"], "the attachments have about 13333");
    let outcome = outcome(setup.command("ask").args(["-m", "demo", "What?", "-f", "a.pdf"]).write_stdin(""));
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    let expected = "`a.pdf` cannot be sent to `demo`: the model does not accept application/pdf";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    assert_eq!(setup.provider.requests(), []);
}
