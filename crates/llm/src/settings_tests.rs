use std::collections::BTreeMap;

use serde_json::json;

use super::*;

fn settings(
    name: &str,
    config: serde_json::Value,
    variables: &[(&str, &str)],
) -> Result<EndpointSettings, EndpointError> {
    let config: EndpointConfig = serde_json::from_value(config).expect("a configuration");
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    EndpointSettings::new(name, &config, &|variable| variables.get(variable).map(|value| (*value).to_owned()))
}

/// Checks the URL and the key of a request.
#[track_caller]
fn check(name: &str, config: serde_json::Value, variables: &[(&str, &str)], url: &str, key: &str) {
    let settings = settings(name, config, variables).expect("valid settings");
    let credentials = match &settings.credentials {
        Credentials::None => "none".to_owned(),
        Credentials::Bearer(key) => format!("bearer {}", key.expose()),
        Credentials::Header(header, key) => format!("{header} {}", key.expose()),
        Credentials::Aws { access_key, secret_key, session_token, region } => {
            let token = session_token.as_ref().map_or("-", Secret::expose);
            format!("aws {} {} {token} {region}", access_key.expose(), secret_key.expose())
        }
    };
    assert_eq!((settings.url.as_str(), credentials.as_str()), (url, key));
}

#[test]
fn each_provider_has_its_url_and_key() {
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
fn bedrock_uses_an_api_key_or_signs_requests() {
    let url =
        "https://bedrock-runtime.eu-central-1.amazonaws.com/model/anthropic.claude-v1%3A0/converse-stream";
    let region = ("AWS_DEFAULT_REGION", "eu-central-1");
    let key_pair = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let name = "bedrock/anthropic.claude-v1:0";
    check(
        name,
        json!({}),
        &[region, ("AWS_BEARER_TOKEN_BEDROCK", "k"), key_pair[0], key_pair[1]],
        url,
        "bearer k",
    );
    check(name, json!({}), &[region, key_pair[0], key_pair[1]], url, "aws a s - eu-central-1");
    check(
        name,
        json!({"region": "eu-central-1"}),
        &[key_pair[0], key_pair[1], ("AWS_SESSION_TOKEN", "t")],
        url,
        "aws a s t eu-central-1",
    );
}

#[test]
fn a_bare_name_uses_the_openai_compatible_endpoint() {
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
    let settings = settings("openai/meta/llama", json!({}), &[gateway]).expect("valid settings");
    assert_eq!(settings.options.model, "meta/llama");
}

#[test]
fn the_configuration_overrides_provider_defaults_and_variables() {
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
fn a_base_url_keeps_its_query_and_not_its_password() {
    let key = [("OPENAI_API_KEY", "k")];
    check(
        "openai/m",
        json!({"baseUrl": "https://a/v1/?route=x&y"}),
        &key,
        "https://a/v1/chat/completions?route=x&y",
        "bearer k",
    );
    check(
        "azure/m",
        json!({"baseUrl": "https://a?api-version=v&team=t", "apiKey": "k"}),
        &[],
        "https://a/openai/deployments/m/chat/completions?api-version=v&team=t",
        "api-key k",
    );
    let settings =
        settings("m", json!({"baseUrl": "https://me:p%40ss-word@a/v1"}), &[]).expect("valid settings");
    assert_eq!(settings.url.as_str(), "https://a/v1/chat/completions");
    assert!(!format!("{settings:?}").contains("ss-word"));
    let (user, password) = settings.login.expect("a login");
    assert_eq!((user.as_str(), password.expose()), ("me", "p@ss-word"));
    check_error(
        "m",
        json!({"baseUrl": "htp://me:pass@a?k=pass"}),
        &[],
        "invalid base URL `htp://…@a?…` for `m`: the scheme is not `http` or `https`, or the host is missing",
        "start it with `http://` or `https://`",
    );
}

#[test]
fn every_form_of_ollama_host_is_accepted() {
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
fn check_error(name: &str, config: serde_json::Value, variables: &[(&str, &str)], message: &str, hint: &str) {
    let error = settings(name, config, variables).expect_err("invalid settings");
    assert_eq!((error.to_string().as_str(), error.hint().as_str()), (message, hint));
}

#[test]
fn missing_settings_are_reported_with_a_hint() {
    check_error(
        "openai/gpt-5.2",
        json!({}),
        &[("OPENAI_API_KEY", " ")],
        "no API key is set for `openai/gpt-5.2`",
        "set `OPENAI_API_KEY`",
    );
    check_error(
        "bedrock/m",
        json!({"region": "r"}),
        &[],
        "no API key is set for `bedrock/m`",
        "set `AWS_BEARER_TOKEN_BEDROCK` or `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`",
    );
    check_error(
        "bedrock/m",
        json!({}),
        &[],
        "no region is set for `bedrock/m`",
        "set `AWS_REGION`, or `region` in the configuration",
    );
    check_error(
        "azure/m",
        json!({}),
        &[("AZURE_OPENAI_API_KEY", "k")],
        "no base URL is set for `azure/m`",
        "set `AZURE_OPENAI_ENDPOINT`",
    );
    check_error(
        "gpt-5.2",
        json!({}),
        &[],
        "no base URL is set for `gpt-5.2`",
        "set `OPENAI_BASE_URL` to an OpenAI-compatible endpoint, or write `provider/model`, such as `openai/gpt-5.2`",
    );
    check_error(
        "anthropic",
        json!({}),
        &[],
        "no base URL is set for `anthropic`",
        "add the model: `anthropic/…`",
    );
    check_error(
        "opnai/gpt-5.2",
        json!({}),
        &[],
        "unknown provider `opnai`",
        "did you mean `openai/gpt-5.2`?",
    );
}

#[test]
fn invalid_configurations_are_reported_with_a_hint() {
    check_error(
        "work",
        json!({"provider": "azur"}),
        &[],
        "unknown provider `azur` in the configuration of `work`",
        "did you mean `azure`?",
    );
    check_error(
        "work",
        json!({"baseUrl": "gateway.example/v1"}),
        &[],
        "invalid base URL `gateway.example/v1` for `work`: relative URL without a base",
        "start it with `http://` or `https://`",
    );
    check_error(
        "ollama/m",
        json!({"headers": {"bad name": "x"}}),
        &[],
        "invalid header `bad name` for `ollama/m`",
        "use letters, digits and dashes in header names, and a single line of text in values",
    );
    check_error(
        "anthropic/m",
        json!({"api": "responses", "apiKey": "k"}),
        &[],
        "`anthropic/m` does not support the API `responses`",
        "remove `api`, or use an OpenAI endpoint",
    );
    check_error(
        "ollama/m",
        json!({"strict": true}),
        &[],
        "`ollama/m` does not support strict tools",
        "remove `strict`",
    );
}

#[test]
fn debug_output_hides_keys() {
    let variables = [("OPENAI_API_KEY", "sk-1")];
    let debug = format!("{:?}", settings("openai/m", json!({"headers": {"x-key": "sk-2"}}), &variables));
    assert!(debug.contains('…') && !debug.contains("sk-"), "{debug}");
}

#[test]
fn result_options_depend_on_the_model() {
    let with = |change: fn(&mut ResultOptions)| {
        let mut options = ResultOptions::default();
        change(&mut options);
        options
    };
    for (dialect, model, expected) in [
        (Dialect::Gemini, "gemini-3-pro-preview", with(|options| options.nested_media = true)),
        (Dialect::Gemini, "gemini-3.5-flash", with(|options| options.nested_media = true)),
        (Dialect::Gemini, "gemini-2.5-pro", with(|options| options.nested_media = false)),
        (Dialect::Gemini, "learnlm", with(|options| options.nested_media = false)),
        (Dialect::Bedrock, "eu.writer.palmyra-x5-v1:0", with(|options| options.error_flag = false)),
        (Dialect::Bedrock, "mistral.large", with(|options| options.images = false)),
        (Dialect::Bedrock, "anthropic.claude", ResultOptions::default()),
        (Dialect::OpenAi, "gemini-2", ResultOptions::default()),
    ] {
        assert_eq!(result_options(dialect, model), expected, "{model}");
    }
}
