//! Converts every real tool to every dialect: it is refused with a reason, or the API's validator accepts it.

use std::collections::{BTreeMap, HashSet};

use crate::support::api_validator;
use crate::support::corpus::{self, Server};
use crate::support::schema_path;
use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar, ValidationResult};
use serde_json::{Value, json};
use toolwire_contract::Tool;
use toolwire_dialect::{Dialect, Effect, Options, Report, Status, Toolset, check_definition};

/// A number of tools that every API accepts in one request.
const TOOLS_PER_REQUEST: usize = 100;

/// Faults by kind, each with a count and one example.
#[derive(Default)]
struct Faults(BTreeMap<String, (usize, String)>);

impl Faults {
    fn add(&mut self, kind: String, example: impl FnOnce() -> String) {
        self.0.entry(kind).and_modify(|(count, _)| *count += 1).or_insert_with(|| (1, example()));
    }

    #[track_caller]
    fn assert_none(self) {
        let total: usize = self.0.values().map(|(count, _)| count).sum();
        // At most eight kinds per dialect, so that one dialect does not hide the others.
        let mut counted = BTreeMap::<&str, usize>::new();
        let mut lines = Vec::new();
        for (kind, (count, example)) in &self.0 {
            let counted = counted.entry(kind.split(':').next().unwrap_or(kind)).or_default();
            *counted += 1;
            if *counted <= 8 {
                let example: String = example.chars().take(600).collect();
                lines.push(format!("{count} × {kind}\n    {example}"));
            }
        }
        assert!(total == 0, "{total} faults of {} kinds\n{}", self.0.len(), lines.join("\n"));
    }
}

/// The tools of one request, bound to a dialect.
struct Request<'a> {
    dialect: Dialect,
    reshape: bool,
    server: &'a Server,
    tools: &'a [Value],
    toolset: &'a Toolset,
}

/// Calls `check` with every request in each of the dialects: without `reshape`, and with it if the result
/// differs.
fn every_request(dialects: &[Dialect], mut check: impl FnMut(&Request<'_>)) {
    let mut requests = 0;
    for server in &corpus::real_tools().1 {
        for tools in server.tools.chunks(TOOLS_PER_REQUEST) {
            let text = json!({"tools": tools}).to_string();
            for &dialect in dialects {
                let bind = |reshape| {
                    let options = Options::default().with_reshape(reshape);
                    Toolset::from_json(&text, dialect, &options).expect("a list of tools")
                };
                let (plain, reshaped) = (bind(false), bind(true));
                check(&Request { dialect, reshape: false, server, tools, toolset: &plain });
                requests += 1;
                if reshaped.definitions() != plain.definitions() || reshaped.reports() != plain.reports() {
                    check(&Request { dialect, reshape: true, server, tools, toolset: &reshaped });
                    requests += 1;
                }
            }
        }
    }
    println!("{requests} requests");
    assert!((300 * dialects.len()..2 * 350 * dialects.len()).contains(&requests), "{requests}");
}

impl<'a> Request<'a> {
    /// Returns each tool that was not refused, with its report and definition.
    fn converted(&self) -> Vec<(&'a Value, &'a Report, &'a Value)> {
        let mut definitions = self.toolset.definitions().into_iter();
        let all = self.tools.iter().zip(self.toolset.reports());
        all.filter(|(_, report)| report.status != Status::Refused)
            .map(|(tool, report)| {
                (tool, report, definitions.next().expect("one definition per converted tool"))
            })
            .collect()
    }
}

/// Checks three laws in one pass, because binding thousands of tools to every dialect is slow.
#[test]
fn every_request_is_accepted_and_reported_correctly() {
    let mut faults = Faults::default();
    // `reshape` does not change most definitions, and equal definitions are validated once.
    let mut validated = HashSet::new();
    every_request(&Dialect::all().collect::<Vec<_>>(), |request| {
        check_api_accepts(request, &mut validated, &mut faults);
        check_report(request, &mut faults);
        check_exactness(request, &mut faults);
    });
    faults.assert_none();
}

fn check_api_accepts(request: &Request<'_>, validated: &mut HashSet<(Dialect, String)>, faults: &mut Faults) {
    let Request { dialect, server, toolset, .. } = *request;
    let converted = request.converted();
    let definitions: Vec<&Value> = converted.iter().map(|(_, _, definition)| *definition).collect();
    assert_eq!(definitions.len(), toolset.definitions().len());
    for (tool, report, definition) in converted {
        if api_validator::name(dialect, definition) != Some(&report.name) {
            faults.add(format!("{dialect}: the report names another tool"), || report.name.clone());
        }
        if !validated.insert((dialect, definition.to_string())) {
            continue;
        }
        for error in api_validator::validate_definition(dialect, definition).err().into_iter().flatten() {
            faults.add(format!("{dialect}: {}", error_kind(&error)), || {
                format!("{}/{}: {error}", server.name, tool["name"])
            });
        }
    }
    if !definitions.is_empty()
        && let Err(errors) = api_validator::validate_together(dialect, &definitions)
    {
        faults.add(format!("{dialect}: as one request"), || format!("{}: {errors:?}", server.name));
    }
}

/// Returns an error without the parts that differ between tools, so that equal faults are counted together.
fn error_kind(error: &str) -> String {
    let detail = error.split("function '").last().unwrap_or(error);
    let detail = detail.split_once("': ").map_or(detail, |(_, rest)| rest);
    let start = detail.find("In context=").map_or(0, |at| detail[at..].find(')').map_or(0, |end| at + end));
    let digits = |character: char| if character.is_ascii_digit() { '#' } else { character };
    detail[start..].chars().map(digits).take(70).collect()
}

fn check_report(request: &Request<'_>, faults: &mut Faults) {
    let Request { dialect, reshape, server, tools, toolset } = *request;
    assert_eq!(toolset.reports().len(), tools.len(), "one report per tool");
    for (tool, report) in tools.iter().zip(toolset.reports()) {
        let mut fault = |kind: &str| {
            faults.add(format!("{dialect}: {kind}"), || {
                format!("{}/{} reshape={reshape}: {report:?}", server.name, tool["name"])
            });
        };
        if tool["name"] != report.tool.as_str() || report.dialect != dialect {
            fault("the report names another tool or dialect");
        }
        let schema = &tool["inputSchema"];
        let pointers = report.changes.iter().map(|change| &change.pointer);
        for pointer in pointers.chain(report.reason.iter().map(|reason| &reason.pointer)) {
            if schema.pointer(pointer).is_none() {
                fault("a pointer does not resolve");
            }
        }
        let has_effect =
            |effects: &[Effect]| report.changes.iter().any(|change| effects.contains(&change.effect));
        let is_lossy = has_effect(&[Effect::Widened, Effect::Narrowed]);
        let is_consistent = match report.status {
            Status::Exact => report.changes.is_empty(),
            Status::Rewritten => !is_lossy && !report.changes.is_empty(),
            Status::Lossy => is_lossy,
            Status::Refused => report.reason.as_ref().is_some_and(|reason| !reason.message.is_empty()),
        };
        if !is_consistent {
            fault("status and changes disagree");
        }
        if report.reason.is_some() != (report.status == Status::Refused) {
            fault("a reason without a refusal");
        }
    }
}

/// `status: exact` means that only the wrapper and key names differ, and `mcp` changes nothing.
fn check_exactness(request: &Request<'_>, faults: &mut Faults) {
    let Request { dialect, server, .. } = *request;
    for (tool, report, definition) in request.converted() {
        if dialect == Dialect::Mcp && definition != tool {
            faults.add("mcp changed a tool".into(), || format!("{}/{}", server.name, tool["name"]));
        }
        let plain = !matches!(dialect, Dialect::Mcp | Dialect::GeminiOpenApi | Dialect::Gemini);
        let schema = api_validator::schema(dialect, definition);
        if plain && report.status == Status::Exact && schema != Some(&tool["inputSchema"]) {
            faults.add(format!("{dialect}: the status is exact, but the schema differs"), || {
                format!("{}/{}: {} became {}", server.name, tool["name"], tool["inputSchema"], definition)
            });
        }
    }
}

/// Checks the rules of plain `openai` with an independent implementation: `default` and `x-mcp-header` are
/// removed from every schema, and everything else stays in order.
#[test]
fn plain_openai_only_drops_annotations() {
    let mut compared = 0;
    for tool in corpus::real_tools().1.iter().flat_map(|server| &server.tools) {
        let toolset =
            Toolset::from_json(&tool.to_string(), Dialect::OpenAi, &Options::default()).expect("a tool");
        let report = &toolset.reports()[0];
        let checked = check_definition(&Tool::try_from(tool.clone()).expect("a tool"));
        assert_eq!(checked.err(), report.reason, "{}", tool["name"]);
        if report.status == Status::Refused
            || report.changes.iter().any(|change| change.effect != Effect::Dropped)
        {
            continue;
        }
        let expected = schema_path::rewrite(&tool["inputSchema"], &|node| {
            node.shift_remove("default");
            node.shift_remove("x-mcp-header");
        });
        let definition = toolset.definitions()[0];
        assert_eq!(
            definition["function"]["parameters"].to_string(),
            expected.to_string(),
            "{}",
            tool["name"]
        );
        let description = tool["description"].as_str().or(tool["title"].as_str()).unwrap_or("");
        assert_eq!(definition["function"]["description"], description);
        compared += 1;
    }
    println!("{compared} tools compared");
    assert!(compared > 7000, "only {compared} tools were compared");
}

#[test]
fn strict_schemas_compile_to_a_grammar() {
    let mut compiled = 0;
    let mut seen = HashSet::new();
    let mut faults = Faults::default();
    every_request(&[Dialect::OpenAiStrict, Dialect::ResponsesStrict], |request| {
        let Request { dialect, reshape, server, .. } = *request;
        for (tool, _, definition) in request.converted() {
            let Some(schema) = api_validator::schema(dialect, definition) else { continue };
            if !api_validator::is_strict(definition) || !seen.insert(schema.to_string()) {
                continue;
            }
            compiled += 1;
            let grammar = GrammarInit::Serialized(TopLevelGrammar::from_json_schema(schema.clone()));
            if let ValidationResult::Error(error) = grammar.validate(None, ParserLimits::default()) {
                faults.add(format!("{dialect}: {}", error.chars().take(60).collect::<String>()), || {
                    format!("{}/{} reshape={reshape}: {schema}", server.name, tool["name"])
                });
            }
        }
    });
    println!("{compiled} grammars compiled");
    assert!(compiled > 4000, "only {compiled} grammars were compiled");
    faults.assert_none();
}

/// Checks that the grammar compiler can reject schemas.
#[test]
fn invalid_schemas_do_not_compile() {
    for schema in [
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/Missing"}}}),
        json!({"type": "nonsense"}),
    ] {
        let grammar = GrammarInit::Serialized(TopLevelGrammar::from_json_schema(schema.clone()));
        let result = grammar.validate(None, ParserLimits::default());
        assert!(matches!(result, ValidationResult::Error(_)), "{schema}");
    }
}
