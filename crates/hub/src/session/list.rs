//! Lists all tools of a server, page by page.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use rmcp::model::{ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams, ServerResult};
use serde_json::Value;
use tokio::time::Instant;

use super::{PausableDeadline, Session, SessionCall, SessionError};

/// More pages than any real server has.
const MAX_PAGES: usize = 1000;

/// More tools than any real server has.
const MAX_TOOLS: usize = 10_000;

/// Longer than any timeout that can be configured.
const UNLIMITED: Duration = Duration::from_secs(7 * 24 * 3600);

/// The tools of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ToolListing {
    /// The tools as the server sent them, valid or not.
    pub(crate) tools: Vec<Value>,
    /// Tools that must not be offered, although they can be parsed.
    pub(crate) skipped: Vec<SkippedTool>,
    /// The time for which the list is valid, as the server states.
    pub(crate) ttl: Option<Duration>,
    /// The reason why the list may be incomplete.
    pub(crate) incomplete: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkippedTool {
    pub(crate) name: String,
    pub(crate) reason: String,
}

impl Session {
    pub(crate) async fn list_tools(&self) -> Result<ToolListing, SessionError> {
        self.list_tools_until(&PausableDeadline::new(self.list_timeout, self.login.clone())).await
    }

    /// Lists the tools for the first time, within the time that is left for connecting.
    pub(crate) async fn list_tools_initially(&self) -> Result<ToolListing, SessionError> {
        self.list_tools_until(&self.connect_deadline).await
    }

    async fn list_tools_until(&self, deadline: &PausableDeadline) -> Result<ToolListing, SessionError> {
        tokio::select! {
            listing = self.list_pages() => listing,
            () = deadline.expired() => Err(SessionError::TimedOut { after: deadline.total() }),
        }
    }

    /// Reads all pages. The caller limits the total time.
    async fn list_pages(&self) -> Result<ToolListing, SessionError> {
        let mut listing = ToolListing::default();
        let mut cursors = HashSet::new();
        let mut bytes = 0;
        let mut cursor: Option<String> = None;
        let call = SessionCall {
            timeout: self.list_timeout,
            max_total: UNLIMITED,
            progress: None,
            trace: None,
            elicitation: None,
            sampling: None,
            log: None,
            owner: None,
            accepts_task: false,
        };
        let until = Instant::now() + UNLIMITED;
        loop {
            let params =
                cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request = ListToolsRequest { params, ..ListToolsRequest::default() };
            let page = self.request(ClientRequest::ListToolsRequest(request), &call, until).await;
            let (mut page, sdk_result) = match page {
                // A server without tools need not support the method.
                Err(SessionError::Rejected { code, .. })
                    if code == i64::from(ErrorCode::METHOD_NOT_FOUND.0)
                        && self.info.capabilities.get("tools").is_none() =>
                {
                    return Ok(listing);
                }
                page => page?,
            };
            let Some(tools) = page.get_mut("tools").and_then(Value::as_array_mut).map(std::mem::take) else {
                return Err(SessionError::Malformed { reason: "`tools` is not an array".into() });
            };
            bytes += json_bytes(&tools);
            if bytes > self.max_list_bytes {
                listing.incomplete =
                    Some(format!("the tool list is longer than {} bytes", self.max_list_bytes));
                return Ok(listing);
            }
            if self.connection.capture.passes_tools() {
                listing.skipped.extend(tools_refused_by_the_sdk(&tools, &sdk_result));
            }
            listing.tools.extend(tools);
            if let Some(ttl) = page.get("ttlMs").and_then(Value::as_u64).map(Duration::from_millis) {
                listing.ttl = Some(listing.ttl.map_or(ttl, |shortest| shortest.min(ttl)));
            }
            if listing.tools.len() > MAX_TOOLS {
                listing.tools.truncate(MAX_TOOLS);
                listing.incomplete = Some(format!("the tool list has more than {MAX_TOOLS} tools"));
                return Ok(listing);
            }
            match page.get("nextCursor").and_then(Value::as_str) {
                None => return Ok(listing),
                Some(next) if !cursors.insert(next.to_owned()) => {
                    listing.incomplete = Some(format!("the server returned the cursor `{next}` twice"));
                    return Ok(listing);
                }
                Some(_) if cursors.len() >= MAX_PAGES => {
                    listing.incomplete = Some(format!("the tool list has more than {MAX_PAGES} pages"));
                    return Ok(listing);
                }
                Some(next) => {
                    bytes += next.len();
                    cursor = Some(next.to_owned());
                }
            }
        }
    }
}

/// Returns the size of tools as JSON text.
fn json_bytes(tools: &[Value]) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Neither JSON values nor the counter can fail.
    let _ = serde_json::to_writer(&mut counter, tools);
    counter.0
}

/// Returns the tools that the SDK refused. It sends marked arguments (`x-mcp-header`) as headers, and refuses
/// tools with invalid marks, as MCP requires.
fn tools_refused_by_the_sdk(tools: &[Value], sdk_result: &ServerResult) -> Vec<SkippedTool> {
    let ServerResult::ListToolsResult(accepted) = sdk_result else { return Vec::new() };
    let accepted: HashSet<&str> = accepted.tools.iter().map(|tool| &*tool.name).collect();
    let names = tools.iter().filter(|tool| tool.get("inputSchema").is_some_and(Value::is_object));
    let names = names.filter_map(|tool| tool.get("name").and_then(Value::as_str));
    let refused = names.filter(|name| !accepted.contains(name));
    refused
        .map(|name| SkippedTool { name: name.to_owned(), reason: "invalid `x-mcp-header`".into() })
        .collect()
}
