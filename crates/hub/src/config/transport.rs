//! Parses the transport of a server: a command, or a URL with its headers and logins.

use std::path::{Path, PathBuf};

use jsonc_parser::ast::Value as Node;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use toolwire_contract::text::nearest_names;

use super::hosts::{Command, is_host_key, workspace_folder};
use super::json::scalar;
use super::parse::SERVER_KEYS;
use super::problem::{MistypedKey, Problem, WarningKind};
use super::values::{ConfigParser, ConfigValue};
use super::{ConfigProblem, Transport, env_file};
use crate::Secret;
use crate::auth::{AuthConfig, GrantKind};
use crate::transport::HttpKind;

const STDIO_KEYS: [&str; 5] = ["command", "args", "env", "envFile", "cwd"];
const HTTP_KEYS: [&str; 3] = ["url", "headers", "oauth"];
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

impl ConfigParser<'_> {
    pub(super) fn transport(&mut self, server: &ConfigValue<'_>) -> Result<Transport, ConfigProblem> {
        let kind = match server.get("type") {
            Some(value) => self.explicit_kind(&value, server)?,
            None => self.implicit_kind(server)?,
        };
        let (unused, used): (&[&str], _) =
            if kind.is_none() { (&HTTP_KEYS, "command") } else { (&STDIO_KEYS, "url") };
        // goose writes an empty `envs` for each server.
        let is_empty_envs = |value: &ConfigValue<'_>| {
            value.at.key == "envs"
                && value.node.as_object().is_some_and(|object| object.properties.is_empty())
        };
        for value in unused.iter().filter_map(|key| server.get(key)).filter(|value| !is_empty_envs(value)) {
            self.warn(&value.at, WarningKind::UnusedKey { used });
        }
        match (kind, server.get("command"), server.get("url")) {
            (None, Some(command), _) => self.stdio(server, command),
            (Some(kind), _, Some(url)) => self.http(server, &url, kind),
            _ => Err(self.error(&server.at, Problem::NoTransport { mistyped: None })),
        }
    }

    /// Parses `type`; `None` is stdio.
    fn explicit_kind(
        &mut self,
        value: &ConfigValue<'_>,
        server: &ConfigValue<'_>,
    ) -> Result<Option<HttpKind>, ConfigProblem> {
        let text = self.string(value)?;
        // Hosts write `streamable-http`, `streamable_http` and `streamableHttp`.
        let kind = match text.to_lowercase().replace(['-', '_'], "").as_str() {
            // opencode writes the second word of each.
            "stdio" | "local" => None,
            // As in VS Code: which of the two HTTP transports the server uses is detected.
            "http" | "remote" => Some(HttpKind::Auto),
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
    fn implicit_kind(&self, server: &ConfigValue<'_>) -> Result<Option<HttpKind>, ConfigProblem> {
        match (server.get("command").is_some(), server.get("url").is_some()) {
            (true, false) => Ok(None),
            (false, true) => Ok(Some(HttpKind::Auto)),
            (true, true) => Err(self.error(&server.at, Problem::TwoTransports)),
            (false, false) => {
                let keys = server.members().map(|(key, _, _)| key);
                let unknown = keys.filter(|key| !SERVER_KEYS.contains(key) && !is_host_key(key));
                let mistyped = unknown.filter_map(mistyped_transport_key).next();
                Err(self.error(&server.at, Problem::NoTransport { mistyped }))
            }
        }
    }

    fn stdio(
        &mut self,
        server: &ConfigValue<'_>,
        command: ConfigValue<'_>,
    ) -> Result<Transport, ConfigProblem> {
        let Command { program, args: more_args, env: more_env } = Command::new(command);
        let command = self.non_empty_string(&program);
        let command = self.record(command).unwrap_or_default();
        let mut args = self.all_strings(more_args.into_iter());
        args.extend(self.optional(server, "args", Self::strings).unwrap_or_default());
        let cwd = self.optional(server, "cwd", Self::non_empty_string);
        // A later value of a variable replaces an earlier one.
        let mut env = self.optional(server, "envFile", Self::env_file).unwrap_or_default();
        env.extend(self.optional(server, "env_vars", Self::passed_variables).unwrap_or_default());
        env.extend(self.optional(server, "env_keys", Self::required_variables).unwrap_or_default());
        if let Some(value) = more_env {
            let variables = self.environment(&value);
            env.extend(self.record(variables).unwrap_or_default());
        }
        let configured = self.optional(server, "env", Self::environment).unwrap_or_default();
        env.retain(|(name, _)| configured.iter().all(|(configured, _)| configured != name));
        env.extend(configured);
        let values = env.iter().map(|(_, value)| value.expose());
        let texts = args.iter().chain(&cwd).chain([&command]).map(String::as_str);
        if values.chain(texts).any(|text| text.contains('\0')) {
            return Err(self.error(&server.at, Problem::Nul));
        }
        Ok(Transport::Stdio { command, args, env, cwd: cwd.map(PathBuf::from) })
    }

    /// Reads the variables of a file. A relative path starts at the folder of the project.
    fn env_file(&mut self, value: &ConfigValue<'_>) -> Result<Vec<(String, Secret)>, ConfigProblem> {
        let text = self.non_empty_string(value)?;
        if self.disabled {
            return Ok(Vec::new());
        }
        let home = self.variable("userHome").filter(|_| text.starts_with("~/"));
        let path = match home {
            Some(home) => Path::new(&home).join(&text[2..]),
            None => workspace_folder(self.file).unwrap_or_default().join(text),
        };
        let text = env_file::read(&path)
            .map_err(|reason| self.error(&value.at, Problem::UnreadableEnvFile { path, reason }))?;
        let variables = env_file::parse(&text).into_iter();
        self.with_valid_names(value, variables.map(|(name, value)| (name, Secret::new(value))).collect())
    }

    /// Returns those of the listed variables that are set.
    fn passed_variables(&mut self, value: &ConfigValue<'_>) -> Result<Vec<(String, Secret)>, ConfigProblem> {
        let names = self.strings(value)?.into_iter();
        Ok(names
            .filter_map(|name| Some((self.variable(&name)?, name)))
            .map(|(value, name)| (name, Secret::new(value)))
            .collect())
    }

    /// Returns the listed variables; each must be set.
    fn required_variables(
        &mut self,
        value: &ConfigValue<'_>,
    ) -> Result<Vec<(String, Secret)>, ConfigProblem> {
        let items = value.items().ok_or_else(|| self.wrong_type(value, "an array of strings"))?;
        let mut variables = Vec::new();
        for item in items {
            let pair =
                self.string(&item).and_then(|name| Ok((name, Secret::new(self.named_variable(&item)?))));
            variables.extend(self.record(pair));
        }
        Ok(variables)
    }

    fn environment(&mut self, value: &ConfigValue<'_>) -> Result<Vec<(String, Secret)>, ConfigProblem> {
        let env = self.string_map(value)?;
        self.with_valid_names(value, env)
    }

    fn with_valid_names(
        &self,
        value: &ConfigValue<'_>,
        env: Vec<(String, Secret)>,
    ) -> Result<Vec<(String, Secret)>, ConfigProblem> {
        let is_invalid = |name: &String| name.is_empty() || name.contains(['=', '\0']);
        match env.iter().map(|(name, _)| name).find(|name| is_invalid(name)) {
            Some(name) => Err(self.error(&value.at, Problem::InvalidVariableName { name: name.clone() })),
            None => Ok(env),
        }
    }

    fn http(
        &mut self,
        server: &ConfigValue<'_>,
        url: &ConfigValue<'_>,
        kind: HttpKind,
    ) -> Result<Transport, ConfigProblem> {
        let mut headers = self.optional(server, "headers", Self::headers).unwrap_or_default();
        // Continue has the headers in an object of their own.
        if let Some(options) = server.get("requestOptions") {
            headers.extend(self.optional(&options, "headers", Self::headers).unwrap_or_default());
        }
        headers.extend(
            self.optional(server, "env_http_headers", Self::headers_of_variables).unwrap_or_default(),
        );
        if let Some(token) = self.optional(server, "bearer_token_env_var", Self::named_variable) {
            headers.push(("Authorization".to_owned(), Secret::new(format!("Bearer {token}"))));
        }
        let has_token = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let oauth = match server.get("oauth") {
            Some(value) => {
                let oauth = self.oauth(&value);
                self.record(oauth).flatten()
            }
            None if has_token => None,
            None => Some(Box::default()),
        };
        Ok(Transport::Http { url: self.url(url)?, headers, kind, oauth })
    }

    /// Returns the value of the variable that the string names.
    fn named_variable(&mut self, value: &ConfigValue<'_>) -> Result<String, ConfigProblem> {
        let name = self.non_empty_string(value)?;
        let missing = || self.error(&value.at, Problem::MissingNamedVariable { variable: name.clone() });
        self.variable(&name).or_else(|| self.disabled.then(String::new)).ok_or_else(missing)
    }

    fn headers_of_variables(
        &mut self,
        value: &ConfigValue<'_>,
    ) -> Result<Vec<(String, Secret)>, ConfigProblem> {
        self.check_object(value)?;
        let headers = value.members().filter_map(|(name, _, value)| {
            let text = self.named_variable(&value);
            Some((name.to_owned(), Secret::new(self.record(text)?)))
        });
        Ok(headers.collect())
    }

    fn headers(&mut self, value: &ConfigValue<'_>) -> Result<Vec<(String, Secret)>, ConfigProblem> {
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

    fn oauth(&mut self, value: &ConfigValue<'_>) -> Result<Option<Box<AuthConfig>>, ConfigProblem> {
        if let Node::BooleanLit(flag) = value.node {
            return Ok(flag.value.then(Box::default));
        }
        self.check_keys(value, &OAUTH_KEYS)?;
        let mut oauth = AuthConfig {
            grant: self.optional(value, "grant", Self::grant).unwrap_or_default(),
            client_id: self.optional(value, "clientId", Self::non_empty_string),
            client_secret: self.optional(value, "clientSecret", Self::secret),
            private_key: self.optional(value, "privateKey", Self::secret),
            client_metadata_url: self.optional(value, "clientMetadataUrl", Self::url).map(Into::into),
            scopes: self.optional(value, "scopes", Self::scopes).unwrap_or_default(),
            redirect_port: self.optional(value, "redirectPort", Self::port),
        };
        oauth.redirect_port = self.optional(value, "callbackPort", Self::port).or(oauth.redirect_port);
        match oauth.missing_key() {
            Some(missing) => Err(self.error(&value.at, Problem::IncompleteGrant { missing })),
            None => Ok(Some(Box::new(oauth))),
        }
    }

    fn grant(&mut self, value: &ConfigValue<'_>) -> Result<GrantKind, ConfigProblem> {
        let text = self.string(value)?;
        match text.as_str() {
            "authorization_code" => Ok(GrantKind::AuthorizationCode),
            "client_credentials" => Ok(GrantKind::ClientCredentials),
            _ => Err(self.error(&value.at, Problem::UnknownGrant { text })),
        }
    }

    fn scopes(&mut self, value: &ConfigValue<'_>) -> Result<Vec<String>, ConfigProblem> {
        match value.node {
            Node::StringLit(_) => Ok(self.string(value)?.split_whitespace().map(str::to_owned).collect()),
            _ => self.strings(value),
        }
    }

    fn port(&mut self, value: &ConfigValue<'_>) -> Result<u16, ConfigProblem> {
        let port = scalar(value.node).and_then(|text| text.parse().ok()).filter(|port| *port > 0);
        port.ok_or_else(|| self.error(&value.at, Problem::InvalidPort))
    }

    fn url(&mut self, value: &ConfigValue<'_>) -> Result<Url, ConfigProblem> {
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
}

fn mistyped_transport_key(key: &str) -> Option<MistypedKey> {
    let similar = nearest_names(key, ["command", "url"]).first().copied();
    let meant = similar.or_else(|| key.to_lowercase().ends_with("url").then_some("url"))?;
    Some(MistypedKey { found: key.to_owned(), meant })
}
