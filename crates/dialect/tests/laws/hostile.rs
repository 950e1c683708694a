//! Hostile schemas: each is converted or refused with a reason, in every dialect, on a small stack.
//!
//! The inputs are text, because recursive code could not even drop a tree this deep. Nothing is timed: an
//! engine that expanded the references in these inputs would not finish.

use std::fmt::Write as _;
use std::thread;

use serde_json::{Value, json};
use toolwire_dialect::{Dialect, Options, Status, Toolset, convert};

/// The default stack size of a thread, in bytes.
const STACK_SIZE: usize = 2 * 1024 * 1024;

/// The maximum length of a sensible definition of these inputs, in bytes.
const MAX_OUTPUT_LEN: usize = 32 * 1024 * 1024;

/// The length from which an input is large, in bytes.
const LARGE_INPUT_LEN: usize = 256 * 1024;

/// The dialects whose arguments are tested with large inputs; testing all of them is slow.
const DIALECTS_FOR_LARGE: [Dialect; 3] = [Dialect::OpenAi, Dialect::OpenAiStrict, Dialect::Gemini];

/// Converts the text of a tool to every dialect, with `reshape` for the strict ones, and converts arguments
/// both ways. Panics fail the test.
#[track_caller]
fn check_tool(label: &str, text: String) {
    let thread = thread::Builder::new().name(label.to_owned()).stack_size(STACK_SIZE);
    let run = move || {
        for dialect in Dialect::all() {
            check_dialect(&text, dialect, &Options::default());
            if dialect.name().ends_with("-strict") {
                check_dialect(&text, dialect, &Options::default().with_reshape(true));
            }
        }
    };
    let outcome = thread.spawn(run).expect("a thread").join();
    assert!(outcome.is_ok(), "the engine panicked on `{label}`; see the message above");
}

/// Does the same as [`check_tool`] for the text of a schema.
#[track_caller]
fn check_schema(label: &str, schema: &str) {
    check_tool(label, format!(r#"{{"name":"hostile","description":"d","inputSchema":{schema}}}"#));
}

fn check_dialect(text: &str, dialect: Dialect, options: &Options) {
    // Both functions share the engine, so for large inputs one of them is enough.
    if (text.len() < LARGE_INPUT_LEN || dialect == Dialect::OpenAi)
        && let Ok(conversion) = convert(text, Dialect::Mcp, dialect, options)
    {
        let length = conversion.definitions.as_ref().map_or(0, String::len);
        assert!(
            length < MAX_OUTPUT_LEN,
            "{dialect}: {length} bytes of output for {} bytes of input",
            text.len()
        );
    }
    let toolset = match Toolset::from_json(text, dialect, options) {
        Ok(toolset) => toolset,
        Err(error) => {
            assert!(!error.message.is_empty() && error.line > 0 && error.column > 0, "{dialect}: {error:?}");
            return;
        }
    };
    let reports = toolset.reports();
    assert_eq!(reports.len(), 1, "{dialect}: {reports:?}");
    let is_refused = reports[0].status == Status::Refused;
    assert_eq!(toolset.definitions().len(), usize::from(!is_refused), "{dialect}");
    assert_eq!(reports[0].reason.is_some(), is_refused, "{dialect}: {reports:?}");
    if let Some(reason) = &reports[0].reason {
        assert!(!reason.code.is_empty() && !reason.message.is_empty(), "{dialect}: {reason:?}");
    }
    if text.len() >= LARGE_INPUT_LEN && !DIALECTS_FOR_LARGE.contains(&dialect) {
        return;
    }
    for arguments in [json!({}), json!({"p": "5", "a": null, "x": {"p": [[]]}}), json!(null)] {
        // Errors are fine; only panics matter.
        let _ = toolset.decode(&reports[0].name, &arguments);
        let _ = toolset.encode(&reports[0].tool, &arguments);
    }
}

#[test]
fn arguments_of_a_hundred_thousand_levels_do_not_overflow_the_stack() {
    let deep = format!(r#"{{"p":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let tool = r#"{"name":"deep","inputSchema":{"type":"object","properties":{"p":{"type":"array"}}}}"#;
    for dialect in Dialect::all() {
        let toolset = Toolset::from_json(tool, dialect, &Options::default()).unwrap();
        assert!(toolset.decode("deep", &Value::String(deep.clone())).is_err(), "{dialect}");
        // Too deep to be parsed as a list, and too much like a list to be an item of one.
        let error = toolset.decode("deep", &json!({"p": deep})).expect_err("text is not a list");
        assert_eq!(error.code(), "invalid_arguments", "{dialect}");
    }
}

/// Returns `open` repeated `levels` times, the innermost schema, and as many repetitions of `close`.
fn nested(open: &str, innermost: &str, close: &str, levels: usize) -> String {
    format!("{}{innermost}{}", open.repeat(levels), close.repeat(levels))
}

fn with_property(schema: &str) -> String {
    format!(r#"{{"type":"object","properties":{{"p":{schema}}}}}"#)
}

/// Returns `count` parts, separated by commas.
fn parts(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(",")
}

/// Returns a root whose property `p` is the first of `levels` definitions. `link` creates each definition
/// from a reference to the next.
fn chain(levels: usize, link: impl Fn(&str) -> String) -> String {
    let mut definitions = String::new();
    for level in 0..levels {
        let next = format!(r##"{{"$ref":"#/$defs/L{}"}}"##, level + 1);
        write!(definitions, r#""L{level}":{},"#, link(&next)).unwrap();
    }
    format!(
        r##"{{"type":"object","properties":{{"p":{{"$ref":"#/$defs/L0"}}}},"$defs":{{{definitions}"L{levels}":{{"type":"string"}}}}}}"##
    )
}

/// The label of a bomb, and the function that creates a definition from a reference to the next.
type Bomb<'a> = (&'a str, &'a dyn Fn(&str) -> String);

#[test]
fn reference_bombs_are_never_expanded() {
    for levels in [20, 64, 1000] {
        let bombs: [Bomb; 8] = [
            ("properties", &|next| format!(r#"{{"type":"object","properties":{{"x":{next},"y":{next}}}}}"#)),
            ("required", &|next| {
                format!(r#"{{"type":"object","properties":{{"x":{next},"y":{next}}},"required":["x","y"]}}"#)
            }),
            ("allOf", &|next| format!(r#"{{"allOf":[{next},{next}]}}"#)),
            ("anyOf", &|next| format!(r#"{{"anyOf":[{next},{next}]}}"#)),
            ("oneOf", &|next| format!(r#"{{"oneOf":[{next},{{"type":"array","items":{next}}}]}}"#)),
            ("ten at once", &|next| format!(r#"{{"anyOf":[{}]}}"#, [next; 10].join(","))),
            ("allOf of objects", &|next| {
                format!(r#"{{"allOf":[{{"properties":{{"x":{next}}}}},{{"properties":{{"x":{next}}}}}]}}"#)
            }),
            ("siblings", &|next| {
                let reference = next.trim_end_matches('}');
                format!(
                    r#"{{"type":"object","properties":{{"x":{reference},"description":"d"}},"y":{reference},"default":1}}}}}}"#
                )
            }),
        ];
        for (label, link) in bombs {
            check_schema(&format!("bomb of {levels} by {label}"), &chain(levels, link));
        }
    }
}

#[test]
fn products_of_alternatives_are_never_expanded() {
    let union = |name: usize| {
        format!(
            r#"{{"anyOf":[{{"properties":{{"a{name}":{{"const":1}}}}}},{{"properties":{{"b{name}":{{"const":2}}}}}}]}}"#
        )
    };
    let unions: Vec<String> = (0..64).map(union).collect();
    let all_of = format!(r#"{{"type":"object","allOf":[{}]}}"#, unions.join(","));
    check_schema("allOf of 64 unions at the root", &all_of);
    check_schema("allOf of 64 unions in a property", &with_property(&all_of));
    let nested = (0..64).fold(r#"{"type":"string"}"#.to_owned(), |inner, _| {
        format!(
            r#"{{"anyOf":[{inner},{{"type":"integer"}}],"oneOf":[{{}},{{"minimum":3}}],"not":{{"const":1}}}}"#
        )
    });
    check_schema("unions beside unions, 64 deep", &with_property(&nested));
    let conditions = (0..64).map(|name| {
        format!(r#"{{"if":{{"required":["a{name}"]}},"then":{{"required":["b{name}"]}},"else":{{"required":["c{name}"]}}}}"#)
    });
    let conditions: Vec<String> = conditions.collect();
    check_schema(
        "64 conditions at the root",
        &format!(r#"{{"type":"object","allOf":[{}]}}"#, conditions.join(",")),
    );
}

#[test]
fn every_kind_of_recursion_ends() {
    for (label, schema) in [
        ("root in a property", r##"{"type":"object","properties":{"p":{"$ref":"#"}}}"##),
        ("root required", r##"{"type":"object","properties":{"p":{"$ref":"#"}},"required":["p"]}"##),
        ("root in itself", r##"{"$ref":"#"}"##),
        ("root in its parts", r##"{"type":"object","allOf":[{"$ref":"#"}]}"##),
        ("root in its alternatives", r##"{"type":"object","anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##),
        ("root in its negation", r##"{"type":"object","not":{"$ref":"#"}}"##),
        (
            "root in a condition",
            r##"{"type":"object","if":{"$ref":"#"},"then":{"$ref":"#"},"else":{"$ref":"#"}}"##,
        ),
        (
            "root as key names",
            r##"{"type":"object","propertyNames":{"$ref":"#"},"additionalProperties":{"$ref":"#"}}"##,
        ),
        (
            "definition of itself",
            r##"{"type":"object","properties":{"p":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/A"}}}"##,
        ),
        (
            "loop of two",
            r##"{"type":"object","properties":{"p":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}}"##,
        ),
        (
            "loop through allOf",
            r##"{"type":"object","properties":{"p":{"$ref":"#/$defs/A"}},"$defs":{"A":{"allOf":[{"$ref":"#/$defs/B"}]},"B":{"anyOf":[{"$ref":"#/$defs/A"},{"type":"string"}]}}}"##,
        ),
        (
            "mutual trees",
            r##"{"type":"object","properties":{"p":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object","properties":{"b":{"$ref":"#/$defs/B"},"a":{"$ref":"#/$defs/A"}},"required":["b"]},"B":{"type":"array","items":{"$ref":"#/$defs/A"},"minItems":1}}}"##,
        ),
        (
            "ever deeper pointer",
            r##"{"type":"object","properties":{"p":{"$ref":"#/properties/p/properties/p"}}}"##,
        ),
        (
            "pointer through a reference",
            r##"{"type":"object","properties":{"p":{"type":"object","properties":{"q":{"$ref":"#/properties/p/properties/q/properties/r"}}}}}"##,
        ),
        (
            "recursion with growth",
            r##"{"type":"object","properties":{"p":{"$ref":"#/$defs/A"}},"$defs":{"A":{"allOf":[{"type":"object","properties":{"x":{"$ref":"#/$defs/A"}}},{"type":"object","properties":{"x":{"type":"object","properties":{"x":{"$ref":"#/$defs/A"}}}}}]}}}"##,
        ),
    ] {
        check_schema(label, schema);
    }
}

#[test]
fn thousands_of_levels_do_not_overflow_the_stack() {
    for levels in [100, 1_000, 20_000] {
        for (label, open, innermost, close) in [
            ("objects", r#"{"type":"object","properties":{"p":"#, r#"{"type":"string","default":1}"#, "}}"),
            ("required objects", r#"{"type":"object","required":["p"],"properties":{"p":"#, "{}", "}}"),
            ("arrays", r#"{"type":"array","items":"#, r#"{"type":"array"}"#, "}"),
            ("anyOf", r#"{"anyOf":[{"type":"null"},"#, r#"{"type":"string"}"#, "]}"),
            ("oneOf", r#"{"oneOf":["#, r#"{"type":"string"}"#, r#",{"type":"null"}]}"#),
            ("allOf", r#"{"allOf":["#, r#"{"type":"string"}"#, "]}"),
            ("not", r#"{"not":"#, r#"{"type":"string"}"#, "}"),
            ("if", r#"{"if":"#, r#"{"type":"string"}"#, r#","then":{"minLength":1}}"#),
            ("maps", r#"{"type":"object","additionalProperties":"#, r#"{"type":"string"}"#, "}"),
            ("definitions", r#"{"$defs":{"D":"#, r#"{"type":"string"}"#, "}}"),
            ("old tuples", r#"{"type":"array","items":["#, r#"{"type":"string"}"#, "]}"),
            ("const data", r#"{"const":"#, "", "}"),
        ] {
            let schema = if label == "const data" {
                format!(r#"{{"const":{}}}"#, nested("[", "", "]", levels))
            } else {
                nested(open, innermost, close, levels)
            };
            check_schema(&format!("{levels} {label} in a property"), &with_property(&schema));
            check_schema(&format!("{levels} {label} at the root"), &schema);
        }
        check_schema(&format!("a chain of {levels} references"), &chain(levels, str::to_owned));
        check_schema(
            &format!("a chain of {levels} parts"),
            &chain(levels, |next| format!(r#"{{"allOf":[{next}]}}"#)),
        );
    }
}

#[test]
fn a_hundred_thousand_brackets_do_not_overflow_the_stack() {
    for brackets in ["[", "{\"a\":", "[[{\"properties\":"] {
        check_tool("only openings", brackets.repeat(100_000));
    }
    let deep = nested("[", "", "]", 100_000);
    check_tool("a list of lists", deep.clone());
    check_schema("lists as a schema", &deep);
    check_schema("lists as enum data", &with_property(&format!(r#"{{"enum":[{deep}]}}"#)));
    check_schema("lists as a default", &with_property(&format!(r#"{{"type":"array","default":{deep}}}"#)));
    check_schema("lists in an unknown keyword", &format!(r#"{{"type":"object","x-deep":{deep}}}"#));
    check_tool(
        "lists beside the schema",
        format!(r#"{{"name":"hostile","_meta":{deep},"inputSchema":{{"type":"object"}}}}"#),
    );
    let text = serde_json::to_string(&deep).unwrap();
    check_schema("lists as the text of a schema", &text);
}

#[test]
fn a_hundred_thousand_properties_are_converted() {
    let properties =
        parts(100_000, |number| format!(r#""k{number}":{{"type":"string","default":"{number}"}}"#));
    check_schema("properties", &format!(r#"{{"type":"object","properties":{{{properties}}}}}"#));
}

#[test]
fn long_lists_of_every_kind_are_converted() {
    let many = |part: &dyn Fn(usize) -> String| parts(4_000, part);
    let properties = many(&|number| format!(r#""k{number}":{{"type":"string","default":"{number}"}}"#));
    check_schema("definitions", &format!(r#"{{"type":"object","$defs":{{{properties}}}}}"#));
    let names = many(&|number| format!(r#""k{number}""#));
    check_schema(
        "undefined required properties",
        &format!(r#"{{"type":"object","properties":{{}},"required":[{names}]}}"#),
    );
    check_schema("enum values", &with_property(&format!(r#"{{"type":"string","enum":[{names}]}}"#)));
    let equal = many(&|_| r#"{"a":[1,2]}"#.to_owned());
    check_schema("equal enum values", &with_property(&format!(r#"{{"enum":[{equal}]}}"#)));
    let consts = many(&|number| format!(r#"{{"const":{number}}}"#));
    check_schema("alternatives", &with_property(&format!(r#"{{"anyOf":[{consts}]}}"#)));
    check_schema("exclusive alternatives", &with_property(&format!(r#"{{"oneOf":[{consts}]}}"#)));
    let members = many(&|number| format!(r#"{{"properties":{{"k{number}":{{"minimum":{number}}}}}}}"#));
    check_schema("parts at the root", &format!(r#"{{"type":"object","allOf":[{members}]}}"#));
    check_schema("alternatives at the root", &format!(r#"{{"type":"object","anyOf":[{members}]}}"#));
    let same = many(&|number| format!(r#"{{"properties":{{"k":{{"minimum":{number}}}}}}}"#));
    check_schema("one key in all parts", &format!(r#"{{"type":"object","allOf":[{same}]}}"#));
    check_schema("one key in all alternatives", &format!(r#"{{"type":"object","oneOf":[{same}]}}"#));
    let references = many(&|number| format!(r##""k{number}":{{"$ref":"#/$defs/A","description":"d"}}"##));
    check_schema(
        "references with siblings",
        &format!(
            r##"{{"type":"object","properties":{{{references}}},"$defs":{{"A":{{"type":"object","properties":{{"x":{{}}}}}}}}}}"##
        ),
    );
    let odd = many(&|number| format!(r#""k {number}":{{"type":"string"}}"#));
    check_schema("keys to rename", &format!(r#"{{"type":"object","properties":{{{odd}}}}}"#));
}

#[test]
fn data_of_any_size_is_converted_where_it_is_not_shared() {
    let values = parts(100_000, |number| format!(r#""value {number}""#));
    let text = "text ".repeat(400_000);
    let schema = format!(
        r#"{{"type":"object","properties":{{"a":{{"type":"string","enum":[{values}]}},"b":{{"type":"string","description":"{text}"}}}}}}"#
    );
    let tool = format!(r#"{{"name":"large","description":"d","inputSchema":{schema}}}"#);
    for dialect in Dialect::all() {
        let toolset = Toolset::from_json(&tool, dialect, &Options::default()).unwrap();
        assert_ne!(toolset.reports()[0].status, Status::Refused, "{dialect}");
    }
}

#[test]
fn unresolvable_references_do_not_panic() {
    for target in [
        "#/$defs/Missing",
        "#/$defs",
        "#/",
        "#//",
        "#/properties/p",
        "#/properties/p/type",
        "#/type",
        "#foo",
        "",
        "##",
        "#/$defs/a~2b",
        "#/$defs/%zz",
        "#/$defs/%ff",
        "#/$defs/~",
        "other.json",
        "other.json#/a",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://127.0.0.1:1/s.json",
        "https://example.com/s.json#/a",
        "urn:uuid:0",
        "//x",
        "\u{0}",
        "#/properties/0",
        "#/required/0",
        "#/enum/99999999999999999999",
        "#/-",
        "json-schema:///",
        "data:,{}",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let target = Value::from(target);
            let label = format!("{keyword} to {target}").replace('\0', " ");
            check_schema(&label, &with_property(&format!(r#"{{"{keyword}":{target}}}"#)));
            check_schema(&label, &format!(r#"{{"type":"object","{keyword}":{target}}}"#));
            check_schema(
                &label,
                &with_property(&format!(r#"{{"anyOf":[{{"{keyword}":{target}}},{{"type":"null"}}]}}"#)),
            );
        }
    }
}

#[test]
fn misleading_ids_and_anchors_do_not_panic() {
    for (label, schema) in [
        (
            "inner id",
            r##"{"type":"object","properties":{"p":{"$id":"http://x/a","$defs":{"T":{"type":"string"}},"properties":{"t":{"$ref":"#/$defs/T"}}}}}"##,
        ),
        (
            "two equal ids",
            r##"{"$id":"http://x/","type":"object","properties":{"p":{"$id":"http://x/","$ref":"http://x/"}}}"##,
        ),
        (
            "reference to the own id",
            r##"{"$id":"http://x/s","type":"object","properties":{"p":{"$ref":"http://x/s#/$defs/A"}},"$defs":{"A":{"type":"string"}}}"##,
        ),
        ("relative id", r##"{"$id":"s.json","type":"object","properties":{"p":{"$ref":"s.json"}}}"##),
        ("broken id", r##"{"$id":"http://[","type":"object","properties":{"p":{"$id":"::","$ref":"%"}}}"##),
        (
            "id that is a number",
            r##"{"$id":5,"id":[],"$anchor":null,"type":"object","properties":{"p":{"$ref":"#5"}}}"##,
        ),
        (
            "two equal anchors",
            r##"{"type":"object","properties":{"p":{"$ref":"#a"}},"$defs":{"A":{"$anchor":"a"},"B":{"$anchor":"a","type":"string"}}}"##,
        ),
        (
            "anchor in data",
            r##"{"type":"object","properties":{"p":{"$ref":"#a"},"q":{"const":{"$anchor":"a"}}}}"##,
        ),
        ("anchor on a loop", r##"{"type":"object","properties":{"p":{"$anchor":"a","$ref":"#a"}}}"##),
        (
            "dynamic anchors",
            r##"{"$dynamicAnchor":"n","type":"object","properties":{"p":{"$dynamicRef":"#n"}},"$defs":{"A":{"$dynamicAnchor":"n","type":"string"}}}"##,
        ),
        (
            "recursive anchor",
            r##"{"$recursiveAnchor":true,"type":"object","properties":{"p":{"$recursiveRef":"#"}}}"##,
        ),
        ("unknown draft", r##"{"$schema":"http://example.com/none","type":"object","properties":{"p":{}}}"##),
        ("draft that is a list", r##"{"$schema":[],"type":"object","$vocabulary":{"x":true}}"##),
    ] {
        check_schema(label, schema);
    }
}

#[test]
fn long_references_through_properties_are_followed() {
    let path: String = "/properties/p".repeat(500);
    let deep = nested(r#"{"type":"object","properties":{"p":"#, r#"{"type":"string"}"#, "}}", 500);
    check_schema(
        "pointer of 500 steps",
        &format!(r##"{{"type":"object","properties":{{"p":{deep},"q":{{"$ref":"#{path}"}}}}}}"##),
    );
    let each: Vec<String> = (0..2_000)
        .map(|number| {
            format!(r##""k{number}":{{"type":"array","items":{{"$ref":"#/properties/k{}"}}}}"##, number + 1)
        })
        .collect();
    check_schema(
        "2000 properties, each an array of the next",
        &format!(r#"{{"type":"object","properties":{{{},"k2000":{{"type":"string"}}}}}}"#, each.join(",")),
    );
    let both: Vec<String> = (0..60)
        .map(|number| {
            let next = format!(r##"{{"$ref":"#/properties/k{}"}}"##, number + 1);
            format!(r#""k{number}":{{"type":"object","properties":{{"x":{next},"y":{next}}}}}"#)
        })
        .collect();
    check_schema(
        "a bomb of properties",
        &format!(r#"{{"type":"object","properties":{{{},"k60":{{"type":"string"}}}}}}"#, both.join(",")),
    );
}

#[test]
fn values_that_are_not_schemas_do_not_panic_in_any_position() {
    let keywords = [
        "type",
        "properties",
        "required",
        "items",
        "prefixItems",
        "additionalItems",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
        "$defs",
        "definitions",
        "dependencies",
        "dependentSchemas",
        "dependentRequired",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedItems",
        "unevaluatedProperties",
        "enum",
        "const",
        "default",
        "examples",
        "example",
        "title",
        "description",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
        "nullable",
        "$ref",
        "$id",
        "id",
        "$anchor",
        "$schema",
        "$comment",
        "readOnly",
        "x-mcp-header",
        "discriminator",
        "contentSchema",
        "contentEncoding",
    ];
    let values = [
        "null",
        "5",
        "-1",
        "0.5",
        "1e999",
        "-0",
        "true",
        "false",
        r#""""#,
        r#""x""#,
        r#""[""#,
        "[]",
        "[null]",
        "[5]",
        "[[]]",
        "[true,false]",
        r#"["a","a",5]"#,
        "{}",
        r#"{"a":null}"#,
        r#"{"a":5}"#,
        r#"{"a":"b"}"#,
        r#"{"":[]}"#,
        r#"{"a":{"a":[{}]}}"#,
    ];
    for keyword in keywords {
        for value in values {
            let label = format!("{keyword} {value}");
            check_schema(&label, &format!(r#"{{"type":"object","{keyword}":{value}}}"#));
            check_schema(&label, &with_property(&format!(r#"{{"{keyword}":{value}}}"#)));
            check_schema(
                &label,
                &with_property(&format!(r#"{{"type":["array","object"],"{keyword}":{value},"items":{{}}}}"#)),
            );
        }
    }
    for value in values {
        check_schema(value, value);
        check_schema(value, &with_property(value));
    }
}

#[test]
fn values_that_are_not_tools_do_not_panic() {
    for text in [
        "",
        " ",
        "null",
        "5",
        "\"x\"",
        "true",
        "{",
        "[",
        "]",
        "nul",
        "\u{feff}{}",
        "{}{}",
        "[1]extra",
        "\u{0}",
        r#"{"tools":5}"#,
        r#"{"tools":{}}"#,
        r#"{"result":null}"#,
        r#"{"error":{"code":1}}"#,
        r#"{"name":5}"#,
        r#"{"name":null}"#,
        r#"[{"name":"a"},5]"#,
        r#"[null]"#,
        r#"{"tools":[{}]}"#,
        r#"{"name":"a","inputSchema":"{"}"#,
        r#"{"name":"\ud800"}"#,
        r#"{"name":"a","name":"b"}"#,
        r#"{"name":"a","description":5,"title":[],"annotations":"x"}"#,
    ] {
        for dialect in Dialect::all() {
            for from in Dialect::all().filter(|from| from.is_readable()) {
                if let Ok(conversion) = convert(text, from, dialect, &Options::default()) {
                    for report in &conversion.reports {
                        assert_eq!(
                            report.reason.is_some(),
                            report.status == Status::Refused,
                            "{text} {report:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_read_error_has_a_line_and_column() {
    for (text, line, column) in [("{\n  \"name\": nix\n}", 2, 12), ("[\n{\"name\": \"é\" 5}]", 2, 14)] {
        let error =
            convert(text, Dialect::Mcp, Dialect::OpenAi, &Options::default()).expect_err("invalid JSON");
        assert_eq!(error.line, line, "{error}");
        assert!(error.column.abs_diff(column) <= 2, "{error}");
    }
}

#[test]
fn unusual_text_does_not_panic() {
    let megabyte = "a".repeat(1 << 20);
    check_schema(
        "long description",
        &with_property(&format!(r#"{{"type":"string","description":"{megabyte}"}}"#)),
    );
    check_schema(
        "long key",
        &format!(r#"{{"type":"object","properties":{{"{megabyte}":{{"type":"string"}}}}}}"#),
    );
    check_schema("long pattern", &with_property(&format!(r#"{{"type":"string","pattern":"{megabyte}"}}"#)));
    check_schema(
        "nested pattern",
        &with_property(&format!(r#"{{"type":"string","pattern":"{}"}}"#, nested("(", "a", ")*", 50_000))),
    );
    check_schema("long format", &with_property(&format!(r#"{{"type":"string","format":"{megabyte}"}}"#)));
    check_schema("long enum value", &with_property(&format!(r#"{{"enum":["{megabyte}"]}}"#)));
    check_schema("long reference", &with_property(&format!(r##"{{"$ref":"#/{megabyte}"}}"##)));
    check_schema(
        "long number",
        &with_property(&format!(r#"{{"type":"number","maximum":{}}}"#, "9".repeat(1 << 20))),
    );
    check_schema(
        "large exponent",
        &with_property(r#"{"type":"integer","multipleOf":1e-999999999,"minimum":1e999999999}"#),
    );
    check_tool("long name", format!(r#"{{"name":"{megabyte}","inputSchema":{{"type":"object"}}}}"#));
    check_tool(
        "wide name",
        format!(r#"{{"name":"{}","inputSchema":{{"type":"object"}}}}"#, "é".repeat(100_000)),
    );
    for text in [
        r"\ud800",
        r"\udc00",
        r"\ud800\ud800",
        r"\udc00\ud800",
        r"\ud83d",
        r"\u0000",
        r"\uffff",
        r"\ud83d\ude00",
        "\u{202e}",
        "\u{7f}",
    ] {
        check_schema(
            &format!("{text} as a key"),
            &format!(
                r#"{{"type":"object","properties":{{"{text}":{{"type":"string"}}}},"required":["{text}"]}}"#
            ),
        );
        check_schema(
            &format!("{text} as data"),
            &with_property(&format!(r#"{{"enum":["{text}"],"description":"{text}"}}"#)),
        );
        check_schema(
            &format!("{text} as a definition"),
            &format!(
                r##"{{"type":"object","properties":{{"p":{{"$ref":"#/$defs/{text}"}}}},"$defs":{{"{text}":{{}}}}}}"##
            ),
        );
        check_schema(
            &format!("{text} as a pattern"),
            &with_property(&format!(r#"{{"type":"string","pattern":"{text}"}}"#)),
        );
        check_tool("in a name", format!(r#"{{"name":"{text}","inputSchema":{{"type":"object"}}}}"#));
    }
    for key in ["ключ", "鍵", "🔑", "e\u{301}", "\u{e9}", "a\u{0301}b", "ﬀ", "İ", "\u{200b}"] {
        check_schema(
            key,
            &format!(
                r#"{{"type":"object","properties":{{"{key}":{{"type":"string"}},"x":{{}}}},"required":["{key}"]}}"#
            ),
        );
    }
}

#[test]
fn duplicate_keys_do_not_panic() {
    for schema in [
        r#"{"type":"object","type":"string","properties":{}}"#,
        r#"{"type":"object","properties":{"p":{"type":"string"}},"properties":{"q":{"type":"integer"}}}"#,
        r#"{"type":"object","properties":{"p":{"type":"string"},"p":{"type":"integer","default":1}}}"#,
        r#"{"type":"object","properties":{"p":{"default":1,"type":"string","default":2}}}"#,
        r#"{"type":"object","properties":{"p":{},"\u0070":{"type":"array"}},"required":["p"]}"#,
        r##"{"type":"object","properties":{"p":{"$ref":"#/$defs/A","$ref":"#/$defs/B"}},"$defs":{"A":{},"A":{"type":"string"},"B":false}}"##,
    ] {
        check_schema(schema, schema);
    }
}

#[test]
fn exponential_patterns_are_never_run() {
    for pattern in
        ["(a+)+$", "(a|a)*b", "(.*)*x", "a{1000000}", "(a{1000}){1000}", "(?<n>a)\\\\k<n>", "[", "(?", "\\\\"]
    {
        check_schema(pattern, &with_property(&format!(r#"{{"type":"string","pattern":"{pattern}"}}"#)));
        check_schema(
            pattern,
            &with_property(&format!(
                r#"{{"type":"object","patternProperties":{{"{pattern}":{{"type":"integer"}}}}}}"#
            )),
        );
    }
}
