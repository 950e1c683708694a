//! Outcomes: the result of a tool for every kind of value and failure.

use std::collections::BTreeMap;
use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use toolwire_toolkit::{
    Content, Context, Failure, Instruction, Mode, OrFailure, Outcome, Server, ToolResult, tool,
};

use crate::support::{call, list, outcome_of, plain};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Document {
    title: String,
    size: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Round,
    Square { side: f64 },
}

/// Asserts that an outcome is serialized as expected, and equal after deserialization.
#[track_caller]
fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    outcome: Outcome<T>,
    expected: Value,
) {
    assert_eq!(serde_json::to_value(&outcome).unwrap(), expected);
    assert_eq!(serde_json::from_value::<Outcome<T>>(expected).unwrap(), outcome);
}

#[test]
fn a_value_of_any_type_can_be_serialized_and_deserialized() {
    let document = Document { title: "plan".into(), size: None };
    check(Outcome::ok(document.clone()), json!({"success": true, "value": {"title": "plan", "size": null}}));
    check(Outcome::ok(Shape::Round), json!({"success": true, "value": "round"}));
    check(
        Outcome::ok(Shape::Square { side: 1.5 }),
        json!({"success": true, "value": {"square": {"side": 1.5}}}),
    );
    check(Outcome::ok(()), json!({"success": true}));
    check(
        Outcome::ok(vec![document.clone()]),
        json!({"success": true, "value": [{"title": "plan", "size": null}]}),
    );
    check(Outcome::ok(Vec::<u8>::new()), json!({"success": true, "value": []}));
    check(Outcome::ok(None::<u8>), json!({"success": true}));
    check(Outcome::ok(Some(3)), json!({"success": true, "value": 3}));
    check(Outcome::ok(u64::MAX), json!({"success": true, "value": u64::MAX}));
    check(Outcome::ok(-0.5), json!({"success": true, "value": -0.5}));
    check(Outcome::ok(String::new()), json!({"success": true, "value": ""}));
    check(Outcome::ok(false), json!({"success": true, "value": false}));
    check(Outcome::ok(BTreeMap::from([("a".to_owned(), 1)])), json!({"success": true, "value": {"a": 1}}));
    check(Outcome::ok(json!({"any": [1.10]})), json!({"success": true, "value": {"any": [1.10]}}));
    check(Outcome::ok((1, "a".to_owned())), json!({"success": true, "value": [1, "a"]}));
}

#[test]
fn all_fields_are_written_in_their_order() {
    let outcome = Outcome::<u8>::failure("conflict", "it was changed meanwhile")
        .with_message("Somebody else was faster.")
        .with_instruction(Instruction::ask_for("the version to keep").then(Instruction::no_changes()))
        .with_data("version", 3);
    check(
        outcome.clone(),
        json!({
            "success": false,
            "error": "it was changed meanwhile",
            "error_type": "conflict",
            "message": "Somebody else was faster.",
            "instruction": "Ask the user for the version to keep before you continue. Do not invent it. Do not make \
                            changes, directly or with other tools, until the user asks for them.",
            "data": {"version": 3}
        }),
    );
    assert!(outcome.is_failure() && !outcome.is_ok());
    let expected = r#"{"success":true,"value":1,"message":"m","instruction":"free text"}"#;
    let outcome = Outcome::ok(1).with_instruction("free text").with_message("m");
    assert_eq!(serde_json::to_string(&outcome).unwrap(), expected);
}

#[test]
fn common_instructions_have_fixed_texts() {
    let texts = [
        (
            Instruction::present_and_stop(),
            "Present this result to the user, then stop. Do not call another tool until the user replies.",
        ),
        (
            Instruction::suggest("a shorter title"),
            "Suggest to the user: a shorter title. Do not do it unless the user agrees.",
        ),
        (Instruction::ask_for("a title"), "Ask the user for a title before you continue. Do not invent it."),
        (
            Instruction::no_changes(),
            "Do not make changes, directly or with other tools, until the user asks for them.",
        ),
        (
            Instruction::require_consent(),
            "Tell the user exactly what would be done and ask for explicit consent. Call the tool again only after \
             the user has given it.",
        ),
        (Instruction::retry_with("another name"), "Call the tool again with another name."),
        (
            Instruction::discuss("the plan"),
            "Discuss the plan with the user. Do not act on it before the user has decided.",
        ),
        (
            Instruction::check("the backup"),
            "Check the backup before you continue. Tell the user if it is not as expected.",
        ),
        (Instruction::explain("why it failed"), "Explain to the user: why it failed."),
        (
            Instruction::let_choose(["keep", "delete"]),
            "Let the user choose one of: keep; delete. Do not choose yourself.",
        ),
        (Instruction::use_tool("docs_search"), "Call the tool `docs_search` next."),
        (Instruction::proceed(), "Continue with the task. The user does not need to confirm this result."),
        (
            Instruction::do_not_retry(),
            "Do not call the tool again; the result would be the same. Tell the user what failed.",
        ),
    ];
    for (instruction, text) in texts {
        assert_eq!(instruction.as_str(), text);
    }
}

#[test]
fn modes_are_named_in_upper_case() {
    for (mode, name) in [
        (Mode::Discussion, "DISCUSSION"),
        (Mode::Planning, "PLANNING"),
        (Mode::Implementation, "IMPLEMENTATION"),
        (Mode::Check, "CHECK"),
        (Mode::Review, "REVIEW"),
        (Mode::Debugging, "DEBUGGING"),
        (Mode::Other("drafting".into()), "DRAFTING"),
    ] {
        let expected = format!("Switch to {name} mode before you continue.");
        assert_eq!(Instruction::switch_to(mode).as_str(), expected);
    }
}

#[test]
fn an_outcome_is_converted_to_json_as_it_is_sent() {
    let outcome = Outcome::ok(Document { title: "plan".into(), size: None }).with_message("Found.");
    let expected = json!({"success": true, "value": {"title": "plan", "size": null}, "message": "Found."});
    assert_eq!(outcome.to_json().unwrap(), expected);
    let expected = r#"{"success":true,"value":{"title":"plan","size":null},"message":"Found."}"#;
    assert_eq!(outcome.to_json_string().unwrap(), expected);
    // The keys of a JSON object are strings.
    let unserializable = Outcome::ok(BTreeMap::from([((1, 2), 3)]));
    assert_eq!(unserializable.to_json().unwrap_err().to_string(), "key must be a string");
    assert_eq!(unserializable.to_json_string().unwrap_err().to_string(), "key must be a string");
}

/// Fail in one of several ways.
#[tool]
#[allow(clippy::needless_return)] // The macro must handle `return` in nested functions.
async fn fail(
    /// The kind of failure
    kind: String,
) -> Outcome<u8> {
    // These return from the closure, the block and the function, not from the tool.
    let nested = || -> Result<u8, io::Error> {
        return Err(io::Error::other("nested"));
    };
    let later = async { return 4 };
    fn inner() -> u8 {
        return 5;
    }
    if kind == "early" {
        return Outcome::ok(later.await + inner());
    }
    match kind.as_str() {
        "closure" => {
            nested()?;
        }
        "missing" => {
            std::fs::read("/nonexistent/secret/path")?;
        }
        "parse" => {
            "x".parse::<u8>()?;
        }
        "boxed" => {
            let error: Box<dyn std::error::Error + Send + Sync> = "hunter2".into();
            Err(error)?;
        }
        "anyhow" => {
            use anyhow::Context as _;
            Err::<(), _>(io::Error::from(io::ErrorKind::TimedOut)).context("asking hunter2")?;
        }
        "text" => Err("hunter2")?,
        "failure" => Err(Failure::new("full", "the disk is full").with_message("No space left."))?,
        "explicit" => {
            "x".parse::<u8>().or_failure("invalid_number", "`x` is not a number")?;
        }
        "none" => return Outcome::ok(None.or_failure("nothing", "no value was found")?),
        "panic" => panic!("hunter2"),
        _ => {}
    }
    Outcome::ok(1)
}

/// Return a `Result` with a value.
#[tool]
async fn fallible(
    /// Whether to fail
    fail: bool,
) -> Result<Document, io::Error> {
    if fail {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    }
    Ok(Document { title: "a".into(), size: Some(1) })
}

/// Return a `Result` with an outcome.
#[tool]
async fn fallible_outcome(
    /// Whether to fail
    fail: bool,
) -> anyhow::Result<Outcome<()>> {
    anyhow::ensure!(!fail, "hunter2");
    Ok(Outcome::ok(()).with_message("done"))
}

/// Return a value.
#[tool]
async fn value(mut args: Document, _cx: &Context) -> Document {
    args.title.push('!');
    args
}

/// Return nothing.
#[tool]
async fn nothing() {}

/// Return an image.
#[tool]
async fn picture() -> ToolResult {
    ToolResult { content: Some(vec![Content::image("AAAA", "image/png")]), ..ToolResult::default() }
}

/// Return a value that JSON cannot represent.
#[tool]
async fn unserializable() -> BTreeMap<Unserializable, u8> {
    BTreeMap::from([(Unserializable, 1)])
}

#[derive(PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
struct Unserializable;

impl Serialize for Unserializable {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::NAN)
    }
}

fn server() -> Server {
    plain()
        .tool(fail)
        .tool(fallible)
        .tool(fallible_outcome)
        .tool(value)
        .tool(nothing)
        .tool(picture)
        .build()
        .unwrap()
}

#[track_caller]
fn check_failure(kind: &str, error_type: &str, error: &str) {
    let outcome = outcome_of(&server(), "fail", json!({"kind": kind}));
    assert_eq!(
        (outcome["error_type"].as_str(), outcome["error"].as_str()),
        (Some(error_type), Some(error)),
        "{kind}"
    );
    let text = outcome.to_string();
    assert!(!text.contains("hunter2") && !text.contains("secret"), "{text}");
}

const INTERNAL_ERROR: &str = "internal error in the tool; see its log";

#[test]
fn ordinary_errors_become_failures_that_leak_nothing() {
    check_failure("closure", "internal_error", INTERNAL_ERROR);
    check_failure("missing", "not_found", "a resource that the tool needs was not found");
    check_failure("parse", "internal_error", INTERNAL_ERROR);
    check_failure("boxed", "internal_error", INTERNAL_ERROR);
    check_failure("anyhow", "timeout", "an operation of the tool timed out");
    check_failure("text", "internal_error", INTERNAL_ERROR);
    check_failure("panic", "internal_error", INTERNAL_ERROR);
}

#[test]
fn explicit_failures_are_reported() {
    check_failure("explicit", "invalid_number", "`x` is not a number");
    check_failure("none", "nothing", "no value was found");
    assert_eq!(
        outcome_of(&server(), "fail", json!({"kind": "failure"})),
        json!({"success": false, "error": "the disk is full", "error_type": "full", "message": "No space left."})
    );
}

#[test]
fn an_outcome_can_be_returned_early() {
    assert_eq!(outcome_of(&server(), "fail", json!({"kind": "early"})), json!({"success": true, "value": 9}));
    assert_eq!(outcome_of(&server(), "fail", json!({"kind": ""})), json!({"success": true, "value": 1}));
}

#[test]
fn a_panic_fails_only_its_own_call() {
    let server = server();
    assert_eq!(outcome_of(&server, "fail", json!({"kind": "panic"}))["error_type"], "internal_error");
    assert_eq!(outcome_of(&server, "fail", json!({"kind": ""})), json!({"success": true, "value": 1}));
}

#[test]
fn functions_can_return_other_types() {
    let server = server();
    let document = json!({"success": true, "value": {"title": "a", "size": 1}});
    assert_eq!(outcome_of(&server, "fallible", json!({"fail": false})), document);
    assert_eq!(outcome_of(&server, "fallible", json!({"fail": true}))["error_type"], "not_found");
    assert_eq!(
        outcome_of(&server, "fallible_outcome", json!({"fail": false})),
        json!({"success": true, "message": "done"})
    );
    assert_eq!(outcome_of(&server, "fallible_outcome", json!({"fail": true}))["error"], INTERNAL_ERROR);
    assert_eq!(
        outcome_of(&server, "value", json!({"title": "b"})),
        json!({"success": true, "value": {"title": "b!", "size": null}})
    );
    assert_eq!(outcome_of(&server, "nothing", json!({})), json!({"success": true}));
    let result = call(&server, "picture", json!({}));
    assert_eq!(result.blocks(), [Content::image("AAAA", "image/png")]);
    assert_eq!(result.structured_content, None);
}

#[test]
fn a_value_that_cannot_be_serialized_is_a_failure() {
    let server = plain().tool(unserializable).build().unwrap();
    assert_eq!(outcome_of(&server, "unserializable", json!({}))["error"], INTERNAL_ERROR);
}

#[test]
fn results_match_the_generated_output_schema() {
    let server = server();
    let calls = [
        ("fail", json!({"kind": ""})),
        ("fail", json!({"kind": "failure"})),
        ("fail", json!({})),
        ("fallible", json!({"fail": false})),
        ("fallible_outcome", json!({"fail": false})),
        ("value", json!({"title": "b"})),
        ("nothing", json!({})),
    ];
    for (name, arguments) in calls {
        let tool = list(&server).into_iter().find(|tool| tool.name == name).unwrap();
        let schema = tool.output_schema.unwrap();
        assert_eq!(schema["type"], "object");
        let outcome = outcome_of(&server, name, arguments);
        assert!(jsonschema::is_valid(&schema, &outcome), "{outcome} does not match {schema}");
        assert!(!jsonschema::is_valid(&schema, &json!({"success": "yes"})));
    }
    let tool = list(&server).into_iter().find(|tool| tool.name == "picture").unwrap();
    assert_eq!(tool.output_schema, None);
    let schema = list(&server).into_iter().find(|tool| tool.name == "value").unwrap().output_schema.unwrap();
    assert_eq!(
        schema["properties"]["value"],
        json!({
            "type": "object",
            "properties": {"title": {"type": "string"}, "size": {"type": ["integer", "null"], "minimum": 0}},
            "required": ["title", "size"]
        })
    );
}

#[test]
fn the_function_can_be_called_directly() {
    let outcome = crate::support::runtime().block_on(fail().call("early".to_owned()));
    assert_eq!(outcome, Outcome::ok(9));
    let document = Document { title: "c".into(), size: None };
    let document = crate::support::runtime().block_on(value().call(document, &Context::alone()));
    assert_eq!(document.title, "c!");
}

/// Roll a die until it shows a six. The end of the body is unreachable, which must not cause a warning.
#[deny(unreachable_code)]
#[tool]
async fn until_six() -> Outcome<u8> {
    let mut seed = 1_u32;
    loop {
        seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        if seed / 65_536 % 6 == 5 {
            return Outcome::ok(6);
        }
    }
}

#[test]
fn a_body_may_end_only_with_return() {
    let server = plain().tool(until_six).build().unwrap();
    assert_eq!(outcome_of(&server, "until_six", json!({})), json!({"success": true, "value": 6}));
}
