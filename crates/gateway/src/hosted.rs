//! MCP servers that a request names in the format of OpenAI or Anthropic: configured servers, or servers with
//! a URL.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use http::StatusCode;
use serde_json::{Map, Value};
use tokio::time::Instant;
use toolwire_agent::CombinedToolbox;
use toolwire_agent::approval::ApprovalPolicy;
use toolwire_contract::Tool;
use toolwire_contract::toolbox::Toolbox;
use toolwire_dialect::Family;
use toolwire_dialect::client::{ClientRequest, ErrorKind, HostedApproval, HostedServer, ToolFilter};

use crate::access::screened;
use crate::gateway::{Caller, Inner};
use crate::named_tools::{check_named_tools, known_servers, suggestion};
use crate::permitted_tools::permitted;
use crate::principal::Principal;
use crate::request_servers::{RequestServer, RequestServerError};
use crate::response::Failure;
use crate::tools::{HostedFilter, ToolSelection};

/// The start of a URL that refers to a configured server by its name.
const OWN_SCHEME: &str = "toolwire://";

/// The label of the configured tools, for tools of other servers with the same name.
const CONFIGURED: &str = "configured";

/// The servers that a request names.
#[derive(Default)]
pub(crate) struct NamedServers {
    /// One filter for each server of the request, in the same order.
    pub(crate) filters: Vec<HostedFilter>,
    /// The tools of all servers that the request may use, if it names some by URL; `None` means the
    /// configured tools.
    pub(crate) tools: Option<Arc<dyn Toolbox>>,
    /// The labels of unavailable servers, and the reasons.
    pub(crate) unavailable: Vec<(String, String)>,
    /// The places of tools that the request names, that do not exist, and that the client's API ignores.
    pub(crate) ignored: Vec<String>,
    /// Whether servers of the request are not connected, so that their tools are not known.
    pub(crate) is_incomplete: bool,
}

impl Inner {
    /// Finds the servers that a request names, and connects to those that it names by URL, if this is
    /// allowed.
    pub(crate) async fn name_servers(
        &self,
        family: Family,
        caller: &Caller,
        client: &ClientRequest,
        selection: &ToolSelection,
    ) -> Result<NamedServers, Failure> {
        // A run that waits for an approval has its own tools.
        let is_resumed = !client.approvals.is_empty();
        if client.hosted_servers.is_empty() {
            return Ok(NamedServers { is_incomplete: is_resumed, ..NamedServers::default() });
        }
        let mut found = self.find_servers(&caller.principal, &client.hosted_servers)?;
        found.by_url.retain(|(_, server)| {
            !is_resumed && !selection.is_none() && selection.selects_server(Some(&server.label))
        });
        let mut servers = Vec::new();
        let (mut count, max) = (0, self.settings.limits.tools);
        let until = (Instant::now() + self.settings.limits.request_server_timeout).min(caller.deadline);
        let connecting = found.by_url.iter().map(|(_, server)| self.connect(server, until));
        for ((name, server), connected) in found.by_url.iter().zip(join_all(connecting).await) {
            let mut unavailable = |reason: String| {
                let reason = format!("server `{}` is unavailable: {reason}", server.label);
                found.unavailable.push((server.label.clone(), reason));
            };
            match connected {
                Ok(tools) => {
                    let of_server = tools.tools().len();
                    if of_server > max {
                        unavailable(format!("it has {of_server} tools, and the maximum is {max}"));
                    } else if count + of_server > max {
                        unavailable(format!(
                            "it has {of_server} tools, the servers before it have {count}, and the maximum for all \
                             servers with a URL is {max}"
                        ));
                    } else {
                        count += of_server;
                        servers.push((name.clone(), tools));
                    }
                }
                Err(RequestServerError::Refused { reason }) => return Err(refused(&server.label, &reason)),
                Err(RequestServerError::Unavailable { reason }) => unavailable(reason),
            }
        }
        let is_available =
            |filter: &HostedFilter| !found.unavailable.iter().any(|(label, _)| *label == filter.label);
        let has_other_tools = !client.request.tools.is_empty() || found.filters.iter().any(is_available);
        let is_required = |label: &str| {
            let required = client.required_tool.iter().chain(client.allowed_tools.iter().flatten());
            required.filter_map(|tool| tool.server.as_deref()).any(|server| server == label)
        };
        // Only the Responses API can report a missing server in a successful response.
        let must_fail = |(label, _): &&(String, String)| {
            family != Family::OpenAiResponses || !has_other_tools || is_required(label)
        };
        if let Some((_, reason)) = found.unavailable.iter().find(must_fail) {
            let status = match family {
                Family::Anthropic => StatusCode::BAD_REQUEST,
                _ => StatusCode::FAILED_DEPENDENCY,
            };
            return Err(Failure::invalid("tools", reason).with_status(status));
        }
        let connected: BTreeSet<String> = servers.iter().map(|(name, _)| name.clone()).collect();
        let tools = (!servers.is_empty()).then(|| -> Arc<dyn Toolbox> {
            let configured = found.uses_configured.then(|| (CONFIGURED, self.tools_for(&caller.principal)));
            let screen = |(name, tools)| (name, screened(tools, &self.settings));
            let servers = servers.into_iter().map(screen);
            let combined: Arc<dyn Toolbox> = Arc::new(CombinedToolbox::new(configured).with_servers(servers));
            match caller.principal.tool_rights() {
                Some(rights) => permitted(&combined, rights),
                None => combined,
            }
        });
        let mut ignored = Vec::new();
        let is_connected = |filter: &HostedFilter| {
            !is_resumed && is_available(filter) && (!filter.is_url || connected.contains(&filter.server))
        };
        let source = tools.clone().unwrap_or_else(|| self.tools_for(&caller.principal));
        let entries = client.hosted_servers.iter().zip(&found.filters);
        for (hosted, filter) in entries.filter(|(_, filter)| is_connected(filter)) {
            ignored.extend(check_named_tools(hosted, filter, &*source)?);
        }
        let is_incomplete = !found.filters.iter().all(is_connected);
        let (filters, unavailable) = (found.filters, found.unavailable);
        Ok(NamedServers { filters, tools, unavailable, ignored, is_incomplete })
    }

    /// Waits until the servers that a request may use have started, for a limited time. A server that starts
    /// later, or fails to start, is unavailable to the request.
    pub(crate) async fn wait_for_servers(
        &self,
        caller: &Caller,
        client: &ClientRequest,
        selection: &ToolSelection,
    ) {
        let tools = self.tools_for(&caller.principal);
        let mut missing = tools.missing_servers();
        let urls = &self.server_urls(&caller.principal);
        missing.retain(|missing| {
            let is_named = |hosted: &HostedServer| match server_source(hosted, urls) {
                ServerSource::Configured(name) => name == missing.server,
                ServerSource::Url(_) => false,
            };
            missing.is_starting
                && selection.includes_server(&missing.server)
                && (client.hosted_servers.is_empty() || client.hosted_servers.iter().any(is_named))
        });
        if missing.is_empty() {
            return;
        }
        let starting: Vec<String> = missing.into_iter().map(|missing| missing.server).collect();
        let now = Instant::now();
        let deadlines = [Some(caller.deadline), caller.client_deadline].into_iter().flatten();
        // Half of the time until the deadline is left for the response.
        let until = deadlines.map(|deadline| deadline.saturating_duration_since(now) / 2).min();
        let longest = self.settings.limits.server_start_timeout;
        let longest = until.map_or(longest, |until| until.min(longest));
        // A server that does not start in time is reported as unavailable.
        let _ = tokio::time::timeout(longest, tools.started(&starting)).await;
    }

    /// Returns the filters of the servers that a request names, without connecting to them.
    pub(crate) fn server_filters(
        &self,
        principal: &Principal,
        servers: &[HostedServer],
    ) -> Result<Vec<HostedFilter>, Failure> {
        self.find_servers(principal, servers).map(|found| found.filters)
    }

    /// Finds the servers that a request names, without connecting to them.
    fn find_servers(&self, principal: &Principal, servers: &[HostedServer]) -> Result<FoundServers, Failure> {
        let tools = self.tools_for(principal);
        let missing = tools.missing_servers();
        let with_tools = known_servers(&*tools, []);
        let urls = &self.server_urls(principal);
        let known = known_servers(&*tools, urls.keys());
        let mut taken = known.clone();
        let mut found = FoundServers::default();
        for hosted in servers {
            let source = server_source(hosted, urls);
            let is_url = matches!(source, ServerSource::Url(_));
            let name = match source {
                ServerSource::Configured(name) => {
                    found.uses_configured = true;
                    if let Some(missing) = missing.iter().find(|missing| missing.server == name) {
                        found.unavailable.push((hosted.label.clone(), missing.to_string()));
                    } else if !with_tools.contains(name) {
                        let hint = suggestion(name, known.iter().map(String::as_str));
                        let message = format!("no server named `{name}` is configured{hint}");
                        return Err(Failure::invalid(&hosted.parameter, message));
                    }
                    name.to_owned()
                }
                ServerSource::Url(_) if !may_name_urls(principal) => {
                    let reason = "the key of the client may use only listed servers or tools";
                    return Err(refused(&hosted.label, reason));
                }
                ServerSource::Url(url) => {
                    let server = RequestServer::read(principal, hosted, url)?;
                    let name = server_name(&hosted.label, &taken);
                    taken.insert(name.clone());
                    found.by_url.push((name.clone(), server));
                    name
                }
            };
            found.filters.push(HostedFilter {
                server: name,
                label: hosted.label.clone(),
                is_url,
                allowed: hosted.allowed_tools.clone(),
                denied: hosted.denied_tools.clone(),
                read_only: hosted.read_only,
            });
        }
        let (count, max) = (found.by_url.len(), self.settings.limits.request_servers);
        if count > max {
            let message = format!("the request names {count} servers by URL, and the maximum is {max}");
            return Err(Failure::invalid("tools", message));
        }
        Ok(found)
    }

    /// Returns the URLs of the configured servers that a caller may use.
    pub(crate) fn server_urls(&self, principal: &Principal) -> BTreeMap<String, String> {
        let urls = self.settings.server_urls.iter();
        let permitted = urls.filter(|(name, _)| principal.permits_server(name));
        permitted.map(|(name, url)| (name.clone(), url.clone())).collect()
    }

    async fn connect(
        &self,
        server: &RequestServer,
        until: Instant,
    ) -> Result<Arc<dyn Toolbox>, RequestServerError> {
        let connecting = self.request_servers.connect(server.clone());
        tokio::time::timeout_at(until, connecting).await.unwrap_or_else(|_| {
            Err(RequestServerError::Unavailable { reason: "connecting took too long".to_owned() })
        })
    }
}

/// The servers that a request names, before they are connected.
#[derive(Default)]
struct FoundServers {
    filters: Vec<HostedFilter>,
    uses_configured: bool,
    /// Servers that the request names by URL, each with the name that its tools' server gets.
    by_url: Vec<(String, RequestServer)>,
    unavailable: Vec<(String, String)>,
}

enum ServerSource<'a> {
    /// The name of a configured server.
    Configured(&'a str),
    Url(&'a str),
}

/// Returns the server that an entry of a request refers to. A URL may be that of a configured server.
fn server_source<'a>(hosted: &'a HostedServer, urls: &'a BTreeMap<String, String>) -> ServerSource<'a> {
    let Some(full) = hosted.url.as_deref() else { return ServerSource::Configured(&hosted.label) };
    let url = full.trim_end_matches('/');
    if let Some(name) = url.strip_prefix(OWN_SCHEME) {
        return ServerSource::Configured(name);
    }
    let is_same = |name: &&String| urls.get(*name).is_some_and(|known| known.trim_end_matches('/') == url);
    // Several servers may have the same URL with different credentials, so a server with the client's label
    // is preferred.
    match Some(&hosted.label).filter(is_same).or_else(|| urls.keys().find(is_same)) {
        Some(name) => ServerSource::Configured(name),
        None => ServerSource::Url(full),
    }
}

/// Returns the name of a server with a URL: the client's label, unless another server has this name.
fn server_name(label: &str, taken: &BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{label}-{number}"));
    let mut names = std::iter::once(label.to_owned()).chain(numbered);
    names.find(|name| !taken.contains(name)).unwrap_or_else(|| label.to_owned())
}

/// Whether a caller may name servers by URL. The client chooses the names of these servers, so lists of
/// servers and tools cannot contain them.
fn may_name_urls(principal: &Principal) -> bool {
    principal.rights().is_none_or(|rights| rights.servers.is_none() && rights.tools.is_none())
}

fn refused(label: &str, reason: &str) -> Failure {
    let message = format!(
        "no configured server has the URL of `{label}`, and the gateway does not connect to it: {reason}; hint: configure the \
         server, and use its URL or `{OWN_SCHEME}NAME`"
    );
    Failure::new(ErrorKind::Forbidden, message)
}

/// Returns the client's descriptions of its servers, as a paragraph for the model.
pub(crate) fn descriptions(servers: &[HostedServer]) -> Option<String> {
    let describe = |hosted: &HostedServer| {
        let description = hosted.description.as_deref()?.trim();
        (!description.is_empty()).then(|| format!("The MCP server `{}`: {description}", hosted.label))
    };
    let lines: Vec<String> = servers.iter().filter_map(describe).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Adds the approvals that a request requires to a policy. A request can only require more approvals than the
/// configuration. If several entries select a tool, it needs approval if one of them requires it.
pub(crate) fn add_approvals(
    policy: &mut ApprovalPolicy,
    servers: &[HostedServer],
    filters: &[HostedFilter],
    tools: &dyn Toolbox,
) {
    for tool in tools.tools().iter() {
        let Some(server) = tools.server_of(&tool.name) else { continue };
        let original = tools.original_name(&tool.name).unwrap_or_else(|| tool.name.clone());
        let mut entries = servers
            .iter()
            .zip(filters)
            .filter(|(_, filter)| filter.server == server.name && filter.selects(tool, &original));
        if entries.any(|(hosted, _)| needs_approval(&hosted.approval, tool, &original)) {
            policy.ask.push(tool.name.clone());
        }
    }
}

/// Returns the tools that the model finds only by a search (`defer_loading`). If several entries select a
/// tool, it is deferred only if all of them defer it.
pub(crate) fn deferred_tools(
    servers: &[HostedServer],
    filters: &[HostedFilter],
    tools: &dyn Toolbox,
) -> Vec<String> {
    let is_deferred = |tool: &&Tool| {
        let Some(server) = tools.server_of(&tool.name) else { return false };
        let original = tools.original_name(&tool.name).unwrap_or_else(|| tool.name.clone());
        let mut entries = servers
            .iter()
            .zip(filters)
            .filter(|(_, filter)| filter.server == server.name && filter.selects(tool, &original))
            .peekable();
        let is_exception = |hosted: &HostedServer| hosted.defer_exceptions.contains(&original);
        entries.peek().is_some() && entries.all(|(hosted, _)| hosted.defer_loading != is_exception(hosted))
    };
    tools.tools().iter().filter(is_deferred).map(|tool| tool.name.clone()).collect()
}

fn needs_approval(approval: &HostedApproval, tool: &Tool, original: &str) -> bool {
    let is_in = |filter: &Option<ToolFilter>| {
        let is_named = |names: &Vec<String>| names.iter().any(|name| name == original || *name == tool.name);
        filter.as_ref().is_some_and(|filter| {
            filter.names.as_ref().is_none_or(is_named)
                && (!filter.read_only || tool.hints().read_only == Some(true))
        })
    };
    match approval {
        HostedApproval::Always => true,
        HostedApproval::Never => false,
        HostedApproval::Lists { always, never } => is_in(always) || !is_in(never),
    }
}

/// Returns the labels of the servers whose tools the history already lists.
pub(crate) fn listed_servers(body: &Map<String, Value>) -> Vec<String> {
    let items = body.get("input").and_then(Value::as_array).into_iter().flatten();
    let is_list = |item: &&Value| item.get("type").and_then(Value::as_str) == Some("mcp_list_tools");
    let has_failed = |item: &&Value| item.get("error").is_some_and(|error| !error.is_null());
    let lists = items.filter(is_list).filter(|item| !has_failed(item));
    lists.filter_map(|item| item.get("server_label")?.as_str().map(str::to_owned)).collect()
}
