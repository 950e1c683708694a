//! The law of conversions, checked with real tools and generated schemas.
//!
//! (a) Arguments that match the definition, once decoded, match the original, unless a `widened` change
//! explains why not. (b) Arguments that match the original, once encoded, match the definition, unless a
//! `narrowed` change explains why not. (c) Decoding encoded arguments gives the same arguments, except at
//! `narrowed` locations.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::AddAssign;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::argument_schema::argument_schema;
use crate::support::random::Random;
use crate::support::sampler::ArgumentSampler;
use crate::support::schema_path::covers;
use crate::support::{api_validator, corpus, schemas};
use jsonschema::Validator;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use serde_json::{Map, Value, json};
use toolwire_dialect::arguments::ArgumentError;
use toolwire_dialect::{Dialect, Effect, Options, Report, Toolset};

/// The number of draws per real tool, dialect and direction. `TOOLWIRE_LAW_DRAWS` overrides it.
const DRAWS: usize = 2;

/// The number of draws per generated schema, dialect and direction.
const DRAWS_PER_SCHEMA: usize = 3;

/// The number of generated schemas. `TOOLWIRE_LAW_CASES` overrides it.
const CASES: usize = 400;

fn variable_or(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Counts the checks, because a run without checks proves nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    conversions: usize,
    refused: usize,
    pub(crate) from_definition: usize,
    pub(crate) from_original: usize,
    explained: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.conversions += other.conversions;
        self.refused += other.refused;
        self.from_definition += other.from_definition;
        self.from_original += other.from_original;
        self.explained += other.explained;
    }
}

/// A violation of the law.
#[derive(Debug)]
pub(crate) struct Counterexample {
    law: &'static str,
    dialect: Dialect,
    reshape: bool,
    tool: String,
    original: Value,
    definition: Value,
    drawn: Value,
    converted: String,
    violation: String,
    changes: String,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |value: &Value| -> String { value.to_string().chars().take(1500).collect() };
        writeln!(f, "{} {} reshape={} tool {}", self.law, self.dialect, self.reshape, self.tool)?;
        writeln!(f, "  original   {}", short(&self.original))?;
        writeln!(f, "  definition {}", short(&self.definition))?;
        writeln!(f, "  drawn      {}", short(&self.drawn))?;
        writeln!(f, "  converted  {}", self.converted)?;
        writeln!(f, "  violation  {}", self.violation)?;
        write!(f, "  reported   {}", self.changes)
    }
}

/// One tool, bound to one dialect.
struct Case<'a> {
    dialect: Dialect,
    reshape: bool,
    tool: &'a Value,
    original: &'a ArgumentSampler,
    toolset: &'a Toolset,
    report: &'a Report,
    /// The arguments that the definition lets a model send.
    model_arguments: &'a ArgumentSampler,
    model_schema: &'a Value,
}

/// Checks the law for `tool` in `dialect` with random arguments in each direction.
pub(crate) fn check_law(
    tool: &Value,
    original: &ArgumentSampler,
    dialect: Dialect,
    reshape: bool,
    draws: usize,
) -> Result<Tally, Box<Counterexample>> {
    let mut tally = Tally { conversions: 1, ..Tally::default() };
    let options = Options::default().with_reshape(reshape);
    let text = json!([tool]).to_string();
    let bind = |options| Toolset::from_json(&text, dialect, options).expect("a list of tools");
    let toolset = bind(&options);
    if reshape {
        let plain = bind(&Options::default());
        if plain.definitions() == toolset.definitions() && plain.reports() == toolset.reports() {
            return Ok(tally); // The same as without `reshape`, which is checked separately.
        }
    }
    let report = &toolset.reports()[0];
    let Some(definition) = toolset.definitions().first().copied() else {
        tally.refused = 1;
        return Ok(tally);
    };
    let model_schema = argument_schema(dialect, definition);
    let model_arguments = ArgumentSampler::new(&model_schema);
    let Some(model_arguments) = &model_arguments else {
        return Err(Box::new(Counterexample {
            law: "(a)",
            dialect,
            reshape,
            tool: tool["name"].to_string(),
            original: tool["inputSchema"].clone(),
            definition: model_schema,
            drawn: Value::Null,
            converted: String::new(),
            violation: "the definition is not a schema".into(),
            changes: String::new(),
        }));
    };
    let case = Case {
        dialect,
        reshape,
        tool,
        original,
        toolset: &toolset,
        report,
        model_arguments,
        model_schema: &model_schema,
    };
    let mut random = Random::for_text(&format!("{dialect}{reshape}{tool}"));
    for _ in 0..draws {
        if let Some(drawn) = model_arguments.draw(&mut random) {
            tally.from_definition += 1;
            tally.explained += usize::from(case.check_decoding(&drawn)?);
        }
        if let Some(drawn) = original.draw(&mut random) {
            tally.from_original += 1;
            tally.explained += usize::from(case.check_encoding(&drawn)?);
        }
    }
    Ok(tally)
}

impl Case<'_> {
    /// Checks law (a). Returns whether a `widened` change was needed to explain the result.
    fn check_decoding(&self, drawn: &Value) -> Result<bool, Box<Counterexample>> {
        let arguments = self.decoded(&self.report.name, drawn).map_err(|error| {
            self.counterexample("(a)", drawn, String::new(), format!("decode failed: {error}"))
        })?;
        let arguments = Value::Object(arguments);
        let violations = violations(self.original.validator(), &arguments);
        for (place, message) in &violations {
            if !self.is_explained(Effect::Widened, place) {
                return Err(self.counterexample(
                    "(a)",
                    drawn,
                    arguments.to_string(),
                    format!("at `{place}`: {message}"),
                ));
            }
        }
        Ok(!violations.is_empty())
    }

    /// Checks laws (b) and (c). Returns whether a `narrowed` change was needed to explain the result.
    fn check_encoding(&self, drawn: &Value) -> Result<bool, Box<Counterexample>> {
        let name = self.tool["name"].as_str().unwrap_or_default();
        let encoded = match self.toolset.encode(name, drawn) {
            Ok(encoded) => Value::Object(encoded.arguments),
            Err(_) if self.has_change(Effect::Narrowed) => return Ok(true),
            Err(error) => {
                return Err(self.counterexample(
                    "(b)",
                    drawn,
                    String::new(),
                    format!("encode failed: {error}"),
                ));
            }
        };
        let mut needs_explanation = false;
        for (place, message) in violations(self.model_arguments.validator(), &encoded) {
            needs_explanation = true;
            // Keys may be renamed and values reshaped, and then locations cannot be compared.
            let is_explained = if self.preserves_locations() {
                self.is_explained(Effect::Narrowed, &place)
            } else {
                self.has_change(Effect::Narrowed)
            };
            if !is_explained {
                return Err(self.counterexample(
                    "(b)",
                    drawn,
                    encoded.to_string(),
                    format!("at `{place}`: {message}"),
                ));
            }
        }
        let decoded = self.decoded(&self.report.name, &encoded).map_err(|error| {
            self.counterexample("(c)", drawn, encoded.to_string(), format!("decode failed: {error}"))
        })?;
        let mut places = Vec::new();
        differences("", drawn, &Value::Object(decoded.clone()), &mut places);
        for place in &places {
            if !self.is_explained(Effect::Narrowed, place) {
                let converted = format!("{encoded} then {}", Value::Object(decoded));
                return Err(self.counterexample("(c)", drawn, converted, format!("differs at `{place}`")));
            }
        }
        Ok(needs_explanation || !places.is_empty())
    }

    /// Returns the decoded arguments, valid or not; the caller checks that.
    fn decoded(&self, name: &str, arguments: &Value) -> Result<Map<String, Value>, ArgumentError> {
        match self.toolset.decode(name, arguments) {
            Ok(decoded) => Ok(decoded.arguments),
            Err(ArgumentError::Invalid { arguments, .. }) => Ok(arguments),
            Err(error) => Err(error),
        }
    }

    /// Whether the report has a change with `effect` that affects `argument`, or a value above or below it.
    fn is_explained(&self, effect: Effect, argument: &str) -> bool {
        self.report.changes.iter().any(|change| {
            change.effect == effect && (covers(&change.pointer, argument) || self.is_shared(&change.pointer))
        })
    }

    /// Whether a reference points to the location, so that a change there also applies elsewhere.
    fn is_shared(&self, pointer: &str) -> bool {
        fn has_reference(schema: &Value, pointer: &str) -> bool {
            match schema {
                Value::Object(map) => {
                    let reference = map
                        .get("$ref")
                        .and_then(Value::as_str)
                        .and_then(|reference| reference.strip_prefix('#'));
                    reference.is_some_and(|target| pointer.starts_with(target))
                        || map.values().any(|value| has_reference(value, pointer))
                }
                Value::Array(items) => items.iter().any(|item| has_reference(item, pointer)),
                _ => false,
            }
        }
        has_reference(&self.tool["inputSchema"], pointer)
    }

    fn has_change(&self, effect: Effect) -> bool {
        self.report.changes.iter().any(|change| change.effect == effect)
    }

    fn preserves_locations(&self) -> bool {
        let renames_keys = matches!(
            self.dialect,
            Dialect::Anthropic
                | Dialect::AnthropicStrict
                | Dialect::Bedrock
                | Dialect::Gemini
                | Dialect::GeminiOpenApi
        );
        !self.reshape && !renames_keys
    }

    fn counterexample(
        &self,
        law: &'static str,
        drawn: &Value,
        converted: String,
        violation: String,
    ) -> Box<Counterexample> {
        let changes: Vec<String> = self
            .report
            .changes
            .iter()
            .filter(|change| matches!(change.effect, Effect::Widened | Effect::Narrowed))
            .map(|change| format!("{} {} {}", change.effect.name(), change.pointer, change.keyword))
            .collect();
        Box::new(Counterexample {
            law,
            dialect: self.dialect,
            reshape: self.reshape,
            tool: self.tool["name"].to_string(),
            original: self.tool["inputSchema"].clone(),
            definition: self.model_schema.clone(),
            drawn: drawn.clone(),
            converted,
            violation,
            changes: changes.join("; "),
        })
    }
}

/// Returns the location and message of each violation.
fn violations(validator: &Validator, arguments: &Value) -> Vec<(String, String)> {
    let errors = validator.iter_errors(arguments);
    errors
        .map(|error| (error.instance_path().to_string(), error.to_string().chars().take(300).collect()))
        .collect()
}

/// Collects the locations where two values differ. Numbers are compared as text.
fn differences(place: &str, one: &Value, other: &Value, places: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys().filter(|key| !one.contains_key(*key))) {
                let place = format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"));
                match (one.get(key), other.get(key)) {
                    (Some(one), Some(other)) => differences(&place, one, other, places),
                    _ => places.push(place),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{place}/{index}"), one, other, places);
            }
        }
        _ if one == other => {}
        _ => places.push(place.to_owned()),
    }
}

/// Schemas whose meaning is easily misread.
fn easily_misread_schemas() -> Vec<Value> {
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let with = |mut schema: Value, keywords: Value| {
        for (key, value) in keywords.as_object().expect("an object").clone() {
            schema[&key] = value;
        }
        schema
    };
    let draft = |number: &str| format!("http://json-schema.org/draft-{number}/schema#");
    let string = json!({"type": "string"});
    let types = json!(["string", "integer"]);
    let required = |schema: Value| {
        with(object(json!({ "p": schema })), json!({"required": ["p"], "additionalProperties": false}))
    };
    vec![
        with(object(json!({"a b": string})), json!({"additionalProperties": {"type": "integer"}})),
        object(json!({"p": {"type": "object", "unevaluatedProperties": {"type": "integer"}, "anyOf": [
            {"properties": {"a": string}, "required": ["a"]}, {"properties": {"b": string}}]}})),
        object(json!({"b": {"type": "array", "unevaluatedItems": {"type": "integer"}}})),
        object(json!({"b": {"type": "array", "prefixItems": [string], "unevaluatedItems": false}})),
        object(
            json!({"b": {"allOf": [{"type": "array", "prefixItems": [string]}], "unevaluatedItems": false}}),
        ),
        with(
            object(
                json!({"r": {"$ref": "#/definitions/X", "minLength": 5}, "t": {"type": "array", "items": [string]}}),
            ),
            json!({"$schema": draft("07"), "definitions": {"X": string}}),
        ),
        with(
            object(json!({"a": string, "b": string, "t": {"type": "array", "items": [string]}})),
            json!({"$schema": draft("07"), "dependencies": {"a": ["b"]}}),
        ),
        with(
            object(json!({"a": string, "b": string, "t": {"type": "array", "items": [string]}})),
            json!({"$schema": draft("07"), "dependentRequired": {"a": ["b"]}}),
        ),
        with(
            object(json!({"t": {"type": "array", "prefixItems": [string]}})),
            json!({"$schema": draft("07")}),
        ),
        with(object(json!({"c": {"const": 1}, "i": {"type": "integer"}})), json!({"$schema": draft("04")})),
        with(
            object(json!({"n": {"type": "number", "minimum": 1, "exclusiveMinimum": true}})),
            json!({"$schema": draft("04")}),
        ),
        with(
            object(json!({"r": {"$recursiveRef": "#"}})),
            json!({"$schema": "https://json-schema.org/draft/2019-09/schema"}),
        ),
        object(json!({"o": {"type": "object", "properties": {"a": false}, "additionalProperties": string}})),
        json!({"type": "object", "enum": [{"a": 1}]}),
        object(json!({"o": {"type": "object", "properties": {}, "additionalProperties": false}})),
        with(
            object(json!({"a": string})),
            json!({"minProperties": 1, "propertyNames": {"maxLength": 3}, "description": "D"}),
        ),
        with(object(json!({"a b": string, "c d": string})), json!({"dependentRequired": {"a b": ["c d"]}})),
        object(
            json!({"h": {"type": "object", "patternProperties": {"^x-": string}, "additionalProperties": false}}),
        ),
        required(json!({"type": types, "not": string})),
        required(json!({"type": types, "allOf": [{"not": string}]})),
        required(json!({"type": types, "anyOf": [{"not": string}]})),
        required(json!({"type": types, "oneOf": [{"not": string}]})),
        required(json!({"anyOf": [{"type": types, "not": string}]})),
        required(json!({"type": types, "if": string, "then": {"const": "x"}})),
        required(
            json!({"type": ["string", "object"], "properties": {"q": string}, "not": {"required": ["q"]}}),
        ),
        required(json!({"type": ["object", "null"], "anyOf": [{"minProperties": 2}]})),
        required(json!({"type": "array", "items": false, "minItems": 2,
            "prefixItems": [{"type": "boolean"}, {"type": ["string", "null"]}]})),
        required(json!({"type": "array", "items": false, "minItems": 1,
            "prefixItems": [{"type": ["string", "null"]}, {"type": "boolean"}]})),
        required(json!({"oneOf": [{"enum": [1, null]}, {"type": "string", "nullable": true}]})),
    ]
}

#[test]
fn the_law_holds_for_easily_misread_schemas() {
    let mut counterexamples = Vec::new();
    for schema in easily_misread_schemas() {
        let tool = json!({"name": "tricky", "description": "d", "inputSchema": schema});
        let original = ArgumentSampler::new(&tool["inputSchema"]).expect("a valid schema");
        for dialect in Dialect::all() {
            for reshape in [false, true] {
                if let Err(counterexample) = check_law(&tool, &original, dialect, reshape, 40) {
                    counterexamples.push(counterexample.to_string());
                }
            }
        }
    }
    assert!(
        counterexamples.is_empty(),
        "{} violations\n\n{}",
        counterexamples.len(),
        counterexamples.join("\n\n")
    );
}

#[test]
fn the_law_holds_for_every_real_tool() {
    let draws = variable_or("TOOLWIRE_LAW_DRAWS", DRAWS);
    let mut seen = HashSet::new();
    let mut tools: Vec<Value> = Vec::new();
    // Tools with equal schemas need to be checked only once.
    for tool in corpus::shapes().into_iter().flat_map(|server| server.tools) {
        if seen.insert(tool["inputSchema"].to_string()) {
            tools.push(tool);
        }
    }
    let next = AtomicUsize::new(0);
    let total = Mutex::new((Tally::default(), BTreeMap::<String, (usize, String)>::new()));
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(tool) = tools.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Some(original) = ArgumentSampler::new(&tool["inputSchema"]) else { continue };
                    for dialect in Dialect::all() {
                        for reshape in [false, true] {
                            let checked = check_law(tool, &original, dialect, reshape, draws);
                            let mut total = total.lock().expect("no thread panicked");
                            match checked {
                                Ok(tally) => total.0 += tally,
                                Err(broken) => {
                                    let kind = format!("{} {} reshape={}", broken.law, dialect, reshape);
                                    let entry =
                                        total.1.entry(kind).or_insert_with(|| (0, broken.to_string()));
                                    entry.0 += 1;
                                }
                            }
                        }
                    }
                }
            });
        }
    });
    let (tally, broken) = total.into_inner().expect("no thread panicked");
    println!("{} different schemas: {tally:?}", tools.len());
    let count: usize = broken.values().map(|(count, _)| count).sum();
    let lines: Vec<String> =
        broken.iter().map(|(kind, (count, first))| format!("{count} × {kind}\n{first}")).collect();
    assert!(count == 0, "the law was broken {count} times\n\n{}", lines.join("\n\n"));
    assert!(tally.from_definition > tally.conversions, "too few draws from definitions: {tally:?}");
    assert!(tally.from_original > tally.conversions, "too few draws from originals: {tally:?}");
    assert!(tally.refused * 20 < tally.conversions, "too many tools are refused: {tally:?}");
}

#[test]
fn the_law_holds_for_generated_schemas() {
    let cases = variable_or("TOOLWIRE_LAW_CASES", CASES);
    let config = Config {
        cases: cases as u32,
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]));
    let tally = Mutex::new(Tally::default());
    let result = runner.run(&schemas::input_schema(), |schema| {
        let tool = json!({"name": "generated", "description": "d", "inputSchema": schema});
        let Some(original) = ArgumentSampler::new(&tool["inputSchema"]) else { return Ok(()) };
        for dialect in Dialect::all() {
            for reshape in [false, true] {
                match check_law(&tool, &original, dialect, reshape, DRAWS_PER_SCHEMA) {
                    Ok(checked) => *tally.lock().expect("no thread panicked") += checked,
                    Err(broken) => return Err(TestCaseError::fail(broken.to_string())),
                }
                check_accepted(&tool, dialect, reshape)?;
            }
        }
        Ok(())
    });
    let tally = tally.into_inner().expect("no thread panicked");
    println!("{cases} schemas: {tally:?}");
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(tally.from_definition > cases * 18, "too few draws from definitions: {tally:?}");
    assert!(tally.from_original > cases * 18, "too few draws from originals: {tally:?}");
}

/// Checks that the APIs accept the definition.
fn check_accepted(tool: &Value, dialect: Dialect, reshape: bool) -> Result<(), TestCaseError> {
    let options = Options::default().with_reshape(reshape);
    let toolset = Toolset::from_json(&json!([tool]).to_string(), dialect, &options).expect("a list of tools");
    for definition in toolset.definitions() {
        if let Err(errors) = api_validator::validate_definition(dialect, definition) {
            let text = format!("{dialect} reshape={reshape} rejects {definition}\n  {errors:?}");
            return Err(TestCaseError::fail(text));
        }
    }
    Ok(())
}
