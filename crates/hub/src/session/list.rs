//! All tools of a server, from the first page to the last.

use std::collections::HashSet;
use std::time::Duration;

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult};
use serde_json::Value;
use tokio::time::Instant;

use super::{CallOptions, Limit, Session, SessionError};

/// No server has this many pages; one that says so runs in circles.
const MOST_PAGES: usize = 1000;

/// Longer than any limit that can be set.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// The tools of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// Each as the server gave it, whether it makes sense or not.
    pub tools: Vec<Value>,
    /// Tools that must not be offered, although they could be read.
    pub left_out: Vec<LeftOut>,
    /// How long the list stays as it is, as the server says.
    pub ttl: Option<Duration>,
    /// Why the list may not be whole.
    pub cut: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub name: String,
    pub reason: String,
}

impl Session {
    /// Reads the whole list.
    pub async fn list_tools(&self) -> Result<Listing, SessionError> {
        self.list_tools_within(&Limit::new(self.list_timeout, self.asking.clone())).await
    }

    /// The same for the first time: connecting and listing have one time limit between them.
    pub(crate) async fn list_tools_within(&self, limit: &Limit) -> Result<Listing, SessionError> {
        tokio::select! {
            listing = self.list_pages() => listing,
            () = limit.over() => Err(SessionError::TimedOut { after: limit.time() }),
        }
    }

    /// However many pages there are: whoever waits for them sets the limit.
    async fn list_pages(&self) -> Result<Listing, SessionError> {
        let mut listing = Listing::default();
        let mut cursors = HashSet::new();
        let mut cursor: Option<String> = None;
        let options = CallOptions { timeout: self.list_timeout, ..CallOptions::default() };
        // It is the silence within a page that counts here.
        let until = Instant::now() + LONGEST;
        loop {
            let params =
                cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request = ListToolsRequest { params, ..ListToolsRequest::default() };
            let page = self.request(ClientRequest::ListToolsRequest(request), &options, until).await;
            let (mut page, shown) = match page {
                // A server without tools need not know the method.
                Err(SessionError::Refused { code: -32601, .. })
                    if self.facts.capabilities.get("tools").is_none() =>
                {
                    return Ok(listing);
                }
                page => page?,
            };
            let Some(tools) = page.get_mut("tools").and_then(Value::as_array_mut).map(std::mem::take) else {
                return Err(SessionError::Malformed { why: "`tools` is no list".into() });
            };
            if self.link.tee.shows_schemas() {
                listing.left_out.extend(refused_by_the_sdk(&tools, &shown));
            }
            listing.tools.extend(tools);
            if let Some(ttl) = page.get("ttlMs").and_then(Value::as_u64).map(Duration::from_millis) {
                listing.ttl = Some(listing.ttl.map_or(ttl, |shortest| shortest.min(ttl)));
            }
            match page.get("nextCursor").and_then(Value::as_str) {
                None => return Ok(listing),
                Some(next) if !cursors.insert(next.to_owned()) => {
                    listing.cut = Some(format!("the server gave the cursor `{next}` twice"));
                    return Ok(listing);
                }
                Some(_) if cursors.len() >= MOST_PAGES => {
                    listing.cut = Some(format!("the server has more than {MOST_PAGES} pages"));
                    return Ok(listing);
                }
                Some(next) => cursor = Some(next.to_owned()),
            }
        }
    }
}

/// The SDK makes headers of marked arguments (`x-mcp-header`) and refuses tools whose marks are invalid, as MCP asks.
fn refused_by_the_sdk(tools: &[Value], shown: &ServerResult) -> Vec<LeftOut> {
    let ServerResult::ListToolsResult(shown) = shown else { return Vec::new() };
    let known: HashSet<&str> = shown.tools.iter().map(|tool| &*tool.name).collect();
    let names = tools.iter().filter(|tool| tool.get("inputSchema").is_some_and(Value::is_object));
    let names = names.filter_map(|tool| tool.get("name").and_then(Value::as_str));
    let refused = names.filter(|name| !known.contains(name));
    refused
        .map(|name| LeftOut { name: name.to_owned(), reason: "its `x-mcp-header` is invalid".into() })
        .collect()
}
