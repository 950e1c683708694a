//! The sampler, tested itself: what it draws fits, it reaches what a schema allows, and it draws from nearly every real tool.

use std::collections::BTreeSet;

use crate::support::place::covers;
use crate::support::random::Random;
use crate::support::sample::Source;
use crate::support::{corpus, openapi};
use serde_json::{Value, json};
use toolwire_dialect::Dialect;

/// Everything that a number of draws gave for property `p`, as text; `absent` where it was left out.
fn drawn(property: Value) -> BTreeSet<String> {
    let source = Source::new(&json!({"type": "object", "properties": {"p": property}})).expect("a schema");
    let mut random = Random::new(7);
    (0..400)
        .filter_map(|_| source.draw(&mut random))
        .map(|value| value.get("p").map_or("absent".to_owned(), Value::to_string))
        .collect()
}

#[track_caller]
fn reaches(property: Value, expected: &[&str]) {
    let drawn = drawn(property);
    for value in expected {
        assert!(drawn.contains(*value), "{value} not in {drawn:?}");
    }
}

#[test]
fn draws_reach_every_corner() {
    reaches(json!({"enum": ["a", 1, null]}), &["absent", "\"a\"", "1", "null"]);
    reaches(json!({"type": ["boolean", "null"]}), &["true", "false", "null", "absent"]);
    reaches(json!({"type": "integer", "minimum": 3, "exclusiveMaximum": 5}), &["3", "4"]);
    reaches(
        json!({"type": "number", "minimum": 0, "maximum": 0.02, "multipleOf": 0.01}),
        &["0", "0.01", "0.02"],
    );
    reaches(json!({"type": "integer"}), &["9007199254740993"]);
    reaches(json!({"anyOf": [{"const": "x"}, {"type": "null"}]}), &["\"x\"", "null"]);
    reaches(json!({"allOf": [{"minimum": 2}, {"type": "integer", "maximum": 3}]}), &["2", "3"]);
    reaches(json!({"type": "string", "pattern": "^(a|b)$"}), &["\"a\"", "\"b\""]);
    reaches(json!({"type": "array", "items": {"const": 1}, "minItems": 1, "maxItems": 2}), &["[1]", "[1,1]"]);
    reaches(
        json!({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": false, "minItems": 2}),
        &["[1,2]"],
    );
    reaches(
        json!({"type": "object", "properties": {"b": {"const": 1}, "c": {"const": 2}}, "required": ["b"]}),
        &["{\"b\":1}", "{\"b\":1,\"c\":2}"],
    );
}

#[test]
fn undeclared_keys_come_only_where_they_are_promised() {
    let silent = drawn(json!({"type": "object", "properties": {"b": {"const": 1}}}));
    assert_eq!(silent, BTreeSet::from(["absent", "{}", "{\"b\":1}"].map(str::to_owned)));
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
fn recursion_ends() {
    let list = json!({"type": "object", "properties": {"next": {"$ref": "#"}, "kids": {"type": "array", "items": {"$ref": "#"}}}});
    let source = Source::new(&list).expect("a schema");
    let mut random = Random::new(1);
    let drawn: BTreeSet<String> =
        (0..50).filter_map(|_| source.draw(&mut random)).map(|value| value.to_string()).collect();
    assert!(drawn.len() > 10);
}

#[test]
fn the_open_api_form_is_read_as_what_it_means() {
    let definition = json!({"name": "n", "parameters": {"type": "OBJECT", "properties": {
        "a": {"type": "STRING", "nullable": true, "enum": ["x"]},
        "n": {"type": "INTEGER", "format": "enum", "enum": ["1"]},
    }}});
    assert_eq!(
        openapi::meaning(Dialect::GeminiOpenApi, &definition),
        json!({"type": "object", "properties": {
            "a": {"type": ["string", "null"], "enum": ["x", null]},
            "n": {"enum": ["1"]},
        }})
    );
}

#[test]
fn a_place_in_a_schema_covers_its_place_in_the_arguments() {
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
fn nearly_every_real_tool_can_be_drawn_from() {
    let (mut tools, mut dry) = (0, Vec::new());
    for server in corpus::shapes() {
        for tool in &server.tools {
            tools += 1;
            let mut random = Random::for_text(&tool.to_string());
            let drawn = Source::new(&tool["inputSchema"])
                .and_then(|source| (0..3).find_map(|_| source.draw(&mut random)));
            if drawn.is_none() {
                dry.push(format!("{}/{}", server.name, tool["name"]));
            }
        }
    }
    println!("{tools} tools, {} dry", dry.len());
    assert!(tools > 7000);
    assert!(dry.len() * 200 < tools, "no arguments for {dry:?}");
}
