//! Ours ⇄ the SDK's: who we say we are, and what a server's requests and notifications become.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientResult, CustomResult, ErrorCode, ErrorData, Implementation,
    ProtocolVersion, ServerNotification, ServerRequest,
};
use rmcp::service::{NotificationContext, RequestContext, Service};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::host::{ElicitKind, ElicitReply, ElicitRequest, Host};
use crate::session::SessionEvent;
use crate::transport::Link;

/// The client's side of a session, as the SDK drives it.
pub(crate) struct Client {
    pub(crate) server: Arc<str>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) events: mpsc::Sender<SessionEvent>,
    pub(crate) link: Arc<Link>,
}

impl Service<RoleClient> for Client {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        let method = match &request {
            ServerRequest::PingRequest(_) => return Ok(ClientResult::empty(())),
            ServerRequest::ListRootsRequest(_) => "roots/list",
            ServerRequest::ElicitRequest(_) => "elicitation/create",
            ServerRequest::CreateMessageRequest(_) => "sampling/createMessage",
            // A request that the SDK cannot read is still one that we can.
            ServerRequest::CustomRequest(request) => &request.method,
            _ => "",
        };
        // Taken even where nobody answers: what was kept for this request ends with it.
        let params = self.link.tee.take_request(&context.id).unwrap_or_default();
        let answer = async {
            let _answering = self.link.application_answers();
            answer(&*self.host, &self.server, method, params).await
        };
        let answer = tokio::select! {
            answer = answer => answer?,
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the request was cancelled", None)),
            _ = self.link.ended() => return Err(ErrorData::internal_error("the connection ended", None)),
        };
        Ok(ClientResult::CustomResult(CustomResult::new(answer)))
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        if let ServerNotification::ToolListChangedNotification(_) = notification {
            // A full queue already holds such an event.
            let _ = self.events.try_send(SessionEvent::ToolsChanged);
        }
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        // Through JSON: the SDK marks some of these types as deprecated, though servers of all eras ask for them.
        let declared = json!({
            "roots": {},
            "sampling": self.host.can_sample().then(|| json!({ "tools": {} })),
            "elicitation": self.host.can_elicit().then(|| json!({ "form": {}, "url": {} })),
        });
        if let Ok(declared) = serde_json::from_value(declared) {
            capabilities = declared;
        }
        ClientConfig::new(capabilities, Implementation::new("toolwire", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// Has the application answer one request of a server.
pub(crate) async fn answer(
    host: &dyn Host,
    server: &str,
    method: &str,
    params: Value,
) -> Result<Value, ErrorData> {
    match method {
        "roots/list" => {
            let roots: Vec<Value> = host
                .roots(server)
                .into_iter()
                .map(|root| match root.name {
                    Some(name) => json!({ "uri": root.uri, "name": name }),
                    None => json!({ "uri": root.uri }),
                })
                .collect();
            Ok(json!({ "roots": roots }))
        }
        "elicitation/create" => {
            let request = elicitation(&params)?;
            if !host.can_elicit() {
                return Ok(json!({ "action": "decline" }));
            }
            let defaults = defaults(&request.kind);
            Ok(match host.elicit(server, request).await {
                ElicitReply::Accept(Some(content)) => {
                    json!({ "action": "accept", "content": filled_in(content, defaults) })
                }
                ElicitReply::Accept(None) => json!({ "action": "accept" }),
                ElicitReply::Decline => json!({ "action": "decline" }),
                ElicitReply::Cancel => json!({ "action": "cancel" }),
            })
        }
        "sampling/createMessage" if host.can_sample() => host
            .sample(server, params)
            .await
            .map_err(|refusal| ErrorData::new(ErrorCode(-1), refusal.message, None)),
        _ => Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("this client does not answer `{method}`"),
            None,
        )),
    }
}

fn elicitation(params: &Value) -> Result<ElicitRequest, ErrorData> {
    let text = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
    let missing = |key: &str| ErrorData::invalid_params(format!("`{key}` is missing"), None);
    let kind = match params.get("mode").and_then(Value::as_str) {
        None | Some("form") => ElicitKind::Form {
            schema: params.get("requestedSchema").cloned().ok_or_else(|| missing("requestedSchema"))?,
        },
        Some("url") => ElicitKind::Url {
            url: text("url").ok_or_else(|| missing("url"))?,
            id: text("elicitationId").unwrap_or_default(),
        },
        Some(mode) => {
            return Err(ErrorData::invalid_params(format!("there is no elicitation mode `{mode}`"), None));
        }
    };
    Ok(ElicitRequest { message: text("message").unwrap_or_default(), kind })
}

/// What the fields of a form hold before anybody fills them in.
fn defaults(kind: &ElicitKind) -> Vec<(String, Value)> {
    let ElicitKind::Form { schema } = kind else { return Vec::new() };
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    fields.filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone()))).collect()
}

/// A field that was left alone is sent as the person saw it.
fn filled_in(mut content: Value, defaults: Vec<(String, Value)>) -> Value {
    if let Some(fields) = content.as_object_mut() {
        for (name, default) in defaults {
            fields.entry(name).or_insert(default);
        }
    }
    content
}

/// Passes a log message of a server on.
pub(crate) fn log(server: &str, params: &Value) {
    const TARGET: &str = "toolwire::server";
    let logger = params.get("logger").and_then(Value::as_str).unwrap_or_default();
    let message = match params.get("data") {
        Some(Value::String(text)) => text.clone(),
        Some(data) => data.to_string(),
        None => return,
    };
    match params.get("level").and_then(Value::as_str) {
        Some("debug") => tracing::debug!(target: TARGET, server, logger, "{message}"),
        Some("warning") => tracing::warn!(target: TARGET, server, logger, "{message}"),
        Some("error" | "critical" | "alert" | "emergency") => {
            tracing::error!(target: TARGET, server, logger, "{message}");
        }
        _ => tracing::info!(target: TARGET, server, logger, "{message}"),
    }
}
