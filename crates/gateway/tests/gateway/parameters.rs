//! Parameters of clients: each API gets those that it has, and the response header `x-toolwire-dropped` lists
//! the others.

use crate::client::{CHAT, MESSAGES, RESPONSES};
use crate::support::TestGateway;
use serde_json::{Value, json};
use toolwire_dialect::request::{RequestOptions, write_request};
use toolwire_dialect::{Dialect, Options, Toolset};
use toolwire_testkit::http_client;

/// Sends `say hi` with further parameters. Returns the status, the sorted names in the header, and the body.
async fn send(gateway: &TestGateway, path: &str, parameters: &Value) -> (u16, Vec<String>, String) {
    let hi = json!([{"role": "user", "content": "say hi"}]);
    let mut body = match path {
        RESPONSES => json!({"input": hi}),
        _ => json!({"max_tokens": 10, "messages": hi}),
    };
    body.as_object_mut().unwrap().extend(parameters.as_object().unwrap().clone());
    let response = http_client().post(gateway.url(path)).json(&body).send().await.unwrap();
    let header = response.headers().get("x-toolwire-dropped").map(|names| names.to_str().unwrap().to_owned());
    assert_ne!(header.as_deref(), Some(""), "the header is absent if it would be empty");
    let mut names: Vec<String> =
        header.iter().flat_map(|names| names.split(", ")).map(str::to_owned).collect();
    names.sort();
    (response.status().as_u16(), names, response.text().await.unwrap())
}

/// Returns the body that the provider gets for the last request of the gateway.
fn last_body(gateway: &TestGateway, dialect: Dialect) -> Value {
    let request = gateway.model.requests().pop().unwrap();
    assert_eq!(request.verbatim, None, "the request is converted");
    let tools = Toolset::new(&request.tools, dialect, &Options::default());
    write_request(dialect, &request, &tools, &RequestOptions::default()).unwrap()
}

#[tokio::test]
async fn the_header_lists_every_dropped_parameter() {
    let gateway = TestGateway::start().await;
    let mark = json!({"type": "ephemeral"});
    let chat = json!({
        "seed": 1, "frequency_penalty": 0.1, "top_p": 0.5, "stop": "END", "user": "u", "logit_bias": {"1": 1},
        "service_tier": "flex", "prompt_cache_key": "k", "safety_identifier": "s", "verbosity": "low",
        "metadata": {"team": "t"}, "store": true, "top_k": 5, "later": null,
    });
    let responses = json!({
        "service_tier": "flex", "text": {"verbosity": "low"}, "metadata": {"team": "t"}, "truncation": "auto", "user": "u",
        "top_p": 0.5,
    });
    let messages = json!({
        "top_k": 5, "metadata": {"user_id": "u"}, "service_tier": "auto", "cache_control": mark,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "say hi", "cache_control": mark}]}],
    });
    let cases = [
        (CHAT, &chat, "openai", ""),
        (CHAT, &chat, "compatible", "metadata store top_k"),
        (CHAT, &chat, "mistral", "metadata store top_k user"),
        (CHAT, &chat, "responses", "frequency_penalty logit_bias seed top_k"),
        (
            CHAT,
            &chat,
            "anthropic",
            "frequency_penalty logit_bias metadata prompt_cache_key safety_identifier seed service_tier store verbosity",
        ),
        (RESPONSES, &responses, "responses", ""),
        (RESPONSES, &responses, "openai", "metadata truncation"),
        (RESPONSES, &responses, "compatible", "metadata service_tier text truncation"),
        (RESPONSES, &responses, "gemini", "metadata service_tier text truncation user"),
        (RESPONSES, &responses, "anthropic", "metadata service_tier text truncation"),
        (MESSAGES, &messages, "anthropic", ""),
        (MESSAGES, &messages, "openai", "cache_control service_tier top_k"),
        (MESSAGES, &messages, "responses", "cache_control service_tier top_k"),
        (MESSAGES, &messages, "gemini", "cache_control service_tier user"),
        (CHAT, &json!({"temperature": 1.5}), "anthropic", "temperature"),
        (CHAT, &json!({"temperature": 1.5}), "bedrock", "temperature"),
        (CHAT, &json!({"temperature": 1.0}), "anthropic", ""),
        (RESPONSES, &json!({"temperature": 1.5}), "openai", ""),
        // Any of its providers may get the request.
        (
            CHAT,
            &chat,
            "mixed",
            "frequency_penalty logit_bias metadata prompt_cache_key safety_identifier seed service_tier store top_k verbosity",
        ),
        (RESPONSES, &responses, "mixed", "metadata service_tier text truncation"),
        (MESSAGES, &messages, "mixed", "cache_control service_tier top_k"),
        (
            MESSAGES,
            &json!({"system": [{"type": "text", "text": "a", "cache_control": mark}]}),
            "bedrock",
            "cache_control",
        ),
        // Without a provider, nothing is dropped.
        (CHAT, &chat, "scripted", ""),
    ];
    for (path, parameters, model, expected) in cases {
        for stream in [false, true] {
            let mut parameters = parameters.clone();
            (parameters["model"], parameters["stream"]) = (json!(model), json!(stream));
            let (status, names, body) = send(&gateway, path, &parameters).await;
            assert_eq!(status, 200, "{path} {model}: {body}");
            assert_eq!(names.join(" "), expected, "{path} {model}");
        }
    }
}

/// `metadata` reaches the provider without the options for the gateway.
#[tokio::test]
async fn options_in_metadata_are_not_sent() {
    let gateway = TestGateway::start().await;
    let options = r#"{"max_steps": 3}"#;
    let labels = json!({"team": "t", "toolwire": options});
    for (path, model, dialect) in
        [(CHAT, "responses", Dialect::Responses), (RESPONSES, "openai", Dialect::OpenAi)]
    {
        let parameters = json!({"model": model, "store": true, "metadata": labels, "service_tier": "flex"});
        let (status, names, body) = send(&gateway, path, &parameters).await;
        assert_eq!((status, names.len()), (200, 0), "{names:?}: {body}");
        let sent = last_body(&gateway, dialect);
        assert_eq!((&sent["metadata"], &sent["store"]), (&json!({"team": "t"}), &json!(true)));
        assert_eq!(sent["service_tier"], "flex");
    }
    for (path, model, dialect) in [
        (CHAT, "responses", Dialect::Responses),
        (CHAT, "gemini", Dialect::Gemini),
        (CHAT, "anthropic", Dialect::Anthropic),
        (MESSAGES, "openai", Dialect::OpenAi),
    ] {
        let parameters = json!({"model": model, "metadata": {"toolwire": options}});
        let (status, names, body) = send(&gateway, path, &parameters).await;
        assert_eq!((status, names.len()), (200, 0), "{names:?}: {body}");
        let sent = last_body(&gateway, dialect);
        assert_eq!(sent.get("metadata"), None, "{model}");
        assert!(!sent.to_string().contains("toolwire"), "{sent}");
    }
}

/// A header cannot have every character. The other names must not be lost because of one.
#[tokio::test]
async fn names_are_listed_whatever_characters_they_have() {
    let gateway = TestGateway::start().await;
    let parameters = json!({"model": "anthropic", "seed": 1, "größe": 1, "a b": 1});
    let (status, names, body) = send(&gateway, CHAT, &parameters).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(names, ["a?b", "gr??e", "seed"]);
}

#[tokio::test]
async fn a_parameter_that_the_response_depends_on_is_not_dropped() {
    let gateway = TestGateway::start().await;
    for (path, name, value, own) in [
        (CHAT, "web_search_options", json!({}), "openai"),
        (CHAT, "prediction", json!({"type": "content", "content": "hi"}), "openai"),
        (MESSAGES, "thread", json!({"type": "continue", "previous_message_id": "msg_1"}), "anthropic"),
    ] {
        for model in ["bedrock", "gemini", "mixed"] {
            let (status, _, body) = send(&gateway, path, &json!({"model": model, name: value})).await;
            assert_eq!(status, 400, "{model}: {body}");
            let expected = format!("`{name}` is not supported by the API of `{model}`");
            assert!(body.contains(&expected), "{body}");
        }
        let (status, names, body) = send(&gateway, path, &json!({"model": own, name: value})).await;
        assert_eq!((status, names.len()), (200, 0), "{body}");
    }
}

/// `null` means absent, also for the fields that a response of the Responses API repeats.
#[tokio::test]
async fn null_is_not_repeated() {
    let gateway = TestGateway::start().await;
    let names =
        ["tools", "tool_choice", "parallel_tool_calls", "metadata", "text", "temperature", "truncation"];
    let parameters: Value = names.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
    for sent in [json!({}), parameters] {
        let mut parameters = sent.clone();
        parameters["model"] = json!("scripted");
        let (status, _, body) = send(&gateway, RESPONSES, &parameters).await;
        let response: Value = serde_json::from_str(&body).unwrap();
        let found = names.map(|name| response[name].clone());
        let text = json!({"format": {"type": "text"}});
        let expected =
            [json!([]), json!("auto"), json!(true), json!({}), text, json!(1.0), json!("disabled")];
        assert_eq!((status, found), (200, expected), "{sent}");
    }
}

#[tokio::test]
async fn the_number_of_stop_sequences_is_limited() {
    let gateway = TestGateway::start().await;
    let many = |count: usize| (0..count).map(|number| format!("stop {number}")).collect::<Vec<_>>();
    for (path, name) in [(CHAT, "stop"), (MESSAGES, "stop_sequences")] {
        let (status, _, body) = send(&gateway, path, &json!({"model": "scripted", name: many(1_024)})).await;
        assert_eq!(status, 200, "{body}");
        let (status, _, body) = send(&gateway, path, &json!({"model": "scripted", name: many(1_025)})).await;
        let message = "the request has 1025 stop sequences, and the maximum is 1024";
        assert!(status == 400 && body.contains(message), "{status} {body}");
        assert_eq!(body.contains(&format!("\"param\":\"{name}\"")), path == CHAT, "{body}");
    }
}
