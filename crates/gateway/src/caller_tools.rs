//! Tools whose calls are attributed to their caller.

use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use serde_json::Value;
use toolwire_contract::ToolResult;
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox, ToolboxDecorator};

use crate::audit::{AuditLog, AuditedCall};
use crate::principal::Principal;

/// The tools of one request.
pub(crate) struct CallerTools {
    pub(crate) tools: Arc<dyn Toolbox>,
    /// Logs the calls.
    pub(crate) log: Option<Arc<AuditLog>>,
    /// The owner of what is stored for the calls; `None` if there is only one caller.
    pub(crate) owner: Option<Arc<str>>,
    pub(crate) principal: Principal,
    /// The id of the request.
    pub(crate) request: String,
}

/// A call that has begun. If it is dropped without a result, it was cancelled.
struct RunningCall<'a> {
    log: &'a AuditLog,
    call: AuditedCall,
    start: Instant,
    is_finished: bool,
}

impl RunningCall<'_> {
    fn finish(&mut self, outcome: &str) {
        self.is_finished = true;
        self.log.finished(&self.call, outcome, self.start.elapsed());
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.finish("cancelled");
        }
    }
}

impl ToolboxDecorator for CallerTools {
    fn inner(&self) -> &dyn Toolbox {
        &*self.tools
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        mut options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        options.owner.clone_from(&self.owner);
        let Some(log) = &self.log else { return self.tools.call(tool, arguments, options) };
        Box::pin(async move {
            let server = self.tools.server_of(tool).map(|server| server.name);
            let original = self.tools.original_name(tool).unwrap_or_else(|| tool.to_owned());
            let call = log.call(&self.principal, &self.request, server, original, arguments);
            // Logged before the call, so that a call whose process is killed has an entry too.
            log.started(&call);
            let mut running = RunningCall { log, call, start: Instant::now(), is_finished: false };
            let outcome = self.tools.call(tool, arguments, options).await;
            running.finish(match &outcome {
                Ok(result) if result.is_error() => "tool_error",
                Ok(_) => "ok",
                Err(error) => error.code(),
            });
            outcome
        })
    }
}
