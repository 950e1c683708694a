//! Forms of the schemas of real tools.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};
use toolwire_page::form::{Fields, Filling, Kind, Shape, draw};

/// The number of schemas.
const COUNT: usize = 200;

const MAX_DEPTH: usize = 8;

/// Returns the schemas of tools from all parts of the corpus.
fn schemas() -> Vec<Value> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = fs::File::open(repository.join("corpus/shapes.jsonl.gz")).expect("the committed shapes");
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let servers = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let tools: Vec<Value> = servers.flat_map(|server| server["tools"].as_array().unwrap().clone()).collect();
    let schemas: Vec<Value> = tools.iter().filter_map(|tool| tool.get("inputSchema").cloned()).collect();
    let step = schemas.len() / COUNT;
    assert!(step > 0, "{} schemas", schemas.len());
    schemas.into_iter().step_by(step).take(COUNT).collect()
}

/// Returns arguments for a schema: all properties, or only those that are required.
fn arguments(schema: &Value, root: &Value, is_complete: bool, depth: usize) -> Value {
    let Some(object) = schema.as_object().filter(|_| depth < MAX_DEPTH) else { return json!("any") };
    let inner = |schema: &Value| arguments(schema, root, is_complete, depth + 1);
    if let Some(target) =
        object.get("$ref").and_then(Value::as_str).and_then(|at| root.pointer(at.strip_prefix('#')?))
    {
        return inner(target);
    }
    if let Some(value) = object.get("const").or_else(|| object.get("enum")?.as_array()?.last()) {
        return value.clone();
    }
    if let Some(first) =
        ["anyOf", "oneOf", "allOf"].iter().find_map(|key| object.get(*key)?.as_array()?.first())
    {
        return inner(first);
    }
    let kind = match object.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        Some(kind) => kind.as_str(),
        None => object.contains_key("properties").then_some("object"),
    };
    match kind {
        Some("object") => {
            let required: Vec<&str> = object
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let properties = object.get("properties").and_then(Value::as_object).into_iter().flatten();
            let mut value: Map<String, Value> = properties
                .filter(|(key, _)| is_complete || required.contains(&key.as_str()))
                .map(|(key, schema)| (key.clone(), inner(schema)))
                .collect();
            if is_complete && object.get("additionalProperties") != Some(&Value::Bool(false)) {
                value.insert("another key".to_owned(), json!({"a": [1, null]}));
            }
            value.into()
        }
        Some("array") => {
            let item = object.get("items").map_or(json!("any"), inner);
            let length = if is_complete { 2 } else { 0 };
            vec![item; length].into()
        }
        Some("string") => json!(" a \"text\"\nof <b>two</b> lines "),
        Some("integer") => json!(-7),
        Some("number") => json!(0.25),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        _ => json!({"any": ["thing"]}),
    }
}

/// Returns the names and values that a browser sends for a form.
fn submitted(html: &str) -> Vec<(String, String)> {
    let document = scraper::Html::parse_fragment(html);
    let selector = |text| scraper::Selector::parse(text).unwrap();
    let (controls, chosen) = (selector("input, textarea, select"), selector("option[selected]"));
    let mut fields = Vec::new();
    for element in document.select(&controls) {
        let Some(name) = element.attr("name") else { continue };
        let is_button = matches!(element.attr("type"), Some("radio" | "checkbox"));
        let value = match element.value().name() {
            "textarea" => element.text().collect::<String>().replace('\n', "\r\n"),
            "select" => element.select(&chosen).next().unwrap().attr("value").unwrap().to_owned(),
            _ if is_button && element.attr("checked").is_none() => continue,
            _ => element.attr("value").unwrap_or_default().to_owned(),
        };
        fields.push((name.to_owned(), value));
    }
    fields
}

/// Returns the number of fields, and of those that are JSON.
fn count(shape: &Shape) -> (usize, usize) {
    match &shape.kind {
        Kind::Object { fields, .. } => fields
            .iter()
            .map(|field| count(&field.shape))
            .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1)),
        Kind::List(item) => count(item),
        Kind::Json => (1, 1),
        _ => (1, 0),
    }
}

#[test]
fn arguments_of_real_tools_pass_through_their_forms() {
    let schemas = schemas();
    assert_eq!(schemas.len(), COUNT);
    let (mut fields, mut json_fields) = (0, 0);
    for schema in &schemas {
        let shape = Shape::of(schema);
        let (all, json) = count(&shape);
        (fields, json_fields) = (fields + all, json_fields + json);
        for is_complete in [true, false] {
            let value = match arguments(schema, schema, is_complete, 0) {
                value @ Value::Object(_) => value,
                _ => json!({}),
            };
            let html = draw(&shape, &Filling::new(&shape, Some(&value)), &[], "f").into_string();
            let read = Filling::read(&shape, &Fields::new(submitted(&html)));
            assert_eq!(read.value(&shape), Ok(value), "{schema}");
        }
    }
    println!("{fields} fields, {json_fields} of them JSON");
    assert!(json_fields * 10 < fields, "{json_fields} of {fields} fields are JSON");
}
