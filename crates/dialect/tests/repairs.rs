//! Repairs in nested, alternative and many places.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use toolwire_dialect::arguments::{ArgumentError, Decoded, RepairKind, ViolationKind};
use toolwire_dialect::{Dialect, Options, Toolset};

fn decoded_in(dialect: Dialect, schema: &Value, sent: &Value) -> Result<Decoded, ArgumentError> {
    let tool = json!({"name": "tool", "description": "d", "inputSchema": schema});
    let toolset = Toolset::from_json(&tool.to_string(), dialect, &Options::default()).unwrap();
    toolset.decode("tool", sent)
}

fn decoded(schema: &Value, sent: &Value) -> Result<Decoded, ArgumentError> {
    decoded_in(Dialect::OpenAi, schema, sent)
}

fn decode(schema: &Value, sent: &Value) -> Result<(Value, Vec<String>), ArgumentError> {
    let decoded = decoded(schema, sent)?;
    let pointers = decoded.repairs.into_iter().map(|repair| repair.pointer).collect();
    Ok((Value::Object(decoded.arguments), pointers))
}

/// Checks the repaired arguments, digit for digit, and the places of the repairs.
#[track_caller]
fn check(schema: Value, sent: &str, expected: Value, repairs: &[&str]) {
    let (arguments, mut pointers) = decode(&schema, &serde_json::from_str(sent).unwrap()).unwrap();
    pointers.sort_unstable();
    assert_eq!(
        (arguments.to_string(), pointers),
        (expected.to_string(), repairs.iter().map(ToString::to_string).collect())
    );
}

#[test]
fn integers_lose_a_fraction_of_zeros_wherever_they_are() {
    let integer = json!({"type": "integer"});
    let schema = json!({
        "type": "object",
        "properties": {
            "map": {"type": "object", "additionalProperties": integer},
            "keys": {"type": "object", "patternProperties": {"^k": integer}, "additionalProperties": false},
            "pair": {"type": "array", "prefixItems": [integer, {"type": "number"}], "items": integer},
            "union": {"anyOf": [integer, {"type": "string"}]},
            "list": {"oneOf": [{"type": "array", "items": integer}, {"type": "null"}]},
            "part": {"allOf": [{"$ref": "#/$defs/n"}, {"minimum": 1}]},
            "text": integer,
            "number": {"anyOf": [integer, {"type": "number"}]},
        },
        "$defs": {"n": {"type": ["integer", "null"]}},
    });
    let sent = r#"{"map": {"a": 5.0}, "keys": {"k1": 5.0}, "pair": [5.0, 5.0, 5.0], "union": 5.0, "list": [5.0],
        "part": 5.00, "text": "5.0", "number": 5.0}"#;
    let expected = r#"{"map":{"a":5},"keys":{"k1":5},"pair":[5,5.0,5],"union":5,"list":[5],"part":5,"text":5,"number":5.0}"#;
    let repairs = ["/keys/k1", "/list/0", "/map/a", "/pair/0", "/pair/2", "/part", "/text", "/union"];
    check(schema, sent, serde_json::from_str(expected).unwrap(), &repairs);
}

#[test]
fn a_parsed_text_is_repaired_too() {
    let user = json!({
        "type": "object",
        "properties": {"user_id": {"type": "integer"}, "role": {"enum": ["Admin"]}, "note": {"type": "string"}},
        "required": ["user_id"],
        "additionalProperties": false,
    });
    check(
        json!({"type": "object", "properties": {"user": user}}),
        r#"{"user": "{'userId': '5', 'role': 'admin', 'note': None}"}"#,
        json!({"user": {"user_id": 5, "role": "Admin"}}),
        &["/user", "/user/note", "/user/role", "/user/user_id", "/user/user_id"],
    );
}

#[test]
fn repairs_are_combined() {
    let closed = |properties: Value, required: Value| {
        json!({"type": "object", "properties": properties,
        "required": required, "additionalProperties": false})
    };
    let sub = closed(json!({"maxCount": {"type": "integer"}, "mode": {"enum": ["x", "y"]}}), json!([]));
    let properties = json!({"location": {"type": "string"}, "units": {"enum": ["celsius", "fahrenheit"]},
        "n": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}, "sub": sub});
    let schema = closed(properties, json!(["location"]));
    for (sent, expected) in [
        (r#"{"location":"O","UNITS":"Fahrenheit"}"#, json!({"location": "O", "units": "fahrenheit"})),
        (r#"{"location":"O","N":"5"}"#, json!({"location": "O", "n": 5})),
        (r#"{"location":"O","N":null}"#, json!({"location": "O"})),
        (r#"{"location":"O","Tags":"a"}"#, json!({"location": "O", "tags": ["a"]})),
        (
            r#"{"location":"O","sub":{"max_count":"5","Mode":"X"}}"#,
            json!({"location": "O", "sub": {"maxCount": 5, "mode": "x"}}),
        ),
        (
            r#"{"input":{"Location":"O","units":"CELSIUS","n":"3"}}"#,
            json!({"location": "O", "units": "celsius", "n": 3}),
        ),
        (
            r#"{"args":"{'Location':'O', 'Sub': \"{'Mode': 'Y'}\"}"}"#,
            json!({"location": "O", "sub": {"mode": "y"}}),
        ),
    ] {
        for dialect in [Dialect::OpenAi, Dialect::Anthropic, Dialect::Mcp, Dialect::OpenAiStrict] {
            let decoded = decoded_in(dialect, &schema, &serde_json::from_str(sent).unwrap());
            let arguments = decoded.map(|decoded| Value::Object(decoded.arguments));
            assert_eq!(arguments, Ok(expected.clone()), "{dialect}: {sent}");
        }
    }
    let both = closed(
        json!({"location": {"type": "string"}, "limit": {"type": "integer"}}),
        json!(["location", "limit"]),
    );
    let repaired = json!({"location": "O", "limit": 5});
    check(both, r#"{"location":"O","LIMIT":"5"}"#, repaired, &["/limit", "/limit"]);
}

#[test]
fn a_key_is_renamed_only_if_its_value_can_be_repaired() {
    let properties = json!({"user_id": {"type": "integer"}, "first_name": {"type": "string"}});
    let schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    match decode(&schema, &json!({"userId": "x", "FirstName": "a"})) {
        Err(ArgumentError::Invalid { arguments, violations, .. }) => {
            assert_eq!(Value::Object(arguments), json!({"userId": "x", "first_name": "a"}));
            assert_eq!(violations.len(), 1, "{violations:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn alternatives_are_repaired() {
    let shape = |kind: &str, size: &str| {
        json!({
            "type": "object",
            "properties": {"kind": {"const": kind}, size: {"type": "integer"}, "note": {"type": "string"},
                "unit_name": {"type": "string"}},
            "required": ["kind", size],
            "additionalProperties": false,
        })
    };
    check(
        json!({"type": "object", "properties": {"shape": {"anyOf": [shape("circle", "radius"), shape("square", "side")]}}}),
        r#"{"shape": {"kind": "square", "side": "5.0", "note": null, "unitName": "cm"}}"#,
        json!({"shape": {"kind": "square", "side": 5, "unit_name": "cm"}}),
        &["/shape/note", "/shape/side", "/shape/unit_name"],
    );
}

#[test]
fn a_null_of_a_required_property_stays() {
    let item = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["b"]});
    let schema = json!({"type": "object", "properties": {"items": {"type": "array", "items": item}}});
    let sent = json!({"items": [{"a": null, "b": null}, {"a": null, "b": "x"}]});
    match decode(&schema, &sent) {
        Err(ArgumentError::Invalid { violations, arguments, .. }) => {
            assert_eq!(Value::Object(arguments), json!({"items": [{"b": null}, {"b": "x"}]}));
            assert_eq!(violations.len(), 1, "{violations:?}");
            assert_eq!(violations[0].pointer, "/items/0/b");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_null_in_a_map_is_not_an_absent_property() {
    let string = json!({"type": "string"});
    for map in [
        json!({"type": "object", "additionalProperties": string}),
        json!({"type": "object", "patternProperties": {"^e": string}}),
        json!({"type": "object", "properties": {"other": string}, "additionalProperties": {"$ref": "#/$defs/s"}}),
        json!({"anyOf": [{"type": "object", "additionalProperties": string}, {"type": "null"}]}),
    ] {
        let schema = json!({"type": "object", "$defs": {"s": string}, "properties": {
            "labels": map, "list": {"type": "array", "items": map}, "a": string}});
        let sent = json!({"labels": {"env": null}, "list": [{"env": null}], "a": null});
        match decode(&schema, &sent) {
            Err(ArgumentError::Invalid { arguments, .. }) => {
                let expected = json!({"labels": {"env": null}, "list": [{"env": null}]});
                assert_eq!(Value::Object(arguments), expected, "{map}");
            }
            other => panic!("{map}: {other:?}"),
        }
    }
}

#[test]
fn integers_are_written_as_digits() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}, "listed": {"enum": [1, 1000, "x"]},
        "constant": {"const": 2}, "number": {"type": "number"}}});
    for (sent, expected) in [
        (r#"{"n":1e2}"#, r#"{"n":100}"#),
        (r#"{"n":1.0e3}"#, r#"{"n":1000}"#),
        (r#"{"n":-12.5E1}"#, r#"{"n":-125}"#),
        (r#"{"n":500e-2}"#, r#"{"n":5}"#),
        (r#"{"n":"1e2"}"#, r#"{"n":100}"#),
        (r#"{"n":9007199254740993.0}"#, r#"{"n":9007199254740993}"#),
        (r#"{"listed":1.0}"#, r#"{"listed":1}"#),
        (r#"{"listed":1e3}"#, r#"{"listed":1000}"#),
        (r#"{"constant":2.0}"#, r#"{"constant":2}"#),
    ] {
        for dialect in [Dialect::OpenAi, Dialect::OpenAiStrict, Dialect::GeminiOpenApi] {
            let decoded = decoded_in(dialect, &schema, &serde_json::from_str(sent).unwrap()).unwrap();
            assert_eq!(Value::Object(decoded.arguments).to_string(), expected, "{dialect}");
            assert_eq!(decoded.repairs.len(), 1, "{dialect}: {sent}");
        }
    }
    let huge: Value = serde_json::from_str(r#"{"n":1e400,"number":1e2}"#).unwrap();
    assert_eq!(decode(&schema, &huge).unwrap(), (huge, vec![]));
}

#[test]
fn a_value_that_several_alternatives_list_in_another_case_is_not_changed() {
    let schema = |listed: [&str; 2]| {
        let alternatives = listed.map(|value| json!({"enum": [value]}));
        json!({"type": "object", "properties": {"p": {"anyOf": alternatives}}})
    };
    check(schema(["Red", "Blue"]), r#"{"p": "BLUE"}"#, json!({"p": "Blue"}), &["/p"]);
    let ambiguous = decode(&schema(["Blue", "blue"]), &json!({"p": "BLUE"}));
    assert!(matches!(ambiguous, Err(ArgumentError::Invalid { .. })), "{ambiguous:?}");
}

#[test]
fn many_places_are_repaired_or_none() {
    let schema = json!({"type": "object", "properties": {
        "n": {"type": "array", "items": {"type": "integer"}},
        "o": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}}});
    let numbers: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let objects = vec![json!({"a": null}); 2_000];
    let decoded = decoded(&schema, &json!({"n": numbers, "o": objects})).unwrap();
    assert_eq!(decoded.arguments["n"], (0..20_000).collect::<Value>());
    assert_eq!(decoded.arguments["o"], Value::Array(vec![json!({}); 2_000]));
    assert_eq!(decoded.repairs.len(), 51);
    assert_eq!(decoded.repairs[50].kind, RepairKind::More { count: 21_950 });
}

#[test]
fn repairs_that_only_some_alternatives_need_are_not_made() {
    let open = |properties: Value| json!({"type": "object", "properties": properties});
    let listed = json!({"value": {"type": "string"}, "mode": {"enum": ["fast"]}, "lang": {"enum": ["en"]}});
    for (alternatives, sent) in [
        (
            [open(json!({"value": {"type": "number"}})), open(listed)],
            json!({"value": "5", "mode": "Fast", "lang": "EN"}),
        ),
        (
            [
                open(json!({"mode": {"const": "Auto"}})),
                open(json!({"mode": {"type": "string"}, "level": {"type": "integer"}})),
            ],
            json!({"mode": "auto", "level": "3"}),
        ),
        (
            // Repairs that do not suffice.
            [
                open(
                    json!({"kind": {"const": "a"}, "size": {"type": "integer"}, "name": {"type": "string"}}),
                ),
                open(json!({"kind": {"const": "b"}, "size": {"type": "integer"}})),
            ],
            json!({"kind": "A", "size": "5", "name": 5}),
        ),
    ] {
        let schema = json!({"type": "object", "properties": {"p": {"anyOf": alternatives}}});
        match decode(&schema, &json!({"p": sent})) {
            Err(ArgumentError::Invalid { arguments, .. }) => assert_eq!(arguments["p"], sent),
            other => panic!("{other:?}"),
        }
    }
    let alternatives = [
        open(json!({"kind": {"const": "a"}, "size": {"type": "integer"}})),
        open(json!({"kind": {"const": "b"}, "size": {"type": "integer"}})),
    ];
    check(
        json!({"type": "object", "properties": {"p": {"oneOf": alternatives}}}),
        r#"{"p": {"kind": "B", "size": "5"}}"#,
        json!({"p": {"kind": "b", "size": 5}}),
        &["/p/kind", "/p/size"],
    );
}

#[test]
fn several_keys_are_renamed_in_their_order() {
    let names = ["user_id", "first_name", "last_name", "zip_code", "home_town", "birth_day"];
    let properties: Value = names.iter().map(|name| (name.to_string(), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    let sent = json!({"userId": "a", "FirstName": "b", "last_name": "c", "ZIP-CODE": "d", "homeTown": "e",
        "BirthDay": "f"});
    let (arguments, repairs) = decode(&schema, &sent).unwrap();
    assert_eq!(arguments.as_object().unwrap().keys().collect::<Vec<_>>(), names);
    assert_eq!(repairs, ["/user_id", "/first_name", "/zip_code", "/home_town", "/birth_day"]);
}

#[test]
fn properties_behind_names_are_repaired() {
    let user = json!({"$anchor": "user", "$id": "user.json", "type": "object",
        "properties": {"user_id": {"type": "integer"}}, "additionalProperties": false});
    let reference = |target: &str| json!({"type": "object", "properties": {"p": {"$ref": target}}, "$defs": {"user": user}});
    for target in ["user.json", "user.json#user"] {
        let expected = json!({"p": {"user_id": 5}});
        check(reference(target), r#"{"p": {"userId": 5.0}}"#, expected, &["/p/user_id", "/p/user_id"]);
    }
}

#[test]
fn a_long_list_of_violations_is_cut() {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}});
    let error = decode(&schema, &json!({"n": vec!["x"; 100_000]})).unwrap_err();
    let ArgumentError::Invalid { violations, .. } = &error else { panic!("{error:?}") };
    assert_eq!(violations.len(), 51);
    assert_eq!(violations[0].pointer, "/n/0");
    assert_eq!(violations[50].kind, ViolationKind::More { count: 99_950 });
    assert!(error.to_string().ends_with("; 99950 more violations are not listed"), "{error}");
}

#[test]
fn the_parse_error_is_about_what_is_still_wrong() {
    let schema = json!({"type": "object", "properties": {"a": {}, "b": {}}});
    for (sent, expected) in [
        ("{'a': 1, 'b': }", "expected value at line 1 column 15"),
        ("{'a': 1, // one\n 'b': 'cut", "EOF while parsing a string at line 2 column 10"),
        ("```json\n{'a': oops}\n```", "expected value at line 2 column 7"),
    ] {
        match decode(&schema, &json!(sent)) {
            Err(ArgumentError::NotJson { message }) => assert_eq!(message, expected, "{sent}"),
            other => panic!("{sent}: {other:?}"),
        }
    }
}

/// What a model sends for a rule without `type`, which `--reshape` asks for as JSON text if it is not about
/// text alone. Text that is JSON means its value, because a number could not be sent otherwise, unless only
/// the text itself fits.
#[test]
fn a_plain_string_where_json_text_is_expected_is_used_as_it_is_when_it_fits() {
    let not_a_number = json!({"not": {"type": "number"}});
    let digits = json!({"pattern": "^\\d+$"});
    let list = json!({"not": {"type": "array"}});
    for (rule, sent, expected) in [
        (json!({}), "hello", Some(json!("hello"))),
        (json!({}), "\"hello\"", Some(json!("hello"))),
        (json!({}), "123", Some(json!(123))),
        (json!({}), "{'a': 1}", Some(json!("{'a': 1}"))),
        (not_a_number.clone(), "hello", Some(json!("hello"))),
        (not_a_number.clone(), "\"hello\"", Some(json!("hello"))),
        (not_a_number.clone(), "123", Some(json!("123"))),
        (not_a_number, "{'a': 1}", Some(json!("{'a': 1}"))),
        (list.clone(), "[1, 2]", Some(json!("[1, 2]"))),
        (list, "123", Some(json!(123))),
        // The rule is about text alone, so the definition has a string.
        (digits.clone(), "123", Some(json!("123"))),
        (digits.clone(), "hello", None),
        (digits.clone(), "\"hello\"", None),
        (digits, "{'a': 1}", None),
        (json!({"minLength": 7}), "\"hello\"", Some(json!("\"hello\""))),
    ] {
        let schema =
            json!({"type": "object", "properties": {"p": rule, "q": {"type": "integer"}}, "required": ["p"]});
        let tool = json!({"name": "tool", "description": "d", "inputSchema": schema}).to_string();
        for dialect in [Dialect::OpenAiStrict, Dialect::AnthropicStrict] {
            let toolset = Toolset::from_json(&tool, dialect, &Options::default().with_reshape(true)).unwrap();
            let decoded = toolset.decode("tool", &json!({"p": sent, "q": 1}));
            let decoded = decoded.ok().map(|decoded| Value::Object(decoded.arguments));
            let expected = expected.as_ref().map(|expected| json!({"p": expected, "q": 1}));
            assert_eq!(decoded, expected, "{dialect}: {schema} {sent}");
        }
    }
}
