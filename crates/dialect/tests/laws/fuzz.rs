//! Bounded random tests: every input gives a result or a typed error, never a panic.
//!
//! `fuzz/` at the root of the repository has the same targets without a bound.

use std::fmt::Write;

use crate::support::corpus;
use crate::support::random::Random;
use serde_json::{Value, json};
use toolwire_dialect::{Defaults, Dialect, Layout, Options, Toolset, convert};

const ROUNDS: usize = 3000;

/// Keys and values with a meaning in tools and schemas.
const TERMS: [&str; 32] = [
    "type",
    "object",
    "properties",
    "required",
    "items",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "$ref",
    "#",
    "#/$defs/A",
    "$defs",
    "enum",
    "const",
    "additionalProperties",
    "string",
    "array",
    "null",
    "integer",
    "default",
    "name",
    "inputSchema",
    "tools",
    "description",
    "prefixItems",
    "pattern",
    "$schema",
    "nullable",
    "result",
    "function",
    "toolSpec",
];

fn options(random: &mut Random) -> Options {
    Options::default()
        .with_defaults(
            *random.pick(&[Defaults::Drop, Defaults::Describe, Defaults::Keep]).expect("not empty"),
        )
        .with_reshape(random.chance(50))
        .with_server(random.chance(30).then(|| "server".to_owned()))
        .with_layout(if random.chance(50) { Layout::Compact } else { Layout::Indented })
}

/// Runs every function that accepts untrusted text. Only panics fail the test.
fn try_all(text: &str, random: &mut Random) {
    let dialects: Vec<Dialect> = Dialect::all().collect();
    let from = *random.pick(&dialects).expect("not empty");
    let to = *random.pick(&dialects).expect("not empty");
    let options = options(random);
    if let Ok(conversion) = convert(text, from, to, &options)
        && let Some(definitions) = &conversion.definitions
    {
        serde_json::from_str::<Value>(definitions).expect("valid JSON");
    }
    let Ok(toolset) = Toolset::from_json(text, to, &options) else { return };
    let mut names: Vec<String> = toolset.reports().iter().take(3).map(|report| report.name.clone()).collect();
    names.push("unknown".into());
    for name in names {
        let arguments = random_value(random, 0);
        let _ = toolset.decode(&name, &arguments);
        let _ = toolset.decode(&name, &Value::String(arguments.to_string()));
        let _ = toolset.encode(&name, &arguments);
    }
}

/// Returns random JSON made of schema keywords.
fn random_value(random: &mut Random, depth: usize) -> Value {
    let term = |random: &mut Random| random.pick(&TERMS).expect("not empty").to_string();
    match random.below(if depth > 6 { 5 } else { 12 }) {
        0 => Value::Null,
        1 => Value::Bool(random.chance(50)),
        2 => json!(random.below(20)),
        3 => serde_json::from_str(
            random.pick(&["-0", "1e999", "0.1", "123456789012345678901234567890"]).expect("not empty"),
        )
        .expect("a number"),
        4 | 5 => Value::String(term(random)),
        6 | 7 => (0..random.below(4)).map(|_| random_value(random, depth + 1)).collect(),
        _ => {
            let mut map = serde_json::Map::new();
            for _ in 0..random.below(6) {
                map.insert(term(random), random_value(random, depth + 1));
            }
            Value::Object(map)
        }
    }
}

#[test]
fn arbitrary_text_never_panics() {
    let mut random = Random::new(3);
    for _ in 0..ROUNDS {
        let mut text = String::new();
        for _ in 0..random.below(40) {
            match random.below(4) {
                0 => text.push(char::from_u32(random.next() as u32 % 0x11_0000).unwrap_or('\u{fffd}')),
                1 => text.push(
                    *random.pick(&['{', '}', '[', ']', ',', ':', '"', '\\', '0', ' ']).expect("not empty"),
                ),
                2 => write!(text, "\"{}\":", random.pick(&TERMS).expect("not empty"))
                    .expect("writing to a string cannot fail"),
                _ => text.push_str(&random_value(&mut random, 4).to_string()),
            }
        }
        try_all(&text, &mut random);
    }
}

#[test]
fn arbitrary_json_never_panics() {
    let mut random = Random::new(4);
    for _ in 0..ROUNDS {
        let schema = random_value(&mut random, 0);
        let input = match random.below(4) {
            0 => schema,
            1 => json!({"name": "n", "inputSchema": schema}),
            2 => {
                json!({"tools": [{"name": "n", "inputSchema": schema}, {"name": "n", "inputSchema": {"type": "object", "properties": {"a": random_value(&mut random, 1)}}}]})
            }
            _ => {
                json!([{"name": random_value(&mut random, 5), "description": random_value(&mut random, 5), "inputSchema": schema}])
            }
        };
        try_all(&input.to_string(), &mut random);
    }
}

#[test]
fn damaged_tools_never_panic() {
    let mut random = Random::new(5);
    let tools: Vec<Value> = corpus::shapes().into_iter().flat_map(|server| server.tools).collect();
    for _ in 0..ROUNDS {
        let tool = random.pick(&tools).expect("a tool");
        let mut bytes = tool.to_string().into_bytes();
        if random.chance(50) {
            // Replace some values, so that the text stays valid JSON.
            let mut tool = tool.clone();
            for _ in 0..=random.below(3) {
                damage(&mut tool, &mut random);
            }
            bytes = tool.to_string().into_bytes();
        } else {
            for _ in 0..=random.below(5) {
                let at = random.below(bytes.len());
                match random.below(3) {
                    0 => bytes[at] = random.next() as u8,
                    1 => drop(bytes.drain(at..(at + random.below(30)).min(bytes.len()))),
                    _ => bytes.truncate(at.max(1)),
                }
                if bytes.is_empty() {
                    bytes.push(b'{');
                }
            }
        }
        try_all(&String::from_utf8_lossy(&bytes), &mut random);
    }
}

/// Replaces a random value inside `tree`.
fn damage(tree: &mut Value, random: &mut Random) {
    let size = match tree {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    if size == 0 || random.chance(15) {
        *tree = random_value(random, 3);
        return;
    }
    let at = random.below(size);
    match tree {
        Value::Array(list) => damage(&mut list[at], random),
        Value::Object(map) => damage(map.values_mut().nth(at).expect("a valid index"), random),
        _ => {}
    }
}
