//! What a user may say about an endpoint.
//!
//! The command line reads it from `toolwire.models` of `mcp.json`: an object of endpoints, each under the name it is asked
//! for by. A name that is a provider's holds for all models of that provider.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use toolwire_contract::{Usage, parse_duration as parse_time};

use crate::Secret;

/// What a user may say about an endpoint. Everything can be left out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointConfig {
    /// A name in the table of providers; without, the name says it.
    pub provider: Option<String>,
    /// What the provider calls the model (Azure and DIAL: the deployment); without, the name says it.
    pub model: Option<String>,
    /// Which of OpenAI's APIs.
    pub api: Option<Api>,
    pub base_url: Option<String>,
    pub api_key: Option<Secret>,
    /// The variable that holds the key, instead of the provider's usual one.
    pub api_key_variable: Option<String>,
    /// Sent with every request.
    pub headers: BTreeMap<String, Secret>,
    /// Azure and DIAL: `api-version`.
    pub api_version: Option<String>,
    /// Bedrock.
    pub region: Option<String>,
    /// Whether the model is held to the schemas of the tools.
    pub strict: bool,
    /// Whether answers are streamed; they are.
    pub stream: Option<bool>,
    pub timeouts: Timeouts,
    /// How many times it is asked again after a failure that may pass.
    pub retries: Option<u32>,
    pub price: Option<Price>,
    /// Tokens of request and answer together.
    pub context_tokens: Option<u64>,
    /// The most tools in one request.
    pub max_tools: Option<usize>,
    /// Where a request does not say it.
    pub max_output_tokens: Option<u64>,
    /// Whether the model sees images; it does.
    pub images: Option<bool>,
    /// Whether the model reads files such as PDF; it does.
    pub files: Option<bool>,
    /// Whether the model hears.
    pub audio: bool,
    /// Whether a call may be demanded; thinking models may refuse it.
    pub forced_choice: Option<bool>,
    /// Whether several calls at once are allowed; without, as the provider likes.
    pub parallel_calls: Option<bool>,
    /// Whether reasoning of earlier answers goes back (Chat Completions); without, where the provider is known to want it.
    pub reasoning: Option<bool>,
    /// Whether encrypted reasoning is asked for (Responses); models that do not reason refuse it.
    pub encrypted_reasoning: Option<bool>,
    /// Whether a stream is asked for its usage; without, where the provider is known to take the question.
    pub stream_usage: Option<bool>,
    /// Fields of every request, as the provider names them (`reasoning_effort`); they win.
    pub request: Map<String, Value>,
}

/// Which of OpenAI's APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Api {
    Chat,
    Responses,
}

/// How long an endpoint may take: seconds, or text such as `"500ms"`, `"30s"`, `"2m"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    /// To take a connection; 10 s.
    #[serde(deserialize_with = "parse_duration")]
    pub connect: Option<Duration>,
    /// To begin its answer; 5 min. A model that thinks, or does not stream, takes its time.
    #[serde(deserialize_with = "parse_duration")]
    pub first_token: Option<Duration>,
    /// To go on with it; 2 min.
    #[serde(deserialize_with = "parse_duration")]
    pub silence: Option<Duration>,
}

/// US dollars for a million tokens, for providers that do not say what an answer cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// For input that was cached; without, as other input.
    pub cached_input: Option<f64>,
}

/// The endpoints of a configuration, and the keys in it that nothing knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointConfigs {
    pub endpoints: BTreeMap<String, EndpointConfig>,
    /// Each with its way from the top, such as `work.timeouts.conect`: for a warning.
    pub unknown_keys: Vec<String>,
}

/// A configuration that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{place}`: {problem}")]
pub struct ConfigError {
    pub place: String,
    pub problem: String,
}

impl ConfigError {
    /// The next thing to try, in one line.
    pub fn hint(&self) -> &'static str {
        "the keys of an endpoint are described in the guide, under `toolwire.models`"
    }
}

impl EndpointConfigs {
    /// Reads what stands under `toolwire.models`.
    pub fn read(value: &Value) -> Result<EndpointConfigs, ConfigError> {
        let mut unknown_keys = Vec::new();
        let mut track = serde_path_to_error::Track::new();
        let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
        let mut note = |path: serde_ignored::Path<'_>| unknown_keys.push(path.to_string());
        let ignoring = serde_ignored::Deserializer::new(tracked, &mut note);
        let read = BTreeMap::<String, EndpointConfig>::deserialize(ignoring);
        let endpoints = read
            .map_err(|error| ConfigError { place: track.path().to_string(), problem: error.to_string() })?;
        Ok(EndpointConfigs { endpoints, unknown_keys })
    }
}

impl Price {
    /// What an answer cost, in billionths of a dollar.
    pub fn of(&self, usage: &Usage) -> u64 {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let fresh = usage.input_tokens - cached;
        // A dollar for a million tokens is a thousand billionths for one.
        let nanodollars = 1000.0
            * (fresh as f64 * self.input
                + cached as f64 * self.cached_input.unwrap_or(self.input)
                + usage.output_tokens as f64 * self.output);
        (nanodollars.max(0.0).round() as u64).min(Usage::MAX_COUNT)
    }
}

fn parse_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = match Option::<Value>::deserialize(deserializer)? {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
    };
    parse_time(&text).map(Some).ok_or_else(|| {
        D::Error::custom(format!("`{text}` is no time such as `30` (seconds), `\"500ms\"` or `\"2m\"`"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_key_is_read() {
        let text = r#"{"work": {
            "provider": "azure", "model": "gpt", "api": "responses", "baseUrl": "https://a", "apiKey": "k",
            "apiKeyVariable": "K", "headers": {"x-team": "t"}, "apiVersion": "v", "region": "eu-central-1",
            "strict": true, "stream": false,
            "timeouts": {"connect": 1, "firstToken": "1.5m", "silence": "500ms"}, "retries": 0,
            "price": {"input": 1.25, "output": 10, "cachedInput": 0.125}, "contextTokens": 200000, "maxTools": 20,
            "maxOutputTokens": 4096, "images": false, "files": false, "audio": true, "forcedChoice": false,
            "parallelCalls": false, "reasoning": true, "encryptedReasoning": false, "streamUsage": true,
            "request": {"reasoning_effort": "low", "seed": 7}
        }}"#;
        let read =
            EndpointConfigs::read(&serde_json::from_str(text).expect("JSON")).expect("a configuration");
        let expected = EndpointConfig {
            provider: Some("azure".to_owned()),
            model: Some("gpt".to_owned()),
            api: Some(Api::Responses),
            base_url: Some("https://a".to_owned()),
            api_key: Some(Secret::new("k")),
            api_key_variable: Some("K".to_owned()),
            headers: BTreeMap::from([("x-team".to_owned(), Secret::new("t"))]),
            api_version: Some("v".to_owned()),
            region: Some("eu-central-1".to_owned()),
            strict: true,
            stream: Some(false),
            timeouts: Timeouts {
                connect: Some(Duration::from_secs(1)),
                first_token: Some(Duration::from_secs(90)),
                silence: Some(Duration::from_millis(500)),
            },
            retries: Some(0),
            price: Some(Price { input: 1.25, output: 10.0, cached_input: Some(0.125) }),
            context_tokens: Some(200_000),
            max_tools: Some(20),
            max_output_tokens: Some(4096),
            images: Some(false),
            files: Some(false),
            audio: true,
            forced_choice: Some(false),
            parallel_calls: Some(false),
            reasoning: Some(true),
            encrypted_reasoning: Some(false),
            stream_usage: Some(true),
            request: json!({"reasoning_effort": "low", "seed": 7}).as_object().cloned().expect("an object"),
        };
        assert_eq!(read.endpoints, BTreeMap::from([("work".to_owned(), expected)]));
        assert_eq!(read.unknown_keys, [""; 0]);
    }

    #[test]
    fn a_key_that_nothing_knows_is_named_with_its_place() {
        let value = json!({"work": {"modle": "x", "timeouts": {"conect": 1}, "request": {"anything": 1}}});
        let read = EndpointConfigs::read(&value).expect("a configuration");
        assert_eq!(read.unknown_keys, ["work.modle", "work.timeouts.conect"]);
    }

    #[track_caller]
    fn check_refused(value: Value, expected: &str) {
        let refused = EndpointConfigs::read(&value).expect_err("the case is no configuration");
        assert_eq!(refused.to_string(), expected);
    }

    #[test]
    fn a_wrong_value_is_told_with_its_place() {
        check_refused(
            json!({"work": {"timeouts": {"silence": "soon"}}}),
            "`work.timeouts.silence`: `soon` is no time such as `30` (seconds), `\"500ms\"` or `\"2m\"`",
        );
        check_refused(
            json!({"work": {"retries": "many"}}),
            "`work.retries`: invalid type: string \"many\", expected u32",
        );
    }

    #[test]
    fn no_key_shows() {
        let value = json!({"work": {"apiKey": "sk-1", "headers": {"x-key": "sk-2"}}});
        let shown = format!("{:?}", EndpointConfigs::read(&value).expect("a configuration"));
        assert!(shown.contains('…') && !shown.contains("sk-"), "{shown}");
    }

    #[test]
    fn tokens_cost_what_they_cost() {
        let usage =
            Usage { input_tokens: 1_000_000, output_tokens: 500, cached_tokens: 400_000, ..Usage::default() };
        let price = Price { input: 2.5, output: 10.0, cached_input: Some(1.25) };
        assert_eq!(price.of(&usage), 1_500_000_000 + 500_000_000 + 5_000_000);
        assert_eq!(Price { cached_input: None, ..price }.of(&usage), 2_505_000_000);
        assert_eq!(Price { input: -1.0, output: f64::NAN, cached_input: None }.of(&usage), 0);
    }
}
