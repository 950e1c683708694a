//! From the text of `mcp.json` to a checked [`Config`].

use std::path::{Path, PathBuf};

use jsonc_parser::ast::{Object, Value as Node};
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use toolwire_contract::nearest_names;
use toolwire_dialect::is_valid_tool_name;

use super::json::{members, parse, scalar, start, without_mark};
use super::reader::{Reader, Spot, field};
use super::{
    Auth, Concern, Config, ConfigError, Fault, Glob, HttpKind, ServerConfig, ServerName, Transport, Warning,
};
use crate::{AuthConfig, GrantKind, Secret};

const TOP_KEYS: [&str; 4] = ["mcpServers", "servers", "toolwire", "$schema"];
const SERVER_KEYS: [&str; 12] = [
    "command", "args", "env", "cwd", "url", "headers", "oauth", "type", "disabled", "timeout", "prefix",
    "tools",
];
const STDIO_KEYS: [&str; 4] = ["command", "args", "env", "cwd"];
const HTTP_KEYS: [&str; 3] = ["url", "headers", "oauth"];
const TOOLS_KEYS: [&str; 2] = ["allow", "deny"];
/// Other hosts write `callbackPort` for `redirectPort`.
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

/// With a tool's own name behind it, a longer prefix leaves too little of the 64 characters that a name may have.
const LONGEST_PREFIX: usize = 32;
/// Above this, in seconds, a bare number was probably meant in milliseconds, as some hosts read it.
const LONG_TIMEOUT: u64 = 1000;

pub(super) fn read(
    text: &str,
    file: &Path,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<(Config, Vec<Warning>), ConfigError> {
    let text = without_mark(text);
    let mut reader = Reader { text, file, variables, disabled: false, warnings: Vec::new() };
    let root = parse(text).map_err(|broken| {
        reader.fault(
            &Spot { server: None, key: String::new(), at: broken.at },
            Fault::Syntax { message: broken.message },
        )
    })?;
    let config = reader.config(&root)?;
    Ok((config, reader.warnings))
}

impl<'t> Reader<'t> {
    fn config(&mut self, root: &Node<'t>) -> Result<Config, ConfigError> {
        let top = Spot { server: None, key: String::new(), at: start(root) };
        let object = self.object(&top, root)?;
        self.look_for_strangers(&top, object, &TOP_KEYS);
        let mut config = Config { servers: Vec::new(), toolwire: None };
        let mut has_servers = false;
        for (key, _, node) in members(object) {
            let spot = top.member(key, start(node));
            match key {
                "mcpServers" | "servers" => {
                    has_servers = true;
                    self.servers(&spot, node, &mut config.servers)?;
                }
                "toolwire" => config.toolwire = Some(self.value(&spot, node)?),
                _ => {}
            }
        }
        if !has_servers && config.toolwire.is_none() {
            let near = |key: &&str| !nearest_names("mcpServers", [*key]).is_empty();
            let nearest = members(object).map(|(key, _, _)| key).find(near).map(str::to_owned);
            return Err(self.fault(&top, Fault::NoServers { nearest }));
        }
        Ok(config)
    }

    fn servers(
        &mut self,
        spot: &Spot<'_>,
        node: &Node<'t>,
        servers: &mut Vec<ServerConfig>,
    ) -> Result<(), ConfigError> {
        for (name, at, node) in members(self.object(spot, node)?) {
            let spot = Spot { server: Some(name), key: String::new(), at };
            let server = self.server(&spot, name, node)?;
            let earlier = servers.iter().position(|earlier| earlier.name == server.name);
            if let Some(earlier) = earlier {
                self.warn(&spot, Concern::Twice);
                servers.remove(earlier);
            }
            servers.push(server);
        }
        Ok(())
    }

    fn server(&mut self, spot: &Spot<'_>, name: &str, node: &Node<'t>) -> Result<ServerConfig, ConfigError> {
        let name = ServerName::new(name).ok_or_else(|| self.fault(spot, Fault::BadServerName))?;
        let object = self.object(spot, node)?;
        self.disabled = match field(spot, object, "disabled") {
            Some((spot, node)) => self.flag(&spot, node)?,
            None => false,
        };
        self.look_for_strangers(spot, object, &SERVER_KEYS);
        let transport = self.transport(spot, object)?;
        let mut server = ServerConfig::new(name, transport);
        server.disabled = self.disabled;
        if let Some((spot, node)) = field(spot, object, "timeout") {
            let time = self.timeout(&spot, node)?;
            (server.connect_timeout, server.call_timeout) = (time, time);
        }
        if let Some((spot, node)) = field(spot, object, "prefix") {
            server.prefix = self.prefix(&spot, node)?;
        }
        if let Some((spot, node)) = field(spot, object, "tools") {
            let tools = self.object(&spot, node)?;
            self.look_for_strangers(&spot, tools, &TOOLS_KEYS);
            for (key, globs) in [("allow", &mut server.allow), ("deny", &mut server.deny)] {
                if let Some((spot, node)) = field(&spot, tools, key) {
                    *globs = self.texts(&spot, node)?.into_iter().map(Glob::new).collect();
                }
            }
        }
        self.disabled = false;
        Ok(server)
    }

    fn transport(&mut self, spot: &Spot<'_>, object: &Object<'t>) -> Result<Transport, ConfigError> {
        let has = |key: &str| field(spot, object, key).is_some();
        let kind = match field(spot, object, "type") {
            Some((spot, node)) => {
                let text = self.text(&spot, node)?;
                // Hosts spell it `streamable-http`, `streamable_http` and `streamableHttp`.
                let kind = match text.to_lowercase().replace(['-', '_'], "").as_str() {
                    "stdio" => None,
                    // As VS Code means it: which of the two is found out.
                    "http" => Some(HttpKind::Auto),
                    "streamablehttp" => Some(HttpKind::Streamable),
                    "sse" => Some(HttpKind::Sse),
                    _ => return Err(self.fault(&spot, Fault::UnknownType { text })),
                };
                let needs = if kind.is_none() { "command" } else { "url" };
                if !has(needs) {
                    return Err(self.fault(&spot, Fault::TransportLacks { kind: text, needs }));
                }
                kind
            }
            None => match (has("command"), has("url")) {
                (true, false) => None,
                (false, true) => Some(HttpKind::Auto),
                (true, true) => return Err(self.fault(spot, Fault::TwoTransports)),
                (false, false) => {
                    let near = |key: &str| {
                        let known = nearest_names(key, ["command", "url"]).first().map(ToString::to_string);
                        let known =
                            known.or_else(|| key.to_lowercase().ends_with("url").then(|| "url".to_owned()));
                        known.map(|known| (key.to_owned(), known))
                    };
                    let strangers =
                        members(object).map(|(key, _, _)| key).filter(|key| !SERVER_KEYS.contains(key));
                    let nearest = strangers.filter_map(near).next();
                    return Err(self.fault(spot, Fault::NoTransport { nearest }));
                }
            },
        };
        let (unused, by): (&[&str], _) =
            if kind.is_none() { (&HTTP_KEYS, "command") } else { (&STDIO_KEYS, "url") };
        for (spot, _) in unused.iter().filter_map(|key| field(spot, object, key)) {
            self.warn(&spot, Concern::Unused { by });
        }
        match kind {
            None => self.stdio(spot, object),
            Some(kind) => self.http(spot, object, kind),
        }
    }

    fn stdio(&mut self, spot: &Spot<'_>, object: &Object<'t>) -> Result<Transport, ConfigError> {
        let (mut command, mut args, mut env, mut cwd) = (String::new(), Vec::new(), Vec::new(), None);
        if let Some((spot, node)) = field(spot, object, "command") {
            command = self.filled(&spot, node)?;
        }
        if let Some((spot, node)) = field(spot, object, "args") {
            args = self.texts(&spot, node)?;
        }
        if let Some((spot, node)) = field(spot, object, "env") {
            env = self.pairs(&spot, node)?;
            for (name, _) in &env {
                if name.is_empty() || name.contains(['=', '\0']) {
                    return Err(self.fault(&spot, Fault::BadVariableName { name: name.clone() }));
                }
            }
        }
        if let Some((spot, node)) = field(spot, object, "cwd") {
            cwd = Some(PathBuf::from(self.filled(&spot, node)?));
        }
        let texts = args.iter().map(String::as_str).chain(env.iter().map(|(_, value)| value.expose()));
        let paths = cwd.iter().filter_map(|path| path.to_str()).chain([command.as_str()]);
        if texts.chain(paths).any(|text| text.contains('\0')) {
            return Err(self.fault(spot, Fault::Nul));
        }
        Ok(Transport::Stdio { command, args, env, cwd })
    }

    fn http(
        &mut self,
        spot: &Spot<'_>,
        object: &Object<'t>,
        kind: HttpKind,
    ) -> Result<Transport, ConfigError> {
        let (url_spot, node) = field(spot, object, "url")
            .ok_or_else(|| self.fault(spot, Fault::NoTransport { nearest: None }))?;
        let url = self.url(&url_spot, node)?;
        let mut headers = Vec::new();
        if let Some((spot, node)) = field(spot, object, "headers") {
            headers = self.pairs(&spot, node)?;
            for (name, value) in &headers {
                if HeaderName::from_bytes(name.as_bytes()).is_err() {
                    return Err(self.fault(&spot, Fault::BadHeaderName { name: name.clone() }));
                }
                if HeaderValue::from_bytes(value.expose().as_bytes()).is_err() {
                    let spot = spot.member(name, spot.at);
                    return Err(self.fault(&spot, Fault::BadHeaderValue));
                }
            }
        }
        let has_token = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let auth = match field(spot, object, "oauth") {
            Some((spot, node)) => self.oauth(&spot, node)?,
            None if has_token => Auth::Off,
            None => Auth::default(),
        };
        Ok(Transport::Http { url, headers, kind, auth })
    }

    fn oauth(&mut self, spot: &Spot<'_>, node: &Node<'t>) -> Result<Auth, ConfigError> {
        if let Node::BooleanLit(flag) = node {
            return Ok(if flag.value { Auth::default() } else { Auth::Off });
        }
        let object = self.object(spot, node)?;
        self.look_for_strangers(spot, object, &OAUTH_KEYS);
        let mut oauth = AuthConfig::default();
        for key in OAUTH_KEYS {
            let Some((spot, node)) = field(spot, object, key) else { continue };
            match key {
                "grant" => {
                    let text = self.text(&spot, node)?;
                    oauth.grant = match text.as_str() {
                        "authorization_code" => GrantKind::AuthorizationCode,
                        "client_credentials" => GrantKind::ClientCredentials,
                        _ => return Err(self.fault(&spot, Fault::UnknownGrant { text })),
                    };
                }
                "clientId" => oauth.client_id = Some(self.filled(&spot, node)?),
                "clientSecret" => oauth.client_secret = Some(Secret::new(self.filled(&spot, node)?)),
                "privateKey" => oauth.private_key = Some(Secret::new(self.filled(&spot, node)?)),
                "clientMetadataUrl" => oauth.client_metadata_url = Some(self.url(&spot, node)?.into()),
                "scopes" => {
                    oauth.scopes = match node {
                        Node::StringLit(_) => {
                            self.text(&spot, node)?.split_whitespace().map(str::to_owned).collect()
                        }
                        _ => self.texts(&spot, node)?,
                    }
                }
                "redirectPort" | "callbackPort" => {
                    let port = scalar(node).and_then(|text| text.parse().ok()).filter(|port| *port > 0);
                    oauth.redirect_port = Some(port.ok_or_else(|| self.fault(&spot, Fault::BadPort))?);
                }
                _ => {}
            }
        }
        if oauth.grant == GrantKind::ClientCredentials {
            let lacks = match &oauth {
                AuthConfig { client_id: None, .. } => Some("clientId"),
                AuthConfig { client_secret: None, private_key: None, .. } => Some("clientSecret"),
                _ => None,
            };
            if let Some(needs) = lacks {
                return Err(self.fault(spot, Fault::GrantLacks { needs }));
            }
        }
        Ok(Auth::OAuth(Box::new(oauth)))
    }

    fn url(&mut self, spot: &Spot<'_>, node: &Node<'t>) -> Result<Url, ConfigError> {
        let text = self.filled(spot, node)?;
        // A disabled server's variables may be absent, and its address with them.
        let text = if self.disabled && Url::parse(&text).is_err() {
            "http://disabled.invalid/".to_owned()
        } else {
            text
        };
        let bad = |reason: String| self.fault(spot, Fault::BadUrl { reason });
        let url = Url::parse(text.trim()).map_err(|error| bad(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("it begins with neither `http://` nor `https://`".to_owned()));
        }
        Ok(url)
    }

    fn timeout(&mut self, spot: &Spot<'_>, node: &Node<'t>) -> Result<std::time::Duration, ConfigError> {
        let text = match node {
            Node::NumberLit(number) => number.value.to_owned(),
            Node::StringLit(_) => self.text(spot, node)?,
            _ => return Err(self.wrong_type(spot, "a number of seconds or a text such as \"30s\"", node)),
        };
        let time = toolwire_contract::parse_duration(&text);
        let time = time.ok_or_else(|| self.fault(spot, Fault::BadTimeout { text }))?;
        if matches!(node, Node::NumberLit(_)) && time.as_secs() >= LONG_TIMEOUT {
            self.warn(spot, Concern::LongTimeout { seconds: time.as_secs() });
        }
        Ok(time)
    }

    /// An empty prefix is none.
    fn prefix(&mut self, spot: &Spot<'_>, node: &Node<'t>) -> Result<Option<String>, ConfigError> {
        let text = self.text(spot, node)?;
        if text.is_empty() {
            return Ok(None);
        }
        if text.len() > LONGEST_PREFIX || !is_valid_tool_name(&text) {
            return Err(self.fault(spot, Fault::BadPrefix { text }));
        }
        Ok(Some(text))
    }
}
