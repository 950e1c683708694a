//! Violations: their selection, their order and their messages.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use toolwire_validation::{TooComplex, Validator, Violation};

fn violations(schema: &Value, value: &Value) -> Vec<Violation> {
    Validator::with_formats(schema.clone()).unwrap().violations(value).unwrap()
}

/// Checks both messages of the only violation.
#[track_caller]
fn check_message(schema: Value, value: Value, with_value: &str, without_value: &str) {
    let violations = violations(&schema, &value);
    let [violation] = violations.as_slice() else { panic!("{violations:#?}") };
    assert_eq!(
        (violation.message().as_str(), violation.message_without_value().as_str()),
        (with_value, without_value)
    );
}

/// Checks the violations as text, each with its location.
#[track_caller]
fn check(schema: Value, value: Value, expected: &[&str]) {
    let actual: Vec<String> = violations(&schema, &value).iter().map(ToString::to_string).collect();
    assert_eq!(actual, expected);
}

#[test]
fn every_keyword_has_a_message_with_and_without_the_value() {
    let cases = [
        (
            json!({"type": "integer"}),
            json!("x"),
            r#""x" is not an integer"#,
            "must be an integer, not a string",
        ),
        (
            json!({"type": "integer"}),
            json!(1.5),
            "1.5 is not an integer",
            "must be an integer, not a number with a fraction",
        ),
        (
            json!({"type": ["null", "array"]}),
            json!(true),
            "true is not null or an array",
            "must be null or an array, not a boolean",
        ),
        (
            json!({"enum": ["celsius", "fahrenheit"]}),
            json!("Celsius"),
            r#""Celsius" is not one of ["celsius","fahrenheit"]; did you mean "celsius"?"#,
            r#"must be one of ["celsius","fahrenheit"]; did you mean "celsius"?"#,
        ),
        (json!({"const": "a"}), json!(1), r#"1 is not "a""#, r#"must be "a""#),
        (json!({"minimum": 5}), json!(3), "3 is not at least 5", "must be at least 5"),
        (json!({"maximum": 5}), json!(7), "7 is not at most 5", "must be at most 5"),
        (json!({"exclusiveMinimum": 5}), json!(5), "5 is not more than 5", "must be more than 5"),
        (json!({"exclusiveMaximum": 5}), json!(5), "5 is not less than 5", "must be less than 5"),
        (json!({"multipleOf": 5}), json!(7), "7 is not a multiple of 5", "must be a multiple of 5"),
        (
            json!({"minLength": 1}),
            json!(""),
            r#""" is not at least 1 character long"#,
            "must be at least 1 character long",
        ),
        (
            json!({"maxLength": 2}),
            json!("abc"),
            r#""abc" is not at most 2 characters long"#,
            "must be at most 2 characters long",
        ),
        (
            json!({"pattern": "^a$"}),
            json!("b"),
            r#""b" is not a string matching `^a$`"#,
            "must be a string matching `^a$`",
        ),
        (
            json!({"format": "ipv4"}),
            json!("b"),
            r#""b" is not a string in the format `ipv4`"#,
            "must be a string in the format `ipv4`",
        ),
        (json!({"minItems": 1}), json!([]), "[] does not have at least 1 item", "must have at least 1 item"),
        (
            json!({"maxItems": 2}),
            json!([1, 2, 3]),
            "[1,2,3] does not have at most 2 items",
            "must have at most 2 items",
        ),
        (
            json!({"uniqueItems": true}),
            json!([1, 1]),
            "[1,1] does not have unique items",
            "must have unique items",
        ),
        (
            json!({"contains": {"type": "null"}}),
            json!([1]),
            "[1] does not have the items that `contains` requires",
            "must have the items that `contains` requires",
        ),
        (
            json!({"minProperties": 1}),
            json!({}),
            "{} does not have at least 1 property",
            "must have at least 1 property",
        ),
        (
            json!({"not": {"type": "integer"}}),
            json!(1),
            r#"1 matches {"type":"integer"}, which is not allowed"#,
            r#"must not match {"type":"integer"}"#,
        ),
        (json!(false), json!(1), "1 is not allowed here", "must be omitted"),
        (
            json!({"propertyNames": {"pattern": "^a$"}}),
            json!({"b": 1}),
            r#"property name "b" is not a string matching `^a$`"#,
            r#"property name "b" must be a string matching `^a$`"#,
        ),
        (
            json!({"oneOf": [{"type": "integer"}, {"minimum": 1}]}),
            json!(1),
            "1 is not valid for only one alternative",
            "must be valid for only one alternative",
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "array"}]}),
            json!(1),
            "1 is not a string or an array",
            "must be a string or an array",
        ),
    ];
    for (schema, value, with_value, without_value) in cases {
        check_message(schema, value, with_value, without_value);
    }
}

#[test]
fn long_values_are_truncated() {
    let violations = violations(&json!({"type": "integer"}), &json!("x".repeat(1000)));
    assert!(violations[0].message().chars().count() < 120, "{}", violations[0].message());
}

#[test]
fn violations_are_in_the_order_of_the_schema_and_unknown_properties_are_last() {
    let schema = json!({
        "properties": {
            "b": {"type": "array", "items": {"minimum": 0}},
            "a": {"type": "string"},
        },
        "required": ["a"],
        "additionalProperties": false,
    });
    let mut items = vec![json!(0); 11];
    (items[9], items[10]) = (json!(-1), json!(-2));
    check(
        schema,
        json!({"zzz": 1, "b": items}),
        &[
            "at /b/9: -1 is not at least 0",
            "at /b/10: -2 is not at least 0",
            r#"missing required property "a""#,
            r#"unknown property "zzz"; known properties are "b", "a""#,
        ],
    );
}

#[test]
fn an_unknown_property_gets_a_hint() {
    let closed = |properties: Value| json!({"properties": properties, "additionalProperties": false});
    check(
        closed(json!({"text": {}, "units": {}})),
        json!({"txt": 1}),
        &[r#"unknown property "txt"; did you mean "text"?"#],
    );
    check(closed(json!({})), json!({"a": 1}), &[r#"unknown property "a"; no properties are allowed here"#]);
    let by_pattern = json!({"patternProperties": {"^x": {}}, "additionalProperties": false});
    check(by_pattern, json!({"a": 1}), &[r#"unknown property "a""#]);
    let composed = json!({
        "allOf": [{"$ref": "#/$defs/Page"}],
        "unevaluatedProperties": false,
        "$defs": {"Page": {"properties": {"number": {}}}},
    });
    check(composed, json!({"numbr": 1}), &[r#"unknown property "numbr"; did you mean "number"?"#]);
    let dynamic = json!({
        "$dynamicRef": "#page",
        "unevaluatedProperties": false,
        "$defs": {"Page": {"$dynamicAnchor": "page", "properties": {"number": {}}}},
    });
    check(dynamic, json!({"size": 1}), &[r#"unknown property "size"; known properties are "number""#]);
    let conditional = json!({"then": {"properties": {"number": {}}}, "if": {"properties": {"a": {}}},
        "unevaluatedProperties": false});
    check(
        conditional,
        json!({"size": 1}),
        &[r#"unknown property "size"; known properties are "a", "number""#],
    );
}

#[test]
fn a_missing_property_is_compared_with_keys_that_the_schema_does_not_describe() {
    let open = |rule: Value| {
        let mut schema = json!({"properties": {"location": {}, "locations": {}}, "required": ["location"]});
        schema.as_object_mut().unwrap().extend(rule.as_object().unwrap().clone());
        schema
    };
    let missing = r#"missing required property "location""#;
    let hint = format!(r#"{missing}; "locatoin" is not a known property"#);
    for rule in [json!({}), json!({"additionalProperties": true})] {
        check(open(rule), json!({"locatoin": "Oslo"}), &[&hint]);
    }
    for (rule, value) in [
        (json!({}), json!({"units": "celsius"})),
        // The schema describes the similar key.
        (json!({}), json!({"locations": 1})),
        (json!({"allOf": [{"properties": {"locatoin": {}}}]}), json!({"locatoin": 1})),
        // Other keys have a rule, so the similar one is probably meant.
        (json!({"additionalProperties": {}}), json!({"locatoin": 1})),
        (json!({"patternProperties": {"^l": {}}}), json!({"locatoin": 1})),
    ] {
        check(open(rule), value, &[missing]);
    }
    // A part may be beside others that describe the key.
    check(
        json!({"properties": {"locations": {}}, "allOf": [{"required": ["location"]}]}),
        json!({"locations": 1}),
        &[missing],
    );
    let behind_a_reference = json!({"items": {"$ref": "#/$defs/place"}, "$defs": {"place": open(json!({}))}});
    check(behind_a_reference, json!([{"locatoin": 1}]), &[&format!("at /0: {hint}")]);
    // The unknown key is a violation of its own, with its own hint.
    check(
        open(json!({"additionalProperties": false})),
        json!({"locatoin": 1}),
        &[missing, r#"unknown property "locatoin"; did you mean "location"?"#],
    );
    let long = "l".repeat(100_000);
    let schema = json!({"required": [long, "location"]});
    assert_eq!(violations(&schema, &json!({format!("{long}l"): 1})).len(), 2);
}

fn shapes() -> Value {
    let shape = |kind: &str, size: &str| {
        json!({
            "type": "object",
            "properties": {"kind": {"const": kind}, size: {"type": "number"}},
            "required": ["kind", size],
            "additionalProperties": false,
        })
    };
    json!({"properties": {"shape": {"oneOf": [shape("circle", "radius"), shape("square", "side")]}}})
}

#[test]
fn the_tag_of_a_value_selects_the_alternative() {
    check(
        shapes(),
        json!({"shape": {"kind": "circle", "radius": "big"}}),
        &[r#"at /shape/radius: "big" is not a number"#],
    );
    check(
        shapes(),
        json!({"shape": {"kind": "square", "sid": 1}}),
        &[
            r#"at /shape: unknown property "sid"; did you mean "side"?"#,
            r#"at /shape: missing required property "side""#,
        ],
    );
}

#[test]
fn a_wrong_or_missing_tag_is_the_only_violation() {
    check(
        shapes(),
        json!({"shape": {"kind": "circel", "radius": 1}}),
        &[r#"at /shape/kind: "circel" is not one of ["circle","square"]; did you mean "circle"?"#],
    );
    check(shapes(), json!({"shape": {"radius": 1}}), &[r#"at /shape: missing required property "kind""#]);
}

#[test]
fn the_type_of_a_value_selects_the_alternative() {
    let schema = json!({"properties": {"a": {"anyOf": [
        {"type": "null"},
        {"type": "object", "properties": {"n": {"type": "integer"}}},
    ]}}});
    check(schema, json!({"a": {"n": "x"}}), &[r#"at /a/n: "x" is not an integer"#]);
}

#[test]
fn alternatives_that_cannot_be_distinguished_are_all_listed() {
    let schema = json!({"properties": {"a": {"anyOf": [
        {"type": "object", "required": ["x"]},
        {"type": "object", "properties": {"y": {"minimum": 1}}, "required": ["y"]},
    ]}}});
    check(
        schema,
        json!({"a": {"y": 0}}),
        &[r#"at /a: {"y":0} is not an object with property "x" or at least 1 at /y"#],
    );
    let closed = |name: &str| json!({"properties": {name: {}}, "additionalProperties": false});
    check(
        json!({"anyOf": [closed("a"), closed("b")]}),
        json!({"c": 1}),
        &[r#"{"c":1} is not an object with only known properties"#],
    );
}

#[test]
fn exponential_references_are_too_complex() {
    let mut definitions = json!({"d64": {"type": "object"}});
    for level in 0..64 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions[format!("d{level}")] = json!({"allOf": [next, next]});
    }
    let schema = json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
    let validator = Validator::new(schema).unwrap();
    assert_eq!(validator.accepts(&json!({"a": {}})), Err(TooComplex));
    assert_eq!(validator.violations(&json!({"a": {}})), Err(TooComplex));
    // Compiling the schema would take too long, so no value is validated.
    assert_eq!(validator.accepts(&json!({"b": {}})), Err(TooComplex));
}

/// Alternatives that each refer to the whole schema, in two definitions, with their tag at the end.
fn expressions() -> Value {
    let pair = |tag: &str| {
        json!({
            "type": "object",
            "properties": {
                "left": {"$ref": "#/$defs/expression"},
                "right": {"$ref": "#/$defs/expression"},
                "operator": {"const": tag}
            },
            "required": ["left", "right", "operator"],
            "additionalProperties": false
        })
    };
    let number =
        json!({"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]});
    let expression = json!({"anyOf": [pair("+"), {"$ref": "#/$defs/product"}, number]});
    json!({
        "type": "object",
        "properties": {"term": {"$ref": "#/$defs/expression"}},
        "$defs": {"expression": expression, "product": pair("*")}
    })
}

/// A term of the given depth, around `innermost`.
fn term(depth: usize, innermost: Value) -> Value {
    let nested = (0..depth).fold(
        innermost,
        |inner, level| json!({"left": inner, "right": {"number": level}, "operator": (["+", "*"][level % 2])}),
    );
    json!({"term": nested})
}

#[test]
fn deep_values_of_recursive_alternatives_are_validated() {
    let validator = Validator::new(expressions()).unwrap();
    for depth in [5, 30, 60] {
        assert_eq!(validator.accepts(&term(depth, json!({"number": 1}))), Ok(true), "depth {depth}");
        let place = format!("/term{}", "/left".repeat(depth));
        for (innermost, expected) in [
            (json!({"number": "one"}), format!(r#"at {place}/number: "one" is not an integer"#)),
            (
                json!({"left": {"number": 1}, "operator": "+"}),
                format!(r#"at {place}: missing required property "right""#),
            ),
        ] {
            let violations = validator.violations(&term(depth, innermost)).unwrap();
            let messages: Vec<String> = violations.iter().map(ToString::to_string).collect();
            assert!(depth == 5 || messages == [expected.clone()], "depth {depth}: {messages:?}, {expected}");
            assert!(!messages.is_empty());
        }
    }
    // The whole value is below the place of the violation.
    let mut unknown = term(30, json!({"number": 1}));
    unknown["term"]["sign"] = json!("-");
    let violations = validator.violations(&unknown).unwrap();
    let messages: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [r#"at /term: unknown property "sign"; known properties are "left", "right", "operator""#]
    );
}

#[test]
fn recursive_references_that_multiply_within_a_cycle_are_too_complex() {
    let mut definitions = json!({});
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", (level + 1) % 40)});
        let alternative = |tag: &str| json!({"properties": {"next": next, "tag": {"const": tag}}});
        definitions[format!("d{level}")] = json!({"anyOf": [alternative("a"), alternative("b")]});
    }
    let validator = Validator::new(json!({"$ref": "#/$defs/d0", "$defs": definitions})).unwrap();
    let nested = |depth| (0..depth).fold(json!({}), |inner, _| json!({"next": inner, "tag": "c"}));
    assert_eq!(validator.accepts(&nested(3)), Ok(false));
    assert_eq!(validator.accepts(&nested(60)), Err(TooComplex));
}

#[test]
fn references_outside_the_schema_are_not_fetched() {
    let error =
        Validator::new(json!({"$ref": "https://example.com/schema.json"})).expect_err("a remote reference");
    assert!(!error.to_string().is_empty());
    assert!(Validator::new(json!({"type": "text"})).is_err());
}

#[test]
fn many_unknown_properties_are_counted() {
    let properties: Value = (0..2_000).map(|number| (format!("known{number}"), json!({}))).collect();
    let schema = json!({"properties": properties, "additionalProperties": false});
    let value: Value = (0..20_000).map(|number| (format!("unknown{number}"), json!(1))).collect();
    let violations = violations(&schema, &value);
    assert_eq!(violations.len(), 51);
    assert_eq!(violations[50].to_string(), "19950 more violations are not listed");
}

#[test]
fn names_that_many_schemas_have_are_counted_in_few_steps() {
    let definitions: Value = (0..3_000)
        .map(|number| {
            let schema = [json!({"$id": "x"}), json!({"$anchor": "a"}), json!({"$ref": "x#a"})];
            (format!("d{number}"), schema[number % 3].clone())
        })
        .collect();
    let schema = json!({"properties": {"p": {"$ref": "x#a"}}, "$defs": definitions});
    // Whether it compiles does not matter here.
    let _ = Validator::new(schema);
}
