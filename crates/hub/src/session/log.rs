//! Log messages of a server that belong to a call.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ClientRequest, CustomRequest};
use serde_json::{Value, json};
use tokio::time::Instant;
use toolwire_contract::log::{Level, LogMessage, LogReceiver};

use super::{ProtocolEra, Session, SessionCall};
use crate::config::SentSecrets;
use crate::sync::lock;

/// A call does not wait longer for a server that does not respond to the level.
const SET_LEVEL_TIMEOUT: Duration = Duration::from_secs(2);

impl Session {
    /// Has the server send messages from this level on. Since the newer era, each request contains the level.
    pub(super) async fn request_log_level(&self, level: Level) {
        let can_log = self.info.capabilities.get("logging").is_some_and(Value::is_object);
        if self.info.era == ProtocolEra::Modern || !can_log {
            return;
        }
        let is_lower = {
            let mut requested = lock(&self.log_level);
            let is_lower = requested.is_none_or(|requested| level < requested);
            if is_lower {
                *requested = Some(level);
            }
            is_lower
        };
        if !is_lower {
            return;
        }
        let call = SessionCall::within(self.list_timeout.min(SET_LEVEL_TIMEOUT));
        let request = CustomRequest::new("logging/setLevel", Some(json!({"level": level.name()})));
        let request = ClientRequest::CustomRequest(request);
        if let Err(error) = self.request(request, &call, Instant::now() + call.max_total).await {
            // The call does not need the messages.
            tracing::debug!(target: "toolwire::hub", server = %self.server, %error, "the log level was not set");
        }
    }

    /// Returns a receiver that gets the messages without the secrets of the server, and with its name if they
    /// have no logger.
    pub(super) fn receiver(&self, log: LogReceiver) -> LogReceiver {
        let LogReceiver { level, receive } = log;
        let (server, secrets) = (self.server.clone(), self.secrets.clone());
        let receive = move |mut message: LogMessage| {
            if message.level < level {
                return;
            }
            redact(&mut message.data, &secrets);
            message.logger =
                Some(message.logger.map_or_else(|| server.to_string(), |name| secrets.redact(name)));
            receive(message);
        };
        LogReceiver { level, receive: Arc::new(receive) }
    }
}

fn redact(value: &mut Value, secrets: &SentSecrets) {
    match value {
        Value::String(text) => *text = secrets.redact(std::mem::take(text)),
        Value::Array(values) => values.iter_mut().for_each(|value| redact(value, secrets)),
        Value::Object(fields) => fields.values_mut().for_each(|value| redact(value, secrets)),
        _ => {}
    }
}
