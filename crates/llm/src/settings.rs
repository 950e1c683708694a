//! All that is known of an endpoint once its name, its configuration and the variables have been read.

use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use toolwire_contract::ModelLimits;
use toolwire_dialect::{Dialect, RequestOptions, ResultOptions};

use crate::providers::{self, Auth, COMPATIBLE, Key, Provider};
use crate::{Api, EndpointConfig, Framing, InvalidModelName, ModelName, Price, Retries, Secret};

/// All that is known of an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// As people write it.
    pub(crate) name: String,
    pub(crate) dialect: Dialect,
    pub(crate) url: Url,
    pub(crate) framing: Framing,
    pub(crate) credentials: Credentials,
    /// What to mend when the key is not taken.
    pub(crate) key_place: String,
    pub(crate) headers: HeaderMap,
    pub(crate) connect: Duration,
    pub(crate) first_token: Duration,
    pub(crate) silence: Duration,
    pub(crate) retries: Retries,
    pub(crate) price: Option<Price>,
    pub(crate) limits: ModelLimits,
    pub(crate) max_output_tokens: Option<u64>,
    pub(crate) options: RequestOptions,
}

/// What is sent to prove who asks.
#[derive(Clone, Debug)]
pub(crate) enum Credentials {
    None,
    Bearer(Secret),
    Header(&'static str, Secret),
    Aws { access_key: Secret, secret_key: Secret, session_token: Option<Secret>, region: String },
}

/// An endpoint that cannot be made of what is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error(transparent)]
    Name(#[from] InvalidModelName),
    #[error("no provider is called `{provider}`, as the configuration of `{name}` says")]
    UnknownProvider { name: String, provider: String, nearest: Vec<String> },
    #[error("`{name}` needs a key, and none of its variables is set")]
    NoKey { name: String, variables: Vec<String> },
    #[error("`{name}` has no address")]
    NoAddress { name: String, variables: Vec<String> },
    #[error("`{name}` has no region")]
    NoRegion { name: String },
    #[error("the address `{address}` of `{name}` is none: {problem}")]
    InvalidAddress { name: String, address: String, problem: String },
    #[error("the header `{header}` of `{name}` cannot be sent")]
    InvalidHeader { name: String, header: String },
    #[error("`{name}` cannot be asked by `{api}`")]
    NoSuchApi { name: String, api: &'static str },
    #[error("`{name}` has no strict way to be offered tools")]
    NotStrict { name: String },
    #[error("no connection can be made: {problem}")]
    NoClient { problem: String },
}

impl EndpointError {
    /// The next thing to try, in one line.
    pub fn hint(&self) -> String {
        let or = |names: &[String]| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(" or ")
        };
        match self {
            EndpointError::Name(error) => error.hint(),
            EndpointError::UnknownProvider { nearest, .. } => match nearest.first() {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("the providers are {}", providers::names().collect::<Vec<_>>().join(", ")),
            },
            EndpointError::NoKey { variables, .. } => format!("set {}", or(variables)),
            EndpointError::NoAddress { name, variables } => match providers::find(name) {
                Some(_) => format!("write the model after it: `{name}/…`"),
                None if name.contains('/') => format!("set {}", or(variables)),
                None => format!(
                    "set {} to an OpenAI-compatible endpoint, or write `provider/model`, such as `openai/{name}`",
                    or(variables)
                ),
            },
            EndpointError::NoRegion { .. } => "set `AWS_REGION`, or `region` in the configuration".to_owned(),
            EndpointError::InvalidAddress { .. } => "it must begin with `http://` or `https://`".to_owned(),
            EndpointError::InvalidHeader { .. } => {
                "names of headers are letters, digits and dashes, and values are one line of text".to_owned()
            }
            EndpointError::NoSuchApi { .. } => "leave `api` out, or set it for an OpenAI endpoint".to_owned(),
            EndpointError::NotStrict { .. } => "leave `strict` out".to_owned(),
            EndpointError::NoClient { .. } => {
                "check `HTTPS_PROXY` and the certificates of this machine".to_owned()
            }
        }
    }
}

/// Reads a variable of the environment, or of whatever stands for it.
pub(crate) type Lookup<'l> = &'l dyn Fn(&str) -> Option<String>;

impl Settings {
    /// Brings together what the name, the configuration and the variables say.
    pub(crate) fn new(
        name: &str,
        config: &EndpointConfig,
        lookup: Lookup<'_>,
    ) -> Result<Settings, EndpointError> {
        let name = name.trim();
        let set = |variables: &[&str]| {
            let found = |variable: &&str| {
                let value = lookup(variable).map(|value| value.trim().to_owned());
                Some((variable.to_string(), value.filter(|value| !value.is_empty())?))
            };
            variables.iter().find_map(found)
        };
        let (provider, model) = provider_and_model(name, config, |variable| set(&[variable]).is_some())?;
        let provider = match (config.api, provider.dialect) {
            (None, _) | (Some(Api::Chat), Dialect::OpenAi) | (Some(Api::Responses), Dialect::Responses) => {
                provider
            }
            (Some(Api::Responses), Dialect::OpenAi) => providers::find("responses").unwrap_or(provider),
            (Some(Api::Chat), Dialect::Responses) => providers::find("openai").unwrap_or(provider),
            (Some(Api::Chat), _) => {
                return Err(EndpointError::NoSuchApi { name: name.to_owned(), api: "chat" });
            }
            (Some(Api::Responses), _) => {
                return Err(EndpointError::NoSuchApi { name: name.to_owned(), api: "responses" });
            }
        };
        let dialect = match (config.strict, provider.strict) {
            (false, _) => provider.dialect,
            (true, Some(strict)) => strict,
            (true, None) => return Err(EndpointError::NotStrict { name: name.to_owned() }),
        };

        let region = config
            .region
            .clone()
            .or_else(|| set(&["AWS_REGION", "AWS_DEFAULT_REGION"]).map(|(_, region)| region));
        let own_address =
            config.base_url.clone().or_else(|| set(provider.base_url_variables).map(|(_, address)| address));
        let has_own_address = own_address.is_some();
        let address = own_address.or_else(|| provider.base_url.map(str::to_owned));
        let address = address.ok_or_else(|| EndpointError::NoAddress {
            name: name.to_owned(),
            variables: provider.base_url_variables.iter().map(|name| (*name).to_owned()).collect(),
        })?;
        let address = match (address.contains("{region}"), &region) {
            (true, Some(region)) => address.replace("{region}", region),
            (true, None) => return Err(EndpointError::NoRegion { name: name.to_owned() }),
            (false, _) => address,
        };
        let stream = config.stream.unwrap_or(true);
        let version = config
            .api_version
            .clone()
            .or_else(|| set(provider.api_version_variables).map(|(_, version)| version))
            .or_else(|| provider.api_version.map(str::to_owned));
        let path = if stream { provider.streaming_path.unwrap_or(provider.path) } else { provider.path };
        let url = url(&address, path, &model, version.as_deref(), provider).map_err(|problem| {
            EndpointError::InvalidAddress { name: name.to_owned(), address: address.clone(), problem }
        })?;

        let (credentials, key_place) = credentials(name, provider, config, &set, region, has_own_address)?;
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

        let retries = Retries::default();
        let seen = results_of(dialect, &model);
        let usual = RequestOptions::default();
        Ok(Settings {
            name: name.to_owned(),
            dialect,
            url,
            framing: provider.framing,
            credentials,
            key_place,
            headers,
            connect: config.timeouts.connect.unwrap_or(Duration::from_secs(10)),
            first_token: config.timeouts.first_token.unwrap_or(Duration::from_secs(300)),
            silence: config.timeouts.silence.unwrap_or(Duration::from_secs(120)),
            retries: Retries { most: config.retries.unwrap_or(retries.most), ..retries },
            price: config.price,
            limits: ModelLimits {
                context_tokens: config.context_tokens,
                tools: config.max_tools.or(provider.most_tools),
            },
            max_output_tokens: config.max_output_tokens,
            options: RequestOptions {
                model,
                stream,
                results: ResultOptions {
                    images: config.images.unwrap_or(seen.images),
                    files: config.files.unwrap_or(seen.files),
                    ..seen
                },
                audio: config.audio,
                output_limit: provider.output_limit,
                stream_usage: config.stream_usage,
                parallel_calls: config.parallel_calls,
                forced_choice: config.forced_choice.unwrap_or(usual.forced_choice),
                named_choice: provider.named_choice,
                reasoning: config.reasoning.or(provider.reasoning),
                encrypted_reasoning: config.encrypted_reasoning.unwrap_or(usual.encrypted_reasoning),
                extra: config.request.clone(),
                ..usual
            },
        })
    }
}

/// What results may hold where that depends on the model, as far as its name tells.
fn results_of(dialect: Dialect, model: &str) -> ResultOptions {
    let usual = ResultOptions::default();
    let model = model.to_ascii_lowercase();
    let is_any = |names: &[&str]| names.iter().any(|name| model.contains(name));
    match dialect {
        Dialect::Gemini | Dialect::GeminiOpenApi => {
            let generation = model.rsplit("gemini-").next().and_then(|rest| rest.split(['.', '-']).next());
            // Older models refuse media inside a result; all of them take it after the results.
            let is_new =
                generation.and_then(|number| number.parse().ok()).is_some_and(|number: u32| number >= 3);
            ResultOptions { nested_media: usual.nested_media && is_new, ..usual }
        }
        Dialect::Bedrock if is_any(&["writer."]) => ResultOptions { error_flag: false, ..usual },
        Dialect::Bedrock if is_any(&["mistral."]) => ResultOptions { images: false, ..usual },
        Dialect::Bedrock if is_any(&["qwen.", "moonshot."]) => {
            ResultOptions { images: false, files: false, ..usual }
        }
        _ => usual,
    }
}

/// Whose endpoint it is, and what the model is called there.
fn provider_and_model(
    name: &str,
    config: &EndpointConfig,
    is_set: impl Fn(&str) -> bool,
) -> Result<(&'static Provider, String), EndpointError> {
    if let Some(provider) = &config.provider {
        let known = providers::find(&provider.to_ascii_lowercase());
        let known = known.ok_or_else(|| EndpointError::UnknownProvider {
            name: name.to_owned(),
            provider: provider.clone(),
            nearest: toolwire_contract::nearest_names(provider, providers::names())
                .into_iter()
                .map(str::to_owned)
                .collect(),
        })?;
        let after = name.split_once('/').filter(|(before, _)| *before == known.name);
        let model = config.model.clone().unwrap_or_else(|| after.map_or(name, |(_, model)| model).to_owned());
        return Ok((known, model));
    }
    // A name of the user's own, with an address: it may have a `/` in it.
    if config.base_url.is_some() && ModelName::parse(name).map_or(true, |name| name.provider.is_none()) {
        return Ok((&COMPATIBLE, config.model.clone().unwrap_or_else(|| name.to_owned())));
    }
    let parsed = ModelName::parse(name)?;
    let model = config.model.clone().unwrap_or(parsed.model);
    let provider = match parsed.provider {
        Some(provider) => providers::find(provider).unwrap_or(&COMPATIBLE),
        // With a key and no other address, OpenAI's own is what its users expect.
        None if !is_set("OPENAI_BASE_URL")
            && is_set("OPENAI_API_KEY")
            && providers::find(&model).is_none() =>
        {
            providers::find("openai").unwrap_or(&COMPATIBLE)
        }
        None => &COMPATIBLE,
    };
    Ok((provider, model))
}

/// The first of these variables that is set, and its value.
type First<'s> = &'s dyn Fn(&[&str]) -> Option<(String, String)>;

fn credentials(
    name: &str,
    provider: &Provider,
    config: &EndpointConfig,
    set: First<'_>,
    region: Option<String>,
    has_own_address: bool,
) -> Result<(Credentials, String), EndpointError> {
    let own_variable: Vec<&str> = config.api_key_variable.iter().map(String::as_str).collect();
    let variables: &[&str] = if own_variable.is_empty() { provider.key_variables } else { &own_variable };
    let found = match &config.api_key {
        Some(key) => Some((format!("`apiKey` of `{name}` in the configuration"), key.clone())),
        None => set(variables).map(|(variable, key)| (format!("`{variable}`"), Secret::new(key))),
    };
    if let Some((place, key)) = found {
        if HeaderValue::from_str(key.expose()).is_err() {
            return Err(EndpointError::InvalidHeader { name: name.to_owned(), header: "the key".to_owned() });
        }
        let credentials = match provider.auth {
            Auth::Bearer | Auth::Aws => Credentials::Bearer(key),
            Auth::Header(header) => Credentials::Header(header, key),
        };
        return Ok((credentials, place));
    }
    let secret = |variable: &str| set(&[variable]).map(|(_, value)| Secret::new(value));
    if provider.auth == Auth::Aws {
        let (Some(access_key), Some(secret_key)) =
            (secret("AWS_ACCESS_KEY_ID"), secret("AWS_SECRET_ACCESS_KEY"))
        else {
            let more = ["AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY"];
            let variables = variables.iter().chain(&more).map(|name| (*name).to_owned()).collect();
            return Err(EndpointError::NoKey { name: name.to_owned(), variables });
        };
        let region = region.ok_or_else(|| EndpointError::NoRegion { name: name.to_owned() })?;
        let session_token = secret("AWS_SESSION_TOKEN");
        let place = "`AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`".to_owned();
        return Ok((Credentials::Aws { access_key, secret_key, session_token, region }, place));
    }
    let names: Vec<String> = variables.iter().map(|name| (*name).to_owned()).collect();
    let place = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
    // Another address may be a gateway that takes no key; it says so if it does.
    if provider.key == Key::Needed && !has_own_address {
        return Err(EndpointError::NoKey { name: name.to_owned(), variables: names });
    }
    Ok((Credentials::None, place))
}

/// Where requests go.
fn url(
    address: &str,
    path: &str,
    model: &str,
    version: Option<&str>,
    provider: &Provider,
) -> Result<Url, String> {
    let address = if provider.name == "ollama" { ollama_address(address) } else { address.to_owned() };
    let base = address.trim_end_matches('/');
    // Azure's newer addresses name the deployment in the body and need no version.
    let path =
        if provider.name == "azure" && base.ends_with("/openai/v1") { "/chat/completions" } else { path };
    // An address is given with or without its first step; both mean the same.
    let path = match path.trim_start_matches('/').split_once('/') {
        Some((first, _)) if base.ends_with(&format!("/{first}")) => &path[first.len() + 1..],
        _ => path,
    };
    let path = path
        .replace("{model}", &encode(model))
        .replace("{api-version}", &encode(version.unwrap_or_default()));
    let url = Url::parse(&format!("{base}{path}")).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("it has another scheme, or no host".to_owned());
    }
    Ok(url)
}

/// `OLLAMA_HOST` as Ollama itself reads it: a host, a host and a port, or a URL; the address it listens on for all is
/// asked at this machine.
fn ollama_address(address: &str) -> String {
    let with_scheme =
        if address.contains("://") { address.to_owned() } else { format!("http://{}", host_first(address)) };
    let Ok(mut url) = Url::parse(&with_scheme) else { return address.to_owned() };
    if url.host_str() == Some("0.0.0.0") && url.set_host(Some("127.0.0.1")).is_err() {
        return address.to_owned();
    }
    if !address.contains("://") && url.port().is_none() && url.set_port(Some(11434)).is_err() {
        return address.to_owned();
    }
    url.to_string()
}

fn host_first(address: &str) -> String {
    if address.starts_with(':') { format!("127.0.0.1{address}") } else { address.to_owned() }
}

/// All but what never means anything in a URL.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
