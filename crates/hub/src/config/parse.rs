//! Parses and validates the text of `mcp.json`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jsonc_parser::ast::{Object, Value as Node};
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use toolwire_contract::{Glob, nearest_names, parse_duration};
use toolwire_dialect::is_legal_name;

use super::json::{members, offset, parse_json, scalar, strip_byte_order_mark};
use super::problem::{MistypedKey, Problem, WarningKind};
use super::values::{ConfigParser, Position, field};
use super::{Config, ConfigError, ConfigWarning, ServerConfig, ServerName, Transport};
use crate::auth::{AuthConfig, GrantKind};
use crate::{HttpKind, Secret};

const TOP_KEYS: [&str; 4] = ["mcpServers", "servers", "toolwire", "$schema"];
const SERVER_KEYS: [&str; 12] = [
    "command", "args", "env", "cwd", "url", "headers", "oauth", "type", "disabled", "timeout", "prefix",
    "tools",
];
const STDIO_KEYS: [&str; 4] = ["command", "args", "env", "cwd"];
const HTTP_KEYS: [&str; 3] = ["url", "headers", "oauth"];
const TOOLS_KEYS: [&str; 2] = ["allow", "deny"];
/// `callbackPort` is what other hosts call `redirectPort`.
const OAUTH_KEYS: [&str; 8] = [
    "grant",
    "clientId",
    "clientSecret",
    "privateKey",
    "clientMetadataUrl",
    "scopes",
    "redirectPort",
    "callbackPort",
];

/// A tool name has at most 64 characters; a longer prefix leaves too few of them for the tool's own name.
pub(super) const MAX_PREFIX_CHARS: usize = 32;
/// A number of seconds from which a `timeout` was probably meant in milliseconds, the unit of some other hosts.
const LONG_TIMEOUT_SECS: u64 = 1000;

pub(super) fn parse(
    text: &str,
    file: &Path,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<(Config, Vec<ConfigWarning>), ConfigError> {
    let text = strip_byte_order_mark(text);
    let mut parser = ConfigParser { text, file, variables, disabled: false, warnings: Vec::new() };
    let root = parse_json(text).map_err(|error| {
        let position = Position { server: None, key: String::new(), offset: error.offset };
        parser.error(&position, Problem::Syntax { message: error.message })
    })?;
    let config = parser.config(&root)?;
    Ok((config, parser.warnings))
}

impl<'t> ConfigParser<'t> {
    fn config(&mut self, root: &Node<'t>) -> Result<Config, ConfigError> {
        let top = Position { server: None, key: String::new(), offset: offset(root) };
        let object = self.object(&top, root)?;
        self.check_keys(&top, object, &TOP_KEYS);
        let mut config = Config { servers: Vec::new(), toolwire: None };
        let mut has_servers = false;
        for (key, _, node) in members(object) {
            let position = top.member(key, offset(node));
            match key {
                "mcpServers" | "servers" => {
                    has_servers = true;
                    self.servers(&position, node, &mut config.servers)?;
                }
                "toolwire" => config.toolwire = Some(self.value(&position, node)?),
                _ => {}
            }
        }
        if !has_servers && config.toolwire.is_none() {
            let is_similar = |key: &&str| !nearest_names("mcpServers", [*key]).is_empty();
            let similar_key = members(object).map(|(key, _, _)| key).find(is_similar).map(str::to_owned);
            return Err(self.error(&top, Problem::NoServers { similar_key }));
        }
        Ok(config)
    }

    fn servers(
        &mut self,
        position: &Position<'_>,
        node: &Node<'t>,
        servers: &mut Vec<ServerConfig>,
    ) -> Result<(), ConfigError> {
        for (name, offset, node) in members(self.object(position, node)?) {
            let position = Position { server: Some(name), key: String::new(), offset };
            let server = self.server(&position, name, node)?;
            let earlier = servers.iter().position(|earlier| earlier.name == server.name);
            if let Some(earlier) = earlier {
                self.warn(&position, WarningKind::DuplicateKey);
                servers.remove(earlier);
            }
            servers.push(server);
        }
        Ok(())
    }

    fn server(
        &mut self,
        position: &Position<'_>,
        name: &str,
        node: &Node<'t>,
    ) -> Result<ServerConfig, ConfigError> {
        let name = ServerName::new(name).ok_or_else(|| self.error(position, Problem::InvalidServerName))?;
        let object = self.object(position, node)?;
        self.disabled = match field(position, object, "disabled") {
            Some((position, node)) => self.boolean(&position, node)?,
            None => false,
        };
        self.check_keys(position, object, &SERVER_KEYS);
        let transport = self.transport(position, object)?;
        let mut server = ServerConfig::new(name, transport);
        server.disabled = self.disabled;
        if let Some((position, node)) = field(position, object, "timeout") {
            let timeout = self.timeout(&position, node)?;
            (server.connect_timeout, server.call_timeout) = (timeout, timeout);
        }
        if let Some((position, node)) = field(position, object, "prefix") {
            server.prefix = self.prefix(&position, node)?;
        }
        if let Some((position, node)) = field(position, object, "tools") {
            let tools = self.object(&position, node)?;
            self.check_keys(&position, tools, &TOOLS_KEYS);
            for (key, globs) in [("allow", &mut server.allow), ("deny", &mut server.deny)] {
                if let Some((position, node)) = field(&position, tools, key) {
                    *globs = self.strings(&position, node)?.into_iter().map(Glob::new).collect();
                }
            }
        }
        self.disabled = false;
        Ok(server)
    }

    fn transport(&mut self, position: &Position<'_>, object: &Object<'t>) -> Result<Transport, ConfigError> {
        let kind = match field(position, object, "type") {
            Some((type_position, node)) => self.explicit_kind(&type_position, node, position, object)?,
            None => self.implicit_kind(position, object)?,
        };
        let (unused, used): (&[&str], _) =
            if kind.is_none() { (&HTTP_KEYS, "command") } else { (&STDIO_KEYS, "url") };
        for (position, _) in unused.iter().filter_map(|key| field(position, object, key)) {
            self.warn(&position, WarningKind::UnusedKey { used });
        }
        match kind {
            None => self.stdio(position, object),
            Some(kind) => self.http(position, object, kind),
        }
    }

    /// Reads `type`; `None` is stdio.
    fn explicit_kind(
        &mut self,
        type_position: &Position<'_>,
        node: &Node<'t>,
        position: &Position<'_>,
        object: &Object<'t>,
    ) -> Result<Option<HttpKind>, ConfigError> {
        let text = self.string(type_position, node)?;
        // Hosts write `streamable-http`, `streamable_http` and `streamableHttp`.
        let kind = match text.to_lowercase().replace(['-', '_'], "").as_str() {
            "stdio" => None,
            // As in VS Code: which of the two HTTP transports the server uses is detected.
            "http" => Some(HttpKind::Auto),
            "streamablehttp" => Some(HttpKind::Streamable),
            "sse" => Some(HttpKind::Sse),
            _ => return Err(self.error(type_position, Problem::UnknownType { text })),
        };
        let required = if kind.is_none() { "command" } else { "url" };
        if field(position, object, required).is_none() {
            let problem = Problem::IncompleteTransport { kind: text, missing: required };
            return Err(self.error(type_position, problem));
        }
        Ok(kind)
    }

    /// Detects the transport from `command` or `url`; `None` is stdio.
    fn implicit_kind(
        &self,
        position: &Position<'_>,
        object: &Object<'t>,
    ) -> Result<Option<HttpKind>, ConfigError> {
        let has = |key: &str| field(position, object, key).is_some();
        match (has("command"), has("url")) {
            (true, false) => Ok(None),
            (false, true) => Ok(Some(HttpKind::Auto)),
            (true, true) => Err(self.error(position, Problem::TwoTransports)),
            (false, false) => {
                let unknown = members(object).map(|(key, _, _)| key).filter(|key| !SERVER_KEYS.contains(key));
                let mistyped = unknown.filter_map(mistyped_transport_key).next();
                Err(self.error(position, Problem::NoTransport { mistyped }))
            }
        }
    }

    fn stdio(&mut self, position: &Position<'_>, object: &Object<'t>) -> Result<Transport, ConfigError> {
        let (mut command, mut args, mut env, mut cwd) = (String::new(), Vec::new(), Vec::new(), None);
        if let Some((position, node)) = field(position, object, "command") {
            command = self.non_empty_string(&position, node)?;
        }
        if let Some((position, node)) = field(position, object, "args") {
            args = self.strings(&position, node)?;
        }
        if let Some((position, node)) = field(position, object, "env") {
            env = self.string_map(&position, node)?;
            for (name, _) in &env {
                if name.is_empty() || name.contains(['=', '\0']) {
                    return Err(self.error(&position, Problem::InvalidVariableName { name: name.clone() }));
                }
            }
        }
        if let Some((position, node)) = field(position, object, "cwd") {
            cwd = Some(PathBuf::from(self.non_empty_string(&position, node)?));
        }
        let texts = args.iter().map(String::as_str).chain(env.iter().map(|(_, value)| value.expose()));
        let paths = cwd.iter().filter_map(|path| path.to_str()).chain([command.as_str()]);
        if texts.chain(paths).any(|text| text.contains('\0')) {
            return Err(self.error(position, Problem::Nul));
        }
        Ok(Transport::Stdio { command, args, env, cwd })
    }

    fn http(
        &mut self,
        position: &Position<'_>,
        object: &Object<'t>,
        kind: HttpKind,
    ) -> Result<Transport, ConfigError> {
        let (url_position, node) = field(position, object, "url")
            .ok_or_else(|| self.error(position, Problem::NoTransport { mistyped: None }))?;
        let url = self.url(&url_position, node)?;
        let mut headers = Vec::new();
        if let Some((position, node)) = field(position, object, "headers") {
            headers = self.string_map(&position, node)?;
            for (name, value) in &headers {
                if HeaderName::from_bytes(name.as_bytes()).is_err() {
                    return Err(self.error(&position, Problem::InvalidHeaderName { name: name.clone() }));
                }
                if HeaderValue::from_bytes(value.expose().as_bytes()).is_err() {
                    let position = position.member(name, position.offset);
                    return Err(self.error(&position, Problem::InvalidHeaderValue));
                }
            }
        }
        let has_token = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let oauth = match field(position, object, "oauth") {
            Some((position, node)) => self.oauth(&position, node)?,
            None if has_token => None,
            None => Some(Box::default()),
        };
        Ok(Transport::Http { url, headers, kind, oauth })
    }

    fn oauth(
        &mut self,
        position: &Position<'_>,
        node: &Node<'t>,
    ) -> Result<Option<Box<AuthConfig>>, ConfigError> {
        if let Node::BooleanLit(flag) = node {
            return Ok(flag.value.then(Box::default));
        }
        let object = self.object(position, node)?;
        self.check_keys(position, object, &OAUTH_KEYS);
        let mut oauth = AuthConfig::default();
        for key in OAUTH_KEYS {
            let Some((position, node)) = field(position, object, key) else { continue };
            match key {
                "grant" => {
                    let text = self.string(&position, node)?;
                    oauth.grant = match text.as_str() {
                        "authorization_code" => GrantKind::AuthorizationCode,
                        "client_credentials" => GrantKind::ClientCredentials,
                        _ => return Err(self.error(&position, Problem::UnknownGrant { text })),
                    };
                }
                "clientId" => oauth.client_id = Some(self.non_empty_string(&position, node)?),
                "clientSecret" => {
                    oauth.client_secret = Some(Secret::new(self.non_empty_string(&position, node)?))
                }
                "privateKey" => {
                    oauth.private_key = Some(Secret::new(self.non_empty_string(&position, node)?))
                }
                "clientMetadataUrl" => oauth.client_metadata_url = Some(self.url(&position, node)?.into()),
                "scopes" => {
                    oauth.scopes = match node {
                        Node::StringLit(_) => {
                            self.string(&position, node)?.split_whitespace().map(str::to_owned).collect()
                        }
                        _ => self.strings(&position, node)?,
                    }
                }
                "redirectPort" | "callbackPort" => {
                    let port = scalar(node).and_then(|text| text.parse().ok()).filter(|port| *port > 0);
                    oauth.redirect_port =
                        Some(port.ok_or_else(|| self.error(&position, Problem::InvalidPort))?);
                }
                _ => {}
            }
        }
        if let Some(missing) = oauth.missing_key() {
            return Err(self.error(position, Problem::IncompleteGrant { missing }));
        }
        Ok(Some(Box::new(oauth)))
    }

    fn url(&mut self, position: &Position<'_>, node: &Node<'t>) -> Result<Url, ConfigError> {
        let text = self.non_empty_string(position, node)?;
        // The URL of a disabled server may depend on missing variables.
        let text = if self.disabled && Url::parse(&text).is_err() {
            "http://disabled.invalid/".to_owned()
        } else {
            text
        };
        let invalid = |reason: String| self.error(position, Problem::InvalidUrl { reason });
        let url = Url::parse(text.trim()).map_err(|error| invalid(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("it must start with `http://` or `https://`".to_owned()));
        }
        Ok(url)
    }

    fn timeout(&mut self, position: &Position<'_>, node: &Node<'t>) -> Result<Duration, ConfigError> {
        let text = match node {
            Node::NumberLit(number) => number.value.to_owned(),
            Node::StringLit(_) => self.string(position, node)?,
            _ => {
                return Err(self.wrong_type(
                    position,
                    "a number of seconds or a string such as \"30s\"",
                    node,
                ));
            }
        };
        let timeout = parse_duration(&text);
        let timeout = timeout.ok_or_else(|| self.error(position, Problem::InvalidTimeout { text }))?;
        if matches!(node, Node::NumberLit(_)) && timeout.as_secs() >= LONG_TIMEOUT_SECS {
            self.warn(position, WarningKind::LongTimeout { seconds: timeout.as_secs() });
        }
        Ok(timeout)
    }

    /// Returns `None` for an empty prefix.
    fn prefix(&mut self, position: &Position<'_>, node: &Node<'t>) -> Result<Option<String>, ConfigError> {
        let text = self.string(position, node)?;
        if text.is_empty() {
            return Ok(None);
        }
        if text.len() > MAX_PREFIX_CHARS || !is_legal_name(&text) {
            return Err(self.error(position, Problem::InvalidPrefix { text }));
        }
        Ok(Some(text))
    }
}

fn mistyped_transport_key(key: &str) -> Option<MistypedKey> {
    let similar = nearest_names(key, ["command", "url"]).first().copied();
    let meant = similar.or_else(|| key.to_lowercase().ends_with("url").then_some("url"))?;
    Some(MistypedKey { found: key.to_owned(), meant })
}
