//! Schemas in which each definition refers to the next one several times.

use serde_json::{Map, Value, json};

/// The keywords through which a definition refers to the next one.
pub(crate) const COMBINATORS: [&str; 22] = [
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
    "anchors",
    "unevaluatedProperties",
    "$id",
    "$dynamicRef",
];

/// The places from which the first definition is referenced.
pub(crate) const POSITIONS: [&str; 4] = ["property", "root $ref", "root anyOf", "items"];

pub(crate) fn tool(depth: usize, fan_out: usize, combinator: &str, position: &str) -> Value {
    let mut definitions = Map::new();
    for index in 0..depth {
        let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
        definitions.insert(format!("d{index}"), definition(combinator, index, &next, fan_out));
    }
    let mut leaf =
        json!({"$anchor": format!("d{depth}"), "type": "object", "properties": {"x": {"type": "string"}}});
    match combinator {
        "$id" => leaf["$id"] = json!(format!("d{depth}")),
        "$dynamicRef" => leaf["$dynamicAnchor"] = json!(format!("d{depth}")),
        _ => {}
    }
    definitions.insert(format!("d{depth}"), leaf);
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
        "anchors" => {
            let anchor = next["$ref"].as_str().unwrap().replace("/$defs/", "");
            json!({"$anchor": format!("d{index}"), "anyOf": vec![json!({"$ref": anchor}); fan_out]})
        }
        "$id" => {
            let resource = format!("d{}", index + 1);
            json!({"$id": format!("d{index}"), "anyOf": vec![json!({"$ref": resource}); fan_out]})
        }
        "$dynamicRef" => {
            let anchor = next["$ref"].as_str().unwrap().replace("/$defs/", "");
            let list = vec![json!({"$dynamicRef": anchor}); fan_out];
            json!({"$dynamicAnchor": format!("d{index}"), "anyOf": list})
        }
        "unevaluatedProperties" => json!({"anyOf": list, "unevaluatedProperties": false}),
        "alternating" => json!({ ["allOf", "anyOf", "oneOf"][index % 3]: list }),
        "anyOf in properties" => {
            let properties = (0..fan_out).map(|number| (format!("k{number}"), json!({"anyOf": list})));
            json!({"type": "object", "properties": properties.collect::<Value>()})
        }
        _ => unreachable!("{combinator}"),
    }
}
