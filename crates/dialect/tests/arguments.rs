//! Decoding a model's arguments: changes of the dialect are undone, small mistakes are repaired where the
//! schema allows only one interpretation, and everything else is reported as a violation.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use toolwire_contract::toolbox::SchemaFingerprint;
use toolwire_dialect::arguments::{ArgumentError, Decoded, Encoded, Violation};
use toolwire_dialect::{Dialect, Effect, Options, Status, Toolset};

fn toolset(schema: &Value, dialect: Dialect, options: &Options) -> Toolset {
    let tool = json!({"name": "tool", "description": "d", "inputSchema": schema});
    Toolset::from_json(&tool.to_string(), dialect, options).unwrap()
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn requiring(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

/// Checks that `sent` is decoded to `expected`, digit for digit, with a repair at each of these pointers.
#[track_caller]
fn check(dialect: Dialect, schema: Value, sent: Value, expected: Value, repairs: &[&str]) {
    let decoded = toolset(&schema, dialect, &Options::default()).decode("tool", &sent);
    let Decoded { name, arguments, repairs: actual_repairs, .. } =
        decoded.unwrap_or_else(|error| panic!("{sent}: {error:?}"));
    assert_eq!(name, "tool");
    assert_eq!(Value::Object(arguments).to_string(), expected.to_string(), "{sent}");
    let mut pointers: Vec<&str> = actual_repairs.iter().map(|repair| repair.pointer.as_str()).collect();
    pointers.sort_unstable();
    assert_eq!(pointers, repairs, "{sent}");
}

/// Checks that `sent` is valid and not repaired.
#[track_caller]
fn check_unchanged(property: Value, sent: Value) {
    let sent = json!({"p": sent});
    check(Dialect::OpenAi, object(json!({"p": property})), sent.clone(), sent, &[]);
}

/// Checks that `sent` is repaired to `expected`, only at the property.
#[track_caller]
fn check_repaired(property: Value, sent: Value, expected: Value) {
    let schema = object(json!({"p": property}));
    check(Dialect::OpenAi, schema, json!({"p": sent}), json!({"p": expected}), &["/p"]);
}

/// Checks that `sent` is rejected unchanged, with violations only at the property.
#[track_caller]
fn check_rejected(property: Value, sent: Value) {
    let sent = json!({"p": sent});
    let toolset = toolset(&object(json!({"p": property})), Dialect::OpenAi, &Options::default());
    match toolset.decode("tool", &sent) {
        Err(ArgumentError::Invalid { tool, violations, arguments }) => {
            assert_eq!((tool.as_str(), Value::Object(arguments)), ("tool", sent));
            let pointers: Vec<&str> = violations.iter().map(|violation| violation.pointer.as_str()).collect();
            assert!(
                !pointers.is_empty() && pointers.iter().all(|pointer| pointer.starts_with("/p")),
                "{pointers:?}"
            );
        }
        other => panic!("{sent} was not rejected: {other:?}"),
    }
}

#[track_caller]
fn check_error(dialect: Dialect, sent: Value, code: &str) {
    let toolset = toolset(&object(json!({"a": {"type": "integer"}})), dialect, &Options::default());
    let error = toolset.decode("tool", &sent).expect_err("the arguments are not an object");
    assert_eq!(error.code(), code, "{sent}: {error}");
}

/// Parses text, because `json!` would round the digits.
fn parse_exact(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

const STRICT: [Dialect; 2] = [Dialect::OpenAiStrict, Dialect::ResponsesStrict];

// The arguments as a whole.

#[test]
fn absent_arguments_are_an_empty_object() {
    for dialect in Dialect::all() {
        for sent in [json!(""), json!(" \n"), json!(null), json!("null")] {
            check(dialect, object(json!({"a": {"type": "integer"}})), sent, json!({}), &[""]);
        }
        check(dialect, object(json!({"a": {"type": "integer"}})), json!({}), json!({}), &[]);
        check(dialect, object(json!({"a": {"type": "integer"}})), json!("{}"), json!({}), &[]);
    }
}

#[test]
fn absent_arguments_do_not_satisfy_a_required_property() {
    let toolset =
        toolset(&requiring(json!({"a": {"type": "integer"}}), &["a"]), Dialect::OpenAi, &Options::default());
    for sent in [json!(""), json!(null)] {
        assert_eq!(toolset.decode("tool", &sent).expect_err("`a` is missing").code(), "invalid_arguments");
    }
}

#[test]
fn invalid_json_text_is_reported() {
    for dialect in Dialect::all() {
        for sent in [r#"{"a":1"#, "{", "{'a':1", r#"{"a":1}}"#, "a", "\u{0}", r#"{"a":"\ud83d"#] {
            check_error(dialect, json!(sent), "not_json");
        }
    }
}

#[test]
fn the_parse_error_is_in_the_message() {
    let toolset = toolset(&object(json!({})), Dialect::OpenAi, &Options::default());
    match toolset.decode("tool", &json!(r#"{"a":1"#)) {
        Err(ArgumentError::NotJson { message }) => assert!(message.contains("EOF"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn json_that_is_not_an_object_is_reported() {
    for dialect in Dialect::all() {
        for sent in
            [json!("[1]"), json!("5"), json!("true"), json!([1]), json!(5), json!(true), json!("\"a\"")]
        {
            check_error(dialect, sent, "not_an_object");
        }
    }
}

#[test]
fn an_object_and_json_text_of_an_object_are_both_accepted() {
    for dialect in Dialect::all() {
        for sent in [json!({"a": 1}), json!(r#" {"a": 1} "#)] {
            check(dialect, requiring(json!({"a": {"type": "integer"}}), &["a"]), sent, json!({"a": 1}), &[]);
        }
    }
}

#[test]
fn arguments_encoded_twice_are_decoded_twice() {
    let once = json!({"a": 1}).to_string();
    let twice = json!(once).to_string();
    let schema = requiring(json!({"a": {"type": "integer"}}), &["a"]);
    for dialect in Dialect::all() {
        check(dialect, schema.clone(), json!(twice), json!({"a": 1}), &[""]);
    }
    check_error(Dialect::OpenAi, json!(json!(twice).to_string()), "not_an_object");
}

// Names.

#[test]
fn an_unknown_tool_is_reported_with_similar_names() {
    let tools = json!([
        {"name": "search_files", "inputSchema": object(json!({}))},
        {"name": "calculate", "inputSchema": object(json!({}))},
    ]);
    for dialect in Dialect::all() {
        let toolset = Toolset::from_json(&tools.to_string(), dialect, &Options::default()).unwrap();
        match toolset.decode("serch_files", &json!({})) {
            Err(ArgumentError::UnknownTool { name, nearest }) => {
                assert_eq!(
                    (name.as_str(), nearest.first().map(String::as_str)),
                    ("serch_files", Some("search_files"))
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(
            toolset.encode("", &json!({})).expect_err("no tool has an empty name").code(),
            "unknown_tool"
        );
    }
}

#[test]
fn only_the_names_in_the_definitions_are_decoded() {
    let tools: Vec<Value> = ["a/b", "a.b", "a_b", "x__a"]
        .iter()
        .map(|name| json!({"name": name, "inputSchema": object(json!({}))}))
        .collect();
    let toolset =
        Toolset::from_json(&json!(tools).to_string(), Dialect::OpenAi, &Options::default()).unwrap();
    for report in toolset.reports() {
        assert_eq!(toolset.decode(&report.name, &json!({})).unwrap().name, report.tool);
        assert_eq!(toolset.encode(&report.tool, &json!({})).unwrap().name, report.name);
    }
    for name in ["a/b", "a.b", "a", "A_B", "x"] {
        assert_eq!(
            toolset.decode(name, &json!({})).expect_err("the definitions have no such name").code(),
            "unknown_tool"
        );
    }
}

#[test]
fn renamed_keys_are_restored_and_unknown_keys_are_unchanged() {
    let schema = requiring(
        json!({"$filter": {"type": "string"}, "user id": {"type": "string"}, "名前": {"type": "string"}}),
        &["user id"],
    );
    for (dialect, place) in
        [(Dialect::Anthropic, "/input_schema"), (Dialect::Gemini, "/parametersJsonSchema")]
    {
        let toolset = toolset(&schema, dialect, &Options::default());
        let parameters = toolset.definitions()[0].pointer(place).unwrap().clone();
        let keys: Vec<&String> = parameters["properties"].as_object().unwrap().keys().collect();
        assert_eq!(parameters["required"], json!([keys[1]]));
        let mut sent = json!({"extra key": 4});
        for (number, key) in keys.iter().enumerate() {
            assert!(
                key.chars().all(|character| character.is_ascii_alphanumeric() || character == '_'),
                "{key}"
            );
            sent[key.as_str()] = json!(number.to_string());
        }
        let decoded = toolset.decode("tool", &sent).unwrap();
        let expected = json!({"extra key": 4, "$filter": "0", "user id": "1", "名前": "2"});
        assert_eq!((Value::Object(decoded.arguments), decoded.repairs), (expected, vec![]));
    }
}

// Nulls that mean an absent key.

#[test]
fn a_null_is_removed_where_the_key_is_optional_and_not_nullable() {
    for dialect in STRICT {
        let schema = requiring(json!({"a": {"type": "string"}, "b": {"type": "integer"}}), &["b"]);
        check(dialect, schema, json!({"a": null, "b": 1}), json!({"b": 1}), &[]);
        let of_enum = object(json!({"a": {"type": "string", "enum": ["x", "y"]}}));
        check(dialect, of_enum, json!({"a": null}), json!({}), &[]);
        let of_object = object(json!({"a": object(json!({"b": {"type": "string"}}))}));
        check(dialect, of_object.clone(), json!({"a": null}), json!({}), &[]);
        check(dialect, of_object, json!({"a": {"b": null}}), json!({"a": {}}), &[]);
        let of_const = object(json!({"a": {"const": "x"}}));
        check(dialect, of_const, json!({"a": null}), json!({}), &[]);
        // `nullable` is a keyword of OpenAPI, not of JSON Schema.
        let of_openapi = object(json!({"a": {"type": "string", "nullable": true}}));
        check(dialect, of_openapi, json!({"a": null}), json!({}), &[]);
    }
}

#[test]
fn a_null_stays_where_the_tool_allows_null() {
    for dialect in STRICT {
        for property in [
            json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null, "description": "d"}),
            json!({"type": ["string", "null"]}),
            json!({"oneOf": [{"type": "null"}, {"type": "integer"}]}),
            json!({"type": ["string", "null"], "enum": ["a", null]}),
            json!({"const": null}),
            json!({"$ref": "#/$defs/N"}),
        ] {
            let mut schema = object(json!({"a": property}));
            schema["$defs"] = json!({"N": {"type": ["integer", "null"]}});
            check(dialect, schema, json!({"a": null}), json!({"a": null}), &[]);
        }
    }
}

#[test]
fn a_null_is_rejected_where_the_key_is_required_and_not_nullable() {
    let schema = requiring(json!({"a": {"type": ["string", "null"], "enum": ["F", "C"]}}), &["a"]);
    for dialect in STRICT {
        let error = toolset(&schema, dialect, &Options::default()).decode("tool", &json!({"a": null}));
        assert_eq!(error.expect_err("the enum has no null").code(), "invalid_arguments");
    }
}

#[test]
fn nulls_are_removed_at_any_depth() {
    let row = requiring(
        json!({"b": {"type": "string"}, "n": {"type": ["string", "null"]}, "k": {"type": "integer"}}),
        &["k"],
    );
    let sent = json!({"rows": [{"b": null, "n": null, "k": 1}, {"b": "x", "n": "y", "k": 2}]});
    let expected = json!({"rows": [{"n": null, "k": 1}, {"b": "x", "n": "y", "k": 2}]});
    for dialect in STRICT {
        let array = object(json!({"rows": {"type": "array", "items": row}}));
        check(dialect, array, sent.clone(), expected.clone(), &[]);
        let mut by_reference = object(json!({"rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}}}));
        by_reference["$defs"] = json!({"Row": row});
        check(dialect, by_reference, sent.clone(), expected.clone(), &[]);
        let by_union =
            object(json!({"rows": {"anyOf": [{"type": "string"}, {"type": "array", "items": row}]}}));
        check(dialect, by_union, sent.clone(), expected.clone(), &[]);
    }
}

#[test]
fn nulls_are_removed_in_recursive_values() {
    let mut schema = object(json!({"root": {"$ref": "#/$defs/N"}}));
    schema["$defs"] = json!({"N": requiring(
        json!({"v": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/N"}}}),
        &["v"],
    )});
    let sent = json!({"root": {"v": "a", "kids": [{"v": "b", "kids": null}, {"v": "c", "kids": [{"v": "d", "kids": null}]}]}});
    let expected = json!({"root": {"v": "a", "kids": [{"v": "b"}, {"v": "c", "kids": [{"v": "d"}]}]}});
    for dialect in STRICT {
        check(dialect, schema.clone(), sent.clone(), expected.clone(), &[]);
    }
}

#[test]
fn a_null_in_a_union_is_treated_as_in_the_branch_that_matches_the_value() {
    let schema = object(json!({"s": {"oneOf": [
        requiring(json!({"t": {"const": "c"}, "x": {"type": "number"}}), &["t"]),
        requiring(json!({"t": {"const": "q"}, "x": {"type": ["number", "null"]}}), &["t"]),
    ]}}));
    for dialect in STRICT {
        check(dialect, schema.clone(), json!({"s": {"t": "c", "x": null}}), json!({"s": {"t": "c"}}), &[]);
        check(
            dialect,
            schema.clone(),
            json!({"s": {"t": "q", "x": null}}),
            json!({"s": {"t": "q", "x": null}}),
            &[],
        );
    }
}

#[test]
fn deep_values_of_recursive_alternatives_are_decoded() {
    let reference = json!({"$ref": "#/$defs/Filter"});
    let group = |tag: &str| {
        let members = json!({"filters": {"type": "array", "items": reference}, "kind": {"const": tag}});
        requiring(members, &["filters", "kind"])
    };
    let leaf =
        requiring(json!({"field": {"type": "string"}, "value": {"type": "integer"}}), &["field", "value"]);
    let mut schema = requiring(json!({"filter": reference}), &["filter"]);
    schema["$defs"] = json!({"Filter": {"anyOf": [group("all"), group("any"), leaf]}});
    let filter = |innermost: Value| {
        let nested = (0..30).fold(
            innermost,
            |inner, level| json!({"filters": [inner], "kind": if level % 2 == 0 { "all" } else { "any" }}),
        );
        json!({ "filter": nested })
    };
    let place = format!("/filter{}/value", "/filters/0".repeat(30));
    for dialect in
        [Dialect::Mcp, Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini].into_iter().chain(STRICT)
    {
        let valid = filter(json!({"field": "a", "value": 1}));
        check(dialect, schema.clone(), valid.clone(), valid, &[]);
        let invalid = filter(json!({"field": "a", "value": [[]]}));
        let toolset = toolset(&schema, dialect, &Options::default());
        let error = toolset.decode("tool", &invalid).expect_err("an invalid value");
        assert_eq!(error.code(), "invalid_arguments", "{dialect}: {error}");
        // The definitions of the others are not recursive, and describe only the outer levels.
        if matches!(dialect, Dialect::Mcp | Dialect::OpenAi | Dialect::Anthropic) {
            let expected = format!("at {place}: [[]] is not an integer");
            assert!(error.to_string().contains(&expected), "{dialect}: {error}");
        }
    }
}

#[test]
fn a_null_for_nullable_alternatives_behind_references_means_omitted() {
    let alternatives = json!({"oneOf": [{"$ref": "#/$defs/Text"}, {"type": "integer"}]});
    let definitions = json!({"Text": {"type": "string", "nullable": true}, "Both": alternatives});
    for property in [json!({"$ref": "#/$defs/Both"}), definitions["Both"].clone()] {
        let mut schema = object(json!({"p": property}));
        schema["$defs"] = definitions.clone();
        for dialect in STRICT {
            check(dialect, schema.clone(), json!({"p": null}), json!({}), &[]);
        }
    }
}

// Values that dialects write differently.

#[test]
fn the_case_of_a_strict_enum_is_repaired_if_only_one_value_matches() {
    let decode = |values: Value, sent: &str| {
        let schema = requiring(json!({"city": {"type": "string", "enum": values}}), &["city"]);
        let toolset = toolset(&schema, Dialect::AnthropicStrict, &Options::default());
        toolset.decode("tool", &json!({"city": sent})).map(|decoded| Value::Object(decoded.arguments))
    };
    assert_eq!(decode(json!(["New York", "Rome"]), "New york"), Ok(json!({"city": "New York"})));
    assert_eq!(decode(json!(["New York", "new york"]), "new york"), Ok(json!({"city": "new york"})));
    let ambiguous = decode(json!(["New York", "new york"]), "NEW YORK").expect_err("two values match");
    assert_eq!(ambiguous.code(), "invalid_arguments");
}

#[test]
fn the_case_of_an_enum_is_repaired_in_every_dialect() {
    for dialect in Dialect::all() {
        let schema = requiring(json!({"p": {"type": "string", "enum": ["New York", "Rome"]}}), &["p"]);
        check(dialect, schema, json!({"p": "New york"}), json!({"p": "New York"}), &["/p"]);
    }
    check_rejected(json!({"type": "string", "enum": ["New York", "new york"]}), json!("NEW YORK"));
    check_rejected(json!({"type": "string", "enum": ["New York"]}), json!("York"));
}

#[test]
fn encoding_uses_the_matching_alternative_beside_a_type() {
    for own_type in [json!({}), json!({"type": "object"})] {
        let mut alternatives = [
            json!({"properties": {"a": {"type": "string"}, "x": {"type": "integer"}}}),
            json!({"properties": {"b": {"type": "string"}, "y": {"type": "integer"}}}),
        ];
        for alternative in &mut alternatives {
            alternative.as_object_mut().unwrap().extend(own_type.as_object().unwrap().clone());
        }
        let schema = requiring(json!({"v": {"type": "object", "anyOf": alternatives}}), &["v"]);
        for dialect in [Dialect::OpenAiStrict, Dialect::ResponsesStrict] {
            let toolset = toolset(&schema, dialect, &Options::default());
            let encoded = toolset.encode("tool", &json!({"v": {"b": "q"}})).unwrap();
            assert_eq!(Value::Object(encoded.arguments), json!({"v": {"b": "q", "y": null}}), "{dialect}");
        }
    }
}

#[test]
fn a_const_outside_of_its_enum_is_unsatisfiable() {
    for dialect in Dialect::all().filter(|dialect| *dialect != Dialect::Mcp) {
        let property = json!({"const": "x", "enum": ["a", "b"]});
        let toolset =
            toolset(&object(json!({"p": property, "q": {"type": "string"}})), dialect, &Options::default());
        let definition = serde_json::to_string(&toolset.definitions()[0]).unwrap();
        let is_unchanged =
            definition.contains(r#""const":"x""#) && definition.contains(r#""enum":["a","b"]"#);
        let report = &toolset.reports()[0];
        let is_reported = report.changes.iter().any(|change| change.pointer == "/properties/p");
        assert!(
            is_unchanged || is_reported && !definition.contains(r#""p":"#),
            "{dialect}: {definition} {report:?}"
        );
    }
}

#[test]
fn json_text_with_common_mistakes_is_read() {
    let schema = object(json!({"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "object"}}));
    for text in [
        r#"{"a": 1, "b": true,}"#,
        "{'a': 1, 'b': True}",
        "```json\n{\"a\": 1, \"b\": true}\n```",
        "{a: 1, /* one */ b: true} // two",
        "\u{feff}{\"a\": 1, \"b\": true}",
    ] {
        for dialect in [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini, Dialect::Mcp] {
            check(dialect, schema.clone(), json!(text), json!({"a": 1, "b": true}), &[""]);
        }
    }
    let sent = json!({"c": "{'x': None}"});
    check(Dialect::OpenAi, schema, sent, json!({"c": {"x": null}}), &["/c"]);
}

#[test]
fn wrapped_arguments_are_unwrapped() {
    let schema = || requiring(json!({"city": {"type": "string"}}), &["city"]);
    for key in ["arguments", "input", "parameters", "args"] {
        for dialect in Dialect::all() {
            let sent = json!({ key: {"city": "Oslo"} });
            check(dialect, schema(), sent, json!({"city": "Oslo"}), &[""]);
        }
        let as_text = json!({ key: r#"{"city": "Oslo"}"# });
        check(Dialect::OpenAi, schema(), as_text, json!({"city": "Oslo"}), &[""]);
    }
    let own = object(json!({"input": {"type": "object", "properties": {"city": {"type": "string"}}}}));
    let sent = json!({"input": {"city": "Oslo"}});
    check(Dialect::OpenAi, own, sent.clone(), sent, &[]);
    let mut open = object(json!({"city": {"type": "string"}}));
    open["additionalProperties"] = json!(true);
    let sent = json!({"input": {"city": "Oslo"}});
    check(Dialect::OpenAi, open, sent.clone(), sent, &[]);
}

#[test]
fn optional_arguments_are_found_in_objects_without_a_rule_for_other_keys() {
    let schema = object(json!({"limit": {"type": "integer"}, "userName": {"type": "string"},
        "filter": object(json!({"maxAge": {"type": "integer"}}))}));
    let expectations = [
        (json!({"arguments": {"limit": 5}}), json!({"limit": 5})),
        (json!({"arguments": {}}), json!({})),
        (json!({"input": {"Limit": "5"}}), json!({"limit": 5})),
        (json!({"Limit": 5}), json!({"limit": 5})),
        (json!({"LIMIT": "5", "x": 1}), json!({"limit": 5, "x": 1})),
        (json!({"user_name": "q"}), json!({"userName": "q"})),
        (json!({"filter": {"max_age": 5}}), json!({"filter": {"maxAge": 5}})),
        // One of two renamed keys has a value that the property does not allow.
        (json!({"Limit": "x", "user_name": "q"}), json!({"Limit": "x", "userName": "q"})),
        // Keys that stay unknown.
        (json!({"limt": 5}), json!({"limt": 5})),
        (json!({"limit": 5, "Limit": 6}), json!({"limit": 5, "Limit": 6})),
        (json!({"args": {"other": 6}}), json!({"args": {"other": 6}})),
    ];
    for dialect in [Dialect::OpenAi, Dialect::Anthropic, Dialect::Groq, Dialect::GeminiOpenApi, Dialect::Mcp]
    {
        let toolset = toolset(&schema, dialect, &Options::default());
        for (sent, expected) in &expectations {
            let decoded = toolset.decode("tool", sent).map(|decoded| Value::Object(decoded.arguments));
            assert_eq!(decoded.as_ref(), Ok(expected), "{dialect}: {sent}");
        }
    }
    let strict = toolset(&schema, Dialect::AnthropicStrict, &Options::default());
    let decoded = strict.decode("tool", &json!({"arguments": {"Limit": 5}})).unwrap();
    assert_eq!(Value::Object(decoded.arguments), json!({"limit": 5}));
}

#[test]
fn keys_of_objects_that_allow_others_are_unchanged() {
    let limit = json!({"limit": {"type": "integer"}});
    for schema in [
        json!({"type": "object", "properties": limit, "additionalProperties": true}),
        json!({"type": "object", "properties": limit, "additionalProperties": {}}),
        json!({"type": "object", "properties": limit, "unevaluatedProperties": {}}),
        json!({"type": "object", "properties": limit, "patternProperties": {"^[A-Z]|arg": {}}}),
        json!({"type": "object", "anyOf": [{"properties": limit}, {"type": "object"}]}),
        json!({"type": "object", "additionalProperties": {"properties": limit, "type": ["object", "integer"]}}),
    ] {
        for sent in [json!({"Limit": 5}), json!({"arguments": {}}), json!({"args": {"limit": 5}})] {
            check(Dialect::OpenAi, schema.clone(), sent.clone(), sent, &[]);
        }
    }
}

#[test]
fn keys_that_a_condition_lists_are_unchanged() {
    let integer = json!({"type": "integer"});
    for keyword in ["then", "else"] {
        let mut schema = object(json!({"user_id": integer}));
        schema["if"] = json!({"properties": {"user_id": {"minimum": 5}}, "required": ["user_id"]});
        schema[keyword] = json!({"properties": {"userId": integer}});
        check(Dialect::OpenAi, schema, json!({"userId": 1}), json!({"userId": 1}), &[]);
    }
}

#[test]
fn empty_arguments_of_a_tool_without_arguments_are_unwrapped() {
    for schema in [object(json!({})), json!({"type": "object"})] {
        for dialect in Dialect::all() {
            let toolset = toolset(&schema, dialect, &Options::default());
            let decoded = toolset.decode("tool", &json!({"arguments": {}})).unwrap();
            assert_eq!(Value::Object(decoded.arguments), json!({}), "{dialect}");
        }
    }
}

#[test]
fn keys_in_another_spelling_are_renamed_if_only_one_property_matches() {
    let schema =
        || requiring(json!({"userId": {"type": "integer"}, "limit": {"type": "integer"}}), &["userId"]);
    for dialect in Dialect::all() {
        for key in ["user_id", "user-id", "UserID", "userid"] {
            let decoded = toolset(&schema(), dialect, &Options::default()).decode("tool", &json!({ key: 1 }));
            assert_eq!(Value::Object(decoded.unwrap().arguments), json!({"userId": 1}), "{dialect} {key}");
        }
    }
    let both = json!({"userId": 1, "user_id": 2});
    check(Dialect::OpenAi, schema(), both.clone(), both, &[]);
    let ambiguous = object(json!({"user_id": {"type": "integer"}, "userId": {"type": "integer"}}));
    check(Dialect::OpenAi, ambiguous, json!({"UserId": 1}), json!({"UserId": 1}), &[]);
    let mut open = schema();
    open["required"] = json!([]);
    open["additionalProperties"] = json!(true);
    check(Dialect::OpenAi, open, json!({"user_id": 1}), json!({"user_id": 1}), &[]);
    // The value does not fit, and the object may have other keys.
    let optional = object(json!({"userId": {"type": "integer"}}));
    check(Dialect::OpenAi, optional, json!({"user_id": "x"}), json!({"user_id": "x"}), &[]);
    let two = requiring(json!({"fileName": {"type": "string"}}), &["fileName"]);
    let ambiguous = toolset(&two, Dialect::OpenAi, &Options::default());
    let sent = json!({"file_name": "a", "file-name": "b"});
    assert_eq!(ambiguous.decode("tool", &sent).unwrap_err().code(), "invalid_arguments");
    let nested = object(json!({"o": {"type": "array", "items": schema()}}));
    check(
        Dialect::OpenAi,
        nested,
        json!({"o": [{"user_id": 1}]}),
        json!({"o": [{"userId": 1}]}),
        &["/o/0/userId"],
    );
}

#[test]
fn a_null_for_an_optional_property_is_removed_in_every_dialect() {
    for dialect in Dialect::all() {
        let schema = requiring(
            json!({"a": {"type": "string"}, "b": {"enum": ["x"]}, "c": {"type": "integer"}}),
            &["c"],
        );
        let decoded = toolset(&schema, dialect, &Options::default())
            .decode("tool", &json!({"a": null, "b": null, "c": 1}));
        assert_eq!(Value::Object(decoded.unwrap().arguments), json!({"c": 1}), "{dialect}");
    }
    let required = requiring(json!({"a": {"type": "string"}}), &["a"]);
    let toolset = toolset(&required, Dialect::OpenAi, &Options::default());
    assert_eq!(toolset.decode("tool", &json!({"a": null})).unwrap_err().code(), "invalid_arguments");
}

#[test]
fn text_that_may_be_a_list_is_not_wrapped() {
    let strings = json!({"type": "array", "items": {"type": "string"}});
    check_repaired(strings.clone(), json!("a"), json!(["a"]));
    for text in ["", "a,b", "[\"x\"", "{'x': 1", "null", "- x\n- y"] {
        check_rejected(strings.clone(), json!(text));
    }
}

#[test]
fn openapi_enums_of_numbers_are_decoded_as_numbers() {
    let schema = object(json!({"n": {"type": "integer", "enum": [1, 2, 3]}}));
    let toolset = toolset(&schema, Dialect::GeminiOpenApi, &Options::default());
    let decoded = toolset.decode("tool", &json!({"n": "2"})).unwrap();
    assert_eq!(Value::Object(decoded.arguments), json!({"n": 2}));
    assert_eq!(
        toolset.decode("tool", &json!({"n": "7"})).expect_err("7 is not listed").code(),
        "invalid_arguments"
    );
}

#[test]
fn openapi_json_text_is_decoded() {
    let any_object = object(json!({"o": {"type": "object"}}));
    let map = object(json!({"o": {"type": "object", "additionalProperties": {"type": "integer"}}}));
    for schema in [any_object, map] {
        let toolset = toolset(&schema, Dialect::GeminiOpenApi, &Options::default());
        let decoded = toolset.decode("tool", &json!({"o": r#"{"x":1}"#})).unwrap();
        assert_eq!(Value::Object(decoded.arguments), json!({"o": {"x": 1}}));
        match toolset.decode("tool", &json!({"o": "not json"})) {
            Err(ArgumentError::Invalid { arguments, .. }) => {
                assert_eq!(Value::Object(arguments), json!({"o": "not json"}))
            }
            other => panic!("{other:?}"),
        }
    }
}

// Digits.

#[test]
fn every_dialect_preserves_digits() {
    let sent = r#"{"id":9007199254740993,"price":0.1000,"huge":123456789012345678901234567890,"far":1e400}"#;
    let properties = json!({
        "id": {"type": "integer"}, "price": {"type": "number"}, "huge": {"type": "integer"}, "far": {"type": "number"},
    });
    let schema = requiring(properties, &["id", "price", "huge", "far"]);
    for dialect in Dialect::all() {
        check(dialect, schema.clone(), parse_exact(sent), parse_exact(sent), &[]);
        check(dialect, schema.clone(), json!(sent), parse_exact(sent), &[]);
    }
}

#[test]
fn repairs_preserve_digits() {
    check_repaired(json!({"type": "integer"}), json!("9007199254740993"), parse_exact("9007199254740993"));
    check_repaired(json!({"type": "number"}), json!("0.1000"), parse_exact("0.1000"));
    check_repaired(
        object(json!({"n": {"type": "integer"}})),
        json!(r#"{"n":123456789012345678901234567890}"#),
        parse_exact(r#"{"n":123456789012345678901234567890}"#),
    );
}

// Repairs.

#[test]
fn json_text_is_parsed_where_an_object_is_expected() {
    check_repaired(object(json!({"a": {"type": "integer"}})), json!(r#"{"a": 1}"#), json!({"a": 1}));
    check_repaired(json!({"type": "object"}), json!("{}"), json!({}));
    check_repaired(json!({"type": ["object", "null"]}), json!("{}"), json!({}));
    check_repaired(
        json!({"type": "object", "additionalProperties": true}),
        json!(r#"{"k":"5"}"#),
        json!({"k": "5"}),
    );
}

#[test]
fn json_text_is_parsed_where_an_array_is_expected() {
    check_repaired(
        json!({"type": "array", "items": {"type": "string"}}),
        json!(r#"["a","b"]"#),
        json!(["a", "b"]),
    );
    check_repaired(json!({"type": "array"}), json!("[]"), json!([]));
    check_repaired(json!({"type": "array", "items": {"type": "integer"}}), json!("[1, 2]"), json!([1, 2]));
}

#[test]
fn a_number_in_quotes_is_parsed_where_no_string_is_allowed() {
    check_repaired(json!({"type": "integer"}), json!("5"), json!(5));
    check_repaired(json!({"type": "integer"}), json!("-5"), json!(-5));
    check_repaired(json!({"type": "number"}), json!("2.5"), json!(2.5));
    check_repaired(json!({"type": ["integer", "null"]}), json!("5"), json!(5));
    check_repaired(json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), json!("5"), json!(5));
    check_repaired(json!({"type": "integer", "enum": [1, 5]}), json!("5"), json!(5));
    check_repaired(json!({"allOf": [{"type": "integer"}, {"minimum": 3}]}), json!("5"), json!(5));
}

#[test]
fn a_single_value_is_wrapped_where_an_array_is_expected() {
    let row = object(json!({"a": {"type": "integer"}}));
    check_repaired(json!({"type": "array", "items": {"type": "string"}}), json!("a"), json!(["a"]));
    check_repaired(json!({"type": "array", "items": {"type": "integer"}}), json!(5), json!([5]));
    check_repaired(json!({"type": "array", "items": row}), json!({"a": 1}), json!([{"a": 1}]));
}

#[test]
fn repairs_are_made_everywhere_in_the_schema() {
    let integer = json!({"type": "integer"});
    let mut schema = object(json!({
        "deep": object(json!({"list": {"type": "array", "items": integer}})),
        "map": {"type": "object", "additionalProperties": integer},
        "ref": {"$ref": "#/$defs/I"},
        "tuple": {"type": "array", "prefixItems": [{"type": "string"}, integer]},
        "union": {"anyOf": [{"type": "null"}, object(json!({"n": integer}))]},
        "part": {"allOf": [object(json!({"n": integer}))]},
        "pattern": {"type": "object", "patternProperties": {"^n": integer}},
    }));
    schema["$defs"] = json!({"I": integer});
    check(
        Dialect::OpenAi,
        schema,
        json!({
            "deep": {"list": [1, "2"]}, "map": {"k/1": "3"}, "ref": "4", "tuple": ["5", "6"],
            "union": {"n": "7"}, "part": {"n": "8"}, "pattern": {"n1": "9", "other": "10"},
        }),
        json!({
            "deep": {"list": [1, 2]}, "map": {"k/1": 3}, "ref": 4, "tuple": ["5", 6],
            "union": {"n": 7}, "part": {"n": 8}, "pattern": {"n1": 9, "other": "10"},
        }),
        &["/deep/list/1", "/map/k~11", "/part/n", "/pattern/n1", "/ref", "/tuple/1", "/union/n"],
    );
}

// Valid values, which are not repaired.

#[test]
fn a_number_in_quotes_is_unchanged_where_a_string_is_allowed() {
    check_unchanged(json!({"type": "string"}), json!("5"));
    check_unchanged(json!({"type": ["integer", "string"]}), json!("5"));
    check_unchanged(json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), json!("5"));
    check_unchanged(json!({"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 3}]}), json!("5"));
    check_unchanged(json!({}), json!("5"));
    check_unchanged(json!(true), json!("5"));
    check_unchanged(json!({"enum": [5, "5"]}), json!("5"));
    check_unchanged(json!({"const": "5"}), json!("5"));
    check_unchanged(json!({"minimum": 3}), json!("5"));
    check_unchanged(json!({"not": {"type": "integer"}}), json!("5"));
}

#[test]
fn text_that_looks_like_json_is_unchanged_where_a_string_is_allowed() {
    for text in [r#"{"a":1}"#, "[1,2]", "null", "true", "\"x\"", "{}"] {
        check_unchanged(json!({"type": "string"}), json!(text));
        check_unchanged(json!({"type": ["object", "array", "string"]}), json!(text));
        check_unchanged(json!({"anyOf": [{"type": "object"}, {"type": "string"}]}), json!(text));
        check_unchanged(json!({"description": "anything"}), json!(text));
        check_unchanged(json!({"type": "array", "items": {"type": "string"}}), json!([text]));
    }
}

#[test]
fn a_single_value_is_not_wrapped_where_it_is_allowed_like_an_array() {
    let strings = json!({"type": "array", "items": {"type": "string"}});
    check_unchanged(json!({"anyOf": [{"type": "string"}, strings]}), json!("a"));
    check_unchanged(json!({"type": ["string", "array"], "items": {"type": "string"}}), json!("a"));
    check_unchanged(json!({"anyOf": [{"type": "object"}, {"type": "array"}]}), json!({"a": 1}));
    check_unchanged(json!({"type": ["array", "null"]}), json!(null));
    check_unchanged(json!({"items": {"type": "string"}}), json!("a"));
}

#[test]
fn integers_lose_a_fraction_of_zeros() {
    check_repaired(json!({"type": "integer"}), parse_exact("5.0"), json!(5));
    check_rejected(json!({"type": "integer"}), parse_exact("5.5"));
}

#[test]
fn valid_values_are_not_rewritten() {
    check_unchanged(json!({"type": "number"}), parse_exact("1.0"));
    check_unchanged(json!({"type": "number"}), parse_exact("1e2"));
    check_unchanged(json!({"type": "array"}), json!([[1], "[2]", "3"]));
    check_unchanged(json!({"type": "object"}), json!({"a": "1", "b": null, "c": "{}"}));
    check_unchanged(json!({"type": "string"}), json!(""));
}

#[test]
fn keys_that_are_not_in_the_schema_are_unchanged() {
    let sent = json!({"a": 1, "b": "2", "c": "{}", "d": null});
    check(Dialect::OpenAi, object(json!({"a": {"type": "integer"}})), sent.clone(), sent, &[]);
}

#[test]
fn values_that_cannot_be_repaired_are_rejected_unchanged() {
    for text in ["five", "5.5", "", "0x10", "5 apples", "1_000", "٥", "NaN", "--5", "[5]"] {
        check_rejected(json!({"type": "integer"}), json!(text));
    }
    for text in ["{\"a\":1", "[1]", "5", "", "a: 1", "{}{}"] {
        check_rejected(json!({"type": "object"}), json!(text));
    }
    check_rejected(json!({"type": "string"}), json!(5));
    check_rejected(json!({"type": "string"}), json!({"a": 1}));
    check_rejected(json!({"type": "string"}), json!(["a"]));
    check_rejected(json!({"type": "integer"}), json!([5]));
    check_rejected(json!({"type": "integer"}), json!(true));
    check_rejected(json!({"type": "boolean"}), json!("5"));
    check_rejected(json!({"type": "boolean"}), json!(1));
    check_rejected(json!({"type": "array", "items": {"type": "integer"}}), json!("x"));
    check_rejected(json!({"type": "null"}), json!(""));
}

// Violations.

#[track_caller]
fn violations(schema: Value, sent: Value) -> Vec<Violation> {
    match toolset(&schema, Dialect::OpenAi, &Options::default()).decode("tool", &sent) {
        Err(ArgumentError::Invalid { violations, .. }) => violations,
        other => panic!("{sent} was not rejected: {other:?}"),
    }
}

#[test]
fn every_violation_has_a_pointer_and_a_message() {
    let mut schema = requiring(
        json!({
            "name": {"type": "string"},
            "age": {"type": "integer", "minimum": 18},
            "mode": {"type": "string", "enum": ["fast", "slow"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "nested": requiring(json!({"a/b": {"type": "boolean"}}), &["a/b"]),
        }),
        &["name"],
    );
    schema["additionalProperties"] = json!(false);
    let sent = json!({
        "age": -41, "mode": "medium", "tags": ["a", 77], "nested": {"a/b": "maybe"}, "surplus": 1,
    });
    let expected = [
        ("", "missing required property \"name\""),
        ("/age", "-41 is not at least 18"),
        ("/mode", "\"medium\" is not one of [\"fast\",\"slow\"]"),
        ("/tags/1", "77 is not a string"),
        ("/nested/a~1b", "\"maybe\" is not a boolean"),
        (
            "",
            "unknown property \"surplus\"; known properties are \"name\", \"age\", \"mode\", \"tags\", \"nested\"",
        ),
    ];
    let violations = violations(schema, sent);
    let messages: Vec<String> = violations.iter().map(Violation::message).collect();
    let actual: Vec<(&str, &str)> = violations
        .iter()
        .zip(&messages)
        .map(|(violation, message)| (violation.pointer.as_str(), message.as_str()))
        .collect();
    assert_eq!(actual, expected);
}

#[test]
fn violations_use_the_names_that_the_model_knows() {
    let mut schema =
        requiring(json!({"user id": {"type": "string"}, "max rows": {"minimum": 1}}), &["user id"]);
    schema["additionalProperties"] = json!(false);
    let toolset = toolset(&schema, Dialect::Anthropic, &Options::default());
    let error = toolset.decode("tool", &json!({"max_rows": 0, "user": "a"})).expect_err("three mistakes");
    assert_eq!(
        error.to_string(),
        "invalid arguments for `tool`: missing required property \"user_id\"; at /max_rows: 0 is not at least 1; \
         unknown property \"user\"; did you mean \"user_id\"?"
    );
    assert_eq!(
        error.problem(),
        "missing required property \"user_id\"; at /max_rows: 0 is not at least 1; unknown property \"user\"; \
         did you mean \"user_id\"?"
    );
}

#[test]
fn a_violation_is_serialized_with_the_expected_and_the_actual_value() {
    let violations = violations(requiring(json!({"n": {"type": "integer"}}), &["text"]), json!({"n": "x"}));
    assert_eq!(
        json!(violations),
        json!([
            {"pointer": "/n", "expected": "an integer", "found": "\"x\"", "message": "\"x\" is not an integer"},
            {
                "pointer": "",
                "expected": "property \"text\"",
                "found": "nothing",
                "message": "missing required property \"text\"",
            },
        ])
    );
}

#[test]
fn decoded_arguments_contain_the_fingerprint_of_their_schema() {
    let schema = requiring(json!({"n": {"type": "integer"}}), &["n"]);
    for dialect in Dialect::all() {
        let decoded =
            toolset(&schema, dialect, &Options::default()).decode("tool", &json!({"n": 1})).unwrap();
        assert_eq!(decoded.schema, Some(SchemaFingerprint::of(&schema)), "{dialect}");
    }
}

#[test]
fn two_missing_properties_are_two_violations() {
    let schema = requiring(json!({"a": {"type": "string"}, "b": {"type": "string"}}), &["a", "b"]);
    let violations = violations(schema, json!({}));
    let messages: Vec<String> = violations.iter().map(Violation::message).collect();
    assert_eq!(messages, [r#"missing required property "a""#, r#"missing required property "b""#]);
}

/// Most tools say nothing about other keys, so a misspelled key is not a violation by itself.
#[test]
fn a_misspelled_key_is_named_where_its_property_is_missing() {
    let schema =
        requiring(json!({"location": {"type": "string"}, "units": {"type": "string"}}), &["location"]);
    for dialect in Dialect::all() {
        let sent = json!({"locatoin": "Oslo"});
        let error = toolset(&schema, dialect, &Options::default()).decode("tool", &sent).unwrap_err();
        let expected = r#"missing required property "location"; "locatoin" is not a known property"#;
        assert!(error.to_string().ends_with(expected), "{dialect}: {error}");
    }
}

#[test]
fn repairs_are_made_even_if_other_values_are_rejected() {
    let schema = requiring(json!({"n": {"type": "integer"}, "s": {"type": "string"}}), &["n", "s"]);
    match toolset(&schema, Dialect::OpenAi, &Options::default()).decode("tool", &json!({"n": "5", "s": 7})) {
        Err(ArgumentError::Invalid { violations, arguments, .. }) => {
            assert_eq!(Value::Object(arguments), json!({"n": 5, "s": 7}));
            let pointers: Vec<&str> = violations.iter().map(|violation| violation.pointer.as_str()).collect();
            assert_eq!(pointers, ["/s"]);
        }
        other => panic!("{other:?}"),
    }
}

// Encoding.

#[test]
fn decoding_reverses_encoding_in_every_dialect() {
    let schema = requiring(
        json!({
            "$key": {"type": "string"},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "free": {"type": "object"},
            "any": {},
            "pair": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": false, "minItems": 2},
            "level": {"type": "integer", "enum": [1, 2, 3]},
            "maybe": {"type": ["string", "null"]},
            "rows": {"type": "array", "items": object(json!({"a": {"type": "string"}, "b": {"type": "integer"}}))},
        }),
        &["$key"],
    );
    let all_keys = json!({
        "$key": "k", "map": {"": 1, "a b": 2}, "free": {"x": [null, {"y": "{}"}]}, "any": "5", "pair": [1, "x"],
        "level": 2, "maybe": null, "rows": [{}, {"a": "", "b": 0}],
    });
    let arguments = [json!({"$key": ""}), all_keys, json!({"$key": "k", "any": null, "map": {}, "free": {}})];
    for dialect in Dialect::all() {
        for reshape in [false, true] {
            let toolset = toolset(&schema, dialect, &Options::default().with_reshape(reshape));
            let report = &toolset.reports()[0];
            assert_ne!(report.status, Status::Refused, "{dialect}: {report:?}");
            // Where every key is required, a nullable optional key cannot be omitted, and the report
            // mentions that.
            let adds_null = report
                .changes
                .iter()
                .any(|change| change.effect == Effect::Narrowed && change.pointer == "/properties/maybe");
            for arguments in &arguments {
                let Encoded { name, arguments: encoded } = toolset.encode("tool", arguments).unwrap();
                let decoded = toolset.decode(&name, &Value::Object(encoded.clone())).unwrap();
                let mut expected = arguments.clone();
                if adds_null && expected.get("maybe").is_none() {
                    expected["maybe"] = Value::Null;
                }
                assert_eq!(
                    (Value::Object(decoded.arguments), decoded.repairs),
                    (expected, vec![]),
                    "{dialect}, reshape {reshape}: {encoded:?}"
                );
            }
        }
    }
}

#[test]
fn strict_arguments_have_a_null_for_each_absent_key() {
    let schema = requiring(json!({"a": {"type": "string"}, "b": {"type": "integer"}}), &["b"]);
    for dialect in STRICT {
        let encoded =
            toolset(&schema, dialect, &Options::default()).encode("tool", &json!({"b": 1})).unwrap();
        assert_eq!(
            encoded,
            Encoded {
                name: "tool".to_owned(),
                arguments: json!({"a": null, "b": 1}).as_object().unwrap().clone()
            }
        );
    }
}

#[test]
fn consent_is_left_to_the_server() {
    let schema = requiring(
        json!({"name": {"type": "string"}, "explicit_action": {"type": "string", "const": "DELETE"}}),
        &["name", "explicit_action"],
    );
    for dialect in [Dialect::OpenAi, Dialect::Anthropic, Dialect::OpenAiStrict, Dialect::Mcp] {
        for sent in [json!({"name": "a"}), json!({"name": "a", "explicit_action": "delete"})] {
            check(dialect, schema.clone(), sent.clone(), sent, &[]);
        }
        let error = toolset(&schema, dialect, &Options::default()).decode("tool", &json!({})).unwrap_err();
        let ArgumentError::Invalid { violations, .. } = &error else { panic!("{error:?}") };
        let messages: Vec<String> = violations.iter().map(Violation::to_string).collect();
        assert_eq!(messages, ["missing required property \"name\""], "{dialect}");
    }
}
