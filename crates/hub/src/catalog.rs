//! The tools of one server, parsed and checked.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Map, Value};
use toolwire_contract::Tool;
use toolwire_contract::toolbox::{SchemaFingerprint, ValidationStamp};
use toolwire_dialect::arguments::{ArgumentError, Checker};
use toolwire_dialect::{Refusal, check_definition};

use crate::config::ServerConfig;
use crate::raw_capture::UNREADABLE;
use crate::session::ToolListing;

#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) tools: Vec<Tool>,
    pub(crate) quarantined: Vec<QuarantinedTool>,
    /// The time for which the list is valid, as the server states.
    pub(crate) ttl: Option<Duration>,
    /// The reason why the list may be incomplete.
    pub(crate) incomplete: Option<String>,
    /// By the server's own name of the tool.
    checkers: HashMap<String, ToolChecker>,
}

/// Checks the arguments of one tool. Created when the tool is first called.
#[derive(Debug, Default)]
struct ToolChecker {
    checker: OnceLock<Checker>,
    schema: OnceLock<SchemaFingerprint>,
}

/// A listed tool that is not offered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuarantinedTool {
    /// Its name, or its position in the list (`#3`) if it has none.
    pub name: String,
    pub reason: String,
}

impl Catalog {
    pub(crate) fn new(listing: ToolListing) -> Catalog {
        let skipped: HashSet<&str> = listing.skipped.iter().map(|tool| tool.name.as_str()).collect();
        let mut invalid = Vec::new();
        let mut refused = Vec::new();
        let mut tools = Vec::with_capacity(listing.tools.len());
        for (index, value) in listing.tools.into_iter().enumerate() {
            match parse(value) {
                Ok(tool) if skipped.contains(tool.name.as_str()) => {}
                Ok(tool) => match check_definition(&tool) {
                    Ok(()) => tools.push(tool),
                    Err(refusal) => {
                        refused.push(QuarantinedTool { name: tool.name, reason: describe(&refusal) });
                    }
                },
                Err((name, reason)) => {
                    let name = name.unwrap_or_else(|| format!("#{}", index + 1));
                    invalid.push(QuarantinedTool { name, reason });
                }
            }
        }
        let skipped = listing.skipped.into_iter();
        let skipped = skipped.map(|tool| QuarantinedTool { name: tool.name, reason: tool.reason });
        let quarantined = skipped.chain(invalid).chain(refused).collect();
        let checkers = tools.iter().map(|tool| (tool.name.clone(), ToolChecker::default())).collect();
        Catalog { tools, quarantined, ttl: listing.ttl, incomplete: listing.incomplete, checkers }
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Checks arguments against the tool's schema, and repairs them where the schema makes the intent clear.
    /// Arguments with a valid stamp were checked before, so they are returned unchanged.
    pub(crate) fn check(
        &self,
        tool: &Tool,
        arguments: &Value,
        validation: Option<ValidationStamp>,
    ) -> Result<Map<String, Value>, ArgumentError> {
        let new_checker = || Checker::new(tool.input_schema.as_ref().unwrap_or(&Value::Bool(true)));
        let Some(ToolChecker { checker, schema }) = self.checkers.get(&tool.name) else {
            return new_checker().check(&tool.name, arguments).map(|decoded| decoded.arguments);
        };
        if let (Some(stamp), Some(input_schema), Value::Object(fields)) =
            (validation, &tool.input_schema, arguments)
        {
            let schema = *schema.get_or_init(|| SchemaFingerprint::of(input_schema));
            if stamp == ValidationStamp::new(schema, fields) {
                return Ok(fields.clone());
            }
        }
        let decoded = checker.get_or_init(new_checker).check(&tool.name, arguments)?;
        for repair in &decoded.repairs {
            tracing::debug!(target: "toolwire::hub", tool = tool.name, at = repair.pointer, "{}", repair.kind);
        }
        Ok(decoded.arguments)
    }
}

/// Longer than any real name. Names are remembered after a tool is removed, so their size must be limited.
const MAX_NAME_BYTES: usize = 1024;

/// Parses a listed tool. The error is the tool's name, if it can be parsed, and the reason.
fn parse(value: Value) -> Result<Tool, (Option<String>, String)> {
    if let Some(reason) = value.get(UNREADABLE).and_then(Value::as_str) {
        let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
        return Err((name, format!("cannot be parsed: {reason}")));
    }
    let tool = Tool::try_from(value).map_err(|invalid| (None, invalid.to_string()))?;
    match tool.name.len() > MAX_NAME_BYTES {
        true => Err((None, format!("its name is longer than {MAX_NAME_BYTES} bytes"))),
        false => Ok(tool),
    }
}

fn describe(refusal: &Refusal) -> String {
    match refusal.pointer.as_str() {
        "" => refusal.message.clone(),
        pointer => format!("{} (at `{pointer}`)", refusal.message),
    }
}

/// The effect of the configuration on the tools that a server lists.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolSummary {
    pub(crate) allowed: usize,
    pub(crate) denied: usize,
    pub(crate) duplicates: Vec<String>,
    /// Patterns that match no tool: mistyped, or for another version of the server.
    pub(crate) unused_patterns: Vec<String>,
}

impl ToolSummary {
    pub(crate) fn new(catalog: &Catalog, config: &ServerConfig) -> ToolSummary {
        let mut summary = ToolSummary::default();
        let mut names = HashSet::new();
        for tool in &catalog.tools {
            match (config.allows_tool(&tool.name), names.insert(tool.name.as_str())) {
                (false, _) => summary.denied += 1,
                (true, true) => summary.allowed += 1,
                (true, false) => summary.duplicates.push(tool.name.clone()),
            }
        }
        names.extend(catalog.quarantined.iter().map(|tool| tool.name.as_str()));
        let patterns = config.allow.iter().chain(&config.deny);
        let unused = patterns.filter(|pattern| !names.iter().any(|name| pattern.matches(name)));
        summary.unused_patterns = unused.map(ToString::to_string).collect();
        summary
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_summary_counts_excluded_tools() {
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        let tools = ["read", "write", "list", "read"].map(tool).into();
        let catalog = Catalog::new(ToolListing { tools, ..ToolListing::default() });
        let text = r#"{"mcpServers": {"s": {"command": "c", "tools": {"allow": ["r*", "wrote", "write"], "deny": ["write", "drop_*"]}}}}"#;
        let parsed = crate::config::Config::parse(text, std::path::Path::new("mcp.json"), &|_| None);
        let summary = ToolSummary::new(&catalog, &parsed.expect("a valid configuration").0.servers[0]);
        let expected = ToolSummary {
            allowed: 1,
            denied: 2,
            duplicates: vec!["read".to_owned()],
            unused_patterns: vec!["wrote".to_owned(), "drop_*".to_owned()],
        };
        assert_eq!(summary, expected);
    }

    #[test]
    fn arguments_are_validated_again_unless_the_stamp_matches_them_and_the_schema() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let tools = vec![json!({"name": "count", "inputSchema": schema})];
        let catalog = Catalog::new(ToolListing { tools, ..ToolListing::default() });
        let tool = catalog.tool("count").expect("the tool is listed");
        // The arguments are invalid, so an error shows that they were validated.
        let arguments = json!({"n": "many"});
        let fields = arguments.as_object().expect("an object");
        let stamp = ValidationStamp::new(SchemaFingerprint::of(&schema), fields);
        assert!(catalog.check(tool, &arguments, Some(stamp)).is_ok());
        assert!(catalog.check(tool, &arguments, None).is_err());
        assert!(catalog.check(tool, &json!({"n": "few"}), Some(stamp)).is_err());
        let older = ValidationStamp::new(SchemaFingerprint::of(&json!({"type": "object"})), fields);
        assert!(catalog.check(tool, &arguments, Some(older)).is_err());
    }

    #[test]
    fn an_invalid_tool_does_not_affect_the_others() {
        let listing = ToolListing {
            tools: vec![
                json!({"name": "good", "inputSchema": {"type": "object"}}),
                json!({"title": "nameless"}),
                json!({"name": "dangling", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}}),
                json!({"name": "bare"}),
                json!(7),
                json!({"name": "n".repeat(MAX_NAME_BYTES + 1)}),
            ],
            ..ToolListing::default()
        };
        let catalog = Catalog::new(listing);
        let names: Vec<&str> = catalog.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["good", "bare"]);
        let quarantined: Vec<&str> = catalog.quarantined.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(quarantined, ["#2", "#5", "#6", "dangling"]);
    }
}
