//! A gateway with another configuration.

use std::sync::{Arc, Mutex};

use super::{Gateway, Inner};
use crate::admission::Admission;
use crate::catalog::ModelCatalog;
use crate::origin::OriginPolicy;
use crate::request_servers::RequestServers;
use crate::settings::GatewaySettings;

impl Gateway {
    /// Returns the same gateway with other models and settings. Running requests keep those with which they
    /// began. What the clients have stored, their sessions and the counts of the metrics stay.
    ///
    /// The limits `connections`, `state_bytes` and `state_bytes_per_key`, the metrics and the spans stay as
    /// they are.
    #[must_use]
    pub fn reconfigured(
        &self,
        models: Arc<dyn ModelCatalog>,
        request_servers: Arc<dyn RequestServers>,
        mut settings: GatewaySettings,
    ) -> Gateway {
        let inner = &self.0;
        settings.metrics = inner.settings.metrics.clone();
        settings.spans = inner.settings.spans.clone();
        let has_several_keys = settings.keys.len() > 1;
        let has_same_limits =
            settings.limits == inner.settings.limits && has_several_keys == (inner.settings.keys.len() > 1);
        let admission = match has_same_limits {
            true => inner.admission.clone(),
            // Requests that are running now no longer count.
            false => Arc::new(Admission::new(&settings.limits, has_several_keys)),
        };
        Gateway(Arc::new(Inner {
            model_names: models.names().into_iter().collect(),
            models,
            tools: inner.tools.clone(),
            request_servers,
            lifecycle: inner.lifecycle.clone(),
            traffic: inner.traffic.clone(),
            hidden: inner.hidden.clone(),
            paused: inner.paused.clone(),
            items: inner.items.clone(),
            checked_tools: inner.checked_tools.clone(),
            origins: OriginPolicy::new(&settings.hosts, &settings.origins, settings.tls.is_some()),
            large_bodies: inner.large_bodies.clone(),
            admission,
            failed_keys: inner.failed_keys.clone(),
            page: inner.page.clone(),
            agents: Mutex::default(),
            settings,
        }))
    }

    /// Reports in `/readyz` that a configuration cannot be used; `None` if the last one is in use.
    pub fn set_invalid_configuration(&self, reason: Option<String>) {
        self.0.lifecycle.set_invalid_configuration(reason);
    }
}
