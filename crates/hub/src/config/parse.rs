//! Parses and validates the text of `mcp.json`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jsonc_parser::ast::Value as Node;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use toolwire_contract::{Glob, nearest_names, parse_duration};
use toolwire_dialect::is_valid_tool_name;

use super::json::{parse_json, scalar, strip_byte_order_mark};
use super::problem::{MistypedKey, Problem, WarningKind};
use super::values::{ConfigParser, ConfigValue, Position};
use super::{Config, ConfigError, ConfigWarning, ServerConfig, ServerName, Transport};
use crate::auth::{AuthConfig, GrantKind};
use crate::{HttpKind, Secret};

const TOP_KEYS: [&str; 4] = ["mcpServers", "servers", "toolwire", "$schema"];
/// Some hosts write `"enabled": false` for `"disabled": true`.
const SERVER_KEYS: [&str; 13] = [
    "command", "args", "env", "cwd", "url", "headers", "oauth", "type", "disabled", "enabled", "timeout",
    "prefix", "tools",
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
/// A `timeout` of this many seconds was probably meant in milliseconds, the unit of some other hosts.
const LONG_TIMEOUT_SECS: u64 = 1000;

pub(super) fn parse(
    text: &str,
    file: &Path,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<(Config, Vec<ConfigWarning>), ConfigError> {
    let text = strip_byte_order_mark(text);
    let mut parser = ConfigParser { text, file, variables, disabled: false, warnings: Vec::new() };
    let root = parse_json(text).map_err(|error| {
        let at = Position { offset: error.offset, ..Position::default() };
        parser.error(&at, Problem::Syntax { message: error.message })
    })?;
    let config = parser.config(&ConfigValue::root(&root))?;
    Ok((config, parser.warnings))
}

impl ConfigParser<'_> {
    fn config(&mut self, root: &ConfigValue<'_>) -> Result<Config, ConfigError> {
        self.check_keys(root, &TOP_KEYS)?;
        let mut config = Config { servers: Vec::new(), toolwire: None };
        let mut has_servers = false;
        for (key, _, value) in root.members() {
            match key {
                "mcpServers" | "servers" => {
                    has_servers = true;
                    self.servers(&value, &mut config.servers)?;
                }
                "toolwire" => config.toolwire = Some(self.json(&value)?),
                _ => {}
            }
        }
        if !has_servers && config.toolwire.is_none() {
            let is_similar = |key: &&str| !nearest_names("mcpServers", [*key]).is_empty();
            let similar_key = root.members().map(|(key, _, _)| key).find(is_similar).map(str::to_owned);
            return Err(self.error(&root.at, Problem::NoServers { similar_key }));
        }
        Ok(config)
    }

    fn servers(
        &mut self,
        value: &ConfigValue<'_>,
        servers: &mut Vec<ServerConfig>,
    ) -> Result<(), ConfigError> {
        self.check_object(value)?;
        for (name, offset, value) in value.members() {
            let at = Position { server: Some(name), key: String::new(), offset };
            let server = self.server(name, &ConfigValue { at: at.clone(), ..value })?;
            if let Some(earlier) = servers.iter().position(|earlier| earlier.name == server.name) {
                self.warn(&at, WarningKind::DuplicateKey);
                servers.remove(earlier);
            }
            servers.push(server);
        }
        Ok(())
    }

    fn server(&mut self, name: &str, value: &ConfigValue<'_>) -> Result<ServerConfig, ConfigError> {
        let name = ServerName::new(name).ok_or_else(|| self.error(&value.at, Problem::InvalidServerName))?;
        self.check_keys(value, &SERVER_KEYS)?;
        let enabled = self.optional(value, "enabled", Self::boolean)?.unwrap_or(true);
        self.disabled = self.optional(value, "disabled", Self::boolean)?.unwrap_or(false) || !enabled;
        let mut server = ServerConfig::new(name, self.transport(value)?);
        server.disabled = self.disabled;
        if let Some(timeout) = self.optional(value, "timeout", Self::timeout)? {
            (server.connect_timeout, server.call_timeout) = (timeout, timeout);
        }
        server.prefix = self.optional(value, "prefix", Self::prefix)?.flatten();
        if let Some(tools) = value.get("tools") {
            self.check_keys(&tools, &TOOLS_KEYS)?;
            server.allow = self.optional(&tools, "allow", Self::globs)?.unwrap_or_default();
            server.deny = self.optional(&tools, "deny", Self::globs)?.unwrap_or_default();
        }
        self.disabled = false;
        Ok(server)
    }

    fn transport(&mut self, server: &ConfigValue<'_>) -> Result<Transport, ConfigError> {
        let kind = match server.get("type") {
            Some(value) => self.explicit_kind(&value, server)?,
            None => self.implicit_kind(server)?,
        };
        let (unused, used): (&[&str], _) =
            if kind.is_none() { (&HTTP_KEYS, "command") } else { (&STDIO_KEYS, "url") };
        for value in unused.iter().filter_map(|key| server.get(key)) {
            self.warn(&value.at, WarningKind::UnusedKey { used });
        }
        match kind {
            None => self.stdio(server),
            Some(kind) => self.http(server, kind),
        }
    }

    /// Parses `type`; `None` is stdio.
    fn explicit_kind(
        &mut self,
        value: &ConfigValue<'_>,
        server: &ConfigValue<'_>,
    ) -> Result<Option<HttpKind>, ConfigError> {
        let text = self.string(value)?;
        // Hosts write `streamable-http`, `streamable_http` and `streamableHttp`.
        let kind = match text.to_lowercase().replace(['-', '_'], "").as_str() {
            "stdio" => None,
            // As in VS Code: which of the two HTTP transports the server uses is detected.
            "http" => Some(HttpKind::Auto),
            "streamablehttp" => Some(HttpKind::Streamable),
            "sse" => Some(HttpKind::Sse),
            _ => return Err(self.error(&value.at, Problem::UnknownType { text })),
        };
        let required = if kind.is_none() { "command" } else { "url" };
        if server.get(required).is_none() {
            let problem = Problem::IncompleteTransport { kind: text, missing: required };
            return Err(self.error(&value.at, problem));
        }
        Ok(kind)
    }

    /// Detects the transport from `command` or `url`; `None` is stdio.
    fn implicit_kind(&self, server: &ConfigValue<'_>) -> Result<Option<HttpKind>, ConfigError> {
        match (server.get("command").is_some(), server.get("url").is_some()) {
            (true, false) => Ok(None),
            (false, true) => Ok(Some(HttpKind::Auto)),
            (true, true) => Err(self.error(&server.at, Problem::TwoTransports)),
            (false, false) => {
                let keys = server.members().map(|(key, _, _)| key);
                let unknown = keys.filter(|key| !SERVER_KEYS.contains(key));
                let mistyped = unknown.filter_map(mistyped_transport_key).next();
                Err(self.error(&server.at, Problem::NoTransport { mistyped }))
            }
        }
    }

    fn stdio(&mut self, server: &ConfigValue<'_>) -> Result<Transport, ConfigError> {
        let command = self.optional(server, "command", Self::non_empty_string)?.unwrap_or_default();
        let args = self.optional(server, "args", Self::strings)?.unwrap_or_default();
        let env = self.optional(server, "env", Self::environment)?.unwrap_or_default();
        let cwd = self.optional(server, "cwd", Self::non_empty_string)?;
        let values = env.iter().map(|(_, value)| value.expose());
        let texts = args.iter().chain(&cwd).chain([&command]).map(String::as_str);
        if values.chain(texts).any(|text| text.contains('\0')) {
            return Err(self.error(&server.at, Problem::Nul));
        }
        Ok(Transport::Stdio { command, args, env, cwd: cwd.map(PathBuf::from) })
    }

    fn environment(&mut self, value: &ConfigValue<'_>) -> Result<Vec<(String, Secret)>, ConfigError> {
        let env = self.string_map(value)?;
        let is_invalid = |name: &String| name.is_empty() || name.contains(['=', '\0']);
        match env.iter().map(|(name, _)| name).find(|name| is_invalid(name)) {
            Some(name) => Err(self.error(&value.at, Problem::InvalidVariableName { name: name.clone() })),
            None => Ok(env),
        }
    }

    fn http(&mut self, server: &ConfigValue<'_>, kind: HttpKind) -> Result<Transport, ConfigError> {
        let url = self.optional(server, "url", Self::url)?;
        let url = url.ok_or_else(|| self.error(&server.at, Problem::NoTransport { mistyped: None }))?;
        let headers = self.optional(server, "headers", Self::headers)?.unwrap_or_default();
        let has_token = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let oauth = match server.get("oauth") {
            Some(value) => self.oauth(&value)?,
            None if has_token => None,
            None => Some(Box::default()),
        };
        Ok(Transport::Http { url, headers, kind, oauth })
    }

    fn headers(&mut self, value: &ConfigValue<'_>) -> Result<Vec<(String, Secret)>, ConfigError> {
        let headers = self.string_map(value)?;
        for (name, text) in &headers {
            if HeaderName::from_bytes(name.as_bytes()).is_err() {
                return Err(self.error(&value.at, Problem::InvalidHeaderName { name: name.clone() }));
            }
            if HeaderValue::from_bytes(text.expose().as_bytes()).is_err() {
                let at = value.at.member(name, value.at.offset);
                return Err(self.error(&at, Problem::InvalidHeaderValue));
            }
        }
        Ok(headers)
    }

    fn oauth(&mut self, value: &ConfigValue<'_>) -> Result<Option<Box<AuthConfig>>, ConfigError> {
        if let Node::BooleanLit(flag) = value.node {
            return Ok(flag.value.then(Box::default));
        }
        self.check_keys(value, &OAUTH_KEYS)?;
        let mut oauth = AuthConfig {
            grant: self.optional(value, "grant", Self::grant)?.unwrap_or_default(),
            client_id: self.optional(value, "clientId", Self::non_empty_string)?,
            client_secret: self.optional(value, "clientSecret", Self::secret)?,
            private_key: self.optional(value, "privateKey", Self::secret)?,
            client_metadata_url: self.optional(value, "clientMetadataUrl", Self::url)?.map(Into::into),
            scopes: self.optional(value, "scopes", Self::scopes)?.unwrap_or_default(),
            redirect_port: self.optional(value, "redirectPort", Self::port)?,
        };
        oauth.redirect_port = self.optional(value, "callbackPort", Self::port)?.or(oauth.redirect_port);
        match oauth.missing_key() {
            Some(missing) => Err(self.error(&value.at, Problem::IncompleteGrant { missing })),
            None => Ok(Some(Box::new(oauth))),
        }
    }

    fn grant(&mut self, value: &ConfigValue<'_>) -> Result<GrantKind, ConfigError> {
        let text = self.string(value)?;
        match text.as_str() {
            "authorization_code" => Ok(GrantKind::AuthorizationCode),
            "client_credentials" => Ok(GrantKind::ClientCredentials),
            _ => Err(self.error(&value.at, Problem::UnknownGrant { text })),
        }
    }

    fn scopes(&mut self, value: &ConfigValue<'_>) -> Result<Vec<String>, ConfigError> {
        match value.node {
            Node::StringLit(_) => Ok(self.string(value)?.split_whitespace().map(str::to_owned).collect()),
            _ => self.strings(value),
        }
    }

    fn port(&mut self, value: &ConfigValue<'_>) -> Result<u16, ConfigError> {
        let port = scalar(value.node).and_then(|text| text.parse().ok()).filter(|port| *port > 0);
        port.ok_or_else(|| self.error(&value.at, Problem::InvalidPort))
    }

    fn globs(&mut self, value: &ConfigValue<'_>) -> Result<Vec<Glob>, ConfigError> {
        Ok(self.strings(value)?.into_iter().map(Glob::new).collect())
    }

    fn url(&mut self, value: &ConfigValue<'_>) -> Result<Url, ConfigError> {
        let mut text = self.non_empty_string(value)?;
        // The URL of a disabled server may depend on missing variables.
        if self.disabled && Url::parse(&text).is_err() {
            text = "http://disabled.invalid/".to_owned();
        }
        let invalid = |reason: String| self.error(&value.at, Problem::InvalidUrl { reason });
        let url = Url::parse(text.trim()).map_err(|error| invalid(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("it must start with `http://` or `https://`".to_owned()));
        }
        Ok(url)
    }

    fn timeout(&mut self, value: &ConfigValue<'_>) -> Result<Duration, ConfigError> {
        let text = match value.node {
            Node::NumberLit(number) => number.value.to_owned(),
            Node::StringLit(_) => self.string(value)?,
            _ => return Err(self.wrong_type(value, "a number of seconds or a string such as \"30s\"")),
        };
        let timeout = parse_duration(&text);
        let timeout = timeout.ok_or_else(|| self.error(&value.at, Problem::InvalidTimeout { text }))?;
        if matches!(value.node, Node::NumberLit(_)) && timeout.as_secs() >= LONG_TIMEOUT_SECS {
            self.warn(&value.at, WarningKind::LongTimeout { seconds: timeout.as_secs() });
        }
        Ok(timeout)
    }

    /// Returns `None` for an empty prefix.
    fn prefix(&mut self, value: &ConfigValue<'_>) -> Result<Option<String>, ConfigError> {
        let text = self.string(value)?;
        if text.is_empty() {
            return Ok(None);
        }
        if text.len() > MAX_PREFIX_CHARS || !is_valid_tool_name(&text) {
            return Err(self.error(&value.at, Problem::InvalidPrefix { text }));
        }
        Ok(Some(text))
    }
}

fn mistyped_transport_key(key: &str) -> Option<MistypedKey> {
    let similar = nearest_names(key, ["command", "url"]).first().copied();
    let meant = similar.or_else(|| key.to_lowercase().ends_with("url").then_some("url"))?;
    Some(MistypedKey { found: key.to_owned(), meant })
}
