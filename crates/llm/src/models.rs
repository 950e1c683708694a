//! Models by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolwire_contract::Model;

use crate::client::Clients;
use crate::demo::Demo;
use crate::settings::{EndpointError, Settings};
use crate::{Endpoint, EndpointConfig, ModelName};

/// Models by name: those of a configuration, and all models of the providers in the table. They share connections.
pub struct Models {
    configs: BTreeMap<String, EndpointConfig>,
    lookup: Box<OwnedLookup>,
    clients: Clients,
}

type OwnedLookup = dyn Fn(&str) -> Option<String> + Send + Sync;

impl Models {
    /// `lookup` stands for the environment, which is not read here.
    pub fn new(
        configs: BTreeMap<String, EndpointConfig>,
        lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Models, EndpointError> {
        let clients = Clients::new(&lookup)?;
        Ok(Models { configs, lookup: Box::new(lookup), clients })
    }

    /// The model of this name; `demo` is the built-in stand-in.
    pub fn model(&self, name: &str) -> Result<Arc<dyn Model>, EndpointError> {
        if name.trim() == Demo::NAME && !self.configs.contains_key(Demo::NAME) {
            return Ok(Arc::new(Demo));
        }
        Ok(Arc::new(self.endpoint(name)?))
    }

    /// The endpoint of this name: as configured under it, else as configured for its provider, else as the table says.
    pub fn endpoint(&self, name: &str) -> Result<Endpoint, EndpointError> {
        let name = name.trim();
        let of_provider = || self.configs.get(ModelName::parse(name).ok()?.provider?);
        let usual = EndpointConfig::default();
        let config = self.configs.get(name).or_else(of_provider).unwrap_or(&usual);
        let settings = Settings::new(name, config, &*self.lookup)?;
        Endpoint::with_clients(settings, &self.clients)
    }

    /// The names that the configuration gives.
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
    fn a_name_is_looked_for_in_the_configuration_first() {
        let configs = EndpointConfigs::read(&json!({
            "work": {"provider": "anthropic", "model": "m", "apiKey": "k"},
            "openai": {"apiKey": "k", "baseUrl": "https://all.example"},
            "openai/one": {"apiKey": "k", "baseUrl": "https://one.example"},
        }));
        let models = Models::new(configs.expect("a configuration").endpoints, |_| None).expect("models");
        for (name, address) in [
            ("work", "https://api.anthropic.com/v1/messages"),
            ("openai/any", "https://all.example/chat/completions"),
            ("openai/one", "https://one.example/chat/completions"),
            ("ollama/m", "http://127.0.0.1:11434/api/chat"),
        ] {
            let endpoint = models.endpoint(name).expect("an endpoint");
            assert_eq!((endpoint.name(), endpoint.address()), (name, address));
        }
        assert_eq!(models.model(" demo ").map(|model| model.name().to_owned()), Ok("demo".to_owned()));
        assert_eq!(models.configured().collect::<Vec<_>>(), ["openai", "openai/one", "work"]);
    }
}
