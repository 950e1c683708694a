use std::collections::BTreeMap;

use serde_json::json;

use super::*;

fn settings(
    name: &str,
    config: serde_json::Value,
    variables: &[(&str, &str)],
) -> Result<Settings, EndpointError> {
    let config: EndpointConfig = serde_json::from_value(config).expect("the case is a configuration");
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    Settings::new(name, &config, &|variable| variables.get(variable).map(|value| (*value).to_owned()))
}

/// Where a request goes, and with which key.
#[track_caller]
fn check(name: &str, config: serde_json::Value, variables: &[(&str, &str)], url: &str, key: &str) {
    let settings = settings(name, config, variables).expect("the endpoint can be made");
    let shown = match &settings.credentials {
        Credentials::None => "none".to_owned(),
        Credentials::Bearer(key) => format!("bearer {}", key.expose()),
        Credentials::Header(header, key) => format!("{header} {}", key.expose()),
        Credentials::Aws { access_key, secret_key, session_token, region } => {
            let token = session_token.as_ref().map_or("-", Secret::expose);
            format!("aws {} {} {token} {region}", access_key.expose(), secret_key.expose())
        }
    };
    assert_eq!((settings.url.as_str(), shown.as_str()), (url, key));
}

#[test]
fn each_provider_is_asked_where_it_is_and_with_its_key() {
    check(
        "openai/gpt-5.2",
        json!({}),
        &[("OPENAI_API_KEY", " k\n")],
        "https://api.openai.com/v1/chat/completions",
        "bearer k",
    );
    check(
        "responses/gpt-5.2",
        json!({}),
        &[("OPENAI_API_KEY", "k")],
        "https://api.openai.com/v1/responses",
        "bearer k",
    );
    check(
        "anthropic/claude-x",
        json!({}),
        &[("ANTHROPIC_API_KEY", "k")],
        "https://api.anthropic.com/v1/messages",
        "x-api-key k",
    );
    check(
        "gemini/gemini-3-pro",
        json!({}),
        &[("GOOGLE_API_KEY", "k")],
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
        "x-goog-api-key k",
    );
    check(
        "gemini/gemini-3-pro",
        json!({"stream": false}),
        &[("GOOGLE_API_KEY", "other"), ("GEMINI_API_KEY", "k")],
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:generateContent",
        "x-goog-api-key k",
    );
    check(
        "azure/my deployment",
        json!({}),
        &[("AZURE_OPENAI_ENDPOINT", "https://x.openai.azure.com/"), ("AZURE_OPENAI_API_KEY", "k")],
        "https://x.openai.azure.com/openai/deployments/my%20deployment/chat/completions?api-version=2024-10-21",
        "api-key k",
    );
    check(
        "azure/gpt",
        json!({"apiVersion": "2025-01-01-preview"}),
        &[("AZURE_OPENAI_ENDPOINT", "https://x.openai.azure.com/openai/v1"), ("AZURE_OPENAI_API_KEY", "k")],
        "https://x.openai.azure.com/openai/v1/chat/completions",
        "api-key k",
    );
    check(
        "dial/gpt",
        json!({"apiVersion": "v"}),
        &[("DIAL_URL", "https://dial.example"), ("DIAL_API_KEY", "k")],
        "https://dial.example/openai/deployments/gpt/chat/completions?api-version=v",
        "Api-Key k",
    );
    check("ollama/qwen3:8b", json!({}), &[], "http://127.0.0.1:11434/api/chat", "none");
    check(
        "mistral/m",
        json!({}),
        &[("MISTRAL_API_KEY", "k")],
        "https://api.mistral.ai/v1/chat/completions",
        "bearer k",
    );
    check(
        "groq/m",
        json!({}),
        &[("GROQ_API_KEY", "k")],
        "https://api.groq.com/openai/v1/chat/completions",
        "bearer k",
    );
    check(
        "deepseek/m",
        json!({}),
        &[("DEEPSEEK_API_KEY", "k")],
        "https://api.deepseek.com/chat/completions",
        "bearer k",
    );
    check("xai/m", json!({}), &[("XAI_API_KEY", "k")], "https://api.x.ai/v1/chat/completions", "bearer k");
    check("cohere/m", json!({}), &[("CO_API_KEY", "k")], "https://api.cohere.com/v2/chat", "bearer k");
    check("vllm/m", json!({}), &[], "http://127.0.0.1:8000/v1/chat/completions", "none");
    check("llamacpp/m", json!({}), &[], "http://127.0.0.1:8080/v1/chat/completions", "none");
}

#[test]
fn bedrock_takes_a_key_of_its_own_or_signs() {
    let url =
        "https://bedrock-runtime.eu-central-1.amazonaws.com/model/anthropic.claude-v1%3A0/converse-stream";
    let region = ("AWS_DEFAULT_REGION", "eu-central-1");
    let pair = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let name = "bedrock/anthropic.claude-v1:0";
    check(name, json!({}), &[region, ("AWS_BEARER_TOKEN_BEDROCK", "k"), pair[0], pair[1]], url, "bearer k");
    check(name, json!({}), &[region, pair[0], pair[1]], url, "aws a s - eu-central-1");
    check(
        name,
        json!({"region": "eu-central-1"}),
        &[pair[0], pair[1], ("AWS_SESSION_TOKEN", "t")],
        url,
        "aws a s t eu-central-1",
    );
}

#[test]
fn a_bare_name_is_asked_for_at_the_compatible_endpoint() {
    let gateway = ("OPENAI_BASE_URL", "https://gateway.example/v1/");
    let url = "https://gateway.example/v1/chat/completions";
    check("qwen", json!({}), &[gateway], url, "none");
    check("qwen", json!({}), &[gateway, ("OPENAI_API_KEY", "k")], url, "bearer k");
    check("openai/meta/llama", json!({}), &[gateway], url, "none");
    check(
        "gpt-5.2",
        json!({}),
        &[("OPENAI_API_KEY", "k")],
        "https://api.openai.com/v1/chat/completions",
        "bearer k",
    );
    let settings = settings("openai/meta/llama", json!({}), &[gateway]).expect("the endpoint can be made");
    assert_eq!(settings.options.model, "meta/llama");
}

#[test]
fn the_configuration_wins_over_the_table_and_the_variables() {
    check(
        "work",
        json!({"provider": "anthropic", "model": "m", "baseUrl": "https://proxy.example/v1", "apiKey": "own"}),
        &[("ANTHROPIC_API_KEY", "k")],
        "https://proxy.example/v1/messages",
        "x-api-key own",
    );
    check(
        "openai/m",
        json!({"apiKeyVariable": "TEAM_KEY", "api": "responses"}),
        &[("OPENAI_API_KEY", "k"), ("TEAM_KEY", "team")],
        "https://api.openai.com/v1/responses",
        "bearer team",
    );
    check("org/own", json!({"baseUrl": "http://a/v1"}), &[], "http://a/v1/chat/completions", "none");
}

#[test]
fn ollama_says_where_it_is_in_its_own_way() {
    for (host, url) in [
        ("0.0.0.0", "http://127.0.0.1:11434/api/chat"),
        ("box:1234", "http://box:1234/api/chat"),
        (":1234", "http://127.0.0.1:1234/api/chat"),
        ("https://ollama.example", "https://ollama.example/api/chat"),
        ("http://0.0.0.0:5000/", "http://127.0.0.1:5000/api/chat"),
    ] {
        check("ollama/m", json!({}), &[("OLLAMA_HOST", host)], url, "none");
    }
}

#[track_caller]
fn check_refused(
    name: &str,
    config: serde_json::Value,
    variables: &[(&str, &str)],
    message: &str,
    hint: &str,
) {
    let refused = settings(name, config, variables).expect_err("the endpoint cannot be made");
    assert_eq!((refused.to_string().as_str(), refused.hint().as_str()), (message, hint));
}

#[test]
fn what_is_missing_is_told_with_what_to_set() {
    check_refused(
        "openai/gpt-5.2",
        json!({}),
        &[("OPENAI_API_KEY", " ")],
        "`openai/gpt-5.2` needs a key, and none of its variables is set",
        "set `OPENAI_API_KEY`",
    );
    check_refused(
        "bedrock/m",
        json!({"region": "r"}),
        &[],
        "`bedrock/m` needs a key, and none of its variables is set",
        "set `AWS_BEARER_TOKEN_BEDROCK` or `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`",
    );
    check_refused(
        "bedrock/m",
        json!({}),
        &[],
        "`bedrock/m` has no region",
        "set `AWS_REGION`, or `region` in the configuration",
    );
    check_refused(
        "azure/m",
        json!({}),
        &[("AZURE_OPENAI_API_KEY", "k")],
        "`azure/m` has no address",
        "set `AZURE_OPENAI_ENDPOINT`",
    );
    check_refused(
        "gpt-5.2",
        json!({}),
        &[],
        "`gpt-5.2` has no address",
        "set `OPENAI_BASE_URL` to an OpenAI-compatible endpoint, or write `provider/model`, such as `openai/gpt-5.2`",
    );
    check_refused(
        "anthropic",
        json!({}),
        &[],
        "`anthropic` has no address",
        "write the model after it: `anthropic/…`",
    );
    check_refused(
        "opnai/gpt-5.2",
        json!({}),
        &[],
        "no provider is called `opnai`",
        "did you mean `openai/gpt-5.2`?",
    );
}

#[test]
fn what_is_wrong_in_the_configuration_is_told() {
    check_refused(
        "work",
        json!({"provider": "azur"}),
        &[],
        "no provider is called `azur`, as the configuration of `work` says",
        "did you mean `azure`?",
    );
    check_refused(
        "work",
        json!({"baseUrl": "gateway.example/v1"}),
        &[],
        "the address `gateway.example/v1` of `work` is none: relative URL without a base",
        "it must begin with `http://` or `https://`",
    );
    check_refused(
        "ollama/m",
        json!({"headers": {"bad name": "x"}}),
        &[],
        "the header `bad name` of `ollama/m` cannot be sent",
        "names of headers are letters, digits and dashes, and values are one line of text",
    );
    check_refused(
        "anthropic/m",
        json!({"api": "responses", "apiKey": "k"}),
        &[],
        "`anthropic/m` cannot be asked by `responses`",
        "leave `api` out, or set it for an OpenAI endpoint",
    );
    check_refused(
        "ollama/m",
        json!({"strict": true}),
        &[],
        "`ollama/m` has no strict way to be offered tools",
        "leave `strict` out",
    );
}

#[test]
fn no_key_shows() {
    let variables = [("OPENAI_API_KEY", "sk-1")];
    let shown = format!("{:?}", settings("openai/m", json!({"headers": {"x-key": "sk-2"}}), &variables));
    assert!(shown.contains('…') && !shown.contains("sk-"), "{shown}");
}
