//! The models of the configuration, for the gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use serde_json::Value;
use toolwire_contract::model::ModelError;
use toolwire_gateway::{ForwardedBody, ForwardedRequest, ForwardedResponse};
use toolwire_gateway::{ModelCatalog, ServedModel, UnknownModel, Upstream};
use toolwire_llm::{Balanced, Demo, EndpointError, Models, PROVIDERS, RawBody, RawRequest};

use crate::command_error::CommandError;
use crate::settings::Settings;

/// The maximum number of cached model names. Above it, the cache is emptied; configured models are not
/// affected.
const MAX_NAMES: usize = 256;

/// The start of the names of well-known models, and their providers.
const KNOWN_MODELS: [(&str, &str); 8] = [
    ("claude-", "anthropic"),
    ("gpt-", "openai"),
    ("chatgpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("gemini-", "gemini"),
    ("mistral-", "mistral"),
];

/// The models of the configuration and of the known providers.
pub(super) struct ConfiguredModels {
    models: Models,
    names: Vec<String>,
    aliases: BTreeMap<String, String>,
    default_name: String,
    /// The models that the configuration names. All names of a model share one instance, and therefore its
    /// limits.
    configured: BTreeMap<String, ServedModel>,
    /// A cache of models by the names that clients used, so that connections and converted tools are reused.
    used: Mutex<BTreeMap<String, ServedModel>>,
}

impl ConfiguredModels {
    /// Creates all configured models, so that mistakes are reported at the start and not with the first
    /// request.
    pub(super) fn new(settings: &Settings, models: Models) -> Result<ConfiguredModels, CommandError> {
        let default = settings.model.clone().or_else(|| models.default_model().map(|(name, _)| name));
        let default_name = default.unwrap_or_else(|| Demo::NAME.to_owned());
        let is_model = |name: &&str| !PROVIDERS.iter().any(|provider| provider.name == *name);
        let configured = models.configured().filter(is_model).map(str::to_owned);
        let listed = settings.gateway.models.iter().cloned();
        let aliases = &settings.gateway.aliases;
        let alias_names = aliases.keys().filter(|name| !name.contains('*')).cloned();
        let mut seen = BTreeSet::new();
        let mut names: Vec<String> = std::iter::once(default_name.clone())
            .chain(listed)
            .chain(configured)
            .chain(alias_names)
            .collect();
        names.retain(|name| seen.insert(name.clone()));
        let mut created = ConfiguredModels {
            models,
            names,
            aliases: aliases.clone(),
            default_name,
            configured: BTreeMap::new(),
            used: Mutex::default(),
        };
        for (alias, target) in aliases {
            if alias.find('*').is_some_and(|position| position + 1 < alias.len()) {
                return Err(CommandError::usage(format!("alias `{alias}`: the `*` is not at the end"))
                    .with_hint("write a name, or the beginning of names followed by `*`"));
            }
            created.add(target, &format!("alias `{alias}`: "))?;
        }
        for name in created.names.clone() {
            created.add(&name, "")?;
        }
        Ok(created)
    }

    fn add(&mut self, name: &str, place: &str) -> Result<(), CommandError> {
        let resolved = self.resolve(name);
        if !self.configured.contains_key(&resolved) {
            let model = self.create(&resolved).map_err(|error| {
                CommandError::usage(format!("{place}model `{name}`: {error}")).with_hint(error.hint())
            })?;
            self.configured.insert(resolved, model);
        }
        Ok(())
    }

    /// Returns the names that are listed for clients.
    pub(super) fn listed(&self) -> &[String] {
        &self.names
    }

    pub(super) fn default_name(&self) -> &str {
        &self.default_name
    }

    /// Resolves an alias, or a well-known name without its provider, to the name of a model.
    fn resolve(&self, name: &str) -> String {
        let name = name.trim();
        if self.models.configured().any(|configured| configured == name) {
            return name.to_owned();
        }
        if let Some(target) = self.aliases.get(name) {
            return target.clone();
        }
        let patterns =
            self.aliases.iter().filter_map(|(alias, target)| Some((alias.strip_suffix('*')?, target)));
        let matching =
            patterns.filter(|(start, _)| name.starts_with(start)).max_by_key(|(start, _)| start.len());
        if let Some((_, target)) = matching {
            return target.clone();
        }
        let known = KNOWN_MODELS.iter().find(|(start, _)| name.starts_with(start) && !name.contains('/'));
        match known.map(|(_, provider)| format!("{provider}/{name}")) {
            Some(full) if self.models.endpoint(&full).is_ok() => full,
            _ => name.to_owned(),
        }
    }

    fn create(&self, name: &str) -> Result<ServedModel, EndpointError> {
        if name == Demo::NAME && !self.models.configured().any(|configured| configured == Demo::NAME) {
            return Ok(ServedModel::new(Arc::new(Demo)));
        }
        let model = self.models.balanced(name)?;
        let responses = self.models.through_responses(&model)?;
        let mut served = to_served(model);
        served.variants = responses.map(to_served).into_iter().collect();
        Ok(served)
    }
}

/// Returns a model for the gateway.
fn to_served(model: Balanced) -> ServedModel {
    let model = Arc::new(model);
    let mut served = ServedModel::new(model.clone());
    served.dialect = model.dialect();
    served.api_support = model.api_support();
    if served.dialect.is_none() {
        served.different_apis = model.apis();
    }
    match model.dialect().filter(|_| model.accepts_raw_requests()) {
        Some(dialect) => served.with_upstream(dialect, Arc::new(ModelUpstream(model))),
        None => served,
    }
}

impl ModelCatalog for ConfiguredModels {
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn find(&self, name: &str) -> Result<ServedModel, UnknownModel> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = used.get(name) {
            return Ok(found.clone());
        }
        let resolved = self.resolve(name);
        let found = match self.configured.get(&resolved).or_else(|| used.get(&resolved)) {
            Some(found) => found.clone(),
            None => self
                .create(&resolved)
                .map_err(|error| UnknownModel { name: name.to_owned(), problem: error.to_string() })?,
        };
        if used.len() >= MAX_NAMES {
            used.clear();
        }
        used.insert(name.to_owned(), found.clone());
        used.insert(resolved, found.clone());
        Ok(found)
    }
}

struct ModelUpstream(Arc<Balanced>);

impl Upstream for ModelUpstream {
    fn model_id(&self) -> &str {
        self.0.model_id()
    }

    fn forward(&self, request: ForwardedRequest) -> BoxFuture<'_, Result<ForwardedResponse, ModelError>> {
        Box::pin(async move {
            let ForwardedRequest { path, body, headers, retry_until, .. } = request;
            let response = self.0.forward(RawRequest { path, body, headers, retry_until }).await?;
            let body = match response.body {
                RawBody::Complete(bytes) => ForwardedBody::Complete(bytes),
                RawBody::Parts(parts) => ForwardedBody::Parts(parts),
            };
            Ok(ForwardedResponse::new(response.status, response.headers, body))
        })
    }

    fn redact(&self, error: Value) -> Value {
        self.0.redact(error)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwire_dialect::Dialect;
    use toolwire_dialect::request::ApiSupport;

    use super::*;

    #[test]
    fn all_names_of_a_model_share_its_limits() {
        let settings = json!({
            "model": "up",
            "models": {"up": {"provider": "vllm", "model": "m", "baseUrl": "http://127.0.0.1:1", "concurrentRequests": 1}},
            "gateway": {"aliases": {"other": "up", "gpt-*": "up"}},
        });
        let settings = crate::settings::read(Some(&settings), "mcp.json").expect("settings");
        let models = crate::assembly::models(&settings).expect("models");
        let models = ConfiguredModels::new(&settings, models).expect("models");
        let find = |name: &str| models.find(name).expect("a model").model;
        let up = find("up");
        for name in ["other", "gpt-1", "gpt-2", " up "] {
            assert!(Arc::ptr_eq(&up, &find(name)), "{name}");
        }
        // The cache of names is emptied in between; the configured model stays the same instance.
        for number in 0..=MAX_NAMES {
            let _ = models.find(&format!("vllm/{number}"));
        }
        assert!(Arc::ptr_eq(&up, &find("other")));
    }

    /// The gateway lists the parameters that some endpoint of a model does not have.
    #[test]
    fn a_model_has_the_apis_of_all_its_endpoints() {
        let claude = json!({"provider": "anthropic", "model": "c", "apiKey": "k"});
        let settings = json!({"model": "same", "models": {
            "same": {"provider": "vllm", "model": "m", "upstreams": [{"weight": 1}, {"weight": 2}]},
            "mixed": {"provider": "vllm", "model": "m", "upstreams": [{"weight": 1}, claude]},
        }});
        let settings = crate::settings::read(Some(&settings), "mcp.json").expect("settings");
        let models = crate::assembly::models(&settings).expect("models");
        let models = ConfiguredModels::new(&settings, models).expect("models");
        let [same, mixed] = ["same", "mixed"].map(|name| models.find(name).expect("a model"));
        assert_eq!((same.dialect, same.different_apis), (Some(Dialect::OpenAi), Vec::new()));
        let apis = vec![(Dialect::OpenAi, ApiSupport::Partial), (Dialect::Anthropic, ApiSupport::Complete)];
        assert_eq!((mixed.dialect, mixed.different_apis), (None, apis));
    }
}
