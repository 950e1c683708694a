//! Finds models by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolwire_contract::model::{Embedder, Model};

use crate::demo::Demo;
use crate::http_clients::HttpClients;
use crate::model_name::ModelName;
use crate::providers::PROVIDERS;
use crate::settings::EndpointSettings;
use crate::{Api, AttemptObserver, Balanced, Endpoint, EndpointConfig, EndpointError};

/// Finds models by name: configured endpoints, and all models of the known providers. Endpoints share
/// connections.
pub struct Models {
    configs: BTreeMap<String, EndpointConfig>,
    lookup: Box<OwnedLookup>,
    clients: HttpClients,
    observer: Option<Arc<dyn AttemptObserver>>,
}

type OwnedLookup = dyn Fn(&str) -> Option<String> + Send + Sync;

impl Models {
    /// Uses these configurations. `lookup` reads environment variables; the crate itself does not access the
    /// environment.
    pub fn new(
        configs: BTreeMap<String, EndpointConfig>,
        lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Models, EndpointError> {
        let clients = HttpClients::new(&lookup)?;
        Ok(Models { configs, lookup: Box::new(lookup), clients, observer: None })
    }

    /// Reports the attempts of models that are created from now on.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn AttemptObserver>) -> Models {
        Models { observer: Some(observer), ..self }
    }

    /// Returns the model with this name; `demo` is the built-in stand-in.
    pub fn model(&self, name: &str) -> Result<Arc<dyn Model>, EndpointError> {
        if name.trim() == Demo::NAME && !self.configs.contains_key(Demo::NAME) {
            return Ok(Arc::new(Demo));
        }
        Ok(Arc::new(self.balanced(name)?))
    }

    /// Returns the model with this name, with all endpoints of its configuration.
    pub fn balanced(&self, name: &str) -> Result<Balanced, EndpointError> {
        let name = name.trim();
        let config = self.configs.get(name);
        if config.is_none_or(|config| config.upstreams.is_empty()) {
            let concurrent = config.and_then(|config| config.concurrent_requests);
            let model = Balanced::new(name, [(self.endpoint(name)?, 1, concurrent)]);
            return Ok(model.with_observer(self.observer.clone()));
        }
        let mut endpoints = Vec::new();
        for upstream in self.endpoint_configs(name) {
            let endpoint = self.create(name, &upstream)?;
            endpoints.push((endpoint, upstream.weight.unwrap_or(1), upstream.concurrent_requests));
        }
        Ok(Balanced::new(name, endpoints).with_observer(self.observer.clone()))
    }

    /// Returns the same model through OpenAI's Responses API, if all its endpoints have both of OpenAI's
    /// APIs. Both share the weights, the limits and the failures of the endpoints.
    pub fn through_responses(&self, model: &Balanced) -> Result<Option<Balanced>, EndpointError> {
        if !model.has_both_apis() {
            return Ok(None);
        }
        let name = Model::name(model);
        let create = |config: EndpointConfig| {
            self.create(name, &EndpointConfig { api: Some(Api::Responses), ..config })
        };
        let endpoints: Result<Vec<Endpoint>, EndpointError> =
            self.endpoint_configs(name).into_iter().map(create).collect();
        Ok(Some(model.with_endpoints(endpoints?)))
    }

    /// Returns the configuration of each endpoint of a model.
    fn endpoint_configs(&self, name: &str) -> Vec<EndpointConfig> {
        let config = self.config(name);
        match config.upstreams.as_slice() {
            [] => vec![config],
            upstreams => upstreams.iter().map(|upstream| config.inherited_by(upstream)).collect(),
        }
    }

    /// Returns the configuration with this name, else that of its provider, else the defaults.
    fn config(&self, name: &str) -> EndpointConfig {
        let of_provider = || {
            let provider = self.configs.get(ModelName::parse(name).ok()?.provider?)?;
            // Its endpoints are those of a model that has the provider's name.
            Some(EndpointConfig { upstreams: Vec::new(), ..provider.clone() })
        };
        self.configs.get(name).cloned().or_else(of_provider).unwrap_or_default()
    }

    fn create(&self, name: &str, config: &EndpointConfig) -> Result<Endpoint, EndpointError> {
        let settings = EndpointSettings::new(name, config, &*self.lookup)?;
        Endpoint::with_clients(settings, &self.clients)
    }

    /// Returns the endpoint with this name. It uses the configuration with the same name, else that of its
    /// provider, else the provider's defaults.
    pub fn endpoint(&self, name: &str) -> Result<Endpoint, EndpointError> {
        let name = name.trim();
        self.create(name, &self.config(name))
    }

    /// Returns the embedding model with this name.
    pub fn embedder(&self, name: &str) -> Result<Arc<dyn Embedder>, EndpointError> {
        let endpoint = self.endpoint(name)?;
        if endpoint.settings.embeddings_url.is_none() {
            return Err(EndpointError::EmbeddingsUnsupported { name: name.trim().to_owned() });
        }
        Ok(Arc::new(endpoint))
    }

    /// Returns the default model of the first provider whose key is set, and the variable with the key.
    pub fn default_model(&self) -> Option<(String, &'static str)> {
        let is_set = |variable: &str| (self.lookup)(variable).is_some_and(|key| !key.trim().is_empty());
        PROVIDERS.iter().find_map(|provider| {
            let model = provider.default_model?;
            let variable = provider.key_variables.iter().find(|variable| is_set(variable))?;
            Some((format!("{}/{model}", provider.name), *variable))
        })
    }

    /// Returns the configured names.
    pub fn configured(&self) -> impl Iterator<Item = &str> {
        self.configs.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::EndpointConfigs;

    #[test]
    fn a_name_is_looked_up_in_the_configuration_first() {
        let configs = EndpointConfigs::read(&json!({
            "work": {"provider": "anthropic", "model": "m", "apiKey": "k"},
            "openai": {"apiKey": "k", "baseUrl": "https://all.example"},
            "openai/one": {"apiKey": "k", "baseUrl": "https://one.example"},
        }));
        let models = Models::new(configs.expect("a configuration").endpoints, |_| None).expect("models");
        for (name, url) in [
            ("work", "https://api.anthropic.com/v1/messages"),
            ("openai/any", "https://all.example/chat/completions"),
            ("openai/one", "https://one.example/chat/completions"),
            ("ollama/m", "http://127.0.0.1:11434/api/chat"),
        ] {
            let endpoint = models.endpoint(name).expect("an endpoint");
            assert_eq!((Model::name(&endpoint), endpoint.url()), (name, url));
        }
        assert_eq!(models.model(" demo ").map(|model| model.name().to_owned()), Ok("demo".to_owned()));
        assert_eq!(models.configured().collect::<Vec<_>>(), ["openai", "openai/one", "work"]);
    }

    /// A server that only follows OpenAI's API may not have both.
    #[test]
    fn openai_has_both_apis_unless_the_configuration_names_one() {
        let configs = EndpointConfigs::read(&json!({
            "chat": {"provider": "openai", "model": "m", "api": "chat"},
            "responses": {"provider": "openai", "model": "m", "api": "responses"},
            "region": {"provider": "openai", "model": "m", "baseUrl": "https://eu.api.openai.com/v1"},
            "other": {"provider": "openai", "model": "m", "baseUrl": "https://api.openai.com.example/v1"},
            "proxy": {"provider": "openai", "model": "m", "baseUrl": "https://proxy.example/v1", "api": "both"},
            "several": {"provider": "openai", "model": "m", "upstreams": [
                {"weight": 2, "concurrentRequests": 3}, {"baseUrl": "https://us.api.openai.com/v1"}]},
            "mixed": {"model": "m", "upstreams": [{"provider": "openai"}, {"provider": "xai"}]},
        }));
        let key = |variable: &str| variable.ends_with("_API_KEY").then(|| "k".to_owned());
        let models = Models::new(configs.expect("a configuration").endpoints, key).expect("models");
        let urls = |name: &str| {
            let model = models.balanced(name).expect("a model");
            let responses = models.through_responses(&model).expect("a configuration");
            responses.map_or_else(Vec::new, |responses| responses.urls())
        };
        for (name, expected) in [
            ("openai/gpt-5", &["https://api.openai.com/v1/responses"][..]),
            ("region", &["https://eu.api.openai.com/v1/responses"]),
            ("proxy", &["https://proxy.example/v1/responses"]),
            ("several", &["https://api.openai.com/v1/responses", "https://us.api.openai.com/v1/responses"]),
            ("chat", &[]),
            ("responses", &[]),
            ("other", &[]),
            ("mixed", &[]),
            ("responses/gpt-5", &[]),
            ("xai/grok-4", &[]),
            ("vllm/m", &[]),
        ] {
            assert_eq!(urls(name), expected, "{name}");
        }
    }

    #[test]
    fn an_embedding_model_needs_a_provider_with_embeddings() {
        let key = |variable: &str| variable.ends_with("_API_KEY").then(|| "k".to_owned());
        let models = Models::new(BTreeMap::new(), key).expect("models");
        let name = |name: &str| models.embedder(name).map(|embedder| embedder.name().to_owned());
        for supported in ["openai/m", "mistral/m", "gemini/m", "cohere/m", "ollama/m", "vllm/m"] {
            assert_eq!(name(supported), Ok(supported.to_owned()));
        }
        for unsupported in ["anthropic/m", "groq/m", "deepseek/m"] {
            let error = EndpointError::EmbeddingsUnsupported { name: unsupported.to_owned() };
            assert_eq!(name(unsupported), Err(error));
        }
    }

    #[test]
    fn a_key_determines_the_default_model() {
        let models = |variable: &'static str| {
            let lookup = move |name: &str| (name == variable).then(|| "k".to_owned());
            Models::new(BTreeMap::new(), lookup).expect("models")
        };
        let default = |variable: &'static str| models(variable).default_model();
        assert_eq!(default("GOOGLE_API_KEY"), Some(("gemini/gemini-2.5-flash".to_owned(), "GOOGLE_API_KEY")));
        assert_eq!(default("OLLAMA_HOST"), None);
        for provider in PROVIDERS.iter().filter(|provider| provider.default_model.is_some()) {
            let variable = provider.key_variables[0];
            let (name, _) = default(variable).expect("a default model");
            assert!(models(variable).endpoint(&name).is_ok(), "{name}");
        }
    }
}
