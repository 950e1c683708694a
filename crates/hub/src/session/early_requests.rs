//! Responds to requests that a server sends before the session has started.
//!
//! The SDK ignores most of them, but a server may wait for the response before it continues.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientResult, CustomResult, ErrorData, JsonRpcRequest, ServerJsonRpcMessage,
    ServerRequest,
};
use rmcp::transport::Transport;
use tokio::task::JoinSet;

use crate::client_service;
use crate::host::Host;
use crate::transport::Connection;

/// The maximum number of responses that wait until the server reads them.
const MAX_PENDING_RESPONSES: usize = 64;

/// A transport that keeps early requests from the SDK.
pub(super) struct EarlyRequests<T> {
    pub(super) transport: T,
    pub(super) server: Arc<str>,
    pub(super) host: Arc<dyn Host>,
    pub(super) connection: Arc<Connection>,
    /// Set by the first successful response, which is the one to `initialize` or `server/discover`.
    pub(super) has_started: bool,
    pub(super) responses: JoinSet<()>,
}

impl<T: Transport<RoleClient>> EarlyRequests<T> {
    fn respond(&mut self, request: JsonRpcRequest<ServerRequest>) {
        self.connection.capture.take_server_request(&request.id);
        while self.responses.try_join_next().is_some() {}
        if self.responses.len() >= MAX_PENDING_RESPONSES {
            return;
        }
        let response = match request.request {
            ServerRequest::PingRequest(_) => {
                ClientJsonRpcMessage::response(ClientResult::empty(()), request.id)
            }
            ServerRequest::ListRootsRequest(_) => {
                let roots = CustomResult::new(client_service::roots(&*self.host, &self.server));
                ClientJsonRpcMessage::response(ClientResult::CustomResult(roots), request.id)
            }
            _ => ClientJsonRpcMessage::error(
                ErrorData::invalid_request("the session has not started", None),
                Some(request.id),
            ),
        };
        // Sent by its own task, because the SDK may drop `receive` before the message is written.
        let sending = self.transport.send(response);
        self.responses.spawn(async {
            let _ = sending.await;
        });
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for EarlyRequests<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.transport.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            match self.transport.receive().await? {
                ServerJsonRpcMessage::Request(request) if !self.has_started => self.respond(request),
                message => {
                    self.has_started |= matches!(message, ServerJsonRpcMessage::Response(_));
                    return Some(message);
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.transport.close().await
    }
}
