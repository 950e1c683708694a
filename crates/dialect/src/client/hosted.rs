//! MCP servers that a request names.

use serde_json::Value;
use toolwire_contract::Secret;

use super::{ClientRequest, InvalidRequest, Problem, ReadRequest, RequestFields, expected};

/// An MCP server that a request names, in OpenAI's or Anthropic's format.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HostedServer {
    /// The client's name for the server.
    pub label: String,
    /// The path of the field that says which server is meant, its URL or else its name:
    /// `tools[0].server_label`.
    pub parameter: String,
    pub url: Option<String>,
    /// The token for the server. It is never part of a response or a log.
    pub authorization: Option<Secret>,
    /// Headers for the server, which may be secret too.
    pub headers: Vec<(String, Secret)>,
    /// The tools that may be called; `None`: all of them.
    pub allowed_tools: Option<Vec<String>>,
    /// The tools that must not be called.
    pub denied_tools: Vec<String>,
    /// Whether only tools may be called that are annotated as read-only.
    pub read_only: bool,
    pub approval: HostedApproval,
    /// Whether the tools are found only by a search.
    pub defer_loading: bool,
    /// The tools for which `defer_loading` has the opposite value.
    pub defer_exceptions: Vec<String>,
    /// The client's description of the server, for the model.
    pub description: Option<String>,
    /// Every tool that the request names for this server.
    pub named_tools: Vec<NamedTool>,
}

/// A tool that a request names for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedTool {
    pub name: String,
    /// The path of the name in the request, such as `tools[0].allowed_tools[1]`.
    pub parameter: String,
    /// Whether the request is invalid if the server has no such tool. Anthropic's API ignores settings of
    /// unknown tools.
    pub is_required: bool,
}

/// Which calls of a hosted server need approval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HostedApproval {
    #[default]
    Always,
    Never,
    /// Tools in neither list need approval.
    Lists {
        always: Option<ToolFilter>,
        never: Option<ToolFilter>,
    },
}

/// Some tools of a server. A tool must match both conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// `None`: all names.
    pub names: Option<Vec<String>>,
    /// Only tools that are annotated as read-only.
    pub read_only: bool,
}

/// Reads OpenAI's format: `{"type": "mcp", "server_label": …}`.
pub(crate) fn read_hosted_server(client: &mut ClientRequest, mut fields: RequestFields) -> ReadRequest<()> {
    let label = fields.required_text("server_label")?;
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    if label.is_empty() || !label.chars().all(is_plain) {
        return Err(fields.invalid("server_label", "may contain only letters, digits, `_` and `-`"));
    }
    if client.hosted_servers.iter().any(|known| known.label == label) {
        let problem = format!("is `{label}`, which another entry has already; each label must be unique");
        return Err(fields.invalid("server_label", problem));
    }
    for key in ["connector_id", "tunnel_id"] {
        if fields.has(key) {
            return Err(fields.unsupported(key, "connectors and tunnels exist only at OpenAI"));
        }
    }
    let mut named = Vec::new();
    let allowed = read_filter(&mut fields, "allowed_tools", &mut named)?.unwrap_or_default();
    let approval = match fields.take("require_approval") {
        None => HostedApproval::Always,
        Some(Value::String(mode)) => match mode.as_str() {
            "always" => HostedApproval::Always,
            "never" => HostedApproval::Never,
            other => {
                let problem = format!("must be `always`, `never` or an object, not `{other}`");
                return Err(fields.invalid("require_approval", problem));
            }
        },
        Some(lists) => {
            let mut lists = RequestFields::new(fields.path("require_approval"), lists)?;
            let always = read_filter(&mut lists, "always", &mut named)?;
            let never = read_filter(&mut lists, "never", &mut named)?;
            HostedApproval::Lists { always, never }
        }
    };
    read_callers(&mut fields)?;
    client.hosted_servers.push(HostedServer {
        parameter: fields.path(if fields.has("server_url") { "server_url" } else { "server_label" }),
        url: fields.text("server_url")?,
        authorization: fields.text("authorization")?.map(Secret::new),
        headers: read_headers(&mut fields)?,
        allowed_tools: allowed.names,
        denied_tools: Vec::new(),
        read_only: allowed.read_only,
        approval,
        defer_loading: fields.flag("defer_loading")?.unwrap_or(false),
        defer_exceptions: Vec::new(),
        description: fields.text("server_description")?,
        named_tools: named,
        label,
    });
    client.list_unused("tools", fields);
    Ok(())
}

fn read_headers(fields: &mut RequestFields) -> ReadRequest<Vec<(String, Secret)>> {
    let Some(headers) = fields.object("headers")? else { return Ok(Vec::new()) };
    let path = headers.own_path().to_owned();
    let read = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, Secret::new(text))),
        other => Err(expected(format!("{path}.{name}"), "a string", &other)),
    };
    headers.rest().into_iter().map(read).collect()
}

/// Reads `allowed_callers`. The model calls the tools of servers directly; programs at the provider cannot.
fn read_callers(fields: &mut RequestFields) -> ReadRequest<()> {
    let callers =
        fields.peek("allowed_callers").and_then(Value::as_array).filter(|callers| !callers.is_empty());
    let Some(callers) = callers else { return Ok(()) };
    let is_direct = |caller: &Value| caller == "direct";
    if !callers.iter().any(is_direct) {
        return Err(fields.unsupported("allowed_callers", "programs cannot call tools of servers"));
    }
    if callers.iter().all(is_direct) {
        fields.take("allowed_callers");
    }
    Ok(())
}

/// Reads a filter: an array of names, or `{"tool_names": […], "read_only": …}`. The names are added to
/// `named`.
fn read_filter(
    fields: &mut RequestFields,
    key: &str,
    named: &mut Vec<NamedTool>,
) -> ReadRequest<Option<ToolFilter>> {
    let path = fields.path(key);
    let Some(filter) = fields.take(key) else { return Ok(None) };
    if filter.is_array() {
        return Ok(Some(ToolFilter { names: Some(read_names(&path, filter, named)?), read_only: false }));
    }
    let mut fields = RequestFields::new(path, filter)?;
    let path = fields.path("tool_names");
    let names = fields.take("tool_names").map(|names| read_names(&path, names, named)).transpose()?;
    Ok(Some(ToolFilter { names, read_only: fields.flag("read_only")?.unwrap_or(false) }))
}

fn read_names(path: &str, names: Value, named: &mut Vec<NamedTool>) -> ReadRequest<Vec<String>> {
    let text = |name: &Value| name.as_str().map(str::to_owned);
    let texts: Option<Vec<String>> = names.as_array().and_then(|names| names.iter().map(text).collect());
    let texts = texts.ok_or_else(|| expected(path.to_owned(), "an array of names", &names))?;
    named.extend(texts.iter().enumerate().map(|(index, name)| NamedTool {
        name: name.clone(),
        parameter: format!("{path}[{index}]"),
        is_required: true,
    }));
    Ok(texts)
}

/// Reads Anthropic's format: `mcp_servers` and the entries `mcp_toolset` of `tools`.
pub(crate) fn read_hosted_toolsets(
    client: &mut ClientRequest,
    body: &mut RequestFields,
    toolsets: Vec<RequestFields>,
) -> ReadRequest<()> {
    let mut servers = Vec::new();
    let (mut is_used, mut paths) = (Vec::new(), Vec::new());
    for (path, server) in body.list("mcp_servers")? {
        let mut fields = RequestFields::new(path, server)?;
        paths.push(fields.own_path().to_owned());
        let label = fields.required_text("name")?;
        if servers.iter().any(|known: &HostedServer| known.label == label) {
            let problem = format!("is `{label}`, which another server has already; each name must be unique");
            return Err(fields.invalid("name", problem));
        }
        if let Some(kind) = fields.text("type")?.filter(|kind| kind != "url") {
            return Err(fields.invalid("type", format!("must be `url`, not `{kind}`")));
        }
        let mut server = HostedServer {
            parameter: fields.path(if fields.has("url") { "url" } else { "name" }),
            url: fields.text("url")?,
            authorization: fields.text("authorization_token")?.map(Secret::new),
            headers: Vec::new(),
            allowed_tools: None,
            denied_tools: Vec::new(),
            read_only: false,
            // This API has no approval: enabled tools run.
            approval: HostedApproval::Never,
            defer_loading: false,
            defer_exceptions: Vec::new(),
            description: None,
            named_tools: Vec::new(),
            label,
        };
        // The older format, without toolsets.
        let configuration = fields.object("tool_configuration")?;
        is_used.push(configuration.is_some());
        if let Some(mut configuration) = configuration {
            let path = configuration.path("allowed_tools");
            let names = configuration.take("allowed_tools");
            let names = names.map(|names| read_names(&path, names, &mut server.named_tools));
            server.allowed_tools = names.transpose()?;
            if configuration.flag("enabled")? == Some(false) {
                server.allowed_tools = Some(Vec::new());
            }
        }
        client.list_unused("mcp_servers", fields);
        servers.push(server);
    }
    for mut toolset in toolsets {
        let name = toolset.required_text("mcp_server_name")?;
        let Some(position) = servers.iter().position(|server| server.label == name) else {
            return Err(
                toolset.invalid("mcp_server_name", format!("names `{name}`, which is not in `mcp_servers`"))
            );
        };
        if std::mem::replace(&mut is_used[position], true) {
            return Err(
                toolset.invalid("mcp_server_name", format!("names `{name}`, which has a toolset already"))
            );
        }
        read_toolset(client, &mut toolset, &mut servers[position])?;
        client.list_unused("tools", toolset);
    }
    if let Some(position) = is_used.iter().position(|is_used| !is_used) {
        let problem = format!("names `{}`, which no `mcp_toolset` in `tools` uses", servers[position].label);
        let parameter = format!("{}.name", paths[position]);
        client.missing_toolset = Some(InvalidRequest { parameter, problem: Problem::Invalid(problem) });
    }
    client.hosted_servers = servers;
    Ok(())
}

fn read_toolset(
    client: &mut ClientRequest,
    toolset: &mut RequestFields,
    server: &mut HostedServer,
) -> ReadRequest<()> {
    let mut is_enabled = true;
    read_callers(toolset)?;
    if let Some(mut default) = toolset.object("default_config")? {
        is_enabled = default.flag("enabled")?.unwrap_or(true);
        server.defer_loading = default.flag("defer_loading")?.unwrap_or(false);
        read_callers(&mut default)?;
        client.list_unused("tools.default_config", default);
    }
    let (mut enabled, mut disabled) = (Vec::new(), Vec::new());
    if let Some(configs) = toolset.object("configs")? {
        let path = configs.own_path().to_owned();
        for (tool, config) in configs.rest() {
            let parameter = format!("{path}.{tool}");
            let mut config = RequestFields::new(&*parameter, config)?;
            if config.flag("defer_loading")?.is_some_and(|is_deferred| is_deferred != server.defer_loading) {
                server.defer_exceptions.push(tool.clone());
            }
            let is_enabled = config.flag("enabled")?.unwrap_or(is_enabled);
            read_callers(&mut config)?;
            client.list_unused("tools.configs", config);
            server.named_tools.push(NamedTool { name: tool.clone(), parameter, is_required: false });
            match is_enabled {
                true => enabled.push(tool),
                false => disabled.push(tool),
            }
        }
    }
    server.allowed_tools = (!is_enabled).then_some(enabled);
    server.denied_tools = disabled;
    Ok(())
}
