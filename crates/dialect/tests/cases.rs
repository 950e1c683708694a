//! Every trap of the providers' formats, as a folder with one expected file per dialect.
//!
//! A folder of `cases/` holds the tool (`tool.json`) or the tools (`tools.json`, which may also be a list of
//! `{"server", "tools"}`), `trap.txt` with what is demanded, and `<dialect>.json` with the definition and the
//! report as they come out; for the strict dialects also `<dialect>.reshape.json`. After a wanted change, run the
//! tests with `TOOLWIRE_BLESS=1` and review the difference.

#![allow(clippy::unwrap_used)]

mod runner;

use std::collections::BTreeSet;
use std::fs;

use runner::{Case, Failures, Variant, difference, file_text};
use serde_json::Value;
use toolwire_dialect::{Dialect, Layout, Options, Report, Status, Toolset, convert};

#[test]
fn every_case_comes_out_as_its_expected_files_say() {
    let bless = std::env::var_os("TOOLWIRE_BLESS").is_some_and(|value| value == "1");
    let mut failures = Failures::default();
    for case in Case::all() {
        let mut produced = BTreeSet::new();
        for variant in Variant::all() {
            let name = variant.file_name();
            let path = case.folder.join(&name);
            let label = format!("{}/{name}", case.name);
            produced.insert(name);
            let Some(actual) = failures.attempt(&label, || file_text(&case, &variant)) else { continue };
            if bless {
                fs::write(&path, actual).expect("the case's folder can be written to");
                continue;
            }
            match fs::read_to_string(&path) {
                Ok(expected) if expected == actual => {}
                Ok(expected) => failures.add(&label, difference(&expected, &actual)),
                Err(error) => failures.add(&label, format!("no expected file ({error})")),
            }
        }
        for name in case.other_json_files() {
            if !produced.contains(&name) {
                failures.add(&case.name, format!("`{name}` belongs to no dialect"));
            }
        }
    }
    failures.report();
}

#[test]
fn every_case_meets_the_demand_written_beside_it() {
    let mut failures = Failures::default();
    for case in Case::all() {
        for demand in case.demands() {
            for dialect in demand.dialects() {
                let label = format!("{} in {dialect}", case.name);
                let Some(outcomes) = failures.attempt(&label, || outcomes(&case, dialect)) else { continue };
                for (tool, outcome) in outcomes {
                    if !demand.allows(&outcome) {
                        failures.add(
                            &label,
                            format!(
                                "`{tool}` came out {}, demanded is {}",
                                outcome.join(" and "),
                                demand.text
                            ),
                        );
                    }
                }
            }
        }
    }
    failures.report();
}

#[test]
fn every_pointer_of_a_report_resolves_in_the_original_schema() {
    let mut failures = Failures::default();
    each_listing(&mut failures, |case, variant, failures| {
        for listing in &case.listings {
            let toolset = listing.bind(variant).map_err(|error| error.to_string())?;
            for (tool, report) in listing.tools.iter().zip(toolset.reports()) {
                let original = original_schema(tool);
                let changes = report.changes.iter().map(|change| &change.pointer);
                for pointer in changes.chain(report.reason.iter().map(|reason| &reason.pointer)) {
                    if original.pointer(pointer).is_none() {
                        failures
                            .push(format!("`{pointer}` leads nowhere in the schema of `{}`", report.tool));
                    }
                }
            }
        }
        Ok(())
    });
    failures.report();
}

#[test]
fn converting_twice_gives_the_same_bytes_and_both_entrances_agree() {
    let mut failures = Failures::default();
    each_listing(&mut failures, |case, variant, failures| {
        for listing in &case.listings {
            let options = listing.options(variant);
            let before = listing.text.clone();
            let run = || {
                convert(&before, Dialect::Mcp, variant.dialect, &options).map_err(|error| error.to_string())
            };
            let (first, second) = (run()?, run()?);
            if first.definitions != second.definitions || first.reports != second.reports {
                failures.push("a second conversion gives something else".to_owned());
            }
            let bound = listing.bind(variant).map_err(|error| error.to_string())?;
            if bound.reports() != first.reports {
                failures.push("`convert` and `Toolset` report different things".to_owned());
            }
            let indented = Options { layout: Layout::Indented, ..options.clone() };
            let indented = convert(&before, Dialect::Mcp, variant.dialect, &indented)
                .map_err(|error| error.to_string())?;
            if reread(indented.definitions.as_deref())? != reread(first.definitions.as_deref())? {
                failures.push("indented and compact text differ in more than white space".to_owned());
            }
            if case.is_one_tool() {
                let own = bound.definitions().first().map(|definition| definition.to_string());
                if own != reread(first.definitions.as_deref())? {
                    failures.push("`convert` and `Toolset` give different definitions".to_owned());
                }
            }
        }
        Ok(())
    });
    failures.report();
}

#[test]
fn the_mcp_dialect_changes_nothing() {
    let mut failures = Failures::default();
    for case in Case::all() {
        for listing in &case.listings {
            let variant = Variant { dialect: Dialect::Mcp, reshape: false };
            let toolset = listing.bind(&variant).unwrap();
            let original: Vec<String> = listing.tools.iter().map(Value::to_string).collect();
            let definitions: Vec<String> =
                toolset.definitions().iter().map(|value| value.to_string()).collect();
            let every = toolset.reports().iter().all(|report| report.status == Status::Exact);
            if !case.name.starts_with("n12") && (definitions != original || !every) {
                failures.add(&case.name, "`mcp` is not the tool itself".to_owned());
            }
        }
    }
    failures.report();
}

#[test]
fn of_twenty_one_tools_anthropic_gets_twenty_strict_and_the_same_ones_each_time() {
    let case = Case::named("115-");
    let variant = Variant { dialect: Dialect::AnthropicStrict, reshape: false };
    let strict = |tools: &[Value]| -> BTreeSet<String> {
        let text = serde_json::to_string(tools).unwrap();
        let toolset = Toolset::from_json(&text, variant.dialect, &Options::default()).unwrap();
        let definitions = toolset.definitions();
        assert_eq!(definitions.len(), 21);
        let strict = definitions.iter().filter(|definition| definition["strict"] == true);
        strict.map(|definition| definition["name"].to_string()).collect()
    };
    let tools = &case.listings[0].tools;
    let given = strict(tools);
    assert_eq!(given.len(), 20);
    // The same list asked twice is stable; what is left out may depend on the order, but its size may not.
    assert_eq!(strict(tools), given);
    let reversed: Vec<Value> = tools.iter().rev().cloned().collect();
    assert_eq!(strict(&reversed).len(), 20);
}

#[test]
fn names_are_legal_unique_and_independent_of_the_order_of_the_list() {
    let mut failures = Failures::default();
    for case in Case::all().into_iter().filter(|case| case.name.starts_with('n')) {
        for dialect in Dialect::ALL {
            let label = format!("{} in {dialect}", case.name);
            failures.attempt(&label, || {
                let variant = Variant { dialect, reshape: false };
                for listing in &case.listings {
                    let forward = seen_names(listing.bind(&variant).unwrap().reports());
                    let reversed: Vec<&Value> = listing.tools.iter().rev().collect();
                    let text = serde_json::to_string(&reversed).unwrap();
                    let toolset = Toolset::from_json(&text, dialect, &listing.options(&variant)).unwrap();
                    let mut backward = seen_names(toolset.reports());
                    backward.reverse();
                    if !case.name.starts_with("n12") {
                        assert_eq!(forward, backward, "the order of the list changes names");
                    }
                    if dialect != Dialect::Mcp {
                        let names: BTreeSet<String> = forward.iter().map(|(_, name)| name.clone()).collect();
                        assert_eq!(names.len(), forward.len(), "two tools have one name: {forward:?}");
                        for (_, name) in &forward {
                            assert!(is_legal(name, dialect), "`{name}` is not a legal name");
                        }
                    }
                }
            });
        }
    }
    failures.report();
}

/// Runs `check` for each case in each variant, and files what it finds under the two.
fn each_listing(
    failures: &mut Failures,
    check: impl Fn(&Case, &Variant, &mut Vec<String>) -> Result<(), String>,
) {
    for case in Case::all() {
        for variant in Variant::all() {
            let label = format!("{}/{}", case.name, variant.file_name());
            let found = failures.attempt(&label, || {
                let mut found = Vec::new();
                check(&case, &variant, &mut found).map_err(|error| found.push(error)).ok();
                found
            });
            for failure in found.into_iter().flatten() {
                failures.add(&label, failure);
            }
        }
    }
}

/// What became of each tool of a case, in the words of `trap.txt`: `same` to the letter, `mended` (other words, same
/// meaning), `kept` (either of the two), `lossy`, `fallback` (not strict although asked for), `refused`.
fn outcomes(case: &Case, dialect: Dialect) -> Vec<(String, Vec<&'static str>)> {
    let variant = Variant { dialect, reshape: false };
    let mut outcomes = Vec::new();
    for listing in &case.listings {
        let toolset = listing.bind(&variant).unwrap();
        let mut definitions = toolset.definitions().into_iter();
        for (tool, report) in listing.tools.iter().zip(toolset.reports()) {
            let outcome = if report.status == Status::Refused {
                vec!["refused"]
            } else {
                let definition = definitions.next().expect("a tool that is not refused has a definition");
                outcome(tool, definition, report)
            };
            outcomes.push((report.tool.clone(), outcome));
        }
    }
    outcomes
}

fn outcome(tool: &Value, definition: &Value, report: &Report) -> Vec<&'static str> {
    let strict = definition.pointer("/function/strict").or(definition.pointer("/strict"));
    let asked_strict = report.dialect.name().ends_with("-strict");
    if asked_strict && strict != Some(&Value::Bool(true)) {
        return vec!["fallback"];
    }
    if report.status == Status::Lossy {
        return vec!["lossy"];
    }
    let places = ["/function/parameters", "/parameters", "/input_schema", "/parametersJsonSchema"];
    let schema = places.iter().find_map(|place| definition.pointer(place));
    // As text, since the order of keys is part of what is kept.
    let same = schema.map(Value::to_string) == tool.get("inputSchema").map(Value::to_string);
    if same && report.status == Status::Exact { vec!["same", "kept"] } else { vec!["mended", "kept"] }
}

/// The schema that pointers lead into: one that came as JSON text is meant as what it says.
fn original_schema(tool: &Value) -> Value {
    match tool.get("inputSchema") {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
        Some(schema) => schema.clone(),
        None => Value::Null,
    }
}

fn reread(text: Option<&str>) -> Result<Option<String>, String> {
    text.map(|text| serde_json::from_str::<Value>(text).map(|value| value.to_string()))
        .transpose()
        .map_err(|error| format!("the definitions are not JSON: {error}"))
}

fn seen_names(reports: &[Report]) -> Vec<(String, String)> {
    let offered = reports.iter().filter(|report| report.status != Status::Refused);
    offered.map(|report| (report.tool.clone(), report.name.clone())).collect()
}

/// The names a dialect takes, as its documentation has them.
fn is_legal(name: &str, dialect: Dialect) -> bool {
    let longest = match dialect {
        Dialect::Responses | Dialect::ResponsesStrict | Dialect::Anthropic | Dialect::AnthropicStrict => 128,
        _ => 64,
    };
    let gemini = matches!(dialect, Dialect::Gemini | Dialect::GeminiOpenApi);
    let first_fits = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    (1..=longest).contains(&name.len())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || "_-".contains(character))
        && (!gemini || first_fits)
}
