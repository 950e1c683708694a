//! Explicit actions: a tool that needs the user's consent does not run without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use toolwire_toolkit::{BuildError, Context, Instruction, Outcome, Server, tool};

use crate::support::{TRANSPORTS, list, outcome_of, plain};

type Runs = Arc<AtomicUsize>;

/// Delete a document.
#[tool(explicit = "DELETE_DOCUMENT")]
async fn delete(
    cx: &Context,
    /// Which one
    name: String,
) -> Outcome<String> {
    cx.state::<Runs>().unwrap().fetch_add(1, Ordering::SeqCst);
    Outcome::ok(name)
}

/// Empty the bin.
#[tool(explicit = "EMPTY", idempotent, open_world = false, destructive = false)]
async fn empty() {}

/// Show private data.
#[tool(explicit = "SHOW", read_only)]
async fn show() {}

/// Look.
#[tool(read_only, title = "Look around")]
async fn look() {}

/// Do something.
#[tool]
async fn act() {}

/// Take the reserved argument.
#[tool(explicit = "X")]
async fn reserved(
    /// Taken
    explicit_action: String,
) -> String {
    explicit_action
}

fn server(runs: &Runs) -> Server {
    plain().state(runs.clone()).tool(delete).tool(empty).tool(show).tool(look).tool(act).build().unwrap()
}

#[track_caller]
fn check_refused(arguments: Value, problem: &str, others: &[(&str, &str)]) {
    let runs = Runs::default();
    let expected = json!({
        "success": false,
        "error": format!(
            "`delete` requires an explicit request from the user, but `explicit_action` {problem}; nothing was done"
        ),
        "error_type": "explicit_action_required",
        "instruction": Instruction::require_consent(),
        "data": {"validation_errors": others
            .iter()
            .chain(&[("explicit_action", problem)])
            .map(|(field, message)| json!({"field": field, "message": message}))
            .collect::<Vec<Value>>()},
    });
    assert_eq!(outcome_of(&server(&runs), "delete", arguments), expected);
    assert_eq!(runs.load(Ordering::SeqCst), 0, "the function ran");
}

#[test]
fn a_call_without_consent_does_not_run() {
    check_refused(json!({"name": "a"}), "is missing", &[]);
    for wrong in [
        json!("delete_document"),
        json!("DELETE"),
        json!(""),
        json!(true),
        json!(null),
        json!(["DELETE_DOCUMENT"]),
    ] {
        check_refused(json!({"name": "a", "explicit_action": wrong}), "has the wrong value", &[]);
    }
}

#[test]
fn other_violations_are_reported_with_missing_consent() {
    check_refused(json!({}), "is missing", &[("name", r#"missing required property "name""#)]);
    check_refused(
        json!({"name": 1, "nam": "a", "explicit_action": "DELETE"}),
        "has the wrong value",
        &[
            ("name", "must be a string, not a number"),
            ("nam", r#"unknown property "nam"; did you mean "name"?"#),
        ],
    );
}

#[test]
fn a_call_with_consent_is_validated_and_runs() {
    let runs = Runs::default();
    let server = server(&runs);
    let arguments = |name: Value| json!({"name": name, "explicit_action": "DELETE_DOCUMENT"});
    assert_eq!(outcome_of(&server, "delete", arguments(json!("a"))), json!({"success": true, "value": "a"}));
    assert_eq!(outcome_of(&server, "delete", arguments(json!(1)))["error_type"], "validation_error");
    assert_eq!(runs.load(Ordering::SeqCst), TRANSPORTS.len(), "once per transport in this process");
}

#[test]
fn the_schema_requires_the_constant() {
    let tools = list(&server(&Runs::default()));
    assert_eq!(
        tools[0].input_schema.clone().unwrap(),
        json!({
            "type": "object",
            "properties": {
                "name": {"description": "Which one", "type": "string"},
                "explicit_action": {
                    "type": "string",
                    "const": "DELETE_DOCUMENT",
                    "description": "Provide this only if the user has explicitly requested exactly this action"
                }
            },
            "required": ["name", "explicit_action"],
            "additionalProperties": false
        })
    );
}

#[test]
fn annotations_are_derived_and_can_be_overridden() {
    let annotations: Vec<(String, Value)> = list(&server(&Runs::default()))
        .into_iter()
        .map(|tool| (tool.name, json!(tool.annotations)))
        .collect();
    let expected = [
        ("delete", json!({"readOnlyHint": false, "destructiveHint": true})),
        (
            "empty",
            json!({"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}),
        ),
        ("show", json!({"readOnlyHint": true})),
        ("look", json!({"readOnlyHint": true})),
        ("act", Value::Null),
    ];
    assert_eq!(annotations, expected.map(|(name, hints)| (name.to_owned(), hints)));
}

#[test]
fn explicit_action_is_a_reserved_argument() {
    let error = plain().tool(reserved).build().err().unwrap();
    assert_eq!(error, BuildError::ReservedArgument { tool: "reserved".into() });
}
