//! A gateway with another configuration.

use std::sync::Arc;

use super::agents::Agents;
use super::{Gateway, Inner};
use crate::access::screened;
use crate::admission::Admission;
use crate::catalog::ModelCatalog;
use crate::origin::OriginPolicy;
use crate::permitted_tools::PermittedToolboxes;
use crate::request_servers::RequestServers;
use crate::settings::GatewaySettings;
use crate::user_tools::UserToolboxes;

impl Gateway {
    /// Returns the same gateway with other models and settings. Running requests keep those with which they
    /// began. Stored data, sessions and the values of the metrics are kept.
    ///
    /// The limits `connections`, `state_bytes` and `state_bytes_per_key`, the metrics, the spans, the key
    /// table, the storage of responses and the audit log stay as they are.
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
        // The store stays the same, and so does the audit log.
        settings.keys = settings.keys.sharing_table_of(&inner.settings.keys);
        settings.audit = inner.settings.audit.clone();
        settings.responses = inner.settings.responses.clone();
        let has_several_keys = settings.keys.may_be_several();
        let has_same_limits = settings.limits == inner.settings.limits
            && has_several_keys == inner.settings.keys.may_be_several();
        let admission = match has_same_limits {
            true => inner.admission.clone(),
            // Requests that are running now no longer count.
            false => Arc::new(Admission::new(&settings.limits, has_several_keys)),
        };
        Gateway(Arc::new(Inner {
            model_names: models.names().into_iter().collect(),
            models,
            all_tools: screened(inner.given_tools.clone(), &settings),
            given_tools: inner.given_tools.clone(),
            permitted: PermittedToolboxes::default(),
            request_servers,
            user_servers: inner.user_servers.clone(),
            users: UserToolboxes::default(),
            lifecycle: inner.lifecycle.clone(),
            traffic: inner.traffic.clone(),
            hidden: inner.hidden.clone(),
            paused: inner.paused.clone(),
            items: inner.items.clone(),
            backgrounds: inner.backgrounds.clone(),
            idempotency: inner.idempotency.clone(),
            checked_tools: inner.checked_tools.clone(),
            origins: OriginPolicy::new(&settings.hosts, &settings.origins, settings.tls.is_some()),
            large_bodies: inner.large_bodies.clone(),
            admission,
            failed_keys: inner.failed_keys.clone(),
            meters: inner.meters.clone(),
            page: inner.page.clone(),
            mcp: inner.mcp.reconfigured(),
            agents: Agents::default(),
            settings,
        }))
    }

    /// Sets the reason, for `/readyz`, why the latest configuration cannot be used; `None` if it is in use.
    pub fn set_invalid_configuration(&self, reason: Option<String>) {
        self.0.lifecycle.set_invalid_configuration(reason);
    }
}
