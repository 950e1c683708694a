//! The caller of a request, and the models and tools that the caller may use.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use toolwire_contract::toolbox::Toolbox;
use toolwire_dialect::client::{ClientError, ErrorKind};

use crate::caller_tools::CallerTools;
use crate::catalog::ServedModel;
use crate::gateway::Inner;
use crate::keys::AuthenticationError;
use crate::principal::Principal;
use crate::response::Failure;
use crate::screened_tools::ScreenedTools;
use crate::settings::GatewaySettings;
use crate::user_servers::credentials;

/// The maximum size of the name of a model.
const MAX_MODEL_NAME_BYTES: usize = 512;

impl Inner {
    /// Finds the caller of a request. Wrong keys are counted.
    pub(crate) async fn authenticate(
        &self,
        headers: &HeaderMap,
        client: IpAddr,
    ) -> Result<Principal, Failure> {
        let principal = self.settings.keys.authenticate(headers).await;
        let principal = principal.map(|principal| self.with_user_headers(principal, headers));
        principal.map_err(|error| {
            if error == AuthenticationError::Unavailable {
                return unauthenticated(&error);
            }
            let has_key = ["authorization", "x-api-key"].iter().any(|name| headers.contains_key(*name));
            let is_limited = has_key.then(|| self.failed_keys.record(client, std::time::Instant::now()));
            match is_limited.flatten() {
                Some(failure) => failure,
                None => unauthenticated(&error),
            }
        })
    }

    /// Adds the credentials for servers in the headers of a request.
    pub(crate) fn with_user_headers(&self, principal: Principal, headers: &HeaderMap) -> Principal {
        match self.user_servers.get() {
            Some(servers) if !servers.is_empty() => {
                principal.with_credentials(credentials(&servers.headers(), headers))
            }
            _ => principal,
        }
    }

    /// Returns the tools that a caller may use.
    pub(crate) fn tools_for(&self, principal: &Principal) -> Arc<dyn Toolbox> {
        let of_user = self.user_tools(principal);
        let (all, permitted) = match &of_user {
            Some(tools) => (&tools.all, &tools.permitted),
            None => (&self.all_tools, &self.permitted),
        };
        match principal.tool_rights() {
            Some(rights) => permitted.of(all, rights),
            None => all.clone(),
        }
    }

    /// Returns tools whose calls are attributed to the caller: the calls are logged if there is an audit log,
    /// and what is stored for a call belongs to its caller if there may be several callers. `None` if neither
    /// applies.
    pub(crate) fn attributed(
        &self,
        tools: &Arc<dyn Toolbox>,
        principal: &Principal,
        request_id: &str,
    ) -> Option<Arc<dyn Toolbox>> {
        let log = self.settings.audit.clone();
        let owner = self.settings.keys.may_be_several().then(|| principal.store_owner().into());
        if log.is_none() && owner.is_none() {
            return None;
        }
        let (tools, principal, request) = (tools.clone(), principal.clone(), request_id.to_owned());
        Some(Arc::new(CallerTools { tools, log, owner, principal, request }))
    }

    /// Finds a model that the caller may use.
    pub(crate) fn find_model(&self, principal: &Principal, name: &str) -> Result<ServedModel, Failure> {
        // Errors contain the name.
        if name.len() > MAX_MODEL_NAME_BYTES {
            let message = format!(
                "unknown model: its name has {} bytes, and the maximum is {MAX_MODEL_NAME_BYTES}",
                name.len()
            );
            return Err(unknown_model(message));
        }
        let found = self.models.find(name);
        let problem = match found {
            Ok(served) if principal.permits_model(&[name, served.model.name()]) => return Ok(served),
            Err(error) if principal.permits_model(&[name]) => error.to_string(),
            // The same message for both cases, so that clients cannot find out which models exist.
            _ => format!("the model `{name}` does not exist, or this key may not use it"),
        };
        Err(unknown_model(problem))
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

fn unknown_model(message: String) -> Failure {
    let mut error = ClientError::new(ErrorKind::ModelNotFound, message);
    error.parameter = Some("model".to_owned());
    error.into()
}

/// Returns tools whose results are screened, if the settings say so.
pub(crate) fn screened(tools: Arc<dyn Toolbox>, settings: &GatewaySettings) -> Arc<dyn Toolbox> {
    match settings.screen_results {
        true => Arc::new(ScreenedTools(tools)),
        false => tools,
    }
}

/// Creates the error for a caller that is not known.
pub(crate) fn unauthenticated(error: &AuthenticationError) -> Failure {
    let kind = match error {
        AuthenticationError::Unauthenticated | AuthenticationError::DifferentKeys => {
            ErrorKind::Unauthenticated
        }
        AuthenticationError::Unavailable => ErrorKind::Overloaded,
    };
    Failure::new(kind, error.to_string())
}
