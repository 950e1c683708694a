//! Requests to a provider that supports the client's own API: tools are added, and everything else is sent
//! unchanged.

use std::collections::BTreeMap;

use crate::support::TestGateway;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolwire_contract::Tool;
use toolwire_contract::model::ModelRequest;
use toolwire_dialect::request::{RequestOptions, write_request_text};
use toolwire_dialect::{Dialect, Options, Toolset};
use toolwire_gateway::GatewaySettings;
use toolwire_testkit::http_client;

async fn post(gateway: &TestGateway, path: &str, body: String) -> (u16, Value) {
    let request = http_client().post(gateway.url(path)).header("content-type", "application/json");
    let request = request.header("anthropic-beta", "context-1m-2025-08-07").body(body);
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Returns the body that an endpoint sends for a request of the gateway.
fn body(dialect: Dialect, request: &ModelRequest) -> String {
    let verbatim = request.verbatim.as_ref().expect("the client's own request");
    let is_own = |tool: &&Tool| verbatim.tool(&tool.name).is_none();
    let own: Vec<Tool> = request.tools.iter().filter(is_own).cloned().collect();
    let toolset = Toolset::new(&own, dialect, &Options::default());
    let mut options = RequestOptions::default();
    options.model = "m".to_owned();
    options.stream = true;
    write_request_text(dialect, request, &toolset, &options).unwrap()
}

fn elements(body: &str, key: &str) -> Vec<String> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(body).unwrap();
    let elements: Vec<&RawValue> = serde_json::from_str(fields[key].get()).unwrap();
    elements.into_iter().map(|element| element.get().to_owned()).collect()
}

const CASES: [(Dialect, &str, &str, &str); 3] = [
    (
        Dialect::OpenAi,
        "/v1/chat/completions",
        "messages",
        r#"{"model": "openai", "later": 1.0, "metadata": {"team": "t", "toolwire": "{}"}, "top_k": 3, "messages": [
            {"role": "system", "name": "ops", "content": [{"type": "text", "text": "Be\u0020brief."}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}}]},
            {"role": "assistant", "content": "A dot.", "annotations": []},
            {"role": "user", "name": "ann", "content": "ours"}],
          "tools": [{"type": "function", "function": {"name": "mine", "strict": true, "parameters": {"type": "object"}}}]}"#,
    ),
    (
        Dialect::Responses,
        "/v1/responses",
        "input",
        r#"{"model": "responses", "later": 1.0, "metadata": {"team": "t"}, "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "hi", "later": null}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VjcmV0"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello.", "annotations": []}]},
            {"role": "user", "content": "ours"}],
          "tools": [{"type": "custom", "name": "mine", "format": {"type": "text"}}]}"#,
    ),
    (
        Dialect::Anthropic,
        "/v1/messages",
        "messages",
        r#"{"model": "anthropic", "later": 1.0, "metadata": {"user_id": "u"}, "max_tokens": 9,
          "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}], "messages": [
            {"role": "user", "content": [{"type": "document", "source": {"type": "url", "url": "u"}, "citations": {"enabled": true}}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, {"type": "text", "text": "A\u0020text."}]},
            {"role": "user", "content": [{"type": "text", "text": "ours", "cache_control": {"type": "ephemeral"}}]}],
          "tools": [{"type": "bash_20250124", "name": "bash", "cache_control": {"type": "ephemeral"}}]}"#,
    ),
];

#[tokio::test]
async fn tools_are_added_and_the_rest_stays_as_it_was_sent() {
    for (dialect, path, key, sent) in CASES {
        let gateway = TestGateway::start().await;
        for _ in 0..2 {
            let (status, response) = post(&gateway, path, sent.to_owned()).await;
            assert_eq!(status, 200, "{response}");
            assert!(response.to_string().contains("value of a"), "{response}");
        }
        let requests = gateway.model.requests();
        let bodies: Vec<String> = requests.iter().map(|request| body(dialect, request)).collect();
        assert_eq!(
            (bodies.len(), &bodies[0], &bodies[1]),
            (4, &bodies[2], &bodies[3]),
            "the same bytes again"
        );
        let client = elements(sent, key);
        assert_eq!(elements(&bodies[0], key), client);
        assert_eq!(elements(&bodies[1], key)[..client.len()], client, "the loop keeps the prefix");
        assert!(elements(&bodies[1], key).len() > client.len());
        let tools = elements(&bodies[0], "tools");
        assert_eq!(tools, elements(&bodies[1], "tools"));
        assert_eq!(tools[0], elements(sent, "tools")[0]);
        assert_eq!(tools.len(), 6, "{tools:?}");
        let (written, sent): (Value, Value) =
            (serde_json::from_str(&bodies[0]).unwrap(), serde_json::from_str(sent).unwrap());
        for name in ["later", "system", "top_k", "max_tokens"] {
            assert_eq!(written.get(name), sent.get(name), "{name}");
        }
        let mut metadata = sent["metadata"].clone();
        metadata.as_object_mut().unwrap().shift_remove("toolwire");
        assert_eq!(written["metadata"], metadata);
        let headers = &requests[0].verbatim.as_ref().unwrap().headers;
        let is_anthropic = dialect == Dialect::Anthropic;
        assert_eq!(headers.iter().any(|(name, _)| *name == "anthropic-beta"), is_anthropic);
    }
}

/// The client's results are sent unchanged except for the id of the call, which is replaced by the provider's
/// id.
#[tokio::test]
async fn results_of_the_client_s_own_calls_stay_as_they_were_sent() {
    let gateway = TestGateway::start().await;
    let tools = json!([{"name": "get_weather", "input_schema": {"type": "object"}}]);
    let question = json!({"role": "user", "content": "client"});
    let first = json!({"model": "anthropic", "max_tokens": 9, "messages": [question], "tools": tools});
    let (_, response) = post(&gateway, "/v1/messages", first.to_string()).await;
    let id = response["content"][1]["id"].as_str().unwrap();
    assert!(id.starts_with("toolu_"), "{response}");
    let result = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": "sunny"}], "cache_control": {"type": "ephemeral"}},
    ]});
    let answer = json!({"role": "assistant", "content": response["content"]});
    let second = json!({"model": "anthropic", "max_tokens": 9, "messages": [question, answer, result], "tools": tools});
    let (status, response) = post(&gateway, "/v1/messages", second.to_string()).await;
    assert_eq!((status, &response["content"][0]["text"]), (200, &json!("Results: sunny.")), "{response}");
    let items = elements(&body(Dialect::Anthropic, gateway.model.requests().last().unwrap()), "messages");
    assert_eq!(items.len(), 3, "{items:?}");
    assert_eq!(items[2], result.to_string().replace(id, "1"));
}

/// A response has calls of a server's tool and of the client's. The results are one message, which keeps the
/// client's marks.
#[tokio::test]
async fn results_beside_those_of_servers_keep_their_cache_marks() {
    let gateway = TestGateway::start().await;
    let tools = json!([{"name": "get_weather", "input_schema": {"type": "object"}}]);
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    let question =
        json!({"role": "user", "content": [{"type": "text", "text": "mixed", "cache_control": mark}]});
    let body_of = |messages: Vec<&Value>| json!({"model": "anthropic", "max_tokens": 9, "messages": messages, "tools": tools});
    let (_, response) = post(&gateway, "/v1/messages", body_of(vec![&question]).to_string()).await;
    let answer = json!({"role": "assistant", "content": response["content"]});
    let call =
        response["content"].as_array().unwrap().iter().find(|block| block["type"] == "tool_use").unwrap();
    let result = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": call["id"], "content": "sunny", "cache_control": mark},
        {"type": "text", "text": "Go on.", "cache_control": {"type": "ephemeral"}},
    ]});
    let next = body_of(vec![&question, &answer, &result]).to_string();
    let (status, response) = post(&gateway, "/v1/messages", next).await;
    assert_eq!(status, 200, "{response}");
    let items = elements(&body(Dialect::Anthropic, gateway.model.requests().last().unwrap()), "messages");
    assert_eq!(items[0], question.to_string());
    let last: Value = serde_json::from_str(items.last().unwrap()).unwrap();
    let marks: Vec<(&Value, &Value)> = last["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| (block.get("tool_use_id").unwrap_or(&block["text"]), &block["cache_control"]))
        .collect();
    let none = Value::Null;
    let expected = [
        (json!("1"), &none),
        (json!("2"), &mark),
        (json!("3"), &none),
        (json!("Go on."), &json!({"type": "ephemeral"})),
    ];
    let expected: Vec<(&Value, &Value)> = expected.iter().map(|(id, mark)| (id, *mark)).collect();
    assert_eq!(marks, expected, "{last}");
}

#[tokio::test]
async fn tools_that_only_a_provider_has_are_refused_elsewhere() {
    let gateway = TestGateway::with(GatewaySettings::default()).await;
    let message = async |path: &str, body: Value| {
        let (status, response) = post(&gateway, path, body.to_string()).await;
        assert_eq!(status, 400, "{response}");
        response["error"]["message"].as_str().unwrap().to_owned()
    };
    let hi = json!([{"role": "user", "content": "hi"}]);
    let bash = json!([{"type": "bash_20250124", "name": "bash"}]);
    let body = json!({"model": "openai", "max_tokens": 9, "messages": hi, "tools": bash});
    assert!(message("/v1/messages", body).await.contains("`bash_20250124`"));
    for model in ["openai", "anthropic", "compatible", "scripted"] {
        for kind in ["shell", "local_shell", "apply_patch", "computer"] {
            let body = json!({"model": model, "input": "hi", "tools": [{"type": kind}]});
            let expected = format!(
                "`tools[0].type` is not supported: only OpenAI's Responses API has tools of the type `{kind}`"
            );
            assert_eq!(message("/v1/responses", body).await, expected);
        }
    }
    for model in ["openai", "anthropic", "compatible", "scripted", "mixed"] {
        let body = json!({"model": model, "input": "hi", "tools": [{"type": "web_search"}]});
        let refused = message("/v1/responses", body).await;
        assert!(
            refused.contains("`web_search`") && refused.contains("`x-toolwire-servers: none`"),
            "{refused}"
        );
    }
}

/// The provider gets its own tools as the client wrote them, in the client's order and before those of
/// servers, also if the request has no other tools.
#[tokio::test]
async fn tools_of_the_provider_stay_in_their_place() {
    let hi = json!([{"role": "user", "content": "say hi"}]);
    let function = |name: &str| match name {
        "a" | "b" => json!({"name": name, "input_schema": {"type": "object"}}),
        _ => json!({"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}),
    };
    let (search, fetch) = (
        json!({"type": "web_search_20250305", "name": "web_search", "cache_control": {"type": "ephemeral"}}),
        json!({"type": "web_fetch_20250910", "name": "web_fetch"}),
    );
    let (hosted, code) =
        (json!({"type": "web_search"}), json!({"type": "code_interpreter", "container": {"type": "auto"}}));
    for (dialect, path, key, tools) in [
        (
            Dialect::Anthropic,
            "/v1/messages",
            "messages",
            json!([search, function("a"), fetch, function("b")]),
        ),
        (Dialect::Anthropic, "/v1/messages", "messages", json!([function("a"), function("b"), search])),
        (Dialect::Anthropic, "/v1/messages", "messages", json!([search])),
        (Dialect::Responses, "/v1/responses", "input", json!([hosted, function("c"), code, function("d")])),
        (Dialect::Responses, "/v1/responses", "input", json!([function("c"), hosted])),
        (Dialect::Responses, "/v1/responses", "input", json!([code])),
    ] {
        let gateway = TestGateway::start().await;
        for servers in ["*", "none"] {
            let sent = json!({"model": dialect.to_string(), "max_tokens": 9, key: hi, "tools": tools});
            let request =
                http_client().post(gateway.url(path)).header("x-toolwire-servers", servers).json(&sent);
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
            let written = elements(&body(dialect, &gateway.model.requests().pop().unwrap()), "tools");
            let client: Vec<String> = tools.as_array().unwrap().iter().map(Value::to_string).collect();
            assert_eq!(written[..client.len()], client, "{servers}");
            assert_eq!(written.len() - client.len(), if servers == "*" { 5 } else { 0 }, "{written:?}");
        }
    }
}

/// A choice of tools restricts those in items of the conversation too, also in the item that the provider
/// gets.
#[tokio::test]
async fn only_allowed_tools_of_an_item_reach_the_provider() {
    let gateway = TestGateway::start().await;
    let function = |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}});
    let namespace = |names: &[&str]| json!({"type": "namespace", "name": "mail", "tools": names.iter().map(|name| function(name)).collect::<Vec<_>>()});
    let item = |tools: Value| json!({"type": "additional_tools", "role": "developer", "tools": tools});
    let question = json!({"role": "user", "content": "say hi"});
    let all = json!([function("a"), {"type": "web_search"}, {"type": "local_shell"}, namespace(&["send", "read"]), namespace(&["list"])]);
    let send = async |allowed: Value| {
        let choice = json!({"type": "allowed_tools", "mode": "auto", "tools": allowed});
        let sent =
            json!({"model": "responses", "input": [item(all.clone()), question], "tool_choice": choice});
        let (status, response) = post(&gateway, "/v1/responses", sent.to_string()).await;
        assert_eq!(status, 200, "{response}");
        let request = gateway.model.requests().pop().unwrap();
        let written: Value = serde_json::from_str(&body(Dialect::Responses, &request)).unwrap();
        let names: Vec<String> = request.tools.iter().map(|tool| tool.name.clone()).collect();
        (written["input"].clone(), names)
    };
    let (input, names) = send(json!([{"type": "function", "name": "a"}, {"type": "web_search"}])).await;
    assert_eq!(input, json!([item(json!([function("a"), {"type": "web_search"}])), question]));
    assert_eq!(names, ["a"]);
    let allowed = json!([{"type": "function", "name": "send", "namespace": "mail"}, {"type": "function", "name": "lookup"}]);
    let (input, names) = send(allowed).await;
    assert_eq!(input, json!([item(json!([namespace(&["send"])])), question]));
    assert_eq!(names, ["mail.send", "lookup"]);
    // An item without tools has no meaning.
    let (input, _) = send(json!([{"type": "function", "name": "lookup"}])).await;
    assert_eq!(input, json!([question]));
}

/// A request that has only instructions, or ends with an empty message, is one that OpenAI responds to.
#[tokio::test]
async fn a_request_needs_no_text_of_the_user() {
    let gateway = TestGateway::start().await;
    let (system, hi, hello) = (
        json!({"role": "system", "content": "Be brief."}),
        json!({"role": "user", "content": "hi"}),
        json!({"role": "assistant", "content": "Hello."}),
    );
    let empty = json!({"role": "user", "content": ""});
    for model in ["openai", "azure", "anthropic", "scripted"] {
        for messages in [json!([system]), json!([system, empty]), json!([hi, hello, empty])] {
            let sent = json!({"model": model, "messages": messages});
            let (status, response) = post(&gateway, "/v1/chat/completions", sent.to_string()).await;
            assert_eq!(status, 200, "{model} {messages}: {response}");
            let request = gateway.model.requests().pop().unwrap();
            if model == "openai" {
                let sent = elements(&sent.to_string(), "messages");
                let written = elements(&body(Dialect::OpenAi, &request), "messages");
                assert_eq!(written[..sent.len()], sent, "as the client wrote them");
            }
            if model == "anthropic" {
                let toolset = Toolset::new(&request.tools, Dialect::Anthropic, &Options::default());
                let options = RequestOptions::default();
                let written = toolwire_dialect::request::write_request(
                    Dialect::Anthropic,
                    &request,
                    &toolset,
                    &options,
                );
                let messages = written.unwrap()["messages"].as_array().unwrap().clone();
                assert_eq!(messages.last().unwrap()["role"], "user", "{messages:?}");
            }
        }
    }
    // Without instructions, there is nothing to respond to.
    let (status, response) =
        post(&gateway, "/v1/chat/completions", json!({"model": "openai", "messages": []}).to_string()).await;
    assert_eq!(status, 400, "{response}");
}

/// A server that only follows an API may reject what the API allows, so its requests are converted.
#[tokio::test]
async fn a_server_with_a_part_of_the_api_gets_a_converted_request() {
    let gateway = TestGateway::start().await;
    let body = json!({"model": "compatible", "max_completion_tokens": 9, "messages": [{"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "say hi"}]});
    let (status, response) = post(&gateway, "/v1/chat/completions", body.to_string()).await;
    assert_eq!(status, 200, "{response}");
    let request = gateway.model.requests().pop().unwrap();
    assert_eq!((request.verbatim, request.max_output_tokens), (None, Some(9)));
}

/// A response of the loop does not have these parts, whatever the provider returns.
#[tokio::test]
async fn parameters_for_parts_that_are_not_returned_are_refused() {
    let gateway = TestGateway::start().await;
    let chat =
        |key: &str, value: Value| json!({"messages": [{"role": "user", "content": "say hi"}], key: value});
    let input = |key: &str, value: Value| json!({"input": "say hi", key: value});
    for model in ["openai", "compatible", "responses", "anthropic", "scripted"] {
        for (path, parameter, mut body, expected) in [
            ("/v1/chat/completions", "logprobs", chat("logprobs", json!(true)), 400),
            ("/v1/chat/completions", "top_logprobs", chat("top_logprobs", json!(3)), 400),
            ("/v1/chat/completions", "modalities", chat("modalities", json!(["text", "audio"])), 400),
            ("/v1/chat/completions", "audio", chat("audio", json!({"voice": "alloy"})), 400),
            ("/v1/chat/completions", "n", chat("n", json!(2)), 400),
            ("/v1/responses", "include", input("include", json!(["message.output_text.logprobs"])), 400),
            ("/v1/responses", "top_logprobs", input("top_logprobs", json!(3)), 400),
            ("/v1/chat/completions", "", chat("logprobs", json!(false)), 200),
            ("/v1/chat/completions", "", chat("top_logprobs", Value::Null), 200),
            ("/v1/chat/completions", "", chat("modalities", json!(["text"])), 200),
            ("/v1/responses", "", input("include", json!(["reasoning.encrypted_content"])), 200),
        ] {
            body["model"] = json!(model);
            let (status, response) = post(&gateway, path, body.to_string()).await;
            assert_eq!(status, expected, "{model} {body}: {response}");
            if status == 400 {
                assert_eq!(response["error"]["param"], parameter, "{model}: {response}");
            }
        }
    }
}

/// Other parsers would find these fields, and the gateway would not.
#[tokio::test]
async fn other_spellings_of_fields_are_refused() {
    let gateway = TestGateway::start().await;
    for key in ["Tools", "TOOL_CHOICE", "Metadata", "tool\u{17f}"] {
        let body = json!({"model": "openai", "messages": [{"role": "user", "content": "say hi"}], key: []});
        let (status, response) = post(&gateway, "/v1/chat/completions", body.to_string()).await;
        assert_eq!(status, 400, "{key}: {response}");
        assert!(response["error"]["message"].as_str().unwrap().contains(key), "{key}: {response}");
    }
}
