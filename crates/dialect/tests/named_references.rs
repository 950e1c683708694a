//! References to `$id`, `$anchor` and `$dynamicAnchor` within one schema.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use toolwire_dialect::arguments::ArgumentError;
use toolwire_dialect::{Dialect, Options, Status, Toolset};

fn toolset(schema: &Value, dialect: Dialect) -> Toolset {
    let tool = json!({"name": "tool", "description": "d", "inputSchema": schema});
    Toolset::from_json(&tool.to_string(), dialect, &Options::default()).unwrap()
}

/// Checks that every dialect converts the schema, accepts `good` and rejects `bad`, and that `p` has the
/// `expected` schema in dialects that replace references.
#[track_caller]
fn check(schema: Value, expected: Value, good: Value, bad: Value) {
    for dialect in Dialect::all() {
        let toolset = toolset(&schema, dialect);
        let report = &toolset.reports()[0];
        assert_ne!(report.status, Status::Refused, "{dialect}: {report:?}");
        let encoded = toolset.encode("tool", &good).unwrap_or_else(|error| panic!("{dialect}: {error}"));
        let decoded = toolset.decode("tool", &Value::Object(encoded.arguments)).unwrap();
        assert_eq!(Value::Object(decoded.arguments), good, "{dialect}");
        let rejected = toolset.decode("tool", &bad);
        assert!(matches!(rejected, Err(ArgumentError::Invalid { .. })), "{dialect}: {rejected:?}");
    }
    let toolset = toolset(&schema, Dialect::Xai);
    let definition = toolset.definitions()[0].pointer("/function/parameters/properties/p").unwrap();
    assert_eq!(*definition, expected);
}

#[test]
fn an_embedded_resource_is_found_by_its_uri() {
    check(
        json!({
            "$id": "https://example.com/a/root.json",
            "type": "object",
            "properties": {"p": {"$ref": "../b/./person#/$defs/age"}, "q": {"$ref": "/b/person"}},
            "$defs": {"person": {
                "$id": "https://example.com/b/person",
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/age"}},
                "$defs": {"age": {"type": "integer"}},
            }},
        }),
        json!({"type": "integer"}),
        json!({"p": 5, "q": {"a": 6}}),
        json!({"q": {"a": "old"}}),
    );
}

#[test]
fn an_anchor_belongs_to_its_resource() {
    check(
        json!({
            "type": "object",
            "properties": {"p": {"$ref": "urn:example:x#name"}, "q": {"$ref": "#name"}},
            "$defs": {
                "outer": {"$anchor": "name", "type": "boolean"},
                "inner": {"$id": "urn:example:x", "$defs": {"n": {"$anchor": "name", "type": "integer"}}},
            },
        }),
        json!({"type": "integer"}),
        json!({"p": 5, "q": true}),
        json!({"p": true}),
    );
}

#[test]
fn older_drafts_have_other_names() {
    for (schema, keyword) in [
        ("http://json-schema.org/draft-04/schema#", "id"),
        ("http://json-schema.org/draft-07/schema#", "$id"),
    ] {
        check(
            json!({
                "$schema": schema,
                "type": "object",
                "properties": {"p": {"$ref": "#name"}, "q": {"$ref": "other.json"}},
                "definitions": {
                    "x": {keyword: "#name", "type": "integer"},
                    "y": {keyword: "other.json", "type": "boolean"},
                },
            }),
            json!({"type": "integer"}),
            json!({"p": 5, "q": true}),
            json!({"q": 5}),
        );
    }
}

#[test]
fn a_dynamic_reference_leads_to_the_outermost_anchor() {
    let tree = json!({
        "$id": "https://example.com/tree",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"data": {"type": "string"}, "child": {"$dynamicRef": "#node"}},
    });
    let schema = json!({
        "$id": "https://example.com/strict-tree",
        "$dynamicAnchor": "node",
        "type": "object",
        "$ref": "tree",
        "unevaluatedProperties": false,
        "$defs": {"tree": tree},
    });
    for dialect in Dialect::all() {
        let toolset = toolset(&schema, dialect);
        assert_ne!(toolset.reports()[0].status, Status::Refused, "{dialect}: {:?}", toolset.reports());
        let good = json!({"data": "a", "child": {"data": "b", "child": {"data": "c"}}});
        let encoded = toolset.encode("tool", &good).unwrap();
        let decoded = toolset.decode("tool", &Value::Object(encoded.arguments)).unwrap();
        assert_eq!(Value::Object(decoded.arguments), good, "{dialect}");
    }
    let toolset = toolset(&schema, Dialect::OpenAiStrict);
    let parameters = toolset.definitions()[0].pointer("/function/parameters").unwrap();
    let expected = json!({
        "type": "object",
        "properties": {
            "data": {"type": ["string", "null"]},
            "child": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        },
        "required": ["data", "child"],
        "additionalProperties": false,
    });
    assert_eq!(*parameters, expected);
}

#[test]
fn a_dynamic_reference_depends_on_the_path() {
    check(
        json!({
            "type": "object",
            "properties": {"p": {"$ref": "integers"}, "q": {"$ref": "list"}},
            "$defs": {
                "integers": {
                    "$id": "integers",
                    "$ref": "list",
                    "$defs": {"item": {"$dynamicAnchor": "T", "type": "integer"}},
                },
                "list": {
                    "$id": "list",
                    "type": "array",
                    "items": {"$dynamicRef": "#T"},
                    "$defs": {"item": {"$dynamicAnchor": "T", "type": "string"}},
                },
            },
        }),
        json!({"type": "array", "items": {"type": "integer"}}),
        json!({"p": [1, 2], "q": ["a"]}),
        json!({"p": ["a"]}),
    );
}

#[test]
fn a_recursive_reference_leads_to_the_outermost_anchor() {
    check(
        json!({
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "type": "object",
            "properties": {"p": {"type": "integer"}, "q": {"$ref": "tree"}},
            "$recursiveAnchor": true,
            "$defs": {"tree": {
                "$id": "tree",
                "$recursiveAnchor": true,
                "type": "object",
                "properties": {"child": {"$recursiveRef": "#"}},
            }},
        }),
        json!({"type": "integer"}),
        json!({"q": {"child": {"p": 5}}}),
        json!({"q": {"child": {"p": "text"}}}),
    );
}

#[test]
fn copies_for_different_scopes_have_different_names() {
    let list_of = |id: &str, item: &str| json!({"$id": id, "$ref": "list", "$defs": {"item": {"$dynamicAnchor": "T", "type": item}}});
    check(
        json!({
            "type": "object",
            "properties": {"p": {"$ref": "integers"}, "q": {"$ref": "booleans"}, "r": {"$ref": "#/$defs/list_1"}},
            "$defs": {
                "integers": list_of("integers", "integer"),
                "booleans": list_of("booleans", "boolean"),
                "list": {
                    "$id": "list",
                    "type": "array",
                    "items": {"$dynamicRef": "#T"},
                    "$defs": {"item": {"$dynamicAnchor": "T", "type": "string"}},
                },
                "list_1": {"type": "null"},
            },
        }),
        json!({"type": "array", "items": {"type": "integer"}}),
        json!({"p": [1], "q": [true], "r": null}),
        json!({"q": [1]}),
    );
}

#[test]
fn a_dynamic_reference_applies_beside_a_reference_and_parts() {
    check(
        json!({
            "type": "object",
            "properties": {"p": {
                "$ref": "#/$defs/small",
                "$dynamicRef": "#large",
                "allOf": [{"$ref": "#even"}],
            }},
            "$defs": {
                "small": {"maximum": 10},
                "large": {"$dynamicAnchor": "large", "minimum": 5},
                "even": {"$anchor": "even", "type": "integer", "multipleOf": 2},
            },
        }),
        json!({"type": "integer", "multipleOf": 2, "minimum": 5, "maximum": 10}),
        json!({"p": 6}),
        json!({"p": 4}),
    );
}

#[test]
fn an_id_beside_a_reference_has_no_effect_in_older_drafts() {
    check(
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"p": {"$ref": "#/definitions/x"}},
            "definitions": {
                "x": {"$id": "other.json", "$ref": "#/definitions/n"},
                "n": {"type": "integer"},
            },
        }),
        json!({"type": "integer"}),
        json!({"p": 5}),
        json!({"p": "text"}),
    );
}

#[test]
fn a_missing_target_in_another_scope_has_its_own_name() {
    let schema = json!({
        "type": "object",
        "properties": {"p": {"$ref": "integers"}},
        "$defs": {
            "integers": {"$id": "integers", "$ref": "list", "$defs": {"i": {"$dynamicAnchor": "T", "type": "integer"}}},
            "list": {
                "$id": "list",
                "type": "array",
                "items": {"$ref": "#/$defs/missing"},
                "$defs": {"i": {"$dynamicAnchor": "T", "type": "string"}},
            },
        },
    });
    let reason = toolset(&schema, Dialect::OpenAi).reports()[0].reason.clone().unwrap();
    assert_eq!(reason.message, "$ref points to #/$defs/list/$defs/missing, which does not exist");
}

#[test]
fn references_that_do_not_resolve_are_refused() {
    let check = |property: Value, code: &str, message: &str| {
        let schema = json!({
            "type": "object",
            "properties": {"p": property},
            "$defs": {"known": {"$id": "known.json", "type": "object"}},
        });
        for dialect in [Dialect::OpenAi, Dialect::OpenAiStrict, Dialect::Anthropic, Dialect::Gemini] {
            let toolset = toolset(&schema, dialect);
            let reason = toolset.reports()[0].reason.clone().unwrap();
            assert_eq!((reason.code, reason.message.as_str()), (code, message), "{dialect}");
            assert_eq!(reason.pointer, "/properties/p", "{dialect}");
        }
    };
    check(
        json!({"$ref": "unknown.json"}),
        "remote_ref",
        "$ref points to unknown.json; remote schemas are not fetched",
    );
    check(
        json!({"$ref": "known.json#/$defs/x"}),
        "dangling_ref",
        "$ref points to #/$defs/known/$defs/x, which does not exist",
    );
    check(json!({"$ref": "known.json#x"}), "dangling_ref", "$ref points to #x, which does not exist");
    check(json!({"$dynamicRef": "#x"}), "dangling_ref", "$dynamicRef points to #x, which does not exist");
}
