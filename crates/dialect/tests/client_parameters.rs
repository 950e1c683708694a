//! Parameters of clients that no type represents: they reach every API that has them, and the others are
//! listed.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use toolwire_dialect::client::{ClientRequest, read_client_request};
use toolwire_dialect::request::{ApiSupport, RequestOptions, dropped_parameters, write_request};
use toolwire_dialect::{Dialect, Family, Options, Toolset};

#[track_caller]
fn read(family: Family, mut parameters: Value) -> ClientRequest {
    let items = if family == Family::OpenAiResponses { "input" } else { "messages" };
    parameters["model"] = json!("m");
    if parameters.get(items).is_none() {
        parameters[items] = json!([{"role": "user", "content": "hi"}]);
    }
    read_client_request(family, parameters).expect("a served API").unwrap()
}

/// Returns the body for an API, and the names of the parameters that it does not have.
fn converted(dialect: Dialect, api_support: ApiSupport, client: &ClientRequest) -> (Value, Vec<String>) {
    let tools = Toolset::new(&client.request.tools, dialect, &Options::default());
    let mut options = RequestOptions::default();
    options.api_support = api_support;
    let body = write_request(dialect, &client.request, &tools, &options).unwrap();
    (body, dropped_parameters(dialect, api_support, &client.request))
}

fn complete(dialect: Dialect, client: &ClientRequest) -> (Value, Vec<String>) {
    converted(dialect, ApiSupport::Complete, client)
}

/// Fields that OpenAI's two APIs have in common, except for the verbosity, which has another place.
fn shared() -> Value {
    json!({
        "metadata": {"team": "t"}, "prompt_cache_key": "k", "prompt_cache_options": {"ttl": "1h"},
        "prompt_cache_retention": "24h", "safety_identifier": "s", "service_tier": "flex", "store": true, "user": "u",
    })
}

fn with(mut fields: Value, more: Value) -> Value {
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    fields
}

#[test]
fn parameters_of_one_openai_api_reach_the_other() {
    let format = json!({"type": "json_object"});
    let hint = json!([{"role": "user", "content": "Respond in JSON."}]);
    let chat =
        json!({"verbosity": "low", "logit_bias": {"1": 2}, "response_format": format, "messages": hint});
    let chat = read(Family::OpenAiChat, with(shared(), chat));
    let responses =
        json!({"text": {"verbosity": "low", "format": format}, "truncation": "auto", "input": hint});
    let responses = read(Family::OpenAiResponses, with(shared(), responses));
    for strict in [false, true] {
        let dialect = if strict { Dialect::ResponsesStrict } else { Dialect::Responses };
        let (body, dropped) = complete(dialect, &chat);
        for (name, value) in shared().as_object().unwrap() {
            assert_eq!(body.get(name), Some(value), "{name}");
        }
        assert_eq!(body["text"], json!({"format": format, "verbosity": "low"}));
        assert_eq!(dropped, ["logit_bias"]);

        let dialect = if strict { Dialect::OpenAiStrict } else { Dialect::OpenAi };
        let (body, dropped) = complete(dialect, &responses);
        for (name, value) in shared().as_object().unwrap() {
            assert_eq!(body.get(name), Some(value), "{name}");
        }
        assert_eq!((&body["verbosity"], body.get("text")), (&json!("low"), None));
        assert_eq!(dropped, ["truncation"]);
    }
}

/// Servers that only follow an API of OpenAI, and the APIs of others, may reject its fields.
#[test]
fn parameters_of_openai_reach_only_openai() {
    let responses = read(Family::OpenAiResponses, with(shared(), json!({"text": {"verbosity": "low"}})));
    let names: Vec<String> =
        with(shared(), json!({"text": 1})).as_object().unwrap().keys().cloned().collect();
    let targets = [
        (Dialect::OpenAi, ApiSupport::Partial),
        (Dialect::Azure, ApiSupport::Complete),
        (Dialect::Mistral, ApiSupport::Complete),
        (Dialect::Groq, ApiSupport::Complete),
        (Dialect::Gemini, ApiSupport::Complete),
        (Dialect::Bedrock, ApiSupport::Complete),
    ];
    for (dialect, api_support) in targets {
        let (body, mut dropped) = converted(dialect, api_support, &responses);
        for name in names.iter().filter(|name| *name != "user") {
            assert_eq!(body.get(name), None, "{dialect}");
        }
        dropped.retain(|name| name != "user");
        let mut expected: Vec<&String> = names.iter().filter(|name| *name != "user").collect();
        let mut dropped: Vec<&String> = dropped.iter().collect();
        expected.sort();
        dropped.sort();
        assert_eq!(dropped, expected, "{dialect}");
    }
    // A client of the same format decides itself what it sends, except for data that only OpenAI stores.
    let chat = read(Family::OpenAiChat, with(shared(), json!({"store": false})));
    for (dialect, api_support) in &targets[..4] {
        let (body, mut dropped) = converted(*dialect, *api_support, &chat);
        assert_eq!((body.get("store"), body.get("metadata")), (None, None), "{dialect}");
        assert_eq!(body["service_tier"], "flex", "{dialect}");
        dropped.retain(|name| name != "user");
        assert_eq!(dropped, ["metadata", "store"], "{dialect}");
    }
}

/// OpenAI's Chat Completions rejects labels of a response that it does not store. Responses accepts them.
#[test]
fn labels_are_sent_only_where_they_are_accepted() {
    let labels = json!({"team": "t"});
    for (store, expected) in [(None, false), (Some(false), false), (Some(true), true)] {
        for family in [Family::OpenAiChat, Family::OpenAiResponses] {
            let mut fields = json!({"metadata": labels});
            if let Some(store) = store {
                fields["store"] = json!(store);
            }
            let client = read(family, fields);
            let (body, dropped) = complete(Dialect::OpenAi, &client);
            assert_eq!(body.get("metadata").is_some(), expected, "{family:?}: {store:?}");
            assert_eq!(dropped.contains(&"metadata".to_owned()), !expected, "{family:?}: {store:?}");
            assert_eq!(body.get("store"), store.map(Value::from).as_ref(), "{family:?}");
            let (body, dropped) = complete(Dialect::Responses, &client);
            assert_eq!((&body["metadata"], dropped.len()), (&labels, 0), "{family:?}: {store:?}");
            assert_eq!(body["store"], json!(store.unwrap_or(false)), "{family:?}");
        }
    }
    let none = [Value::Null, json!({})].map(|labels| json!({"metadata": labels, "service_tier": null}));
    for fields in none {
        let (body, dropped) = complete(Dialect::Gemini, &read(Family::OpenAiChat, fields));
        assert_eq!((body.get("metadata"), dropped.len()), (None, 0));
    }
}

/// Anthropic has only the id of the end user.
#[test]
fn anthropic_gets_the_id_of_the_user() {
    let cases = [
        (json!({"user": "u"}), json!({"user_id": "u"}), vec![]),
        (json!({"safety_identifier": "s"}), json!({"user_id": "s"}), vec![]),
        (json!({"metadata": {"user_id": "m"}}), json!({"user_id": "m"}), vec![]),
        (json!({"user": "u", "safety_identifier": "u"}), json!({"user_id": "u"}), vec![]),
        (json!({"user": "u", "safety_identifier": "s"}), json!({"user_id": "u"}), vec!["safety_identifier"]),
        (json!({"metadata": {"user_id": "m", "team": "t"}}), json!({"user_id": "m"}), vec!["metadata"]),
        (json!({"user": "u", "metadata": {"user_id": "m"}}), json!({"user_id": "u"}), vec!["metadata"]),
        (json!({"metadata": {"team": "t"}}), Value::Null, vec!["metadata"]),
        (json!({"metadata": {"user_id": 1}}), Value::Null, vec!["metadata"]),
    ];
    for (fields, expected, lost) in cases {
        for family in [Family::OpenAiChat, Family::OpenAiResponses] {
            let (body, dropped) = complete(Dialect::Anthropic, &read(family, fields.clone()));
            assert_eq!(
                (&body["metadata"], dropped),
                (&expected, lost.iter().map(|name| (*name).to_owned()).collect())
            );
        }
    }
    let client = read(Family::Anthropic, json!({"max_tokens": 9, "metadata": {"user_id": "u", "team": "t"}}));
    let (body, dropped) = complete(Dialect::Anthropic, &client);
    assert_eq!((&body["metadata"], &*dropped), (&json!({"user_id": "u"}), &["metadata".to_owned()][..]));
    let (body, dropped) = complete(Dialect::OpenAi, &client);
    assert_eq!(
        (&body["user"], body.get("metadata"), &*dropped),
        (&json!("u"), None, &["metadata".to_owned()][..])
    );
}

/// Marks for a cache are lost when a request is converted.
#[test]
fn marks_for_a_cache_are_found_in_every_place() {
    let mark = json!({"type": "ephemeral"});
    let part = |kind: &str| json!([{"role": "user", "content": [{"type": kind, "text": "hi", "cache_control": mark}]}]);
    let breakpoint = json!([{"role": "user", "content": [{"type": "text", "text": "hi", "prompt_cache_breakpoint": true}]}]);
    let result = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "get", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x", "cache_control": mark}]}]},
    ]);
    let tool = json!([{"name": "get", "input_schema": {"type": "object"}, "cache_control": mark}]);
    let function = json!([{"type": "function", "cache_control": mark, "function": {"name": "get"}}]);
    for (family, fields, expected) in [
        (
            Family::Anthropic,
            json!({"system": [{"type": "text", "text": "a", "cache_control": mark}]}),
            "cache_control",
        ),
        (Family::Anthropic, json!({"messages": part("text"), "tools": tool}), "cache_control"),
        (Family::Anthropic, json!({"messages": result}), "cache_control"),
        (Family::Anthropic, json!({"tools": tool}), "cache_control"),
        (Family::OpenAiChat, json!({"messages": part("text")}), "cache_control"),
        (Family::OpenAiChat, json!({"tools": function}), "cache_control"),
        (Family::OpenAiChat, json!({"messages": breakpoint}), "prompt_cache_breakpoint"),
        (Family::OpenAiResponses, json!({"input": part("input_text")}), "cache_control"),
    ] {
        assert_eq!(read(family, fields.clone()).ignored, [expected], "{fields}");
    }
    let arguments = json!({"cache_control": mark, "content": [{"cache_control": mark}]});
    let call = json!([
        {"role": "user", "content": [{"type": "text", "text": "cache_control", "cache_control": null}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "get", "input": arguments}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
    ]);
    assert_eq!(read(Family::Anthropic, json!({"messages": call})).ignored, [""; 0]);
}
