//! The models of the configuration, for the gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use toolwire_contract::ModelError;
use toolwire_gateway::{
    ForwardedRequest, ForwardedResponse, ModelCatalog, ServedModel, UnknownModel, Upstream,
};
use toolwire_llm::{Balanced, Demo, Models, PROVIDERS};

use crate::command_error::CommandError;
use crate::settings::Settings;

/// Endpoints are created again if there are more than this.
const MAX_ENDPOINTS: usize = 256;

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
    /// Endpoints that were used, so that their connections and converted tools are used again.
    served: Mutex<BTreeMap<String, ServedModel>>,
}

impl ConfiguredModels {
    pub(super) fn new(settings: &Settings, models: Models) -> Result<ConfiguredModels, CommandError> {
        let default = settings.model.clone().or_else(|| models.default_model().map(|(name, _)| name));
        let default_name = default.unwrap_or_else(|| Demo::NAME.to_owned());
        let is_model = |name: &&str| !PROVIDERS.iter().any(|provider| provider.name == *name);
        let configured = models.configured().filter(is_model).map(str::to_owned);
        let listed = settings.gateway.models.iter().cloned();
        let aliases = settings.gateway.aliases.keys().filter(|name| !name.contains('*')).cloned();
        let mut seen = BTreeSet::new();
        let mut names: Vec<String> =
            std::iter::once(default_name.clone()).chain(listed).chain(configured).chain(aliases).collect();
        names.retain(|name| seen.insert(name.clone()));
        let models = ConfiguredModels {
            models,
            names,
            aliases: settings.gateway.aliases.clone(),
            default_name,
            served: Mutex::default(),
        };
        // A mistake is reported at the start, not with the first request.
        let invalid =
            |name: &String| models.create(models.resolve(name)).err().map(|problem| (name.clone(), problem));
        match models.names.iter().find_map(invalid) {
            Some((name, problem)) => Err(CommandError::usage(format!("model `{name}`: {problem}"))
                .with_hint("check `toolwire.model`, `toolwire.models` and `toolwire.gateway.models`")),
            None => Ok(models),
        }
    }

    pub(super) fn default_name(&self) -> &str {
        &self.default_name
    }

    /// Returns the name of a model, of which `name` may be another name.
    fn resolve(&self, name: &str) -> String {
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

    fn create(&self, name: String) -> Result<ServedModel, String> {
        if name == Demo::NAME && !self.models.configured().any(|configured| configured == Demo::NAME) {
            return Ok(ServedModel::new(Arc::new(Demo)));
        }
        let model = Arc::new(self.models.balanced(&name).map_err(|error| error.to_string())?);
        let mut served = ServedModel::new(model.clone());
        served.dialect = model.dialect();
        Ok(match model.dialect().filter(|_| model.accepts_raw_requests()) {
            Some(dialect) => served.with_upstream(dialect, Arc::new(ModelUpstream(model))),
            None => served,
        })
    }
}

impl ModelCatalog for ConfiguredModels {
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn find(&self, name: &str) -> Result<ServedModel, UnknownModel> {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = served.get(name) {
            return Ok(found.clone());
        }
        let created = self.create(self.resolve(name));
        let created = created.map_err(|problem| UnknownModel { name: name.to_owned(), problem })?;
        if served.len() >= MAX_ENDPOINTS {
            served.clear();
        }
        served.insert(name.to_owned(), created.clone());
        Ok(created)
    }
}

struct ModelUpstream(Arc<Balanced>);

impl Upstream for ModelUpstream {
    fn model_id(&self) -> &str {
        self.0.model_id()
    }

    fn forward(&self, request: ForwardedRequest) -> BoxFuture<'_, Result<ForwardedResponse, ModelError>> {
        Box::pin(async move {
            let response = self.0.forward(request.path, request.body, &request.headers).await?;
            Ok(ForwardedResponse::new(response.status, response.headers, response.body))
        })
    }
}
