//! The settings of an endpoint, resolved from its name, its configuration and the environment variables.

use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use toolwire_contract::model::ModelLimits;
use toolwire_dialect::Dialect;
use toolwire_dialect::request::{RequestOptions, separates_output};
use toolwire_dialect::result::ResultOptions;

use crate::discovery::LimitsQuery;
use crate::frames::Framing;
use crate::limits::supports_prompt_cache;
use crate::model_name::ModelName;
use crate::model_table;
use crate::providers::{self, Auth, KeyRequirement, OPENAI_COMPATIBLE, Provider};
use crate::request_url::{redact_url, request_url};
use crate::retry::RetryPolicy;
use crate::{Api, EndpointConfig, EndpointError, Price, Secret};

// The default timeouts.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_TOKEN_TIMEOUT: Duration = Duration::from_secs(300);
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

const AWS_KEY_SOURCE: &str = "`AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`";

/// The settings of an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct EndpointSettings {
    /// The name as the user wrote it.
    pub(crate) name: String,
    pub(crate) dialect: Dialect,
    /// Without a password, because it appears in messages.
    pub(crate) url: Url,
    /// Whether the server has both of OpenAI's APIs at the same base URL.
    pub(crate) has_both_apis: bool,
    /// The URL of OpenAI's embeddings API, if the provider has it.
    pub(crate) embeddings_url: Option<Url>,
    /// The user and the password of the base URL.
    pub(crate) login: Option<(String, Secret)>,
    pub(crate) framing: Framing,
    pub(crate) credentials: Credentials,
    /// Where the key comes from, for hints. For example "`OPENAI_API_KEY`".
    pub(crate) key_source: String,
    pub(crate) headers: HeaderMap,
    pub(crate) connect_timeout: Duration,
    pub(crate) first_token_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) retries: RetryPolicy,
    pub(crate) price: Option<Price>,
    /// As configured, or as in the table of models.
    pub(crate) limits: ModelLimits,
    /// Whether the context window is configured. In that case, the provider is not queried.
    pub(crate) is_window_configured: bool,
    /// The URL that states the limits of the model.
    pub(crate) limits_url: Option<Url>,
    pub(crate) max_output_tokens: Option<u64>,
    /// The output limit of the model itself, if it is known.
    pub(crate) model_output_tokens: Option<u64>,
    pub(crate) options: RequestOptions,
}

/// The credentials that authenticate a request.
#[derive(Clone, Debug)]
pub(crate) enum Credentials {
    None,
    Bearer(Secret),
    Header(&'static str, Secret),
    Aws { access_key: Secret, secret_key: Secret, session_token: Option<Secret>, region: String },
}

/// Reads an environment variable.
pub(crate) type Lookup<'l> = &'l dyn Fn(&str) -> Option<String>;

impl EndpointSettings {
    /// Resolves the settings from the name, the configuration and the environment variables.
    pub(crate) fn new(
        name: &str,
        config: &EndpointConfig,
        lookup: Lookup<'_>,
    ) -> Result<EndpointSettings, EndpointError> {
        let name = name.trim();
        let first_set = |variables: &[&str]| {
            let found = |variable: &&str| {
                let value = lookup(variable).map(|value| value.trim().to_owned());
                Some((variable.to_string(), value.filter(|value| !value.is_empty())?))
            };
            variables.iter().find_map(found)
        };
        let (provider, model) =
            provider_and_model(name, config, |variable| first_set(&[variable]).is_some())?;
        // The other API of a server is assumed to be as complete as the default one.
        let api_support = provider.api_support;
        let provider = match (config.api, provider.dialect) {
            (None, _)
            | (Some(Api::Chat | Api::Both), Dialect::OpenAi)
            | (Some(Api::Responses), Dialect::Responses) => provider,
            (Some(Api::Responses), Dialect::OpenAi) => providers::find("responses").unwrap_or(provider),
            (Some(Api::Chat | Api::Both), Dialect::Responses) => {
                providers::find("openai").unwrap_or(provider)
            }
            (Some(Api::Both), _) => {
                return Err(EndpointError::UnsupportedApi { name: name.to_owned(), api: "both" });
            }
            (Some(Api::Chat), _) => {
                return Err(EndpointError::UnsupportedApi { name: name.to_owned(), api: "chat" });
            }
            (Some(Api::Responses), _) => {
                return Err(EndpointError::UnsupportedApi { name: name.to_owned(), api: "responses" });
            }
        };
        let dialect = match (config.strict, provider.strict) {
            (false, _) => provider.dialect,
            (true, Some(strict)) => strict,
            (true, None) => return Err(EndpointError::StrictUnsupported { name: name.to_owned() }),
        };

        let region = config
            .region
            .clone()
            .or_else(|| first_set(&["AWS_REGION", "AWS_DEFAULT_REGION"]).map(|(_, region)| region));
        let custom_base_url = config
            .base_url
            .clone()
            .or_else(|| first_set(provider.base_url_variables).map(|(_, base_url)| base_url));
        let has_custom_base_url = custom_base_url.is_some();
        let base_url = custom_base_url.or_else(|| provider.base_url.map(str::to_owned));
        let base_url = base_url.ok_or_else(|| EndpointError::MissingBaseUrl {
            name: name.to_owned(),
            variables: provider.base_url_variables.iter().map(|name| (*name).to_owned()).collect(),
        })?;
        let base_url = match (base_url.contains("{region}"), &region) {
            (true, Some(region)) => base_url.replace("{region}", region),
            (true, None) => return Err(EndpointError::MissingRegion { name: name.to_owned() }),
            (false, _) => base_url,
        };
        let stream = config.stream.unwrap_or(true);
        let version = config
            .api_version
            .clone()
            .or_else(|| first_set(provider.api_version_variables).map(|(_, version)| version))
            .or_else(|| provider.api_version.map(str::to_owned));
        let path = if stream { provider.streaming_path.unwrap_or(provider.path) } else { provider.path };
        let (url, login) =
            request_url(&base_url, path, &model, version.as_deref(), provider).map_err(|problem| {
                EndpointError::InvalidBaseUrl {
                    name: name.to_owned(),
                    base_url: redact_url(&base_url),
                    problem,
                }
            })?;

        let has_both_apis = match config.api {
            Some(api) => api == Api::Both,
            None => provider.name == "openai" && is_of_openai(&url),
        };
        let embeddings_url = provider.embeddings_path.and_then(|path| {
            Some(request_url(&base_url, path, &model, version.as_deref(), provider).ok()?.0)
        });
        let (credentials, key_source) =
            credentials(name, provider, config, &first_set, region, has_custom_base_url)?;
        let mut headers = HeaderMap::new();
        for (header, value) in provider.headers {
            headers.insert(*header, HeaderValue::from_static(value));
        }
        for (header, value) in &config.headers {
            let (Ok(key), Ok(mut value)) =
                (header.parse::<HeaderName>(), HeaderValue::from_str(value.expose()))
            else {
                return Err(EndpointError::InvalidHeader { name: name.to_owned(), header: header.clone() });
            };
            value.set_sensitive(true);
            headers.insert(key, value);
        }

        let facts = model_table::facts(provider.name, &model);
        // The window that the configuration requests from Ollama with each request.
        let requested_window =
            config.request.get("options").and_then(|options| options.get("num_ctx")?.as_u64());
        let requested_window = requested_window.filter(|_| dialect == Dialect::Ollama);
        let configured_window = config.context_tokens.or(requested_window);
        let context_tokens = configured_window.or(facts.context_tokens);
        let limits_query = match provider.name {
            // Another server that implements OpenAI's API may state them.
            "openai" if has_custom_base_url => LimitsQuery::Get("/models"),
            _ => provider.limits_query,
        };
        let limits_url = match (configured_window, limits_query) {
            (Some(_), _) | (None, LimitsQuery::None) => None,
            (None, LimitsQuery::Get(path)) => Some((base_url.as_str(), path)),
            (None, LimitsQuery::OllamaShow) => Some((base_url.as_str(), "/api/show")),
            (None, LimitsQuery::LlamaProps) => {
                let base = base_url.trim_end_matches('/');
                Some((base.strip_suffix("/v1").unwrap_or(base), "/props"))
            }
        };
        let limits_url =
            limits_url.and_then(|(base, path)| Some(request_url(base, path, &model, None, provider).ok()?.0));
        let retries = RetryPolicy::default();
        let mut options = RequestOptions::default();
        options.prompt_cache = config.prompt_cache.unwrap_or(true)
            && supports_prompt_cache(dialect, &model, facts.context_tokens.is_some());
        options.results = result_options(dialect, &model);
        options.results.images = config.images.unwrap_or(options.results.images);
        options.results.files = config.files.unwrap_or(options.results.files && provider.accepts_files);
        options.model = model;
        options.stream = stream;
        options.audio = config.audio;
        options.output_limit = provider.output_limit;
        options.stream_usage = config.stream_usage;
        options.parallel_calls = config.parallel_calls;
        options.forced_choice = config.forced_choice.unwrap_or(options.forced_choice);
        options.named_choice = provider.named_choice;
        options.reasoning = config.reasoning.or(provider.reasoning);
        options.encrypted_reasoning = config.encrypted_reasoning.unwrap_or(options.encrypted_reasoning);
        options.output = config.structured_output;
        options.output_with_tools = provider.output_with_tools;
        options.api_support = api_support.min(provider.api_support);
        options.extra = config.request.clone();
        Ok(EndpointSettings {
            name: name.to_owned(),
            dialect,
            url,
            embeddings_url,
            login,
            has_both_apis,
            framing: provider.framing,
            credentials,
            key_source,
            headers,
            connect_timeout: config.timeouts.connect.unwrap_or(CONNECT_TIMEOUT),
            first_token_timeout: config.timeouts.first_token.unwrap_or(FIRST_TOKEN_TIMEOUT),
            idle_timeout: config.timeouts.silence.unwrap_or(IDLE_TIMEOUT),
            retries: RetryPolicy { max_retries: config.retries.unwrap_or(retries.max_retries), ..retries },
            // A gateway may have other prices.
            price: config.price.or(facts.price.filter(|_| !has_custom_base_url)),
            limits: ModelLimits {
                context_tokens,
                tools: config.max_tools.or(provider.max_tools),
                separate_output: separates_output(dialect, &options),
            },
            is_window_configured: configured_window.is_some(),
            limits_url,
            model_output_tokens: facts.output_tokens,
            max_output_tokens: config.max_output_tokens,
            options,
        })
    }
}

/// Whether a URL belongs to OpenAI itself, in any of its regions. Other servers with the same API may have
/// only a part of it.
fn is_of_openai(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "api.openai.com" || host.ends_with(".api.openai.com")
}

/// Returns the options for tool results that depend on the model, as far as its name shows.
fn result_options(dialect: Dialect, model: &str) -> ResultOptions {
    let mut options = ResultOptions::default();
    let model = model.to_ascii_lowercase();
    let is_any = |names: &[&str]| names.iter().any(|name| model.contains(name));
    match dialect {
        Dialect::Gemini | Dialect::GeminiOpenApi => {
            let generation = model.rsplit("gemini-").next().and_then(|rest| rest.split(['.', '-']).next());
            // Models before Gemini 3 reject media inside a result; all models accept it after the results.
            let supports_nested_media =
                generation.and_then(|number| number.parse().ok()).is_some_and(|number: u32| number >= 3);
            options.nested_media = options.nested_media && supports_nested_media;
        }
        Dialect::Bedrock if is_any(&["writer."]) => options.error_flag = false,
        Dialect::Bedrock if is_any(&["mistral."]) => options.images = false,
        Dialect::Bedrock if is_any(&["qwen.", "moonshot."]) => {
            options.images = false;
            options.files = false;
        }
        _ => {}
    }
    options
}

/// Returns the provider, and the provider's name for the model.
fn provider_and_model(
    name: &str,
    config: &EndpointConfig,
    is_set: impl Fn(&str) -> bool,
) -> Result<(&'static Provider, String), EndpointError> {
    if let Some(provider) = &config.provider {
        let provider_entry = providers::find(&provider.to_ascii_lowercase());
        let provider_entry = provider_entry.ok_or_else(|| EndpointError::UnknownProvider {
            name: name.to_owned(),
            provider: provider.clone(),
            nearest: toolwire_contract::text::nearest_names(provider, providers::names())
                .into_iter()
                .map(str::to_owned)
                .collect(),
        })?;
        let after = name.split_once('/').filter(|(before, _)| *before == provider_entry.name);
        let model = config.model.clone().unwrap_or_else(|| after.map_or(name, |(_, model)| model).to_owned());
        return Ok((provider_entry, model));
    }
    // A custom name with a base URL may contain a `/`.
    if config.base_url.is_some() && ModelName::parse(name).map_or(true, |name| name.provider.is_none()) {
        return Ok((&OPENAI_COMPATIBLE, config.model.clone().unwrap_or_else(|| name.to_owned())));
    }
    let parsed = ModelName::parse(name)?;
    let model = config.model.clone().unwrap_or(parsed.model);
    let provider = match parsed.provider {
        Some(provider) => providers::find(provider).unwrap_or(&OPENAI_COMPATIBLE),
        // With an OpenAI key and no base URL, use OpenAI.
        None if !is_set("OPENAI_BASE_URL")
            && is_set("OPENAI_API_KEY")
            && providers::find(&model).is_none() =>
        {
            providers::find("openai").unwrap_or(&OPENAI_COMPATIBLE)
        }
        None => &OPENAI_COMPATIBLE,
    };
    Ok((provider, model))
}

/// Returns the first of some variables that is set, and its value.
type FirstSet<'s> = &'s dyn Fn(&[&str]) -> Option<(String, String)>;

/// Returns the credentials, and where they come from.
fn credentials(
    name: &str,
    provider: &Provider,
    config: &EndpointConfig,
    first_set: FirstSet<'_>,
    region: Option<String>,
    has_custom_base_url: bool,
) -> Result<(Credentials, String), EndpointError> {
    let custom_variable: Vec<&str> = config.api_key_variable.iter().map(String::as_str).collect();
    let variables: &[&str] =
        if custom_variable.is_empty() { provider.key_variables } else { &custom_variable };
    let found = match &config.api_key {
        Some(key) => Some((format!("`apiKey` of `{name}` in the configuration"), key.clone())),
        None => first_set(variables).map(|(variable, key)| (format!("`{variable}`"), Secret::new(key))),
    };
    if let Some((source, key)) = found {
        if HeaderValue::from_str(key.expose()).is_err() {
            return Err(EndpointError::InvalidKey { name: name.to_owned() });
        }
        let credentials = match provider.auth {
            Auth::Bearer | Auth::Aws => Credentials::Bearer(key),
            Auth::Header(header) => Credentials::Header(header, key),
        };
        return Ok((credentials, source));
    }
    let key_source = variables.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
    let secret = |variable: &str| first_set(&[variable]).map(|(_, value)| Secret::new(value));
    if provider.auth == Auth::Aws {
        let (Some(access_key), Some(secret_key)) =
            (secret("AWS_ACCESS_KEY_ID"), secret("AWS_SECRET_ACCESS_KEY"))
        else {
            let key_source = format!("{key_source} or {AWS_KEY_SOURCE}");
            return Err(EndpointError::MissingKey { name: name.to_owned(), key_source });
        };
        let region = region.ok_or_else(|| EndpointError::MissingRegion { name: name.to_owned() })?;
        let session_token = secret("AWS_SESSION_TOKEN");
        return Ok((
            Credentials::Aws { access_key, secret_key, session_token, region },
            AWS_KEY_SOURCE.to_owned(),
        ));
    }
    // A custom base URL may be a gateway that needs no key. If it needs one, its error says so.
    if provider.key == KeyRequirement::Required && !has_custom_base_url {
        return Err(EndpointError::MissingKey { name: name.to_owned(), key_source });
    }
    Ok((Credentials::None, key_source))
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
