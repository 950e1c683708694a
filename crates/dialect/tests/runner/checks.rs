//! The checks of each case.

use std::collections::BTreeSet;

use serde_json::Value;
use toolwire_dialect::{Dialect, Layout, Options, Report, Status, Toolset, convert};

use super::output::{is_strict, schema_of};
use super::{Case, Failures, Listing, Outcome, Variant};

/// Checks the case of this name and panics with all failures.
pub(crate) fn check(name: &str) {
    let case = Case::read(name);
    let mut failures = Failures::default();
    case.check_outputs(&mut failures);
    for requirement in case.requirements() {
        for dialect in requirement.dialects() {
            let variant = Variant { dialect, reshape: false };
            failures.attempt(&format!("{dialect}, required outcome"), |problems| {
                for (tool, outcome) in case.listings.iter().flat_map(|listing| outcomes(listing, variant)) {
                    if !requirement.allows(outcome) {
                        let allowed = &requirement.allowed;
                        problems.push(format!("`{tool}` is {outcome:?}, allowed are only {allowed:?}"));
                    }
                }
            });
        }
    }
    for listing in &case.listings {
        for variant in Variant::all() {
            failures.attempt(&variant.to_string(), |problems| {
                let toolset = listing.bind(variant).unwrap();
                every_pointer_resolves(listing, &toolset, problems);
                conversions_are_consistent(&case, listing, variant, &toolset, problems);
                if !variant.reshape {
                    names_are_legal_unique_and_independent_of_order(listing, variant, &toolset, problems);
                }
            });
        }
        if !listing.has_duplicates() {
            failures.attempt("mcp", |problems| mcp_changes_nothing(listing, problems));
        }
    }
    failures.report();
}

/// Every pointer of a report must resolve in the original schema.
fn every_pointer_resolves(listing: &Listing, toolset: &Toolset, problems: &mut Vec<String>) {
    for (tool, report) in listing.tools.iter().zip(toolset.reports()) {
        let original = original_schema(tool);
        let changes = report.changes.iter().map(|change| &change.pointer);
        for pointer in changes.chain(report.reason.iter().map(|reason| &reason.pointer)) {
            if original.pointer(pointer).is_none() {
                problems.push(format!("`{pointer}` does not resolve in the schema of `{}`", report.tool));
            }
        }
    }
}

/// A second conversion must give the same bytes, `convert` and `Toolset` must agree, and layouts may differ
/// only in white space.
fn conversions_are_consistent(
    case: &Case,
    listing: &Listing,
    variant: Variant,
    toolset: &Toolset,
    problems: &mut Vec<String>,
) {
    let options = listing.options(variant);
    let run = |options: &Options| convert(&listing.text, Dialect::Mcp, variant.dialect, options).unwrap();
    let (first, second) = (run(&options), run(&options));
    if first.definitions != second.definitions || first.reports != second.reports {
        problems.push("a second conversion gives another result".to_owned());
    }
    if toolset.reports() != first.reports {
        problems.push("`convert` and `Toolset` give different reports".to_owned());
    }
    let compact = first.definitions.as_deref().map(compact_json);
    let indented = run(&options.with_layout(Layout::Indented));
    if indented.definitions.as_deref().map(compact_json) != compact {
        problems.push("indented and compact text differ in more than white space".to_owned());
    }
    if case.is_one_tool() && toolset.definitions().first().map(|definition| definition.to_string()) != compact
    {
        problems.push("`convert` and `Toolset` give different definitions".to_owned());
    }
}

fn mcp_changes_nothing(listing: &Listing, problems: &mut Vec<String>) {
    let toolset = listing.bind(Variant { dialect: Dialect::Mcp, reshape: false }).unwrap();
    let texts =
        |values: &mut dyn Iterator<Item = &Value>| -> Vec<String> { values.map(Value::to_string).collect() };
    let is_unchanged = texts(&mut toolset.definitions().into_iter()) == texts(&mut listing.tools.iter());
    if !is_unchanged || toolset.reports().iter().any(|report| report.status != Status::Exact) {
        problems.push("the definition is not the tool itself".to_owned());
    }
}

/// The names that the model sees must be legal and unique, and must not depend on the order of the list.
fn names_are_legal_unique_and_independent_of_order(
    listing: &Listing,
    variant: Variant,
    toolset: &Toolset,
    problems: &mut Vec<String>,
) {
    let forward = offered_names(toolset.reports());
    if listing.tools.len() > 1 && !listing.has_duplicates() {
        let reversed: Vec<&Value> = listing.tools.iter().rev().collect();
        let text = serde_json::to_string(&reversed).unwrap();
        let toolset = Toolset::from_json(&text, variant.dialect, &listing.options(variant)).unwrap();
        let mut backward = offered_names(toolset.reports());
        backward.reverse();
        if forward != backward {
            problems.push(format!("the order of the list changes names: {forward:?} and {backward:?}"));
        }
    }
    if variant.dialect == Dialect::Mcp {
        return;
    }
    let unique: BTreeSet<&String> = forward.iter().map(|(_, name)| name).collect();
    if unique.len() != forward.len() {
        problems.push(format!("two tools have the same name: {forward:?}"));
    }
    for name in unique {
        if !is_legal(name, variant.dialect) {
            problems.push(format!("`{name}` is not a legal name"));
        }
    }
}

/// Returns the outcome for each tool of a listing.
fn outcomes(listing: &Listing, variant: Variant) -> Vec<(String, Outcome)> {
    let toolset = listing.bind(variant).unwrap();
    let mut definitions = toolset.definitions().into_iter();
    let reports = listing.tools.iter().zip(toolset.reports());
    let outcomes = reports.map(|(tool, report)| {
        if report.status == Status::Refused {
            return (report.tool.clone(), Outcome::Refused);
        }
        let definition = definitions.next().expect("a definition");
        (report.tool.clone(), outcome(tool, definition, report))
    });
    outcomes.collect()
}

fn outcome(tool: &Value, definition: &Value, report: &Report) -> Outcome {
    let strict = definition.pointer("/function/strict").or(definition.pointer("/strict"));
    if is_strict(report.dialect) && strict != Some(&Value::Bool(true)) {
        return Outcome::NotStrict;
    }
    if report.status == Status::Lossy {
        return Outcome::Lossy;
    }
    // Compared as text, since the order of keys matters.
    let is_unchanged =
        schema_of(definition).map(Value::to_string) == tool.get("inputSchema").map(Value::to_string);
    if is_unchanged && report.status == Status::Exact { Outcome::Unchanged } else { Outcome::Rewritten }
}

/// Returns the schema that pointers refer to, parsed if the tool has it as JSON text.
fn original_schema(tool: &Value) -> Value {
    match tool.get("inputSchema") {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
        Some(schema) => schema.clone(),
        None => Value::Null,
    }
}

/// Returns the text without insignificant white space.
fn compact_json(text: &str) -> String {
    serde_json::from_str::<Value>(text).expect("valid JSON").to_string()
}

/// Returns the tools that are not refused, with the names that the model sees.
fn offered_names(reports: &[Report]) -> Vec<(String, String)> {
    let offered = reports.iter().filter(|report| report.status != Status::Refused);
    offered.map(|report| (report.tool.clone(), report.name.clone())).collect()
}

/// Whether the dialect accepts a name, according to the provider's documentation.
fn is_legal(name: &str, dialect: Dialect) -> bool {
    let max_chars = match dialect {
        Dialect::Responses | Dialect::ResponsesStrict | Dialect::Anthropic | Dialect::AnthropicStrict => 128,
        _ => 64,
    };
    let is_gemini = matches!(dialect, Dialect::Gemini | Dialect::GeminiOpenApi);
    let has_legal_start = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    (1..=max_chars).contains(&name.len())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || "_-".contains(character))
        && (!is_gemini || has_legal_start)
}
