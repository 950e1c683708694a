//! Requests in every dialect: each file contains a case, and the file in `expected/` the bodies.

use serde_json::{Value, json};
use toolwire_contract::Tool;
use toolwire_contract::model::{Effort, FamilyFields, Generation, ModelRequest, ToolChoice};
use toolwire_dialect::request::{
    ApiSupport, OutputLimit, RequestError, RequestOptions, dropped_parameters, write_request,
};
use toolwire_dialect::{Dialect, Family, Options, Toolset};

use crate::{check_file, folder, read, rules, toolset};

/// The dialects with different requests.
const DIALECTS: [Dialect; 12] = [
    Dialect::OpenAi,
    Dialect::Responses,
    Dialect::Anthropic,
    Dialect::Gemini,
    Dialect::Bedrock,
    Dialect::Mistral,
    Dialect::Cohere,
    Dialect::Ollama,
    Dialect::DeepSeek,
    Dialect::Xai,
    Dialect::Dial,
    Dialect::Mcp,
];

struct Case {
    name: String,
    request: ModelRequest,
    options: RequestOptions,
}

fn cases() -> Vec<Case> {
    let paths = std::fs::read_dir(folder().join("requests")).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = paths
        .filter(|path| path.is_file())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names.into_iter().map(case).collect()
}

fn case(name: String) -> Case {
    let file = read(&format!("requests/{name}.json"));
    let tools: Vec<Tool> = match &file["tools"] {
        Value::Null => crate::tools(),
        tools => tools.as_array().unwrap().iter().map(|tool| Tool::try_from(tool.clone()).unwrap()).collect(),
    };
    let tool_choice = match &file["tool_choice"] {
        Value::Null => ToolChoice::Auto,
        choice => serde_json::from_value(choice.clone()).unwrap(),
    };
    let request = ModelRequest {
        instructions: file["instructions"].as_str().map(str::to_owned),
        messages: serde_json::from_value(file["messages"].clone()).unwrap(),
        tools: tools.into(),
        tool_choice,
        max_output_tokens: file["max_output_tokens"].as_u64(),
        temperature: file["temperature"].as_f64(),
        generation: match &file["generation"] {
            Value::Null => Generation::default(),
            generation => serde_json::from_value(generation.clone()).unwrap(),
        },
        ..ModelRequest::default()
    };
    let mut options = RequestOptions::default();
    options.model = "m".to_owned();
    for (key, value) in file["options"].as_object().into_iter().flatten() {
        match key.as_str() {
            "stream" => options.stream = value.as_bool().unwrap(),
            "audio" => options.audio = value.as_bool().unwrap(),
            "parallel_calls" => options.parallel_calls = value.as_bool(),
            "forced_choice" => options.forced_choice = value.as_bool().unwrap(),
            "named_choice" => options.named_choice = value.as_bool(),
            "max_tokens" => options.output_limit = Some(OutputLimit::MaxTokens),
            "extra" => options.extra = value.as_object().unwrap().clone(),
            other => panic!("{name}: unknown option {other}"),
        }
    }
    Case { name, request, options }
}

fn write_body(case: &Case, dialect: Dialect) -> Result<Value, RequestError> {
    let tools = Toolset::new(&case.request.tools, dialect, &Options::default());
    write_request(dialect, &case.request, &tools, &case.options)
}

#[test]
fn every_case_has_the_expected_bodies() {
    let cases = cases();
    assert!(cases.len() >= 10);
    for case in cases {
        let bodies: Value = DIALECTS
            .iter()
            .map(|&dialect| {
                let outcome = match write_body(&case, dialect) {
                    Ok(mut body) => {
                        // Other tests cover the definitions; only their number matters here.
                        for pointer in ["/tools/0/functionDeclarations", "/toolConfig/tools", "/tools"] {
                            if let Some(tools) = body
                                .pointer_mut(pointer)
                                .filter(|tools| tools.as_array().is_some_and(|tools| tools.len() == 2))
                            {
                                *tools = json!("both");
                                break;
                            }
                        }
                        body
                    }
                    Err(error) => json!({"error": error.to_string(), "hint": error.hint()}),
                };
                (dialect.name(), outcome)
            })
            .collect();
        check_file(&format!("requests/expected/{}.json", case.name), &bodies);
    }
}

#[test]
fn every_body_follows_the_rules_of_its_api() {
    for case in cases() {
        for dialect in Dialect::all() {
            if let Ok(body) = write_body(&case, dialect) {
                rules::check(dialect, &body);
            }
        }
    }
}

#[test]
fn equal_requests_have_equal_bytes() {
    for case in cases() {
        for dialect in Dialect::all() {
            let text = |body: Result<Value, RequestError>| body.map(|body| body.to_string());
            assert_eq!(text(write_body(&case, dialect)), text(write_body(&case, dialect)));
        }
    }
}

/// A parameter is either in the body or among the dropped ones.
#[test]
fn no_parameter_is_lost_silently() {
    let case = case("generation-parameters".to_owned());
    let complete = &case.request.generation;
    let (chat, responses, messages) = (Family::OpenAiChat, Family::OpenAiResponses, Family::Anthropic);
    let parameters = [
        ("stop", with(|one| one.stop = complete.stop.clone())),
        ("top_p", with(|one| one.top_p = complete.top_p)),
        ("top_k", with(|one| one.top_k = complete.top_k)),
        ("seed", with(|one| one.seed = complete.seed)),
        ("frequency_penalty", with(|one| one.frequency_penalty = complete.frequency_penalty)),
        ("presence_penalty", with(|one| one.presence_penalty = complete.presence_penalty)),
        ("reasoning_effort", with(|one| one.effort = complete.effort)),
        ("parallel_tool_calls", with(|one| one.parallel_calls = complete.parallel_calls)),
        ("user", with(|one| one.user = complete.user.clone())),
        field(chat, "metadata", json!({"team": "t"})),
        field(chat, "store", json!(true)),
        field(chat, "service_tier", json!("flex")),
        field(chat, "prompt_cache_key", json!("k")),
        field(chat, "safety_identifier", json!("s")),
        field(chat, "verbosity", json!("low")),
        field(chat, "logit_bias", json!({"1": 2})),
        field(responses, "metadata", json!({"team": "t"})),
        field(responses, "store", json!(true)),
        field(responses, "service_tier", json!("flex")),
        field(responses, "prompt_cache_retention", json!("24h")),
        field(responses, "safety_identifier", json!("s")),
        field(responses, "text", json!({"verbosity": "low"})),
        field(responses, "truncation", json!("auto")),
        field(messages, "metadata", json!({"team": "t"})),
        field(messages, "service_tier", json!("standard_only")),
    ];
    let supports = [ApiSupport::Complete, ApiSupport::Partial];
    for (dialect, api_support) in
        Dialect::all().flat_map(|dialect| supports.map(|support| (dialect, support)))
    {
        let body = |generation: Generation| {
            let request = ModelRequest { generation, ..case.request.clone() };
            let dropped = dropped_parameters(dialect, api_support, &request);
            let mut options = case.options.clone();
            options.api_support = api_support;
            let case = Case { request, name: case.name.clone(), options };
            (write_body(&case, dialect).unwrap(), dropped)
        };
        let (plain, _) = body(Generation::default());
        for (name, generation) in parameters.clone() {
            let (written, dropped) = body(generation);
            match written == plain {
                true => assert_eq!(dropped, [name], "{dialect}, {api_support:?}"),
                false => assert_eq!(dropped, [""; 0], "{dialect}, {api_support:?}: {name}"),
            }
        }
    }
}

/// A field of a client that no type represents.
fn field(family: Family, name: &'static str, value: Value) -> (&'static str, Generation) {
    let fields = [(name.to_owned(), value)].into_iter().collect();
    let fields = FamilyFields { family: family.meta_key().to_owned(), fields };
    (name, with(|one| one.family_fields = Some(fields)))
}

fn with(set: impl FnOnce(&mut Generation)) -> Generation {
    let mut generation = Generation::default();
    set(&mut generation);
    generation
}

#[test]
fn fields_of_a_family_reach_only_this_family() {
    let mut case = case("generation-parameters".to_owned());
    case.request.generation = serde_json::from_value(json!({
        "familyFields": {"family": "toolwire/openai", "fields": {"logit_bias": {"1": 2}}}
    }))
    .unwrap();
    for dialect in Dialect::all() {
        let body = write_body(&case, dialect).unwrap();
        let dropped = dropped_parameters(dialect, ApiSupport::Complete, &case.request);
        match dialect.family() == Dialect::OpenAi.family() {
            true => assert_eq!((&body["logit_bias"], dropped.len()), (&json!({"1": 2}), 0), "{dialect}"),
            false => assert_eq!((body.get("logit_bias"), &*dropped), (None, &["logit_bias".to_owned()][..])),
        }
    }
}

#[test]
fn every_effort_is_accepted() {
    for &effort in Effort::ALL {
        let mut case = case("generation-parameters".to_owned());
        case.request.generation = with(|generation| generation.effort = Some(effort));
        for dialect in Dialect::all() {
            rules::check(dialect, &write_body(&case, dialect).unwrap());
        }
    }
}

#[test]
fn tools_of_another_dialect_are_rejected() {
    let request = ModelRequest {
        messages: vec![toolwire_contract::Message::user("hi").into()],
        ..ModelRequest::default()
    };
    let error =
        write_request(Dialect::Gemini, &request, &toolset(Dialect::OpenAi), &RequestOptions::default());
    assert_eq!(error, Err(RequestError::OtherDialect { dialect: Dialect::Gemini, bound: Dialect::OpenAi }),);
}
