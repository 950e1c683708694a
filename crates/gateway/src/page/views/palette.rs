//! The entries of the palette.

use serde_json::{Value, json};
use toolwire_page::shell::View;
use toolwire_page::tools::address;

use super::super::Context;
use super::super::reply::Reply;
use super::super::request::PageRequest;

const MAX_ENTRIES: usize = 20;

/// Returns the views and tools that match a query. `@` at its start selects tools.
pub(super) fn respond(context: &Context<'_>, request: &PageRequest) -> Reply {
    let query = request.query("q").unwrap_or_default().to_lowercase();
    let (is_tools, words) = match query.trim().strip_prefix('@') {
        Some(words) => (true, words.trim()),
        None => (false, query.trim()),
    };
    let matches = |text: &str| text.to_lowercase().contains(words);
    let views = View::all().filter(|(name, _)| !is_tools && matches(name));
    let mut entries: Vec<Value> =
        views.map(|(name, path)| json!({"label": name, "kind": "view", "href": path})).collect();
    let tools = context.tools.tools();
    let named = tools.iter().filter(|tool| matches(&tool.name));
    entries.extend(named.take(MAX_ENTRIES).map(|tool| {
        let server = context.tools.server_of(&tool.name).map(|server| server.name);
        json!({"label": tool.name, "kind": "tool", "detail": server, "href": address(&tool.name).as_str()})
    }));
    entries.truncate(MAX_ENTRIES);
    Reply::json(json!({"entries": entries}))
}
