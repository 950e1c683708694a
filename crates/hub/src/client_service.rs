//! The client side of the protocol: what it declares, and how it responds to a server's requests and
//! notifications.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientResult, CustomResult, ErrorCode, ErrorData, Implementation,
    ProtocolVersion, ServerNotification, ServerRequest,
};
use rmcp::service::{NotificationContext, RequestContext, Service};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolwire_contract::elicitation::{ElicitHandler, SampleHandler};

use crate::host::{ElicitKind, ElicitReply, ElicitRequest, Host};
use crate::session::{SessionEvent, change_event};
use crate::transport::Connection;

/// The client's side of a session, called by the SDK.
pub(crate) struct ClientService {
    pub(crate) server: Arc<str>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) events: mpsc::Sender<SessionEvent>,
    pub(crate) connection: Arc<Connection>,
}

impl Service<RoleClient> for ClientService {
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
            // A request that the SDK cannot parse.
            ServerRequest::CustomRequest(request) => &request.method,
            _ => "",
        };
        // Removed even if the request is refused, because nothing else removes it.
        let request = self.connection.capture.take_server_request(&context.id).unwrap_or_default();
        let is_question = matches!(method, "elicitation/create" | "sampling/createMessage");
        let owner = self.connection.capture.owner_of(&request);
        let question = if is_question { self.connection.calls.begin_question(owner) } else { None };
        let params = request.params;
        let responding = async {
            let _responding = self.connection.application_responds();
            let handlers = question.as_ref().map_or_else(CallHandlers::default, |question| CallHandlers {
                elicitation: question.elicitation.as_deref(),
                sampling: question.sampling.as_deref(),
            });
            let question = Question { server: &self.server, key: None, method, params };
            respond(&*self.host, handlers, question).await
        };
        let call_ended = async {
            match &question {
                Some(question) => question.call_ended.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let response = tokio::select! {
            response = responding => response?,
            // The call has ended, so its question needs no reply.
            () = call_ended => match method {
                "elicitation/create" => json!({ "action": "cancel" }),
                _ => return Err(ErrorData::internal_error("the call has ended", None)),
            },
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the request was cancelled", None)),
            _ = self.connection.ended() => return Err(ErrorData::internal_error("the connection ended", None)),
        };
        Ok(ClientResult::CustomResult(CustomResult::new(response)))
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        if let Some(event) = change_event(&notification) {
            // If the queue is full, the hub is about to read the lists anyway.
            let _ = self.events.try_send(event);
        }
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        // From JSON, because the SDK marks some of these types as deprecated although servers still use them.
        if let Ok(declared) = serde_json::from_value(self::capabilities(&*self.host)) {
            capabilities = declared;
        }
        ClientConfig::new(capabilities, Implementation::new("toolwire", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// Returns the capabilities that an application declares to servers.
pub(crate) fn capabilities(host: &dyn Host) -> Value {
    let mut declared = json!({ "roots": {} });
    if host.can_sample() {
        declared["sampling"] = json!({ "tools": {} });
    }
    if host.can_elicit() {
        declared["elicitation"] = json!({ "form": {}, "url": {} });
    }
    declared
}

/// Who responds to the requests of a server: the call that caused them, if it can.
#[derive(Clone, Copy, Default)]
pub(crate) struct CallHandlers<'a> {
    pub(crate) elicitation: Option<&'a ElicitHandler>,
    pub(crate) sampling: Option<&'a SampleHandler>,
}

/// A request of a server.
pub(crate) struct Question<'a> {
    pub(crate) server: &'a str,
    /// Its name, if the server has given it one.
    pub(crate) key: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) params: Value,
}

/// Has the application respond to one request of a server.
pub(crate) async fn respond(
    host: &dyn Host,
    handlers: CallHandlers<'_>,
    question: Question<'_>,
) -> Result<Value, ErrorData> {
    let Question { server, key, method, params } = question;
    match method {
        "roots/list" => Ok(roots(host, server)),
        "elicitation/create" => {
            let mut request = read_elicitation(&params)?;
            request.key = key.map(str::to_owned);
            if !host.can_elicit() {
                return Ok(json!({ "action": "decline" }));
            }
            let defaults = defaults(&request.kind);
            let reply = match handlers.elicitation {
                Some(elicit) => elicit(server, request).await,
                None => host.elicit(server, request).await,
            };
            Ok(match reply {
                ElicitReply::Accept(Some(content)) => {
                    json!({ "action": "accept", "content": with_defaults(content, defaults) })
                }
                ElicitReply::Accept(None) => json!({ "action": "accept" }),
                ElicitReply::Decline => json!({ "action": "decline" }),
                ElicitReply::Cancel => json!({ "action": "cancel" }),
            })
        }
        "sampling/createMessage" if host.can_sample() => {
            let sampled = match handlers.sampling {
                Some(sample) => sample(server, params).await,
                None => host.sample(server, params).await,
            };
            sampled.map_err(|reason| ErrorData::new(ErrorCode(-1), reason, None))
        }
        _ => Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("this client does not support `{method}`"),
            None,
        )),
    }
}

/// Returns the result of `roots/list`.
pub(crate) fn roots(host: &dyn Host, server: &str) -> Value {
    let roots = host.roots(server).into_iter().map(|root| match root.name {
        Some(name) => json!({ "uri": root.uri, "name": name }),
        None => json!({ "uri": root.uri }),
    });
    json!({ "roots": roots.collect::<Vec<Value>>() })
}

fn read_elicitation(params: &Value) -> Result<ElicitRequest, ErrorData> {
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
            return Err(ErrorData::invalid_params(format!("unknown elicitation mode `{mode}`"), None));
        }
    };
    Ok(ElicitRequest::new(text("message").unwrap_or_default(), kind))
}

/// Returns the default values of a form's fields.
fn defaults(kind: &ElicitKind) -> Vec<(String, Value)> {
    let ElicitKind::Form { schema } = kind else { return Vec::new() };
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    fields.filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone()))).collect()
}

/// Adds the defaults of the fields that the user did not change.
fn with_defaults(mut content: Value, defaults: Vec<(String, Value)>) -> Value {
    if let Some(fields) = content.as_object_mut() {
        for (name, default) in defaults {
            fields.entry(name).or_insert(default);
        }
    }
    content
}

/// Logs a log message of a server.
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
