//! Runs a request to a model.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::HeaderValue;
use tokio::time::Instant;
use toolwire_agent::{Agent, AgentSettings, Run};
use toolwire_contract::{ModelRequest, Role, ToolChoice};
use toolwire_dialect::{ErrorKind, Family, ResponseWriter};

use crate::exchange::{Exchange, ExchangeContext};
use crate::gateway::Inner;
use crate::hosted;
use crate::keys::Principal;
use crate::prepare::Prepared;
use crate::responding::Responding;
use crate::response::{Failure, HttpResponse};

impl Inner {
    /// Runs a request to a model.
    pub(crate) async fn complete(
        self: &Arc<Inner>,
        family: Family,
        principal: Principal,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<HttpResponse, Failure> {
        let deadline = Instant::now() + self.settings.limits.run_timeout;
        let body = crate::forward::Body::read(body)?;
        if let Some(forward) = self.straight_through(family, headers, &body)? {
            return forward.await;
        }
        let prepared = self.prepare(family, headers, body.into_object()?)?;
        let dropped = prepared.dropped.join(", ");
        let is_stream = prepared.client.stream;
        let writer = ResponseWriter::new(family, prepared.head.clone())
            .ok_or_else(|| Failure::new(ErrorKind::Internal, "this API has no responses"))?;
        let exchange = self.start(family, principal, prepared, deadline)?;
        let response = Responding { exchange, writer, heartbeat: self.settings.limits.heartbeat };
        let mut response = match is_stream {
            true => response.stream().await?,
            false => response.whole(family).await?,
        };
        if let Ok(value) = HeaderValue::from_str(&dropped)
            && !value.is_empty()
        {
            response.headers_mut().insert("x-toolwire-dropped", value);
        }
        Ok(response)
    }

    /// Starts the run of a request.
    fn start(
        &self,
        family: Family,
        principal: Principal,
        prepared: Prepared,
        deadline: Instant,
    ) -> Result<Exchange, Failure> {
        let Prepared { client, options, served, listed_servers, .. } = prepared;
        if !client.approvals.is_empty() {
            let (agent, run, approved) =
                self.paused.resume(&principal, &client.approvals, &client.request.messages)?;
            return Ok(
                Exchange::new(agent, run, self.context(family, principal, deadline)).with_approvals(approved)
            );
        }
        let filters = options.selection.hosted.clone();
        let agent = self.agent(&served, options.selection)?;
        let mut settings = self.run_settings(&agent, &client.request, options.max_steps)?;
        if !filters.is_empty() {
            hosted::add_approvals(
                &mut settings.approvals,
                &client.hosted_servers,
                &filters,
                &**agent.tools(),
            );
            if client.hosted_servers.iter().all(|server| server.defer_loading) {
                settings.search.tools = 0;
            }
        }
        let messages = self.hidden.restore(&principal, client.request.messages);
        match messages.last() {
            Some(last) if last.role == Role::User => {}
            Some(_) => return Err(Failure::invalid("messages", "the last message must be one of the user")),
            None => return Err(Failure::invalid("messages", "the request has no message to respond to")),
        }
        let run = Run::resume(settings, messages, agent.tools().tools(), agent.model().limits());
        let new_servers =
            filters.into_iter().map(|filter| filter.server).filter(|server| !listed_servers.contains(server));
        Ok(Exchange::new(agent, run, self.context(family, principal, deadline)).with_tool_lists(new_servers))
    }

    fn context(&self, family: Family, principal: Principal, deadline: Instant) -> ExchangeContext {
        ExchangeContext {
            family,
            principal,
            hidden: self.hidden.clone(),
            paused: self.paused.clone(),
            deadline,
        }
    }

    /// Returns the settings of a run: those of the gateway, restricted and extended by the request.
    fn run_settings(
        &self,
        agent: &Agent,
        request: &ModelRequest,
        max_steps: Option<u32>,
    ) -> Result<AgentSettings, Failure> {
        let mut settings = self.settings.agent.clone();
        settings.max_steps = max_steps.map_or(settings.max_steps, |steps| steps.min(settings.max_steps));
        settings.instructions = match (settings.instructions, &request.instructions) {
            (Some(own), Some(client)) => Some(format!("{own}\n\n{client}")),
            (own, client) => own.or_else(|| client.clone()),
        };
        settings.max_output_tokens = request.max_output_tokens.or(settings.max_output_tokens);
        settings.temperature = request.temperature.or(settings.temperature);
        settings.generation = request.generation.clone();
        settings.client_tools = request.tools.clone();
        settings.output = request.output.clone();
        settings.check().map_err(|error| Failure::new(ErrorKind::InvalidRequest, error.to_string()))?;
        settings.tool_choice = request.tool_choice.clone();
        if let ToolChoice::Tool(name) = &request.tool_choice {
            let own = agent.tools().tools();
            let names: BTreeSet<&str> =
                request.tools.iter().chain(own.iter()).map(|tool| tool.name.as_str()).collect();
            if !names.contains(name.as_str()) {
                return Err(Failure::invalid("tool_choice", format!("there is no tool named `{name}`")));
            }
        }
        Ok(settings)
    }
}
