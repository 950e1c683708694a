//! The options of `toolwire keys create` for rights and limits.

use clap::Args;
use toolwire_contract::keys::KeyRights;

use crate::command_error::CommandError;
use crate::terminal_text::sanitize;

/// The rights of a key. Without these options, a key has no restrictions.
#[derive(Args)]
pub(super) struct RightsArgs {
    /// The models that the key may use: names or patterns, separated by commas
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    models: Vec<String>,
    /// The MCP servers whose tools the key may use
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    servers: Vec<String>,
    /// The tools that the key may use: `NAME`, or `SERVER/NAME`
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    tools: Vec<String>,
    /// Tools that run without approval: patterns, or annotations such as `hint:readOnly`
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    allow: Vec<String>,
    /// Tools whose calls need approval: patterns, or annotations such as `hint:destructive`
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    ask: Vec<String>,
    /// Tools that the key may not use: patterns, or annotations such as `hint:writes`
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    deny: Vec<String>,
    /// The maximum number of requests in a minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests_per_minute: Option<u64>,
    /// The maximum number of tokens in a minute, of requests and responses
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    tokens_per_minute: Option<u64>,
    /// The maximum number of tokens in a calendar month (UTC)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    tokens_per_month: Option<u64>,
    /// The key may change servers and accept changed tools
    #[arg(long)]
    admin: bool,
    /// Whether requests may refer to data that the provider has stored [default: the gateway's
    /// `providerState`]
    #[arg(long, value_name = "BOOL")]
    provider_state: Option<bool>,
}

impl RightsArgs {
    pub(super) fn read(&self) -> Result<KeyRights, CommandError> {
        let list = |option: &str, patterns: &[String]| -> Result<Vec<String>, CommandError> {
            let patterns: Vec<String> = patterns.iter().map(|pattern| pattern.trim().to_owned()).collect();
            match patterns.iter().any(String::is_empty) {
                // It may be a variable of a shell that is not set. Ignoring it would permit everything.
                true => Err(CommandError::usage(format!("`--{option}` has an empty pattern"))
                    .with_hint("write names or patterns, separated by commas, or leave the option out")),
                false => Ok(patterns),
            }
        };
        let restriction = |option: &str, patterns: &[String]| {
            list(option, patterns).map(|patterns| (!patterns.is_empty()).then_some(patterns))
        };
        let rights = KeyRights {
            models: restriction("models", &self.models)?,
            servers: restriction("servers", &self.servers)?,
            tools: restriction("tools", &self.tools)?,
            allow: list("allow", &self.allow)?,
            ask: list("ask", &self.ask)?,
            deny: list("deny", &self.deny)?,
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            tokens_per_month: self.tokens_per_month,
            admin: self.admin,
            provider_state: self.provider_state,
        };
        rights.check().map_err(|error| CommandError::usage(sanitize(&error.to_string())))?;
        Ok(rights)
    }
}
