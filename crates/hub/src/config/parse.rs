//! Parses and validates the text of `mcp.json`.

use std::path::Path;
use std::time::Duration;

use jsonc_parser::ast::Value as Node;
use serde_json::Value;
use toolwire_contract::Glob;
use toolwire_contract::text::{nearest_names, parse_duration};
use toolwire_dialect::names::is_valid_tool_name;

use super::formats::{FormatError, JsonText, Positions, to_json};
use super::hosts::{
    DisabledNames, has_milliseconds, named_servers, server_collections, skip_reason, workspace_folder,
};
use super::json::{parse_json, scalar, strip_byte_order_mark};
use super::problem::{Problem, WarningKind};
use super::values::{ConfigParser, ConfigValue, Position};
use super::{Config, ConfigError, ConfigProblem, ConfigWarning, ServerConfig, ServerName};

const TOP_KEYS: [&str; 11] = [
    "mcpServers",
    "servers",
    "context_servers",
    "mcp_servers",
    "mcp",
    "projects",
    "extensions",
    "inputs",
    "schema",
    "toolwire",
    "$schema",
];
/// Some hosts write `"enabled": false` for `"disabled": true`.
pub(super) const SERVER_KEYS: [&str; 16] = [
    "command",
    "args",
    "env",
    "envFile",
    "cwd",
    "url",
    "headers",
    "oauth",
    "auth",
    "forwardHeaders",
    "type",
    "disabled",
    "enabled",
    "timeout",
    "prefix",
    "tools",
];
const TOOLS_KEYS: [&str; 2] = ["allow", "deny"];

/// A tool name has at most 64 characters; a longer prefix leaves too few of them for the tool's own name.
pub(super) const MAX_PREFIX_CHARS: usize = 32;
/// A `timeout` of this many seconds was probably meant in milliseconds, the unit of some other hosts.
const LONG_TIMEOUT_SECS: u64 = 1000;

pub(super) fn parse(
    text: &str,
    file: &Path,
    variables: &dyn Fn(&str) -> Option<String>,
    check_settings: &dyn Fn(&Value) -> Vec<(String, String)>,
) -> Result<(Config, Vec<ConfigWarning>), ConfigError> {
    with_root(text, file, variables, |parser, root| {
        let config = parser.config(root, check_settings);
        let config = parser.record(config);
        (config, std::mem::take(&mut parser.warnings))
    })
    .map(|(config, warnings)| (config.unwrap_or_default(), warnings))
}

/// Returns the servers of a file in any known shape: their names, and their values as JSON. Only what would
/// mean something else in another file is changed: inputs with a default, and a relative path in `envFile`.
pub(super) fn raw_servers(text: &str, file: &Path) -> Result<Vec<(String, Value)>, ConfigError> {
    with_root(text, file, &|_| None, |parser, root| {
        parser.read_inputs(root);
        let folder = std::env::current_dir().ok();
        let disabled_names = DisabledNames::of(root, folder.as_deref());
        let servers = server_collections(root, folder.as_deref());
        let members = servers.iter().flat_map(named_servers);
        let servers = members.filter_map(|(name, _, value)| {
            // Without a name, it is reported when the file is used.
            let name = name?;
            let server = parser.raw_json(&value);
            let mut server = parser.record(server)?;
            if let Some(Value::String(path)) = server.get_mut("envFile")
                && !path.starts_with(['~', '$'])
                && let Some(folder) = workspace_folder(file)
            {
                *path = folder.join(&*path).to_string_lossy().into_owned();
            }
            if let Some(server) = server.as_object_mut().filter(|_| disabled_names.contains(name)) {
                server.shift_remove("enabled");
                server.insert("disabled".to_owned(), Value::Bool(true));
            }
            Some((name.to_owned(), server))
        });
        servers.collect()
    })
}

/// Returns the value of the key `toolwire` as it is written.
pub(super) fn raw_settings(text: &str, file: &Path) -> Result<Option<Value>, ConfigError> {
    with_root(text, file, &|_| None, |parser, root| {
        let settings = parser.raw_json(&root.get("toolwire")?);
        parser.record(settings)
    })
}

/// Parses the text as JSON, or as TOML or YAML by the extension of the file, and passes it on.
pub(super) fn with_root<T>(
    text: &str,
    file: &Path,
    variables: &dyn Fn(&str) -> Option<String>,
    parse: impl FnOnce(&mut ConfigParser<'_>, &ConfigValue<'_>) -> T,
) -> Result<T, ConfigError> {
    let text = strip_byte_order_mark(text);
    let mut parser = ConfigParser {
        text,
        file,
        positions: Positions::OfFile,
        variables,
        input_defaults: Vec::new(),
        disabled_names: DisabledNames::default(),
        disabled: false,
        warnings: Vec::new(),
        problems: Vec::new(),
    };
    let syntax_error = |parser: &ConfigParser<'_>, offset, problem| {
        ConfigError(vec![parser.error(&Position { offset, ..Position::default() }, problem)])
    };
    let JsonText { json, positions } = match to_json(text, file) {
        Ok(converted) => converted,
        Err(FormatError { offset, positions, problem }) => {
            parser.positions = positions;
            return Err(syntax_error(&parser, offset, problem));
        }
    };
    let root = parse_json(&json)
        .map_err(|error| syntax_error(&parser, error.offset, Problem::Syntax { message: error.message }))?;
    parser.positions = positions;
    let parsed = parse(&mut parser, &ConfigValue::root(&root));
    match parser.problems.is_empty() {
        true => Ok(parsed),
        false => Err(ConfigError(parser.problems)),
    }
}

impl ConfigParser<'_> {
    fn config(
        &mut self,
        root: &ConfigValue<'_>,
        check_settings: &dyn Fn(&Value) -> Vec<(String, String)>,
    ) -> Result<Config, ConfigProblem> {
        self.check_keys(root, &TOP_KEYS)?;
        self.read_inputs(root);
        let mut config = Config::default();
        let folder = std::env::current_dir().ok();
        self.disabled_names = DisabledNames::of(root, folder.as_deref());
        let servers = server_collections(root, folder.as_deref());
        for value in &servers {
            let parsed = self.servers(value, &mut config.servers);
            self.record(parsed);
        }
        if let Some(value) = root.get("toolwire") {
            let settings = self.json(&value)?;
            for (path, reason) in check_settings(&settings) {
                let (Ok(at) | Err(at)) =
                    path.split('.').try_fold(value.clone(), |parent, key| match parent.get(key) {
                        Some(child) => Ok(child),
                        None => Err(parent),
                    });
                let at = Position { key: format!("toolwire.{path}"), ..at.at };
                let problem = self.error(&at, Problem::InvalidSetting { reason });
                self.problems.push(problem);
            }
            config.toolwire = Some(settings);
        }
        if servers.is_empty() && config.toolwire.is_none() {
            let is_similar = |key: &&str| !nearest_names("mcpServers", [*key]).is_empty();
            let similar_key = root.members().map(|(key, _, _)| key).find(is_similar).map(str::to_owned);
            return Err(self.error(&root.at, Problem::NoServers { similar_key }));
        }
        Ok(config)
    }

    /// Reads the defaults of VS Code's inputs.
    fn read_inputs(&mut self, root: &ConfigValue<'_>) {
        let inputs = root.get("inputs").or_else(|| root.get("mcp")?.get("inputs"));
        for input in inputs.iter().filter_map(ConfigValue::items).flatten() {
            let text = |key| Some(scalar(input.get(key)?.node)?.into_owned());
            self.input_defaults.extend(text("id").zip(text("default")));
        }
    }

    fn servers(
        &mut self,
        value: &ConfigValue<'_>,
        servers: &mut Vec<ServerConfig>,
    ) -> Result<(), ConfigProblem> {
        // Continue writes a list.
        let is_yaml = matches!(self.positions, Positions::Mapped(_));
        if !is_yaml || value.items().is_none() {
            self.check_object(value)?;
        }
        for (name, offset, value) in named_servers(value) {
            let at = Position { server: name, key: String::new(), offset };
            if let Some(reason) = skip_reason(&value) {
                self.warn(&at, WarningKind::Skipped { reason });
                continue;
            }
            let Some(name) = name else {
                let problem = self.error(&value.at, Problem::MissingName);
                self.problems.push(problem);
                continue;
            };
            let value = ConfigValue { at: at.clone(), ..value };
            let server = self.server(name, &value);
            self.disabled = false;
            let Some(server) = self.record(server) else { continue };
            if let Some(earlier) = servers.iter().position(|earlier| earlier.name == server.name) {
                self.warn(&at, WarningKind::DuplicateKey);
                servers.remove(earlier);
            }
            servers.push(server);
        }
        Ok(())
    }

    fn server(&mut self, name: &str, value: &ConfigValue<'_>) -> Result<ServerConfig, ConfigProblem> {
        let name = ServerName::new(name).ok_or_else(|| self.error(&value.at, Problem::InvalidServerName))?;
        self.check_keys(value, &SERVER_KEYS)?;
        let enabled = self.optional(value, "enabled", Self::boolean).unwrap_or(true);
        self.disabled = self.optional(value, "disabled", Self::boolean).unwrap_or(false)
            || !enabled
            || self.disabled_names.contains(name.as_str());
        let mut server = ServerConfig::new(name, self.transport(value)?);
        server.disabled = self.disabled;
        if let Some(timeout) = self.optional(value, "timeout", Self::timeout) {
            (server.connect_timeout, server.call_timeout) = (timeout, timeout);
            server.extends_connect_timeout = false;
        }
        if let Some(timeout) = self.optional(value, "timeout.connect", Self::timeout) {
            server.connect_timeout = timeout;
            server.extends_connect_timeout = false;
        }
        let call_timeout = self.optional(value, "timeout.call", Self::timeout);
        server.call_timeout = call_timeout.unwrap_or(server.call_timeout);
        server.user_credentials = self.user_credentials(value, &server.transport);
        server.prefix = self.optional(value, "prefix", Self::prefix).flatten();
        server.allow = self.optional(value, "tools.allow", Self::globs).unwrap_or_default();
        server.deny = self.optional(value, "tools.deny", Self::globs).unwrap_or_default();
        if let Some(tools) = value.get("tools") {
            self.check_keys(&tools, &TOOLS_KEYS)?;
            server.allow.extend(self.optional(&tools, "allow", Self::globs).unwrap_or_default());
            server.deny.extend(self.optional(&tools, "deny", Self::globs).unwrap_or_default());
        }
        Ok(server)
    }

    fn globs(&mut self, value: &ConfigValue<'_>) -> Result<Vec<Glob>, ConfigProblem> {
        Ok(self.strings(value)?.into_iter().map(Glob::new).collect())
    }

    fn timeout(&mut self, value: &ConfigValue<'_>) -> Result<Duration, ConfigProblem> {
        let is_number = matches!(value.node, Node::NumberLit(_));
        let is_seconds = is_number && !has_milliseconds(self.file, &value.at.key);
        let text = match value.node {
            Node::NumberLit(number) if is_seconds => number.value.to_owned(),
            Node::NumberLit(number) => format!("{}ms", number.value),
            Node::StringLit(_) => self.string(value)?,
            _ => return Err(self.wrong_type(value, "a number of seconds or a string such as \"30s\"")),
        };
        let timeout = parse_duration(&text);
        let timeout = timeout.ok_or_else(|| self.error(&value.at, Problem::InvalidTimeout { text }))?;
        if is_seconds && timeout.as_secs() >= LONG_TIMEOUT_SECS {
            self.warn(&value.at, WarningKind::LongTimeout { seconds: timeout.as_secs() });
        }
        Ok(timeout)
    }

    /// Returns `None` for an empty prefix.
    fn prefix(&mut self, value: &ConfigValue<'_>) -> Result<Option<String>, ConfigProblem> {
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
