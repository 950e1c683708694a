//! Schemas whose references multiply: each tool is converted or refused with little work, in every dialect, and
//! the tools next to it are not affected.
//!
//! The tests are a program of their own, because they limit the memory of the process.

#![allow(clippy::unwrap_used)]

use std::fs;

use serde_json::{Map, Value, json};
use toolwire_dialect::{Dialect, Options, Status, Toolset};

/// Limits for one tool in one dialect: the processor time in seconds, and the memory of the process in bytes.
const MAX_SECONDS: f64 = 1.0;
const MAX_MEMORY: u64 = 100 * 1024 * 1024;

/// Depth (how many definitions refer to the next one) and fan-out (how many times each does).
const SIZES: [(usize, usize); 5] = [(3, 2), (12, 8), (20, 2), (200, 2), (25, 25)];

/// The keywords through which a definition refers to the next one.
const COMBINATORS: [&str; 18] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "dependentSchemas",
    "properties",
    "required properties",
    "patternProperties",
    "additionalProperties",
    "items",
    "prefixItems",
    "allOf with siblings",
    "allOf beside anyOf",
    "nested allOf",
    "percent-encoded allOf",
    "alternating",
    "anyOf in properties",
];

/// The places from which the first definition is referenced.
const POSITIONS: [&str; 4] = ["property", "root $ref", "root anyOf", "items"];

#[test]
fn every_graph_takes_little_work_in_every_dialect() {
    let mut slowest = (0.0, String::new());
    for (depth, fan_out) in SIZES {
        for combinator in COMBINATORS {
            // The largest graphs are tested in one position, because they take longest.
            let positions = if depth * fan_out > 500 { &POSITIONS[..1] } else { &POSITIONS };
            for position in positions {
                let tools = json!([tool(depth, fan_out, combinator, position), neighbour()]).to_string();
                for (dialect, options) in dialects() {
                    let label = format!("{depth} × {fan_out} {combinator} in a {position}, {dialect}");
                    let before = processor_seconds();
                    check(&tools, dialect, &options, &label);
                    let seconds = processor_seconds() - before;
                    assert!(seconds < MAX_SECONDS, "{label}: {seconds} s");
                    if seconds > slowest.0 {
                        slowest = (seconds, label);
                    }
                }
                let memory = peak_memory();
                assert!(
                    memory < MAX_MEMORY,
                    "{depth} × {fan_out} {combinator} in a {position}: {memory} bytes"
                );
            }
        }
    }
    println!("slowest: {:.3} s, {}; peak memory {} MB", slowest.0, slowest.1, peak_memory() / 1_000_000);
}

#[test]
fn a_tool_that_is_too_complex_is_refused_when_it_is_converted() {
    let tools = json!([tool(12, 8, "allOf", "property"), neighbour()]).to_string();
    // MCP's own definitions are not converted.
    for (dialect, options) in dialects().into_iter().filter(|(dialect, _)| *dialect != Dialect::Mcp) {
        let toolset = Toolset::from_json(&tools, dialect, &options).unwrap();
        let report = &toolset.reports()[0];
        assert_eq!(report.status, Status::Refused, "{dialect}");
        assert_eq!(report.reason.as_ref().unwrap().code, "too_complex", "{dialect}");
    }
}

fn dialects() -> Vec<(Dialect, Options)> {
    let strict = Dialect::all().filter(|dialect| dialect.name().ends_with("-strict"));
    let reshaped = strict.map(|dialect| (dialect, Options::default().with_reshape(true)));
    Dialect::all().map(|dialect| (dialect, Options::default())).chain(reshaped).collect()
}

fn check(tools: &str, dialect: Dialect, options: &Options, label: &str) {
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
}

fn neighbour() -> Value {
    json!({"name": "good", "description": "d", "inputSchema": {
        "type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}})
}

fn tool(depth: usize, fan_out: usize, combinator: &str, position: &str) -> Value {
    let mut definitions = Map::new();
    for index in 0..depth {
        let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
        definitions.insert(format!("d{index}"), definition(combinator, index, &next, fan_out));
    }
    definitions
        .insert(format!("d{depth}"), json!({"type": "object", "properties": {"x": {"type": "string"}}}));
    let first = json!({"$ref": "#/$defs/d0"});
    let mut root = match position {
        "property" => json!({"type": "object", "properties": {"a": first}}),
        "root $ref" => first,
        "root anyOf" => {
            json!({"type": "object", "anyOf": [first, {"properties": {"z": {"type": "string"}}}]})
        }
        "items" => json!({"type": "object", "properties": {"a": {"type": "array", "items": first}}}),
        _ => unreachable!("{position}"),
    };
    root["$defs"] = Value::Object(definitions);
    json!({"name": "graph", "description": "d", "inputSchema": root})
}

/// Returns a definition that refers to `next` `fan_out` times.
fn definition(combinator: &str, index: usize, next: &Value, fan_out: usize) -> Value {
    let list = vec![next.clone(); fan_out];
    let map = || -> Value { (0..fan_out).map(|number| (format!("k{number}"), next.clone())).collect() };
    let titled = || -> Vec<Value> {
        (0..fan_out).map(|number| json!({"$ref": next["$ref"], "title": format!("t{number}")})).collect()
    };
    match combinator {
        "allOf" | "anyOf" | "oneOf" => json!({ combinator: list }),
        "not" => json!({"allOf": list.iter().map(|schema| json!({"not": schema})).collect::<Vec<_>>()}),
        "if" => json!({"type": "object", "if": next, "then": next, "else": next}),
        "dependentSchemas" => json!({"type": "object", "dependentSchemas": map()}),
        "properties" => json!({"type": "object", "properties": map()}),
        "required properties" => {
            let names: Vec<String> = (0..fan_out).map(|number| format!("k{number}")).collect();
            json!({"type": "object", "properties": map(), "required": names})
        }
        "patternProperties" => json!({"type": "object", "patternProperties": map()}),
        "additionalProperties" => {
            json!({"type": "object", "properties": map(), "additionalProperties": next})
        }
        "items" => json!({"type": "array", "items": {"anyOf": list}}),
        "prefixItems" => json!({"type": "array", "prefixItems": list}),
        "allOf with siblings" => json!({"allOf": titled()}),
        "allOf beside anyOf" => json!({"allOf": list, "anyOf": titled()}),
        "nested allOf" => {
            json!({"allOf": list.iter().map(|schema| json!({"allOf": [schema]})).collect::<Vec<_>>()})
        }
        "percent-encoded allOf" => {
            let reference = next["$ref"].as_str().unwrap().replace('$', "%24");
            json!({"allOf": vec![json!({"$ref": reference}); fan_out]})
        }
        "alternating" => json!({ ["allOf", "anyOf", "oneOf"][index % 3]: list }),
        "anyOf in properties" => {
            let properties = (0..fan_out).map(|number| (format!("k{number}"), json!({"anyOf": list})));
            json!({"type": "object", "properties": properties.collect::<Value>()})
        }
        _ => unreachable!("{combinator}"),
    }
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
