//! Every real tool in every dialect: converted or refused with a reason, and taken by the stand-in for the API.

use std::collections::{BTreeMap, HashSet};

use crate::support::acceptance;
use crate::support::corpus::{self, Server};
use crate::support::place;
use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar, ValidationResult};
use serde_json::{Value, json};
use toolwire_dialect::{Dialect, Effect, Options, Report, Status, Toolset};

/// As many tools as go into one request with every API.
const REQUEST: usize = 100;

/// What is wrong, with one example and a count per kind.
#[derive(Default)]
struct Faults(BTreeMap<String, (usize, String)>);

impl Faults {
    fn add(&mut self, kind: String, example: impl FnOnce() -> String) {
        self.0.entry(kind).and_modify(|(count, _)| *count += 1).or_insert_with(|| (1, example()));
    }

    #[track_caller]
    fn assert_none(self) {
        let total: usize = self.0.values().map(|(count, _)| count).sum();
        // A few kinds of each dialect, so that one does not hide the others.
        let mut shown = BTreeMap::<&str, usize>::new();
        let mut lines = Vec::new();
        for (kind, (count, example)) in &self.0 {
            let shown = shown.entry(kind.split(':').next().unwrap_or(kind)).or_default();
            *shown += 1;
            if *shown <= 8 {
                let example: String = example.chars().take(600).collect();
                lines.push(format!("{count} × {kind}\n    {example}"));
            }
        }
        assert!(total == 0, "{total} faults of {} kinds\n{}", self.0.len(), lines.join("\n"));
    }
}

/// Tools that go into one request, bound to a dialect.
struct Request<'a> {
    dialect: Dialect,
    reshape: bool,
    server: &'a Server,
    tools: &'a [Value],
    toolset: &'a Toolset,
}

/// Calls `check` with every slice of tools that makes one request, bound to each of the dialects: plain, and reshaped
/// where that gives anything else.
fn every_request(dialects: &[Dialect], mut check: impl FnMut(&Request<'_>)) {
    let mut requests = 0;
    for server in &corpus::real().1 {
        for tools in server.tools.chunks(REQUEST) {
            let text = json!({"tools": tools}).to_string();
            for &dialect in dialects {
                let bound = |reshape| {
                    let options = Options { reshape, ..Options::default() };
                    Toolset::from_json(&text, dialect, &options).expect("it is a list of tools")
                };
                let (plain, reshaped) = (bound(false), bound(true));
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
    /// The definition of each tool that was not refused.
    fn kept(&self) -> Vec<(&'a Value, &'a Report, &'a Value)> {
        let mut definitions = self.toolset.definitions().into_iter();
        let all = self.tools.iter().zip(self.toolset.reports());
        all.filter(|(_, report)| report.status != Status::Refused)
            .map(|(tool, report)| (tool, report, definitions.next().expect("one definition per tool kept")))
            .collect()
    }
}

/// One pass for three questions: what takes time is binding thousands of tools to every dialect.
#[test]
fn every_request_is_taken_and_reported_as_it_is() {
    let mut faults = Faults::default();
    // Reshaping leaves most definitions as they are, and one verdict on each is enough.
    let mut judged = HashSet::new();
    every_request(&Dialect::ALL, |request| {
        is_taken_by_its_api(request, &mut judged, &mut faults);
        is_reported_consistently(request, &mut faults);
        is_exact_where_it_says_so(request, &mut faults);
    });
    faults.assert_none();
}

fn is_taken_by_its_api(request: &Request<'_>, judged: &mut HashSet<(Dialect, String)>, faults: &mut Faults) {
    let Request { dialect, server, toolset, .. } = *request;
    let kept = request.kept();
    let definitions: Vec<&Value> = kept.iter().map(|(_, _, definition)| *definition).collect();
    assert_eq!(definitions.len(), toolset.definitions().len());
    for (tool, report, definition) in kept {
        if acceptance::name(dialect, definition) != Some(&report.name) {
            faults.add(format!("{dialect}: the report names another tool"), || report.name.clone());
        }
        if !judged.insert((dialect, definition.to_string())) {
            continue;
        }
        for complaint in acceptance::accept(dialect, definition).err().into_iter().flatten() {
            faults.add(format!("{dialect}: {}", kind_of(&complaint)), || {
                format!("{}/{}: {complaint}", server.name, tool["name"])
            });
        }
    }
    if !definitions.is_empty()
        && let Err(complaints) = acceptance::accept_together(dialect, &definitions)
    {
        faults.add(format!("{dialect}: as one request"), || format!("{}: {complaints:?}", server.name));
    }
}

/// A complaint without what differs from tool to tool, so that equal faults are counted together.
fn kind_of(complaint: &str) -> String {
    let general = complaint.split("function '").last().unwrap_or(complaint);
    let general = general.split_once("': ").map_or(general, |(_, rest)| rest);
    let start = general.find("In context=").map_or(0, |at| general[at..].find(')').map_or(0, |end| at + end));
    let digits = |character: char| if character.is_ascii_digit() { '#' } else { character };
    general[start..].chars().map(digits).take(70).collect()
}

fn is_reported_consistently(request: &Request<'_>, faults: &mut Faults) {
    let Request { dialect, reshape, server, tools, toolset } = *request;
    assert_eq!(toolset.reports().len(), tools.len(), "one report per tool");
    for (tool, report) in tools.iter().zip(toolset.reports()) {
        let mut fault = |kind: &str| {
            faults.add(format!("{dialect}: {kind}"), || {
                format!("{}/{} reshape={reshape}: {report:?}", server.name, tool["name"])
            });
        };
        if tool["name"] != report.tool.as_str() || report.dialect != dialect {
            fault("names another tool or dialect");
        }
        let schema = &tool["inputSchema"];
        let pointers = report.changes.iter().map(|change| &change.pointer);
        for pointer in pointers.chain(report.reason.iter().map(|reason| &reason.pointer)) {
            if schema.pointer(pointer).is_none() {
                fault("a pointer leads nowhere");
            }
        }
        let has = |effects: &[Effect]| report.changes.iter().any(|change| effects.contains(&change.effect));
        let lossy = has(&[Effect::Widened, Effect::Narrowed]);
        let consistent = match report.status {
            Status::Exact => report.changes.is_empty(),
            Status::Rewritten => !lossy && !report.changes.is_empty(),
            Status::Lossy => lossy,
            Status::Refused => report.reason.as_ref().is_some_and(|reason| !reason.message.is_empty()),
        };
        if !consistent {
            fault("status and changes disagree");
        }
        if report.reason.is_some() != (report.status == Status::Refused) {
            fault("a reason without a refusal");
        }
    }
}

/// `status: exact` says that nothing but the wrapper and key names differ, and `mcp` changes nothing at all.
fn is_exact_where_it_says_so(request: &Request<'_>, faults: &mut Faults) {
    let Request { dialect, server, .. } = *request;
    for (tool, report, definition) in request.kept() {
        if dialect == Dialect::Mcp && definition != tool {
            faults.add("mcp changed a tool".into(), || format!("{}/{}", server.name, tool["name"]));
        }
        let plain = !matches!(dialect, Dialect::Mcp | Dialect::GeminiOpenApi | Dialect::Gemini);
        let schema = acceptance::schema(dialect, definition);
        if plain && report.status == Status::Exact && schema != Some(&tool["inputSchema"]) {
            faults.add(format!("{dialect}: exact, yet the schema differs"), || {
                format!("{}/{}: {} became {}", server.name, tool["name"], tool["inputSchema"], definition)
            });
        }
    }
}

/// The written rules of plain `openai`, once more and by other means: `default` and `x-mcp-header` go, wherever a schema
/// stands; all else stays, in its order.
#[test]
fn plain_openai_only_drops_annotations() {
    let mut compared = 0;
    for tool in corpus::real().1.iter().flat_map(|server| &server.tools) {
        let toolset =
            Toolset::from_json(&tool.to_string(), Dialect::OpenAi, &Options::default()).expect("a tool");
        let report = &toolset.reports()[0];
        if report.status == Status::Refused
            || report.changes.iter().any(|change| change.effect != Effect::Dropped)
        {
            continue;
        }
        let expected = place::rewrite(&tool["inputSchema"], &|node| {
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
        for (tool, _, definition) in request.kept() {
            let Some(schema) = acceptance::schema(dialect, definition) else { continue };
            if !acceptance::is_strict(definition) || !seen.insert(schema.to_string()) {
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

/// The grammar compiler is a judge that can say no.
#[test]
fn what_is_no_schema_does_not_compile() {
    for schema in [
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/Missing"}}}),
        json!({"type": "nonsense"}),
    ] {
        let grammar = GrammarInit::Serialized(TopLevelGrammar::from_json_schema(schema.clone()));
        let verdict = grammar.validate(None, ParserLimits::default());
        assert!(matches!(verdict, ValidationResult::Error(_)), "{schema}");
    }
}
