//! Schemas whose references expand exponentially: each tool is converted or refused with little work, in
//! every dialect, and the tools next to it are not affected.
//!
//! The tests are a program of their own, because they limit the memory of the process.

#![allow(clippy::unwrap_used)]

#[path = "laws/graphs.rs"]
mod graphs;

use std::fs;

use graphs::{COMBINATORS, POSITIONS, tool};
use serde_json::{Value, json};
use toolwire_dialect::{Dialect, Options, Status, Toolset};

/// Limits for one tool in one dialect: the processor time in seconds, and the memory of the process in bytes.
const MAX_SECONDS: f64 = 1.0;
const MAX_MEMORY: u64 = 100 * 1024 * 1024;

/// Depth (how many definitions refer to the next one) and fan-out (how many times each does).
const SIZES: [(usize, usize); 5] = [(3, 2), (12, 8), (20, 2), (200, 2), (25, 25)];

#[test]
fn every_graph_and_other_large_schemas_take_little_work() {
    let mut dialects = dialects();
    dialects.retain(|(dialect, _)| !converts_like_another(*dialect));
    let large = large_schemas().into_iter().map(|(label, schema)| (label.to_owned(), schema));
    for (label, schema) in large.chain(shared_data()) {
        check_work(&json!({"name": "large", "description": "d", "inputSchema": schema}), &dialects, &label);
    }
    for (depth, fan_out) in SIZES {
        for combinator in COMBINATORS {
            // The largest graphs are tested in one position, because they take longest.
            let positions = if depth * fan_out > 500 { &POSITIONS[..1] } else { &POSITIONS };
            for position in positions {
                let label = format!("{depth} × {fan_out} {combinator} in a {position}");
                check_work(&tool(depth, fan_out, combinator, position), &dialects, &label);
            }
        }
    }
}

fn converts_like_another(dialect: Dialect) -> bool {
    ["azure", "mistral", "cohere", "deepseek", "responses", "responses-strict"].contains(&dialect.name())
}

/// Schemas that are large, but not because of references from one definition to the next.
fn large_schemas() -> Vec<(&'static str, Value)> {
    let names = |count: usize| (0..count).map(|number| format!("n{number}"));
    let with_definitions = |property: Value, definitions: Value| json!({"type": "object", "properties": {"a": property}, "$defs": definitions});
    let constants: Vec<Value> = (0..1_000).map(|number| json!({"const": number})).collect();
    let anchors = names(1_000).map(|name| (name.clone(), json!({"$dynamicAnchor": name})));
    let resources = names(1_000)
        .map(|name| (format!("r{name}"), json!({"$id": name, "$dynamicAnchor": format!("r{name}")})));
    let same = |key: &str, schema: Value, count: usize| {
        names(count).map(move |name| (format!("{key}{name}"), schema.clone())).collect::<Vec<_>>()
    };
    let triples = [same("i", json!({"$id": "x"}), 1_000), same("a", json!({"$anchor": "a"}), 1_000)].concat();
    let mut leaf = tool(8, 3, "anyOf", "property")["inputSchema"].clone();
    leaf["$defs"]["d8"] = json!({ "anyOf": constants.clone() });
    let nested = (0..60).fold(json!({"type": "object"}), |inner, number| {
        json!({"anyOf": [inner, {"required": [format!("k{number}")]}], "unevaluatedProperties": false})
    });
    let long = "x".repeat(100_000);
    let below_long: Value = names(1_000).map(|name| (name.clone(), json!({"$anchor": name}))).collect();
    let to_anchors: Vec<Value> = names(1_000).map(|name| json!({"$ref": format!("#{name}")})).collect();
    let mut below_a_long_uri = with_definitions(
        json!({"$ref": "n1"}),
        names(1_000).map(|name| (name.clone(), json!({"$id": name}))).collect(),
    );
    below_a_long_uri["$id"] = json!(format!("https://example.com/{long}/root"));
    vec![
        (
            "dynamic anchors and resources",
            with_definitions(json!({"$ref": "#n1"}), anchors.chain(resources).collect()),
        ),
        (
            "a long pointer",
            with_definitions(
                json!({"$ref": format!("#{}", "/a".repeat(50_000))}),
                json!({"b": {"$id": "b"}}),
            ),
        ),
        (
            "anchors below a long key",
            with_definitions(json!({ "anyOf": to_anchors }), json!({long.clone(): {"$defs": below_long}})),
        ),
        ("resources below a long URI", below_a_long_uri),
        ("a wide leaf", leaf),
        ("wide items", with_definitions(json!({"type": "array", "items": {"anyOf": constants}}), json!({}))),
        (
            "the same names many times",
            with_definitions(
                json!({"anyOf": vec![json!({"$ref": "x#a"}); 1_000]}),
                triples.into_iter().collect(),
            ),
        ),
        ("nested unevaluatedProperties", with_definitions(nested, json!({}))),
        (
            "many parts at the root",
            json!({"type": "object", "allOf": (0..330).map(|number| json!({"$ref": format!("#/$defs/n{}", number % 20)})).collect::<Vec<_>>(),
            "$defs": names(20).map(|name| (name.clone(), json!({"properties": same(&name, json!({"$ref": "#/$defs/n0/properties/n0n0"}), 20).into_iter().collect::<Value>()}))).collect::<Value>()}),
        ),
    ]
}

/// Schemas with large data that many places share.
fn shared_data() -> Vec<(String, Value)> {
    let values = |count: usize| (0..count).map(|number| json!(format!("value {number}"))).collect::<Vec<_>>();
    let schema = |count: usize, property: &dyn Fn(usize) -> Value, definitions: Value| {
        let properties: Value = (0..count).map(|number| (format!("p{number}"), property(number))).collect();
        json!({"type": "object", "properties": properties, "$defs": definitions})
    };
    let plain = |_: usize| json!({"$ref": "#/$defs/A"});
    let described = |number: usize| json!({"$ref": "#/$defs/A", "description": format!("d{number}")});
    let long = "text ".repeat(10_000);
    let data = [
        ("enum", json!({"enum": values(10_000)})),
        ("typed enum", json!({"type": "string", "enum": values(3_000)})),
        ("enum of numbers", json!({"enum": (0..10_000).collect::<Vec<_>>()})),
        (
            "enum of objects",
            json!({"enum": values(3_000).iter().map(|value| json!({"k": value})).collect::<Vec<_>>()}),
        ),
        ("const", json!({ "const": long })),
        ("description", json!({"type": "string", "description": long})),
        ("default", json!({"type": "string", "default": long})),
        ("examples", json!({"type": "string", "examples": values(10_000)})),
        ("an unknown keyword", json!({"type": "string", "x-data": values(10_000)})),
        ("pattern", json!({"type": "string", "pattern": long})),
        ("required", json!({"type": "object", "required": values(3_000)})),
        ("a long key", json!({"type": "object", "properties": {long.clone(): {"type": "string"}}})),
        ("not", json!({"type": "string", "not": {"enum": values(10_000)}})),
    ];
    let mut schemas = Vec::new();
    for (label, definition) in data {
        let definitions = json!({ "A": definition });
        schemas.push((format!("{label}, shared"), schema(1_000, &plain, definitions.clone())));
        schemas.push((format!("{label}, shared with descriptions"), schema(2_000, &described, definitions)));
    }
    let reversed: Vec<Value> = values(3_000).into_iter().rev().collect();
    let both = |_: usize| json!({"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]});
    let two = json!({"A": {"enum": values(3_000)}, "B": {"enum": reversed}});
    schemas.push(("allOf of two enums, shared".to_owned(), schema(300, &both, two)));
    let lists = |count: usize| {
        (0..count)
            .map(|number| json!({"enum": ([values(2_000), vec![json!(number)]].concat())}))
            .collect::<Vec<_>>()
    };
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let property = json!({ keyword: lists(30) });
        schemas.push((format!("{keyword} of enums"), schema(1, &|_| property.clone(), json!({}))));
    }
    let beside = json!({"enum": values(3_000), "anyOf": (0..500).map(|number| json!({"minLength": number})).collect::<Vec<_>>()});
    schemas.push(("anyOf beside an enum".to_owned(), schema(1, &|_| beside.clone(), json!({}))));
    schemas
}

/// Checks the tool beside another one in each dialect, with its processor time and memory.
fn check_work(tool: &Value, dialects: &[(Dialect, Options)], label: &str) {
    let tools = json!([tool, neighbour()]).to_string();
    let has_items = tool.pointer("/inputSchema/properties/a/items").is_some();
    // Resets the peak.
    let _ = fs::write("/proc/self/clear_refs", "5");
    for (dialect, options) in dialects {
        let label = format!("{label}, {dialect}");
        let before = processor_seconds();
        let toolset = check(&tools, *dialect, options, &label);
        // The other dialects validate in the same ways.
        if has_items && matches!(dialect, Dialect::OpenAi | Dialect::OpenAiStrict | Dialect::Mcp) {
            let name = &toolset.reports()[0].name;
            let _ = toolset.decode(name, &json!({"a": vec![json!({"x": 5, "k0": {}}); 1_000]}));
        }
        let seconds = processor_seconds() - before;
        assert!(seconds < MAX_SECONDS, "{label}: {seconds} s");
    }
    let memory = peak_memory();
    assert!(memory < MAX_MEMORY, "{label}: {memory} bytes");
}

#[test]
fn a_tool_that_is_too_complex_is_refused_when_it_is_converted() {
    let large = large_schemas();
    let schema = |name: &str| large.iter().find(|(label, _)| *label == name).unwrap().1.clone();
    let graph = tool(12, 8, "allOf", "property")["inputSchema"].clone();
    for schema in [graph, schema("a wide leaf"), schema("dynamic anchors and resources")] {
        let tool = json!({"name": "large", "description": "d", "inputSchema": schema}).to_string();
        // MCP's own definitions are not converted.
        for (dialect, options) in dialects().into_iter().filter(|(dialect, _)| *dialect != Dialect::Mcp) {
            let toolset = Toolset::from_json(&tool, dialect, &options).unwrap();
            let report = &toolset.reports()[0];
            assert_eq!(report.status, Status::Refused, "{dialect}");
            assert_eq!(report.reason.as_ref().unwrap().code, "too_complex", "{dialect}");
        }
    }
}

fn dialects() -> Vec<(Dialect, Options)> {
    let strict = Dialect::all().filter(|dialect| dialect.name().ends_with("-strict"));
    let reshaped = strict.map(|dialect| (dialect, Options::default().with_reshape(true)));
    Dialect::all().map(|dialect| (dialect, Options::default())).chain(reshaped).collect()
}

fn check(tools: &str, dialect: Dialect, options: &Options, label: &str) -> Toolset {
    let toolset = Toolset::from_json(tools, dialect, options).unwrap();
    let [report, neighbour] = toolset.reports() else { panic!("{label}: {:?}", toolset.reports()) };
    assert_eq!(report.reason.is_some(), report.status == Status::Refused, "{label}: {report:?}");
    assert_ne!(neighbour.status, Status::Refused, "{label}");
    let decoded = toolset.decode(&neighbour.name, &json!({"q": "text"})).unwrap();
    assert_eq!(Value::from(decoded.arguments), json!({"q": "text"}), "{label}");
    // Any result is fine, if it comes soon.
    for arguments in
        [json!({}), json!({"a": {"x": 5, "k0": {"k0": []}}}), json!({"a": [[{}], null], "k1": 1})]
    {
        let _ = toolset.decode(&report.name, &arguments);
        let _ = toolset.encode(&report.tool, &arguments);
    }
    // MCP's own definitions are not converted.
    for definition in toolset.definitions().iter().filter(|_| dialect != Dialect::Mcp) {
        check_references(definition, definition, label);
    }
    toolset
}

/// Checks that no reference of a definition leads to a removed schema.
fn check_references(node: &Value, definition: &Value, label: &str) {
    if let Some(reference) = node.get("$ref").and_then(Value::as_str)
        && let Some((container, name)) =
            reference.replace("%24", "$").strip_prefix("#/").and_then(|path| path.split_once('/'))
    {
        let name = name.split('/').next().unwrap();
        let has_target = |node: &Value| node.get(container).is_some_and(|map| map.get(name).is_some());
        assert!(contains(definition, &has_target), "{label}: {reference}");
    }
    each_child(node, |child| check_references(child, definition, label));
}

fn contains(node: &Value, is_found: &dyn Fn(&Value) -> bool) -> bool {
    let mut found = is_found(node);
    each_child(node, |child| found = found || contains(child, is_found));
    found
}

fn each_child(node: &Value, mut visit: impl FnMut(&Value)) {
    match node {
        Value::Object(map) => map.values().for_each(&mut visit),
        Value::Array(items) => items.iter().for_each(&mut visit),
        _ => {}
    }
}

fn neighbour() -> Value {
    json!({"name": "good", "description": "d", "inputSchema": {
        "type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}})
}

/// Returns the processor time of this thread. It does not depend on what else the machine does.
fn processor_seconds() -> f64 {
    let Ok(statistics) = fs::read_to_string("/proc/thread-self/schedstat") else { return 0.0 };
    let nanoseconds: f64 = statistics.split(' ').next().unwrap().parse().unwrap();
    nanoseconds / 1e9
}

fn peak_memory() -> u64 {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return 0 };
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}
