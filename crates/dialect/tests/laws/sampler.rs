//! Tests of the sampler: it draws valid arguments, reaches everything that a schema allows, and works for
//! nearly every real tool.

use std::collections::BTreeSet;

use crate::support::argument_schema::argument_schema;
use crate::support::corpus;
use crate::support::random::Random;
use crate::support::sampler::ArgumentSampler;
use crate::support::schema_path::covers;
use serde_json::{Value, json};
use toolwire_dialect::Dialect;

/// Returns the distinct values of property `p` over many draws, as text; `absent` if it was omitted.
fn drawn(property: Value) -> BTreeSet<String> {
    let sampler = ArgumentSampler::new(&json!({"type": "object", "properties": {"p": property}}))
        .expect("a valid schema");
    let mut random = Random::new(7);
    (0..400)
        .filter_map(|_| sampler.draw(&mut random))
        .map(|value| value.get("p").map_or("absent".to_owned(), Value::to_string))
        .collect()
}

#[track_caller]
fn check_reaches(property: Value, expected: &[&str]) {
    let drawn = drawn(property);
    for value in expected {
        assert!(drawn.contains(*value), "{value} not in {drawn:?}");
    }
}

#[test]
fn draws_reach_every_allowed_value() {
    check_reaches(json!({"enum": ["a", 1, null]}), &["absent", "\"a\"", "1", "null"]);
    check_reaches(json!({"type": ["boolean", "null"]}), &["true", "false", "null", "absent"]);
    check_reaches(json!({"type": "integer", "minimum": 3, "exclusiveMaximum": 5}), &["3", "4"]);
    check_reaches(
        json!({"type": "number", "minimum": 0, "maximum": 0.02, "multipleOf": 0.01}),
        &["0", "0.01", "0.02"],
    );
    check_reaches(json!({"type": "integer"}), &["9007199254740993"]);
    check_reaches(json!({"anyOf": [{"const": "x"}, {"type": "null"}]}), &["\"x\"", "null"]);
    check_reaches(json!({"allOf": [{"minimum": 2}, {"type": "integer", "maximum": 3}]}), &["2", "3"]);
    check_reaches(json!({"type": "string", "pattern": "^(a|b)$"}), &["\"a\"", "\"b\""]);
    check_reaches(
        json!({"type": "array", "items": {"const": 1}, "minItems": 1, "maxItems": 2}),
        &["[1]", "[1,1]"],
    );
    check_reaches(
        json!({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": false, "minItems": 2}),
        &["[1,2]"],
    );
    check_reaches(
        json!({"type": "object", "properties": {"b": {"const": 1}, "c": {"const": 2}}, "required": ["b"]}),
        &["{\"b\":1}", "{\"b\":1,\"c\":2}"],
    );
}

#[test]
fn undeclared_keys_are_drawn_only_where_the_schema_allows_them() {
    let without_rule = drawn(json!({"type": "object", "properties": {"b": {"const": 1}}}));
    assert_eq!(without_rule, BTreeSet::from(["absent", "{}", "{\"b\":1}"].map(str::to_owned)));
    for open in [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"b": {"const": 1}}, "additionalProperties": true}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "patternProperties": {"^x-[0-9]$": {"type": "string"}}}),
    ] {
        let drawn = drawn(open.clone());
        assert!(drawn.len() > 4, "{open}: {drawn:?}");
    }
}

#[test]
fn a_reference_to_a_dynamic_anchor_is_drawn_from_its_target() {
    let target = json!({"$dynamicAnchor": "b", "type": "object", "properties": {"c": {"const": 1}}});
    let property = json!({"$dynamicRef": "#b", "$defs": {"b": target}});
    assert_eq!(drawn(property), BTreeSet::from(["absent", "{}", "{\"c\":1}"].map(str::to_owned)));
}

#[test]
fn draws_from_recursive_schemas_end() {
    let list = json!({"type": "object", "properties": {"next": {"$ref": "#"}, "kids": {"type": "array", "items": {"$ref": "#"}}}});
    let sampler = ArgumentSampler::new(&list).expect("a valid schema");
    let mut random = Random::new(1);
    let drawn: BTreeSet<String> =
        (0..50).filter_map(|_| sampler.draw(&mut random)).map(|value| value.to_string()).collect();
    assert!(drawn.len() > 10);
}

#[test]
fn open_api_definitions_are_converted_to_json_schema() {
    let definition = json!({"name": "n", "parameters": {"type": "OBJECT", "properties": {
        "a": {"type": "STRING", "nullable": true, "enum": ["x"]},
        "n": {"type": "INTEGER", "format": "enum", "enum": ["1"]},
    }}});
    assert_eq!(
        argument_schema(Dialect::GeminiOpenApi, &definition),
        json!({"type": "object", "properties": {
            "a": {"type": ["string", "null"], "enum": ["x", null]},
            "n": {"enum": ["1"]},
        }})
    );
}

#[test]
fn a_location_in_a_schema_covers_its_arguments() {
    for (pointer, argument, expected) in [
        ("", "/a", true),
        ("/properties/a", "/a", true),
        ("/properties/a", "/a/b", true),
        ("/properties/a/properties/b", "/a", true),
        ("/properties/a", "/b", false),
        ("/properties/a/items/properties/b", "/a/3/b", true),
        ("/properties/a/items/properties/b", "/a/3/c", false),
        ("/properties/a/anyOf/1/properties/b", "/a/b", true),
        ("/properties/a/minimum", "/a", true),
        ("/properties/properties/properties/x", "/properties/x", true),
        ("/$defs/A", "/anything", true),
        ("/properties/a/additionalProperties", "/a/key", true),
        ("/properties/a~1b", "/a~1b", true),
    ] {
        assert_eq!(covers(pointer, argument), expected, "{pointer} {argument}");
    }
}

#[test]
fn arguments_can_be_drawn_for_nearly_every_real_tool() {
    let (mut tools, mut without_arguments) = (0, Vec::new());
    for server in corpus::shapes() {
        for tool in &server.tools {
            tools += 1;
            let mut random = Random::for_text(&tool.to_string());
            let drawn = ArgumentSampler::new(&tool["inputSchema"])
                .and_then(|sampler| (0..3).find_map(|_| sampler.draw(&mut random)));
            if drawn.is_none() {
                without_arguments.push(format!("{}/{}", server.name, tool["name"]));
            }
        }
    }
    println!("{tools} tools, {} without arguments", without_arguments.len());
    assert!(tools > 7000);
    assert!(without_arguments.len() * 200 < tools, "no arguments for {without_arguments:?}");
}
