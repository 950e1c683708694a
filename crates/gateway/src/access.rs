//! The models and tools that a caller may use.

use std::sync::Arc;

use toolwire_contract::toolbox::Toolbox;
use toolwire_dialect::client::{ClientError, ErrorKind};

use crate::audited_tools::AuditedTools;
use crate::catalog::ServedModel;
use crate::gateway::Inner;
use crate::principal::Principal;
use crate::response::Failure;
use crate::screened_tools::ScreenedTools;
use crate::settings::GatewaySettings;

impl Inner {
    /// Returns the tools that a caller may use.
    pub(crate) fn tools_for(&self, principal: &Principal) -> Arc<dyn Toolbox> {
        match principal.tool_rights() {
            Some(rights) => self.permitted.of(&self.all_tools, rights),
            None => self.all_tools.clone(),
        }
    }

    /// Returns tools whose calls are logged, if there is an audit log.
    pub(crate) fn audited(
        &self,
        tools: &Arc<dyn Toolbox>,
        principal: &Principal,
        request_id: &str,
    ) -> Option<Arc<dyn Toolbox>> {
        let log = self.settings.audit.clone()?;
        let (tools, principal, request) = (tools.clone(), principal.clone(), request_id.to_owned());
        Some(Arc::new(AuditedTools { tools, log, principal, request }))
    }

    /// Finds a model that the caller may use.
    pub(crate) fn find_model(&self, principal: &Principal, name: &str) -> Result<ServedModel, Failure> {
        let found = self.models.find(name);
        let problem = match found {
            Ok(served) if principal.permits_model(&[name, served.model.name()]) => return Ok(served),
            Err(error) if principal.permits_model(&[name]) => error.to_string(),
            // The same message for both cases, so that clients cannot find out which models exist.
            _ => format!("the model `{name}` does not exist, or this key may not use it"),
        };
        let mut error = ClientError::new(ErrorKind::ModelNotFound, problem);
        error.parameter = Some("model".to_owned());
        Err(error.into())
    }

    /// Returns the names of the models that a caller may use.
    pub(crate) fn model_names(&self, principal: &Principal) -> Vec<String> {
        let mut names = self.models.names();
        if principal.rights().is_some_and(|rights| rights.models.is_some()) {
            names.retain(|name| self.find_model(principal, name).is_ok());
        }
        names
    }
}

/// Returns tools whose results are screened, if the settings say so.
pub(crate) fn screened(tools: Arc<dyn Toolbox>, settings: &GatewaySettings) -> Arc<dyn Toolbox> {
    match settings.screen_results {
        true => Arc::new(ScreenedTools(tools)),
        false => tools,
    }
}
