//! Generates input schemas of every kind for property tests.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Property names: plain ones, keywords, and names that dialects must change.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a",
        "b",
        "c",
        "id",
        "type",
        "default",
        "properties",
        "items",
        "required",
        "$ref",
        "$filter",
        "user id",
        "a b",
        "a_b",
        "a.b",
        "a-b",
        "0",
        "名前",
        "",
    ])
    .prop_map(str::to_owned)
}

/// Values of any type, for `enum`, `const` and `default`.
fn any_value() -> impl Strategy<Value = Value> {
    let plain = prop::sample::select(vec![
        json!("x"),
        json!("y"),
        json!(""),
        json!("New York"),
        json!("5"),
        json!("null"),
        json!(5),
        json!(0),
        json!(-1),
        json!(true),
        json!(false),
        json!(null),
        number("0.5"),
        number("9007199254740993"),
        number("1e3"),
    ]);
    prop_oneof![
        8 => plain,
        1 => prop::sample::select(vec![json!({"default": 1}), json!({"$ref": "#/x"}), json!([]), json!([1, "a"]), json!({})]),
    ]
}

fn number(text: &str) -> Value {
    serde_json::from_str(text).expect("a number")
}

fn bounds() -> impl Strategy<Value = Value> {
    let number =
        prop::sample::select(vec!["0", "1", "5", "-3", "0.5", "100", "9007199254740991", "9007199254740993"]);
    let keyword = prop::sample::select(vec![
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    ]);
    (prop::sample::select(vec!["integer", "number"]), vec((keyword, number), 0..3)).prop_map(
        |(kind, rules)| {
            let mut node = json!({"type": kind});
            for (keyword, bound) in rules {
                // `multipleOf` must be greater than zero.
                if keyword != "multipleOf" || !bound.starts_with(['-', '0']) || bound == "0.5" {
                    node[keyword] = self::number(bound);
                }
            }
            node
        },
    )
}

fn text() -> impl Strategy<Value = Value> {
    let patterns =
        prop::sample::select(vec!["^a+$", "^(?!admin)[a-z]+$", "[0-9]{2}", "^x-", "^\\p{L}+$", "^(a|b)$"]);
    let formats = prop::sample::select(vec!["date-time", "uri", "uuid", "email", "int64", "date"]);
    (
        option::weighted(0.3, 0..4_u32),
        option::weighted(0.3, 4..9_u32),
        option::weighted(0.2, patterns),
        option::weighted(0.2, formats),
    )
        .prop_map(|(min, max, pattern, format)| {
            let mut node = json!({"type": "string"});
            for (keyword, value) in [
                ("minLength", min.map(Value::from)),
                ("maxLength", max.map(Value::from)),
                ("pattern", pattern.map(Value::from)),
                ("format", format.map(Value::from)),
            ] {
                if let Some(value) = value {
                    node[keyword] = value;
                }
            }
            node
        })
}

fn leaf() -> impl Strategy<Value = Value> {
    let types = prop::sample::subsequence(
        vec!["string", "integer", "number", "boolean", "null", "array", "object"],
        1..4,
    );
    prop_oneof![
        5 => text(),
        4 => bounds(),
        3 => Just(json!({"type": "boolean"})),
        1 => Just(json!({"type": "null"})),
        1 => Just(json!({})),
        1 => Just(Value::Bool(true)),
        1 => Just(Value::Bool(false)),
        1 => Just(json!({"type": "object"})),
        1 => Just(json!({"type": "object", "additionalProperties": true})),
        1 => Just(json!({"type": "array"})),
        2 => types.prop_map(|types| json!({"type": types})),
        2 => vec(any_value(), 1..5).prop_map(|values| json!({"enum": values})),
        2 => vec(prop::sample::select(vec!["a", "b", "New York", ""]), 1..4).prop_map(|values| json!({"type": "string", "enum": values})),
        1 => vec(1..9_i64, 1..4).prop_map(|values| json!({"type": "integer", "enum": values})),
        2 => any_value().prop_map(|value| json!({"const": value})),
        1 => text().prop_map(|mut node| { node["nullable"] = json!(true); node }),
        2 => prop::sample::select(vec!["#", "#/$defs/A", "#/$defs/B", "#/$defs/A"]).prop_map(|to| json!({"$ref": to})),
        1 => Just(json!({"$ref": "#/$defs/B", "description": "d"})),
    ]
}

/// An object with some properties, some of them required, and with or without a rule for other keys.
fn object(inner: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = Value> {
    let rest = prop_oneof![
        5 => Just(None),
        3 => Just(Some(Value::Bool(false))),
        1 => Just(Some(Value::Bool(true))),
        2 => inner.clone().prop_map(Some),
    ];
    let extra = prop_oneof![
        12 => Just(json!({})),
        1 => Just(json!({"minProperties": 1})),
        1 => Just(json!({"maxProperties": 2})),
        1 => Just(json!({"propertyNames": {"pattern": "^[a-z0-9]*$"}})),
        1 => inner.clone().prop_map(|schema| json!({"patternProperties": {"^x-": schema}})),
        1 => Just(json!({"dependentRequired": {"a": ["b"]}})),
        1 => Just(json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]})),
        1 => Just(json!({"not": {"required": ["a", "b"]}})),
        1 => Just(json!({"if": {"properties": {"a": {"const": "x"}}}, "then": {"required": ["b"]}})),
    ];
    (btree_map(name(), (inner, any::<bool>()), 0..4), rest, extra).prop_map(|(named, rest, extra)| {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (name, (schema, is_required)) in named {
            if is_required {
                required.push(name.clone());
            }
            properties.insert(name, schema);
        }
        let mut node = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            node["required"] = json!(required);
        }
        if let Some(rest) = rest {
            node["additionalProperties"] = rest;
        }
        if let (Some(node), Value::Object(extra)) = (node.as_object_mut(), extra) {
            node.extend(extra);
        }
        node
    })
}

/// Any schema.
pub fn schema() -> impl Strategy<Value = Value> + Clone {
    leaf()
        .prop_recursive(4, 24, 4, |inner| {
            let branches = vec(inner.clone(), 1..4);
            prop_oneof![
                6 => object(inner.clone()),
                3 => (inner.clone(), option::weighted(0.3, 0..3_u32), option::weighted(0.3, 2..5_u32), prop::bool::weighted(0.2))
                    .prop_map(|(items, min, max, unique)| {
                        let mut node = json!({"type": "array", "items": items});
                        if let Some(min) = min { node["minItems"] = json!(min); }
                        if let Some(max) = max { node["maxItems"] = json!(max); }
                        if unique { node["uniqueItems"] = json!(true); }
                        node
                    }),
                1 => (vec(inner.clone(), 1..3), option::of(inner.clone())).prop_map(|(fixed, rest)| {
                    let mut node = json!({"type": "array", "prefixItems": fixed});
                    if let Some(rest) = rest { node["items"] = rest; }
                    node
                }),
                3 => branches.clone().prop_map(|branches| json!({"anyOf": branches})),
                2 => inner.clone().prop_map(|schema| json!({"anyOf": [schema, {"type": "null"}]})),
                1 => branches.clone().prop_map(|branches| json!({"oneOf": branches})),
                1 => branches.prop_map(|branches| json!({"allOf": branches})),
                1 => (inner.clone(), any_value()).prop_map(|(mut schema, value)| {
                    if let Some(node) = schema.as_object_mut() { node.insert("default".into(), value); }
                    schema
                }),
                1 => inner.clone().prop_map(|schema| json!({"not": schema})),
                1 => (leaf(), leaf()).prop_map(|(a, b)| json!({"oneOf": [
                    {"type": "object", "properties": {"k": {"const": "a"}, "v": a}, "required": ["k", "v"]},
                    {"type": "object", "properties": {"k": {"const": "b"}, "w": b}, "required": ["k"]},
                ]})),
            ]
        })
        .boxed()
}

/// An `inputSchema`: an object, sometimes composed at the root, with the definitions that it refers to.
pub fn input_schema() -> impl Strategy<Value = Value> {
    let composition = prop_oneof![
        12 => Just(None),
        1 => Just(Some("anyOf")),
        1 => Just(Some("oneOf")),
        1 => Just(Some("allOf")),
    ];
    (object(schema()), composition, vec(object(schema()), 1..3), object(schema()), schema()).prop_map(
        |(mut root, composition, branches, a, b)| {
            if let Some(keyword) = composition {
                root[keyword] = json!(branches);
            }
            let mut text = root.to_string();
            let mut definitions = Map::new();
            for _ in 0..2 {
                for (name, schema) in [("A", &a), ("B", &b)] {
                    if text.contains(&format!("#/$defs/{name}")) && !definitions.contains_key(name) {
                        definitions.insert(name.to_owned(), schema.clone());
                        text.push_str(&schema.to_string());
                    }
                }
            }
            if !definitions.is_empty() {
                root["$defs"] = Value::Object(definitions);
            }
            root
        },
    )
}
