//! Arguments: one struct defines the schema, the validation and the documentation.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use toolwire_toolkit::{Context, Outcome, Secret, Server, tool};

use crate::support::{list, outcome_of, plain};

/// A description of the struct, which is not used for the tool.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Search {
    /// The text to search for
    #[schemars(length(min = 1))]
    query: String,
    /// The maximum number of results
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50))]
    limit: u32,
    /// The scope of the search
    scope: Option<Scope>,
    /// Filters on fields
    #[serde(default)]
    filters: Vec<Filter>,
    /// A colour in hexadecimal digits
    colour: Option<Colour>,
}

fn ten() -> u32 {
    10
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Scope {
    /// Documents in the folder
    Folder,
    /// All documents.
    Everywhere,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Filter {
    /// The field to look at
    field: String,
    /// The condition
    is: Criterion,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Criterion {
    Equal {
        /// The expected text
        text: String,
    },
    Between {
        /// The lower bound
        least: f64,
        /// The upper bound
        most: f64,
    },
}

/// A type with its own validation.
#[derive(Debug, Serialize, JsonSchema)]
struct Colour(String);

impl<'de> Deserialize<'de> for Colour {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Colour, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_colour = text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_colour
            .then_some(Colour(text))
            .ok_or_else(|| serde::de::Error::custom("must be six hexadecimal digits"))
    }
}

/// Search for documents.
#[tool]
async fn search(args: Search) -> Outcome<Search> {
    Outcome::ok(args)
}

/// List documents.
#[tool]
async fn browse(
    /// Whether to include details
    verbose: bool,
    cx: &Context,
    /// The maximum number of results
    limit: Option<u8>,
    /// The sort order
    #[tool(default = "name")]
    order: String,
    /// The first page
    #[tool(default = 3 - 2)]
    page: i64,
    /// The words
    #[tool(default)]
    words: Vec<String>,
    /// A fraction
    #[schemars(range(min = 0.0, max = 1.0))]
    #[serde(default)]
    share: f64,
) -> Value {
    json!([verbose, cx.request, limit, order, page, words, share])
}

/// Take a name and any other properties.
#[tool]
async fn open(args: Open) -> Value {
    json!({"name": args.name, "rest": args.rest})
}

#[derive(Deserialize, JsonSchema)]
struct Open {
    /// A name
    name: String,
    /// Other properties
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// Take the fields of two structs.
#[tool]
async fn combined(args: Combined) -> Value {
    json!([args.name, args.page.number, args.page.size])
}

#[derive(Deserialize, JsonSchema)]
struct Combined {
    /// A name
    name: String,
    #[serde(flatten)]
    page: Page,
}

#[derive(Deserialize, JsonSchema)]
struct Page {
    /// The page number
    number: u32,
    /// The page size, as a fraction
    size: f64,
}

/// Take many numbers and an optional secret.
#[tool]
async fn many(
    /// Numbers
    numbers: Vec<u8>,
    /// A key
    #[tool(default = Secret::new("key".to_owned()))]
    key: Secret<String>,
) -> Value {
    json!([numbers, key.reveal()])
}

/// Take alternatives and a recursive type.
#[tool]
async fn grow(
    /// The kind of growth
    growth: Growth,
    /// The tree
    tree: Option<Tree>,
) -> Value {
    json!([growth, tree])
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Growth {
    Fast {
        /// In metres
        height: u32,
        /// A word
        word: Option<String>,
    },
    Slow {
        /// In years
        years: u32,
    },
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Tree {
    /// Its name
    name: Option<String>,
    /// Its branches
    #[serde(default)]
    branches: Vec<Tree>,
}

/// Take no arguments.
#[tool]
async fn now(_cx: &Context) -> String {
    "now".to_owned()
}

fn server() -> Server {
    plain()
        .tool(search)
        .tool(browse)
        .tool(open)
        .tool(combined)
        .tool(many)
        .tool(grow)
        .tool(now)
        .build()
        .unwrap()
}

#[track_caller]
fn check_violations(tool: &str, arguments: Value, expected: &[(&str, &str)]) {
    let outcome = outcome_of(&server(), tool, arguments);
    assert_eq!(outcome["success"], false, "{outcome}");
    assert_eq!(outcome["error_type"], "validation_error", "{outcome}");
    let violations: Vec<(&str, &str)> = outcome["data"]["validation_errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| (each["field"].as_str().unwrap(), each["message"].as_str().unwrap()))
        .collect();
    assert_eq!(violations, expected);
}

#[track_caller]
fn check_value(tool: &str, arguments: Value, expected: Value) {
    assert_eq!(outcome_of(&server(), tool, arguments), json!({"success": true, "value": expected}));
}

#[test]
fn all_violations_are_reported_in_order() {
    check_violations(
        "search",
        json!({
            "scop": "folder",
            "zzz": 1,
            "filters": [
                {"field": 7, "is": {"kind": "between", "least": "low", "most": 2}},
                {"is": {"kind": "equals", "text": "x"}},
                "name",
                {"field": "name", "is": {"text": "x"}}
            ],
            "limit": 99,
            "scope": "folders",
        }),
        &[
            ("query", r#"missing required property "query""#),
            ("limit", "must be at most 50"),
            ("scope", r#"must be one of ["folder","everywhere"]; did you mean "folder"?"#),
            ("filters[0].field", "must be a string, not a number"),
            ("filters[0].is.least", "must be a number, not a string"),
            ("filters[1].field", r#"missing required property "field""#),
            ("filters[1].is.kind", r#"must be one of ["equal","between"]; did you mean "equal"?"#),
            ("filters[2]", "must be an object, not a string"),
            ("filters[3].is.kind", r#"missing required property "kind""#),
            ("scop", r#"unknown property "scop"; did you mean "scope"?"#),
            (
                "zzz",
                r#"unknown property "zzz"; known properties are "query", "limit", "scope", "filters", "colour""#,
            ),
        ],
    );
}

#[test]
fn the_range_of_an_integer_type_is_checked_too() {
    check_violations(
        "browse",
        json!({"verbose": "yes", "limit": 256, "page": 1.5, "share": -0.1}),
        &[
            ("verbose", "must be a boolean, not a string"),
            ("limit", "must be at most 255"),
            ("page", "must be an integer, not a number with a fraction"),
            ("share", "must be at least 0.0"),
        ],
    );
    check_violations(
        "combined",
        json!({"name": "a", "number": 5000000000u64, "size": 1}),
        &[("number", "must be at most 4294967295")],
    );
}

#[test]
fn errors_of_custom_deserialization_are_reported_like_violations() {
    check_violations(
        "search",
        json!({"query": "x", "colour": "blue"}),
        &[("colour", "must be six hexadecimal digits")],
    );
}

#[test]
fn the_result_for_invalid_arguments_has_an_instruction() {
    assert_eq!(
        outcome_of(&server(), "search", json!({"query": 1})),
        json!({
            "success": false,
            "error": "`query` is invalid; nothing was done",
            "error_type": "validation_error",
            "instruction": "Call the tool again with arguments corrected as `data.validation_errors` describes.",
            "data": {"validation_errors": [{"field": "query", "message": "must be a string, not a number"}]}
        })
    );
}

#[test]
fn a_tool_without_arguments_allows_no_properties() {
    check_violations(
        "now",
        json!({"zone": "UTC"}),
        &[("zone", r#"unknown property "zone"; no properties are allowed here"#)],
    );
    check_value("now", json!({}), json!("now"));
    check_value("now", Value::Null, json!("now"));
}

#[test]
fn defaults_of_the_struct_apply() {
    check_value(
        "search",
        json!({"query": "x"}),
        json!({"query": "x", "limit": 10, "scope": null, "filters": [], "colour": null}),
    );
}

#[test]
fn null_means_omitted_for_optional_arguments() {
    check_value(
        "search",
        json!({"query": "x", "limit": null, "scope": null, "filters": null}),
        json!({"query": "x", "limit": 10, "scope": null, "filters": [], "colour": null}),
    );
    check_violations("search", json!({"query": null}), &[("query", "must be a string, not null")]);
}

#[test]
fn plain_parameters_are_arguments_and_the_context_is_not() {
    check_value("browse", json!({"verbose": true}), json!([true, "1", null, "name", 1, [], 0.0]));
    check_value(
        "browse",
        json!({"verbose": false, "limit": 5.0, "order": "date", "page": -2, "words": ["a"], "share": 0.5}),
        json!([false, "1", 5, "date", -2, ["a"], 0.5]),
    );
    check_violations(
        "browse",
        json!({"verbose": true, "cx": {}}),
        &[(
            "cx",
            r#"unknown property "cx"; known properties are "verbose", "limit", "order", "page", "words", "share""#,
        )],
    );
}

#[test]
fn nulls_and_integers_are_normalized_in_alternatives_and_at_any_depth() {
    check_value(
        "grow",
        json!({
            "growth": {"kind": "fast", "height": 3.0, "word": null},
            "tree": {"name": null, "branches": [{"name": null, "branches": [{"branches": null}]}]}
        }),
        json!([
            {"kind": "fast", "height": 3, "word": null},
            {"name": null, "branches": [{"name": null, "branches": [{"name": null, "branches": []}]}]}
        ]),
    );
    check_violations(
        "grow",
        json!({"growth": {"kind": "slow", "years": null}, "tree": {"branches": [{"leaves": 1}]}}),
        &[
            ("growth.years", "must be an integer, not null"),
            (
                "tree.branches[0].leaves",
                r#"unknown property "leaves"; known properties are "name", "branches""#,
            ),
        ],
    );
}

#[test]
fn violations_of_items_are_in_the_order_of_the_items() {
    let mut numbers = vec![json!(1); 12];
    for index in [2, 9, 10, 11] {
        numbers[index] = json!(-1);
    }
    let message = "must be at least 0";
    let expected = [
        ("numbers[2]", message),
        ("numbers[9]", message),
        ("numbers[10]", message),
        ("numbers[11]", message),
    ];
    check_violations("many", json!({"numbers": numbers}), &expected);
}

#[test]
fn the_default_of_a_secret_applies_and_is_not_in_the_schema() {
    check_value("many", json!({"numbers": []}), json!([[], "key"]));
    let many = list(&server()).into_iter().find(|tool| tool.name == "many").unwrap();
    let schema = many.input_schema.unwrap();
    assert_eq!(
        schema["properties"]["key"],
        json!({"description": "A key", "type": "string", "writeOnly": true})
    );
    assert_eq!(schema["required"], json!(["numbers"]));
}

#[test]
fn a_struct_with_a_flattened_map_accepts_other_properties() {
    check_value("open", json!({"name": "n", "more": [1.50]}), json!({"name": "n", "rest": {"more": [1.50]}}));
}

#[test]
fn flattened_fields_can_be_numbers() {
    check_value("combined", json!({"name": "n", "number": 2, "size": 0.50}), json!(["n", 2, 0.5]));
    let exact: Value = serde_json::from_str(r#"{"name":"n","number":2,"size":1.10e0}"#).unwrap();
    check_value("combined", exact, json!(["n", 2, 1.1]));
    check_violations(
        "combined",
        json!({"name": "n", "number": 2, "size": 1, "sise": 2}),
        &[("sise", r#"unknown property "sise"; did you mean "size"?"#)],
    );
}

#[test]
fn the_schema_uses_only_common_keywords() {
    let tools = list(&server());
    let search = tools.iter().find(|tool| tool.name == "search").unwrap();
    assert_eq!(
        search.input_schema.clone().unwrap(),
        json!({
            "type": "object",
            "properties": {
                "query": {"description": "The text to search for. At least 1 character", "type": "string"},
                "limit": {"description": "The maximum number of results. At least 1, at most 50", "type": "integer", "default": 10},
                "scope": {
                    "description": "The scope of the search\n`folder`: Documents in the folder\n`everywhere`: All documents",
                    "type": "string",
                    "enum": ["folder", "everywhere"]
                },
                "filters": {
                    "description": "Filters on fields",
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "field": {"description": "The field to look at", "type": "string"},
                            "is": {
                                "description": "The condition",
                                "oneOf": [
                                    {
                                        "type": "object",
                                        "properties": {
                                            "text": {"description": "The expected text", "type": "string"},
                                            "kind": {"type": "string", "const": "equal"}
                                        },
                                        "required": ["kind", "text"],
                                        "additionalProperties": false
                                    },
                                    {
                                        "type": "object",
                                        "properties": {
                                            "least": {"description": "The lower bound", "type": "number"},
                                            "most": {"description": "The upper bound", "type": "number"},
                                            "kind": {"type": "string", "const": "between"}
                                        },
                                        "required": ["kind", "least", "most"],
                                        "additionalProperties": false
                                    }
                                ]
                            }
                        },
                        "required": ["field", "is"],
                        "additionalProperties": false
                    },
                    "default": []
                },
                "colour": {"description": "A colour in hexadecimal digits", "type": "string"}
            },
            "required": ["query"],
            "additionalProperties": false
        })
    );
    let now = tools.iter().find(|tool| tool.name == "now").unwrap();
    assert_eq!(
        now.input_schema.clone().unwrap(),
        json!({"type": "object", "properties": {}, "additionalProperties": false})
    );
}

/// Store an item.
#[tool]
async fn put(args: Put) -> Value {
    json!(args)
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Put {
    /// The item
    item: String,
    #[serde(flatten)]
    place: Place,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Place {
    /// On a shelf.
    Shelf {
        /// The height
        height: u32,
        /// The number of the shelf
        number: Option<u8>,
    },
    /// In a box
    Box {
        /// Its colour
        colour: String,
    },
}

fn flattened() -> Server {
    plain().tool(put).build().unwrap()
}

#[test]
fn a_flattened_enum_is_served_as_plain_fields() {
    let tool = list(&flattened()).remove(0);
    assert_eq!(
        tool.input_schema.unwrap(),
        json!({
            "type": "object",
            "properties": {
                "item": {"description": "The item", "type": "string"},
                "kind": {"type": "string", "enum": ["shelf", "box"], "description": "`shelf`: On a shelf\n`box`: In a box"},
                "height": {"description": "The height. Required when `kind` is `shelf`. At least 0", "type": "integer"},
                "number": {"description": "The number of the shelf. Only allowed when `kind` is `shelf`. At least 0, at most 255", "type": "integer"},
                "colour": {"description": "Its colour. Required when `kind` is `box`", "type": "string"}
            },
            "required": ["item", "kind"],
            "additionalProperties": false
        })
    );
    assert_eq!(
        tool.description.unwrap(),
        "Store an item.\n\nArguments:\n- `item`: string, required\n\
         - `kind`: string, required, one of `shelf`, `box`\n- `height`: integer, optional\n\
         - `number`: integer, optional\n- `colour`: string, optional"
    );
    assert_eq!(toolwire_toolkit::lint::lint(&flattened()), []);
}

#[test]
fn a_flattened_enum_is_validated_as_an_enum() {
    let violations =
        |arguments: Value| outcome_of(&flattened(), "put", arguments)["data"]["validation_errors"].clone();
    let value = |arguments: Value| outcome_of(&flattened(), "put", arguments)["value"].clone();
    assert_eq!(
        value(json!({"item": "a", "kind": "shelf", "height": 2.0, "number": null})),
        json!({"item": "a", "kind": "shelf", "height": 2, "number": null})
    );
    assert_eq!(value(json!({"item": "a", "kind": "box", "colour": "red"}))["colour"], "red");
    assert_eq!(
        violations(json!({"item": "a", "kind": "shelf", "height": "high", "nmber": 1})),
        json!([
            {"field": "height", "message": "must be an integer, not a string"},
            {"field": "nmber", "message": "unknown property \"nmber\"; did you mean \"number\"?"},
        ])
    );
    assert_eq!(
        violations(json!({"kind": "shelf", "colour": "red"})),
        json!([
            {"field": "item", "message": "missing required property \"item\""},
            {"field": "height", "message": "missing required property \"height\""},
        ])
    );
    assert_eq!(
        violations(json!({"item": "a", "kind": "shelf", "height": 1, "colour": "red"})),
        json!([{"field": "colour", "message": "unknown property \"colour\"; it belongs to another alternative"}])
    );
    assert_eq!(
        violations(json!({"item": "a", "kind": "bag"})),
        json!([{"field": "kind", "message": "must be one of [\"shelf\",\"box\"]"}])
    );
    assert_eq!(
        violations(json!({"item": "a", "height": 1})),
        json!([{"field": "kind", "message": "missing required property \"kind\""}])
    );
}

/// Take arguments with aliases.
#[tool]
async fn aliased(args: Aliased) -> Value {
    json!(args)
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Aliased {
    /// The city
    #[serde(alias = "location", alias = "place")]
    city: String,
    /// The units
    #[serde(default, alias = "temperature")]
    units: Option<Scope>,
    /// The count
    #[serde(alias = "times")]
    count: Growth,
}

#[test]
fn an_argument_is_accepted_under_its_aliases() {
    let server = plain().tool(aliased).build().unwrap();
    let count = json!({"kind": "slow", "years": 1});
    let expected = json!({"city": "Oslo", "units": "folder", "count": count});
    for arguments in [
        json!({"city": "Oslo", "units": "folder", "count": count}),
        json!({"location": "Oslo", "temperature": "folder", "count": count}),
        json!({"times": count, "place": "Oslo", "units": "folder"}),
    ] {
        assert_eq!(outcome_of(&server, "aliased", arguments)["value"], expected);
    }
    assert_eq!(
        outcome_of(&server, "aliased", json!({"city": "Oslo", "place": "Bergen", "times": count}))["data"]["validation_errors"]
            [0]["field"],
        "place"
    );
}

/// Take numbers.
#[tool]
async fn exact(args: Exact) -> Value {
    json!({"whole": args.whole.map(|whole| whole.to_string()), "signed": args.signed, "float": args.float, "short": args.short})
}

#[derive(Deserialize, JsonSchema)]
struct Exact {
    /// A whole number
    whole: Option<u64>,
    /// A signed number
    signed: Option<i64>,
    /// A number
    float: Option<f64>,
    /// A number with less precision
    short: Option<f32>,
}

#[test]
fn numbers_are_exact_or_rejected() {
    let server = plain().tool(exact).build().unwrap();
    let read = |text: &str| outcome_of(&server, "exact", serde_json::from_str(text).unwrap());
    for (text, field, expected) in [
        (r#"{"whole":-0}"#, "whole", json!("0")),
        (r#"{"whole":-0.0}"#, "whole", json!("0")),
        (r#"{"whole":5.0}"#, "whole", json!("5")),
        (r#"{"whole":1.5e1}"#, "whole", json!("15")),
        (r#"{"whole":1e2}"#, "whole", json!("100")),
        (r#"{"whole":1200e-2}"#, "whole", json!("12")),
        (r#"{"whole":9007199254740993.0}"#, "whole", json!("9007199254740993")),
        (r#"{"whole":18446744073709551615}"#, "whole", json!("18446744073709551615")),
        (r#"{"signed":-9223372036854775808}"#, "signed", json!(i64::MIN)),
        (r#"{"signed":-5.00}"#, "signed", json!(-5)),
        (r#"{"float":1e308}"#, "float", json!(1e308)),
    ] {
        assert_eq!(read(text)["value"][field], expected, "{text}");
    }
    for (text, field) in [
        (r#"{"whole":5.00000000000000000001}"#, "whole"),
        (r#"{"whole":5.5}"#, "whole"),
        (r#"{"whole":18446744073709551616}"#, "whole"),
        (r#"{"whole":1e400}"#, "whole"),
        (r#"{"whole":-1}"#, "whole"),
        (r#"{"signed":9223372036854775808}"#, "signed"),
        (r#"{"float":1e400}"#, "float"),
        (r#"{"float":-1e400}"#, "float"),
        (r#"{"short":1e39}"#, "short"),
    ] {
        let outcome = read(text);
        let errors = outcome["data"]["validation_errors"].as_array().cloned().unwrap_or_default();
        let fields: Vec<&Value> = errors.iter().map(|error| &error["field"]).collect();
        assert_eq!(fields, [field], "{text}: {outcome}");
    }
    assert_eq!(
        read(r#"{"whole":5.5}"#)["data"]["validation_errors"][0]["message"],
        "must be an integer, not a number with a fraction"
    );
}

/// Ignore the arguments.
#[tool]
async fn unused(
    /// Whether to include details
    _verbose: bool,
    /// The level
    #[serde(rename = "_level")]
    _level: u8,
) {
}

#[test]
fn an_unused_parameter_is_served_without_its_underscore() {
    let tool = list(&plain().tool(unused).build().unwrap()).remove(0);
    assert_eq!(tool.input_schema.unwrap()["required"], json!(["verbose", "_level"]));
}
