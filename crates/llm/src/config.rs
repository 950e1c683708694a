//! User configuration of endpoints.
//!
//! The command line reads it from `toolwire.models` in `mcp.json`: an object that maps model names to
//! endpoints. An entry named after a provider applies to all models of that provider.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use toolwire_contract::model::Usage;
use toolwire_contract::text::parse_duration;
use toolwire_dialect::request::OutputMethod;

use crate::Secret;

/// The configuration of one endpoint. All fields are optional.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointConfig {
    /// The provider; by default, the part of the model name before the `/`.
    pub provider: Option<String>,
    /// The provider's name for the model (Azure and DIAL: the deployment); by default, the part after the
    /// `/`.
    pub model: Option<String>,
    /// The OpenAI API to use. By default, the gateway uses the API of its client if the base URL is OpenAI's
    /// own, and everything else uses Chat Completions.
    pub api: Option<Api>,
    pub base_url: Option<String>,
    pub api_key: Option<Secret>,
    /// The environment variable that holds the key, instead of the provider's default.
    pub api_key_variable: Option<String>,
    /// Sent with every request.
    pub headers: BTreeMap<String, Secret>,
    /// The `api-version` of Azure and DIAL.
    pub api_version: Option<String>,
    /// The AWS region of Bedrock.
    pub region: Option<String>,
    /// Whether the provider enforces the schemas of the tools.
    pub strict: bool,
    /// Whether responses are streamed; true by default.
    pub stream: Option<bool>,
    pub timeouts: Timeouts,
    /// The maximum number of retries of a request after transient failures.
    pub retries: Option<u32>,
    pub price: Option<Price>,
    /// The context window: tokens of request and response together. By default, what is known about the
    /// model.
    pub context_tokens: Option<u64>,
    /// The maximum number of tools in one request.
    pub max_tools: Option<usize>,
    /// The output limit of requests that set none.
    pub max_output_tokens: Option<u64>,
    /// Whether the parts that the provider can cache are marked (Anthropic, and its models on Bedrock); true
    /// by default.
    pub prompt_cache: Option<bool>,
    /// Whether the model accepts images; true by default.
    pub images: Option<bool>,
    /// Whether the model accepts files such as PDF; true by default, except for vLLM and llama.cpp.
    pub files: Option<bool>,
    /// Whether the model accepts audio.
    pub audio: bool,
    /// Whether a tool call can be forced; some reasoning models reject that.
    pub forced_choice: Option<bool>,
    /// Whether the model may make several calls at once; the provider decides by default.
    pub parallel_calls: Option<bool>,
    /// Whether reasoning of earlier responses is sent back (Chat Completions); by default, if the provider
    /// expects it.
    pub reasoning: Option<bool>,
    /// Whether encrypted reasoning is requested (Responses); models without reasoning reject it.
    pub encrypted_reasoning: Option<bool>,
    /// Whether streams request token usage; by default, if the provider supports it.
    pub stream_usage: Option<bool>,
    /// The way in which the schema of the response is sent to the model: `schema` (the API's own field),
    /// `tool` or `prompt`; by default, what the provider supports.
    pub structured_output: Option<OutputMethod>,
    /// Endpoints that share the requests to this model. Each has the same keys as this configuration, and
    /// inherits the values of those that it does not set.
    pub upstreams: Vec<EndpointConfig>,
    /// The share of the requests, as an upstream; 1 by default. With 0 it is used only if another one fails.
    pub weight: Option<u32>,
    /// The maximum number of concurrent requests; further ones wait, or use another upstream.
    pub concurrent_requests: Option<usize>,
    /// Extra fields of every request, such as `reasoning_effort`. They override the generated fields.
    pub request: Map<String, Value>,
}

/// One of OpenAI's APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub enum Api {
    /// Chat Completions.
    Chat,
    Responses,
    /// The API of the gateway's client; otherwise Chat Completions.
    Both,
}

/// Timeouts of an endpoint: seconds, or text such as `"500ms"`, `"30s"`, `"2m"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Timeouts {
    /// Until the connection is established; 10 s by default.
    #[serde(deserialize_with = "deserialize_duration")]
    pub connect: Option<Duration>,
    /// Until the response begins; 5 min by default. Reasoning models and responses that are not streamed are
    /// slow.
    #[serde(deserialize_with = "deserialize_duration")]
    pub first_token: Option<Duration>,
    /// Between two parts of the response; 2 min by default.
    #[serde(deserialize_with = "deserialize_duration")]
    pub silence: Option<Duration>,
}

/// Prices in US dollars per million tokens, for providers that do not report the cost of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// For cached input; by default, the price of other input.
    pub cached_input: Option<f64>,
    /// For input that is written to the cache; by default, the price of other input.
    pub cache_write: Option<f64>,
}

/// The configured endpoints, and the unknown keys in the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EndpointConfigs {
    pub endpoints: BTreeMap<String, EndpointConfig>,
    /// The full path of each key, such as `work.timeouts.conect`, for a warning.
    pub unknown_keys: Vec<String>,
}

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}`: {problem}")]
#[non_exhaustive]
pub struct ConfigError {
    /// The path of the invalid key, such as `work.retries`.
    pub path: String,
    pub problem: String,
}

impl ConfigError {
    /// Suggests what to do, in one line.
    pub fn hint(&self) -> &'static str {
        "the keys of an endpoint are described in the guide, under `toolwire.models`"
    }
}

impl EndpointConfigs {
    /// Reads the value of `toolwire.models`.
    pub fn read(value: &Value) -> Result<EndpointConfigs, ConfigError> {
        let mut unknown_keys = Vec::new();
        let mut track = serde_path_to_error::Track::new();
        let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
        let mut record_unknown = |path: serde_ignored::Path<'_>| unknown_keys.push(path.to_string());
        let deserializer = serde_ignored::Deserializer::new(tracked, &mut record_unknown);
        let read = BTreeMap::<String, EndpointConfig>::deserialize(deserializer);
        let endpoints =
            read.map_err(|error| ConfigError { path: track.path().to_string(), problem: error.to_string() })?;
        Ok(EndpointConfigs { endpoints, unknown_keys })
    }
}

impl EndpointConfig {
    /// Returns the configuration of an upstream: its own values, else those of this one.
    pub(crate) fn inherited_by(&self, upstream: &EndpointConfig) -> EndpointConfig {
        macro_rules! or_inherited {
            ($($field:ident),*) => { EndpointConfig { $($field: upstream.$field.as_ref().or(self.$field.as_ref()).cloned(),)*
                headers: self.headers.clone().into_iter().chain(upstream.headers.clone()).collect(),
                strict: self.strict || upstream.strict,
                audio: self.audio || upstream.audio,
                timeouts: if upstream.timeouts == Timeouts::default() { self.timeouts } else { upstream.timeouts },
                upstreams: Vec::new(),
                request: self.request.clone().into_iter().chain(upstream.request.clone()).collect(),
            } };
        }
        or_inherited!(
            provider,
            model,
            api,
            base_url,
            api_key,
            api_key_variable,
            api_version,
            region,
            stream,
            retries,
            price,
            context_tokens,
            max_tools,
            max_output_tokens,
            prompt_cache,
            images,
            files,
            forced_choice,
            parallel_calls,
            reasoning,
            encrypted_reasoning,
            stream_usage,
            structured_output,
            weight,
            concurrent_requests
        )
    }
}

impl Price {
    /// Returns the cost of a response, in billionths of a dollar.
    pub(crate) fn cost_nanodollars(&self, usage: &Usage) -> u64 {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let written = usage.cache_write_tokens.min(usage.input_tokens - cached);
        let uncached = usage.input_tokens - cached - written;
        // One dollar per million tokens is 1000 billionths per token.
        let nanodollars = 1000.0
            * (uncached as f64 * self.input
                + cached as f64 * self.cached_input.unwrap_or(self.input)
                + written as f64 * self.cache_write.unwrap_or(self.input)
                + usage.output_tokens as f64 * self.output);
        (nanodollars.max(0.0).round() as u64).min(Usage::MAX_COUNT)
    }
}

fn deserialize_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = match Option::<Value>::deserialize(deserializer)? {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
    };
    parse_duration(&text).map(Some).ok_or_else(|| {
        D::Error::custom(format!(
            "`{text}` is not a duration such as `30` (seconds), `\"500ms\"` or `\"2m\"`"
        ))
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
            "price": {"input": 1.25, "output": 10, "cachedInput": 0.125, "cacheWrite": 1.5}, "contextTokens": 200000, "maxTools": 20,
            "maxOutputTokens": 4096, "promptCache": false, "images": false, "files": false, "audio": true, "forcedChoice": false,
            "parallelCalls": false, "reasoning": true, "encryptedReasoning": false, "streamUsage": true, "structuredOutput": "tool",
            "upstreams": [{"baseUrl": "https://b", "weight": 2}], "weight": 3, "concurrentRequests": 8,
            "request": {"reasoning_effort": "low", "seed": 7}
        }}"#;
        let configs =
            EndpointConfigs::read(&serde_json::from_str(text).expect("valid JSON")).expect("a configuration");
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
            price: Some(Price {
                input: 1.25,
                output: 10.0,
                cached_input: Some(0.125),
                cache_write: Some(1.5),
            }),
            context_tokens: Some(200_000),
            max_tools: Some(20),
            max_output_tokens: Some(4096),
            prompt_cache: Some(false),
            images: Some(false),
            files: Some(false),
            audio: true,
            forced_choice: Some(false),
            parallel_calls: Some(false),
            reasoning: Some(true),
            encrypted_reasoning: Some(false),
            stream_usage: Some(true),
            structured_output: Some(OutputMethod::Tool),
            upstreams: vec![EndpointConfig {
                base_url: Some("https://b".to_owned()),
                weight: Some(2),
                ..EndpointConfig::default()
            }],
            weight: Some(3),
            concurrent_requests: Some(8),
            request: json!({"reasoning_effort": "low", "seed": 7}).as_object().cloned().expect("an object"),
        };
        assert_eq!(configs.endpoints, BTreeMap::from([("work".to_owned(), expected)]));
        assert_eq!(configs.unknown_keys, [""; 0]);
    }

    #[test]
    fn unknown_keys_are_reported_with_their_path() {
        let value = json!({"work": {"modle": "x", "timeouts": {"conect": 1}, "request": {"anything": 1}}});
        let configs = EndpointConfigs::read(&value).expect("a configuration");
        assert_eq!(configs.unknown_keys, ["work.modle", "work.timeouts.conect"]);
    }

    #[track_caller]
    fn check_error(value: Value, expected: &str) {
        let error = EndpointConfigs::read(&value).expect_err("an invalid configuration");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn an_invalid_value_is_reported_with_its_path() {
        check_error(
            json!({"work": {"timeouts": {"silence": "soon"}}}),
            "`work.timeouts.silence`: `soon` is not a duration such as `30` (seconds), `\"500ms\"` or `\"2m\"`",
        );
        check_error(
            json!({"work": {"retries": "many"}}),
            "`work.retries`: invalid type: string \"many\", expected u32",
        );
    }

    #[test]
    fn debug_output_hides_keys() {
        let value = json!({"work": {"apiKey": "sk-1", "headers": {"x-key": "sk-2"}}});
        let debug = format!("{:?}", EndpointConfigs::read(&value).expect("a configuration"));
        assert!(debug.contains('…') && !debug.contains("sk-"), "{debug}");
    }

    #[test]
    fn the_cost_is_computed_from_the_prices() {
        let usage =
            Usage { input_tokens: 1_000_000, output_tokens: 500, cached_tokens: 400_000, ..Usage::default() };
        let price = Price { input: 2.5, output: 10.0, cached_input: Some(1.25), cache_write: None };
        assert_eq!(price.cost_nanodollars(&usage), 1_500_000_000 + 500_000_000 + 5_000_000);
        assert_eq!(Price { cached_input: None, ..price }.cost_nanodollars(&usage), 2_505_000_000);
        let invalid = Price { input: -1.0, output: f64::NAN, cached_input: None, cache_write: None };
        assert_eq!(invalid.cost_nanodollars(&usage), 0);
        let usage = Usage { cache_write_tokens: 100_000, ..usage };
        let price = Price { cache_write: Some(3.75), ..price };
        assert_eq!(price.cost_nanodollars(&usage), 1_250_000_000 + 500_000_000 + 375_000_000 + 5_000_000);
    }
}
