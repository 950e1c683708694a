//! The complete output of a conversion, in the form in which case files store it.

use std::fmt;

use serde_json::{Map, Value, json};
use toolwire_dialect::{Dialect, Report};

use super::{Case, Listing};

/// A longer schema is stored as a digest, to keep the repository small.
const MAX_SCHEMA_BYTES: usize = 8_000;
/// A longer list is stored as a digest and its first entries.
const MAX_LIST_ENTRIES: usize = 100;
const DIGEST_ENTRIES: usize = 3;

/// The locations of the schema in a definition, one per family of dialects.
const SCHEMA_POINTERS: [&str; 6] = [
    "/function/parameters",
    "/parameters",
    "/input_schema",
    "/parametersJsonSchema",
    "/toolSpec/inputSchema/json",
    "/inputSchema",
];

/// A dialect and the option that changes its output.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Variant {
    pub(crate) dialect: Dialect,
    pub(crate) reshape: bool,
}

impl Variant {
    /// Returns every dialect, and the strict ones also with `reshape`.
    pub(crate) fn all() -> impl Iterator<Item = Variant> {
        Dialect::all().flat_map(|dialect| {
            let reshapes = if is_strict(dialect) { vec![false, true] } else { vec![false] };
            reshapes.into_iter().map(move |reshape| Variant { dialect, reshape })
        })
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.dialect, if self.reshape { " + reshape" } else { "" })
    }
}

pub(crate) fn is_strict(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::OpenAiStrict | Dialect::ResponsesStrict | Dialect::AnthropicStrict)
}

/// Converts the tools of `case`. Dialects with equal results have equal outputs, since `<schema>` replaces
/// the schema in a definition and `<dialect>` the dialect's name in a report. Digests replace large parts.
pub(crate) fn output(case: &Case, variant: Variant) -> Value {
    let mut listings = case.listings.iter().map(|listing| listing_output(listing, variant));
    if case.is_one_tool() {
        let mut listing = listings.next().expect("one listing");
        let mut first = |key: &str| listing[key].get_mut(0).map(Value::take);
        return json!({
            "definition": first("definitions"), "schema": first("schemas"), "report": first("reports"),
        });
    }
    match &case.listings[..] {
        [listing] if listing.server.is_none() => listings.next().expect("one listing"),
        _ => json!({"servers": listings.collect::<Vec<_>>()}),
    }
}

fn listing_output(listing: &Listing, variant: Variant) -> Value {
    let toolset = listing.bind(variant).unwrap_or_else(|error| panic!("the tools cannot be read: {error}"));
    let definitions = toolset.definitions().into_iter().map(|definition| split_schema(definition.clone()));
    let (definitions, schemas): (Vec<Value>, Vec<Value>) = definitions.unzip();
    let schemas = schemas.into_iter().map(shorten_schema).collect();
    let reports = toolset.reports().iter().map(|report| report_output(report, variant)).collect();
    let mut output = Map::new();
    output.extend(listing.server.as_ref().map(|server| ("server".to_owned(), json!(server))));
    output.insert("definitions".to_owned(), shorten_list(definitions));
    output.insert("schemas".to_owned(), shorten_list(schemas));
    output.insert("reports".to_owned(), shorten_list(reports));
    output.into()
}

/// Returns the schema in a definition, if it has one.
pub(crate) fn schema_of(definition: &Value) -> Option<&Value> {
    SCHEMA_POINTERS.iter().find_map(|pointer| definition.pointer(pointer))
}

fn split_schema(mut definition: Value) -> (Value, Value) {
    for pointer in SCHEMA_POINTERS {
        if let Some(place) = definition.pointer_mut(pointer) {
            let schema = std::mem::replace(place, json!("<schema>"));
            return (definition, schema);
        }
    }
    (definition, Value::Null)
}

fn report_output(report: &Report, variant: Variant) -> Value {
    let mut value = json!(report);
    assert_eq!(value["dialect"], variant.dialect.name(), "the report names another dialect");
    value["dialect"] = json!("<dialect>");
    if let Value::Array(changes) = value["changes"].take() {
        value["changes"] = shorten_list(changes);
    }
    value
}

fn shorten_schema(schema: Value) -> Value {
    let text = schema.to_string();
    if text.len() <= MAX_SCHEMA_BYTES {
        return schema;
    }
    json!({"bytes": text.len(), "fnv1a": fnv1a(&text)})
}

fn shorten_list(list: Vec<Value>) -> Value {
    if list.len() <= MAX_LIST_ENTRIES {
        return Value::Array(list);
    }
    let digest = fnv1a(&json!(list).to_string());
    json!({"entries": list.len(), "fnv1a": digest, "first": list[..DIGEST_ENTRIES]})
}

fn fnv1a(text: &str) -> String {
    let add = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, add))
}
