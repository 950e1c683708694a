//! The documented rules of the plain `openai` dialect, one test per rule.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use toolwire_dialect::{Defaults, Dialect, Options, Report, Status, convert};

/// A position of a subschema: its pointer, and a function that puts a schema there.
type Position = (&'static str, fn(Value) -> Value);

const POSITIONS: [Position; 22] = [
    ("/properties/inner", |inner| json!({"type": "object", "properties": {"inner": inner}})),
    ("/items", |inner| json!({"type": "array", "items": inner})),
    ("/prefixItems/1", |inner| json!({"prefixItems": [{"type": "string"}, inner]})),
    ("/additionalProperties", |inner| json!({"type": "object", "additionalProperties": inner})),
    ("/patternProperties/^x-", |inner| json!({"type": "object", "patternProperties": {"^x-": inner}})),
    ("/anyOf/1", |inner| json!({"anyOf": [{"type": "null"}, inner]})),
    ("/oneOf/0", |inner| json!({"oneOf": [inner, {"type": "null"}]})),
    ("/allOf/1", |inner| json!({"allOf": [{"description": "first"}, inner]})),
    ("/not", |inner| json!({"not": inner})),
    ("/if", |inner| json!({"if": inner})),
    ("/then", |inner| json!({"if": {"type": "object"}, "then": inner})),
    ("/else", |inner| json!({"if": {"type": "object"}, "else": inner})),
    ("/$defs/Inner", |inner| json!({"$defs": {"Inner": inner}})),
    ("/definitions/Inner", |inner| json!({"definitions": {"Inner": inner}})),
    ("/contains", |inner| json!({"contains": inner})),
    ("/propertyNames", |inner| json!({"type": "object", "propertyNames": inner})),
    ("/dependentSchemas/other", |inner| json!({"type": "object", "dependentSchemas": {"other": inner}})),
    ("/unevaluatedItems", |inner| json!({"unevaluatedItems": inner})),
    ("/unevaluatedProperties", |inner| json!({"type": "object", "unevaluatedProperties": inner})),
    // Here `default` is a name, not a keyword, so its value is a schema.
    ("/properties/default", |inner| json!({"type": "object", "properties": {"default": inner}})),
    (
        "/patternProperties/default",
        |inner| json!({"type": "object", "patternProperties": {"default": inner}}),
    ),
    ("/$defs/default", |inner| json!({"$defs": {"default": inner}})),
];

const DESCRIPTION: &str = "Looks something up";

fn tool(schema: Value) -> Value {
    json!({"name": "lookup", "description": DESCRIPTION, "inputSchema": schema})
}

fn definition(parameters: Value) -> Value {
    json!({"type": "function", "function": {"name": "lookup", "description": DESCRIPTION, "parameters": parameters}})
}

fn converted(tool: &Value, options: &Options) -> (Value, Report) {
    let conversion = convert(&tool.to_string(), Dialect::Mcp, Dialect::OpenAi, options).unwrap();
    let [report] = conversion.reports.try_into().expect("one report");
    (serde_json::from_str(&conversion.definitions.expect("a definition")).unwrap(), report)
}

fn change_list(report: &Report) -> Vec<(&str, &str, &str)> {
    let sort_key = |change: &'_ toolwire_dialect::Change| (change.pointer.clone(), change.keyword.clone());
    let mut changes: Vec<_> = report.changes.iter().collect();
    changes.sort_by_key(|change| sort_key(change));
    changes.iter().map(|change| (&*change.pointer, &*change.keyword, change.effect.name())).collect()
}

/// Checks the definition, including the order of keys, and the pointer, keyword and effect of each change.
#[track_caller]
fn check(tool: Value, expected: Value, changes: &[(&str, &str, &str)]) {
    let (definition, report) = converted(&tool, &Options::default());
    assert_eq!(definition.to_string(), expected.to_string());
    assert_eq!(change_list(&report), changes);
}

/// Checks that the schema is unchanged, and that the report has no changes.
#[track_caller]
fn check_unchanged(schema: Value) {
    let (actual, report) = converted(&tool(schema.clone()), &Options::default());
    assert_eq!(actual.to_string(), definition(schema).to_string());
    assert_eq!((report.status, change_list(&report)), (Status::Exact, vec![]));
}

/// Like [`check`], for a repaired schema and without regard to the order of keys.
#[track_caller]
fn check_repaired(schema: Value, expected: Value, changes: &[(&str, &str, &str)]) {
    let (actual, report) = converted(&tool(schema), &Options::default());
    assert_eq!(actual, definition(expected));
    assert_eq!((report.status, change_list(&report)), (Status::Rewritten, changes.to_vec()));
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

// Rule 1: the wrapper.

#[test]
fn a_tool_becomes_a_function_with_name_description_and_parameters_in_this_order() {
    check(
        tool(json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})),
        json!({
            "type": "function",
            "function": {
                "name": "lookup",
                "description": DESCRIPTION,
                "parameters": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            },
        }),
        &[],
    );
}

#[test]
fn other_members_of_a_tool_are_not_in_the_definition() {
    let mut complete = tool(object(json!({})));
    complete["title"] = json!("Lookup");
    complete["annotations"] = json!({"readOnlyHint": true});
    complete["outputSchema"] = json!({"type": "object"});
    complete["_meta"] = json!({"a": 1});
    check(complete, definition(object(json!({}))), &[]);
}

#[track_caller]
fn check_description(tool: Value, expected: &str) {
    let (definition, _) = converted(&tool, &Options::default());
    let function = json!({"name": "lookup", "description": expected, "parameters": object(json!({}))});
    assert_eq!(definition, json!({"type": "function", "function": function}));
}

#[test]
fn the_description_of_the_tool_is_used() {
    let tool = json!({"name": "lookup", "title": "T", "description": "D", "inputSchema": object(json!({}))});
    check_description(tool, "D");
}

#[test]
fn without_a_description_the_title_is_used() {
    check_description(json!({"name": "lookup", "title": "T", "inputSchema": object(json!({}))}), "T");
}

#[test]
fn without_a_description_and_a_title_the_description_is_empty() {
    check_description(json!({"name": "lookup", "inputSchema": object(json!({}))}), "");
}

// Rule 2: defaults.

#[test]
fn the_report_of_a_dropped_default_has_the_documented_format() {
    let schema = object(json!({"limit": {"type": "integer", "default": 10}}));
    let tool = json!({"name": "search", "description": "Searches", "inputSchema": schema});
    let (_, report) = converted(&tool, &Options::default());
    assert_eq!(
        serde_json::to_value(report).unwrap(),
        json!({
            "tool": "search", "name": "search", "dialect": "openai", "status": "rewritten",
            "changes": [
                {"pointer": "/properties/limit", "keyword": "default", "effect": "dropped", "detail": "default 10"},
            ],
        })
    );
}

#[test]
fn a_default_is_removed_from_the_root() {
    check(
        tool(json!({"type": "object", "default": {"a": 1}, "properties": {}})),
        definition(object(json!({}))),
        &[("", "default", "dropped")],
    );
}

#[test]
fn a_default_is_removed_from_every_subschema() {
    for (position, wrap) in POSITIONS {
        let pointer = format!("/properties/p{position}");
        check(
            tool(object(json!({"p": wrap(json!({"type": "string", "default": "x", "minLength": 1}))}))),
            definition(object(json!({"p": wrap(json!({"type": "string", "minLength": 1}))}))),
            &[(&pointer, "default", "dropped")],
        );
    }
}

#[test]
fn a_default_is_removed_from_subschemas_of_subschemas() {
    for (outer_position, outer) in POSITIONS {
        for (inner_position, inner) in POSITIONS {
            let pointer = format!("/properties/p{outer_position}{inner_position}");
            check(
                tool(object(json!({"p": outer(inner(json!({"type": "string", "default": "x"})))}))),
                definition(object(json!({"p": outer(inner(json!({"type": "string"})))}))),
                &[(&pointer, "default", "dropped")],
            );
        }
    }
}

#[test]
fn a_default_is_removed_from_subschemas_of_the_root() {
    let rewritten_at_the_root = ["/anyOf/1", "/oneOf/0", "/allOf/1", "/not"];
    for (position, wrap) in
        POSITIONS.into_iter().filter(|(position, _)| !rewritten_at_the_root.contains(position))
    {
        let root = |inner: Value| {
            let mut schema = object(json!({"other": {"type": "string"}}));
            for (keyword, value) in wrap(inner).as_object().unwrap() {
                if keyword != "type" {
                    schema[keyword] = value.clone();
                }
            }
            schema
        };
        check(
            tool(root(json!({"description": "d", "default": 1}))),
            definition(root(json!({"description": "d"}))),
            &[(position, "default", "dropped")],
        );
    }
}

#[test]
fn a_default_is_removed_fifty_levels_deep() {
    let nest = |innermost: Value| {
        (0..50).fold(innermost, |inner, level| POSITIONS[level % POSITIONS.len()].1(inner))
    };
    let position: String = (0..50).rev().map(|level| POSITIONS[level % POSITIONS.len()].0).collect();
    let pointer = format!("/properties/p{position}");
    check(
        tool(object(json!({"p": nest(json!({"type": "string", "default": "x"}))}))),
        definition(object(json!({"p": nest(json!({"type": "string"}))}))),
        &[(&pointer, "default", "dropped")],
    );
}

#[test]
fn a_default_with_any_value_is_removed() {
    for value in
        [json!(null), json!(false), json!(0), json!(""), json!([]), json!({"default": {"type": "object"}})]
    {
        check(
            tool(object(json!({"p": {"type": "string", "default": value}}))),
            definition(object(json!({"p": {"type": "string"}}))),
            &[("/properties/p", "default", "dropped")],
        );
    }
}

#[test]
fn defaults_are_removed_from_each_level_of_nested_objects() {
    check(
        tool(object(json!({
            "server": {
                "type": "object",
                "default": {},
                "properties": {
                    "host": {"type": "string", "default": "localhost"},
                    "ports": {"type": "array", "items": {"type": "integer", "default": 80}, "default": [80]},
                },
                "required": ["host"],
            },
        }))),
        definition(object(json!({
            "server": {
                "type": "object",
                "properties": {
                    "host": {"type": "string"},
                    "ports": {"type": "array", "items": {"type": "integer"}},
                },
                "required": ["host"],
            },
        }))),
        &[
            ("/properties/server", "default", "dropped"),
            ("/properties/server/properties/host", "default", "dropped"),
            ("/properties/server/properties/ports", "default", "dropped"),
            ("/properties/server/properties/ports/items", "default", "dropped"),
        ],
    );
}

#[test]
fn pointers_are_escaped() {
    check(
        tool(object(json!({"a/b~c": {"type": "string", "default": ""}}))),
        definition(object(json!({"a/b~c": {"type": "string"}}))),
        &[("/properties/a~1b~0c", "default", "dropped")],
    );
}

#[test]
fn a_property_named_default_stays() {
    let mut schema =
        object(json!({"default": {"type": "string"}, "p": object(json!({"default": {"type": "null"}}))}));
    schema["required"] = json!(["default"]);
    schema["dependentRequired"] = json!({"default": ["p"]});
    check_unchanged(schema);
}

#[test]
fn a_default_inside_the_data_of_enum_const_and_examples_stays() {
    let data = json!({"default": 1, "properties": {"default": {"default": 2}}, "items": {"default": 3}});
    check_unchanged(object(json!({
        "enum": {"enum": [data, [data]]},
        "const": {"const": data},
        "examples": {"type": "object", "examples": [data]},
    })));
}

#[test]
fn a_default_inside_an_unknown_keyword_stays() {
    check_unchanged(object(
        json!({"p": {"type": "string", "x-form": {"default": 1, "properties": {"a": {"default": 2}}}}}),
    ));
}

// Rule 3: everything else is preserved.

#[test]
fn an_enum_stays() {
    check_unchanged(object(
        json!({"unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "d"}}),
    ));
}

#[test]
fn every_other_keyword_stays_in_its_order() {
    check_unchanged(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Arguments",
        "required": ["b"],
        "type": "object",
        "properties": {
            "b": {"description": "d", "$ref": "#/$defs/B"},
            "a": {"maxLength": 5, "type": "string", "minLength": 1, "pattern": "^a+$", "format": "uri", "deprecated": true},
            "n": {"type": ["number", "null"], "multipleOf": 0.01, "maximum": 9007199254740993u64, "exclusiveMinimum": 0},
            "l": {"type": "array", "uniqueItems": true, "items": {"type": "string"}, "minItems": 1, "contains": {}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"maxLength": 3}},
            "u": {"oneOf": [{"type": "string"}, {"type": "integer"}], "discriminator": {"propertyName": "t"}},
            "x": {"x-anything": [1, {"y": null}], "somethingNew": true, "$comment": "c", "readOnly": true},
            "t": true,
        },
        "additionalProperties": false,
        "minProperties": 1,
        "dependentRequired": {"a": ["b"]},
        "if": {"required": ["a"]},
        "then": {"required": ["n"]},
        "$defs": {"B": {"type": "string"}, "Unused": {"type": "integer"}},
        "definitions": {"Old": {"type": "object", "properties": {"again": {"$ref": "#"}}}},
    }));
}

#[test]
fn digits_stay_as_they_were_written() {
    let text = r#"{"name":"n","description":"d","inputSchema":{"type":"object","properties":{"a":{"type":"number","minimum":1.0,"maximum":1e+400,"enum":[12345678901234567890123,0.10]}}}}"#;
    let conversion = convert(text, Dialect::Mcp, Dialect::OpenAi, &Options::default()).unwrap();
    assert_eq!(
        conversion.definitions.unwrap(),
        r#"{"type":"function","function":{"name":"n","description":"d","parameters":{"type":"object","properties":{"a":{"type":"number","minimum":1.0,"maximum":1e+400,"enum":[12345678901234567890123,0.10]}}}}}"#
    );
}

// Rule 3: schemas that the API would reject are repaired.

#[test]
fn a_root_without_a_type_is_an_object() {
    let expected = object(json!({"a": {"type": "string"}}));
    check_repaired(json!({"properties": {"a": {"type": "string"}}}), expected, &[("", "type", "rewritten")]);
}

#[test]
fn a_root_that_may_be_null_is_an_object() {
    check_repaired(
        json!({"type": ["object", "null"], "properties": {}}),
        object(json!({})),
        &[("", "type", "rewritten")],
    );
}

#[test]
fn a_tool_without_parameters_gets_empty_properties() {
    let expected = object(json!({}));
    check_repaired(json!({"type": "object"}), expected, &[("", "properties", "rewritten")]);
    check_repaired(
        json!({"type": "object", "additionalProperties": false}),
        json!({"type": "object", "additionalProperties": false, "properties": {}}),
        &[("", "properties", "rewritten")],
    );
}

#[test]
fn a_nested_object_without_properties_stays() {
    check_unchanged(object(json!({"p": {"type": "object"}})));
}

#[test]
fn an_array_without_items_gets_empty_items_at_every_position() {
    for (position, wrap) in POSITIONS {
        for kind in [json!("array"), json!(["array", "null"])] {
            let pointer = format!("/properties/p{position}");
            check_repaired(
                object(json!({"p": wrap(json!({"type": kind}))})),
                object(json!({"p": wrap(json!({"type": kind, "items": {}}))})),
                &[(&pointer, "items", "rewritten")],
            );
        }
    }
}

#[test]
fn parts_at_the_root_are_merged() {
    check_repaired(
        json!({"type": "object", "allOf": [
            {"properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"type": "integer"}}},
        ]}),
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}),
        &[("", "allOf", "rewritten")],
    );
}

/// Checks that alternatives become one object and that a description mentions the loss, in any wording.
#[track_caller]
fn check_flattened(schema: Value, expected: Value, keyword: &str) {
    let (mut definition, report) = converted(&tool(schema), &Options::default());
    let function = definition["function"].as_object_mut().unwrap();
    let text = function["description"].as_str().unwrap().to_owned();
    let parameters = function["parameters"].as_object_mut().unwrap();
    let inner = parameters.remove("description");
    assert!(text.starts_with(DESCRIPTION), "the tool's own description is not first: {text}");
    assert!(text != DESCRIPTION || inner.is_some(), "no description mentions the loss");
    assert_eq!(Value::Object(parameters.clone()), expected);
    assert_eq!(report.status, Status::Lossy);
    assert!(change_list(&report).contains(&("", keyword, "widened")), "{:?}", report.changes);
}

#[test]
fn alternatives_at_the_root_become_one_object_and_the_loss_is_reported() {
    let branches = json!([
        {"properties": {"id": {"type": "string"}}, "required": ["id"]},
        {"properties": {"name": {"type": "string"}}, "required": ["name"]},
    ]);
    let expected = object(json!({"id": {"type": "string"}, "name": {"type": "string"}}));
    check_flattened(json!({"type": "object", "anyOf": branches}), expected.clone(), "anyOf");
    check_flattened(json!({"type": "object", "oneOf": branches}), expected, "oneOf");
}

#[test]
fn alternatives_of_required_keys_at_the_root_are_described() {
    let both = object(json!({"a": {"type": "string"}, "b": {"type": "string"}}));
    let mut schema = both.clone();
    schema["anyOf"] = json!([{"required": ["a"]}, {"required": ["b"]}]);
    check_flattened(schema, both.clone(), "anyOf");
    let mut schema = both.clone();
    schema["not"] = json!({"required": ["a", "b"]});
    check_flattened(schema, both, "not");
}

#[test]
fn composition_below_the_root_stays() {
    check_unchanged(object(json!({
        "p": {
            "anyOf": [{"type": "string"}, {"allOf": [{"type": "integer"}, {"minimum": 3}]}],
            "not": {"const": "x"},
            "oneOf": [{"type": "string"}, {"type": "integer"}],
        },
    })));
}

#[test]
fn an_invalid_name_is_changed_and_reported() {
    let tool = json!({"name": "admin.tools/list", "description": "d", "inputSchema": object(json!({}))});
    let (definition, report) = converted(&tool, &Options::default());
    let name = definition["function"]["name"].as_str().unwrap();
    let suffix = name.strip_prefix("admin_tools_list_").expect("a suffix");
    assert!(suffix.len() == 8 && suffix.chars().all(|digit| digit.is_ascii_hexdigit()), "{name}");
    assert_eq!((report.tool.as_str(), report.name.as_str()), ("admin.tools/list", name));
    assert_eq!((report.status, change_list(&report)), (Status::Rewritten, vec![("", "name", "rewritten")]));
}

#[test]
fn all_property_keys_are_preserved() {
    check_unchanged(object(
        json!({"$filter": {"type": "string"}, "user id": {"type": "string"}, "名前": {}, "": {}}),
    ));
}

// Rule 4: the input.

#[test]
fn the_header_annotation_of_mcp_is_removed() {
    check(
        tool(object(json!({"a": {"type": "string", "x-mcp-header": "A", "x-order": 1, "deprecated": true}}))),
        definition(object(json!({"a": {"type": "string", "x-order": 1, "deprecated": true}}))),
        &[("/properties/a", "x-mcp-header", "dropped")],
    );
}

#[test]
fn a_property_named_like_the_header_annotation_stays() {
    check_unchanged(object(
        json!({"x-mcp-header": {"type": "string"}, "e": {"enum": [{"x-mcp-header": 1}]}}),
    ));
}

#[test]
fn a_conversion_to_mcp_returns_the_input() {
    let text = tool(object(json!({"a": {"type": "array", "default": [1], "x-mcp-header": "A"}}))).to_string();
    let conversion = convert(&text, Dialect::Mcp, Dialect::Mcp, &Options::default()).unwrap();
    assert_eq!(conversion.definitions.unwrap(), text);
}

// Lists, and the options for defaults.

#[test]
fn an_empty_list_gives_an_empty_list() {
    for text in ["[]", r#"{"tools":[]}"#, r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#] {
        let conversion = convert(text, Dialect::Mcp, Dialect::OpenAi, &Options::default()).unwrap();
        assert_eq!(conversion.definitions.as_deref(), Some("[]"));
        assert_eq!(conversion.reports, []);
    }
}

#[test]
fn every_form_of_a_list_gives_the_same_definitions_in_input_order() {
    let tools: Vec<Value> = ["b", "a"]
        .iter()
        .map(|name| json!({"name": name, "description": "d", "inputSchema": object(json!({}))}))
        .collect();
    let function = |name: &str| {
        let function = json!({"name": name, "description": "d", "parameters": object(json!({}))});
        json!({"type": "function", "function": function})
    };
    let expected = json!([function("b"), function("a")]).to_string();
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools, "nextCursor": "x"}});
    for input in [json!(tools), json!({"tools": tools}), response] {
        let conversion =
            convert(&input.to_string(), Dialect::Mcp, Dialect::OpenAi, &Options::default()).unwrap();
        assert_eq!(conversion.definitions.as_deref(), Some(expected.as_str()));
    }
}

#[test]
fn defaults_are_moved_to_the_description_on_request() {
    let options = Options::default().with_defaults(Defaults::Describe);
    let schema = object(json!({
        "described": {"type": "integer", "description": "How many.", "default": 10},
        "undescribed": {"type": "object", "default": {"b": [1, "x"]}},
    }));
    let (mut definition, report) = converted(&tool(schema), &options);
    let mut text = |name: &str| {
        let property = definition["function"]["parameters"]["properties"][name].as_object_mut().unwrap();
        property.remove("description").expect("a description").as_str().unwrap().to_owned()
    };
    let (described, undescribed) = (text("described"), text("undescribed"));
    assert!(described.starts_with("How many.") && described.contains("10"), "{described}");
    assert!(undescribed.contains(r#"{"b":[1,"x"]}"#), "{undescribed}");
    assert_eq!(
        definition["function"]["parameters"],
        object(json!({"described": {"type": "integer"}, "undescribed": {"type": "object"}}))
    );
    let changes: Vec<(&str, &str)> = change_list(&report).iter().map(|change| (change.0, change.1)).collect();
    assert_eq!(changes, [("/properties/described", "default"), ("/properties/undescribed", "default")]);
    assert_eq!(report.status, Status::Rewritten);
}

#[test]
fn defaults_are_preserved_on_request() {
    let options = Options::default().with_defaults(Defaults::Keep);
    let schema = object(json!({"a": {"type": "integer", "default": 10, "description": "d"}}));
    let (actual, report) = converted(&tool(schema.clone()), &options);
    assert_eq!(actual.to_string(), definition(schema).to_string());
    assert_eq!((report.status, change_list(&report)), (Status::Exact, vec![]));
}

#[test]
fn patterns_that_become_equal_are_not_written_twice() {
    let keys = json!({r"^\cA": {"type": "string"}, r"^\ca": {"type": "integer"}});
    let schema = json!({"type": "object", "patternProperties": keys, "additionalProperties": false});
    let (actual, report) = converted(&tool(schema), &Options::default());
    let expected = json!({"type": "object", "patternProperties": {r"^\x01": {"type": "string"}},
        "additionalProperties": true, "properties": {}});
    assert_eq!(actual.pointer("/function/parameters"), Some(&expected));
    assert_eq!(report.status, Status::Lossy);
}
