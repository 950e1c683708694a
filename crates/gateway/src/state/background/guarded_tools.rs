//! Tools whose calls begin only after they are recorded in the log. If the gateway dies, another one can see
//! which calls may have taken effect.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use toolwire_contract::ToolResult;
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox, ToolboxDecorator};

/// The number of calls that wait at the same time.
const MAX_WAITING: usize = 64;

/// A call that waits until the log is written.
pub(super) type WaitingCall = oneshot::Sender<()>;

/// Receives the calls before they begin.
pub(crate) struct CallGate(pub(super) mpsc::Receiver<WaitingCall>);

/// Lets calls wait at a gate.
#[derive(Clone)]
pub(crate) struct GateSender(mpsc::Sender<WaitingCall>);

impl CallGate {
    pub(crate) fn new() -> (GateSender, CallGate) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (GateSender(sender), CallGate(receiver))
    }
}

impl GateSender {
    /// Returns the same tools; their calls wait at the gate.
    pub(crate) fn guard(self, tools: Arc<dyn Toolbox>) -> Arc<dyn Toolbox> {
        Arc::new(GuardedTools { tools, gate: self })
    }

    /// Waits until the call may begin. After the end of the response, the gate is open: a later request that
    /// continues the run records its own calls.
    async fn pass(&self) {
        let (permit, permitted) = oneshot::channel();
        if self.0.send(permit).await.is_ok() {
            let _ = permitted.await;
        }
    }
}

struct GuardedTools {
    tools: Arc<dyn Toolbox>,
    gate: GateSender,
}

impl ToolboxDecorator for GuardedTools {
    fn inner(&self) -> &dyn Toolbox {
        &*self.tools
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            self.gate.pass().await;
            self.tools.call(tool, arguments, options).await
        })
    }
}
