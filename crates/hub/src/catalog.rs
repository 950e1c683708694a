//! The tools of one server, read and checked: what can be offered, and what cannot and why.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use toolwire_contract::{SchemaFingerprint, Tool, ValidationStamp};
use toolwire_dialect::{ArgumentError, Checker, Dialect, Options, Status, Toolset};

use crate::config::ServerConfig;
use crate::session::Listing;
use crate::tee::UNREADABLE;

/// The tools of one server.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) tools: Vec<Tool>,
    /// Tools that are kept back, each alone.
    pub(crate) quarantined: Vec<Quarantined>,
    /// How long the list holds, as the server says.
    pub(crate) ttl: Option<Duration>,
    /// Why the list may not be whole.
    pub(crate) cut: Option<String>,
    /// By the server's own name.
    checkers: HashMap<String, ToolChecker>,
}

/// Made when a tool is first called.
#[derive(Debug, Default)]
struct ToolChecker {
    checker: OnceLock<Checker>,
    schema: OnceLock<SchemaFingerprint>,
}

/// Tools are judged in portions: the definitions that are made for it are not needed afterwards, and need not all be there
/// at once.
const AT_ONCE: usize = 50;

/// A tool that is not offered, though its server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name, or its place in the list where it has none.
    pub tool: String,
    pub reason: String,
}

impl Catalog {
    pub(crate) fn read(listing: Listing) -> Catalog {
        let refused: HashSet<String> =
            listing.left_out.iter().map(|left_out| left_out.name.clone()).collect();
        let mut quarantined: Vec<Quarantined> = listing
            .left_out
            .into_iter()
            .map(|left_out| Quarantined { tool: left_out.name, reason: left_out.reason })
            .collect();
        let mut tools = Vec::with_capacity(listing.tools.len());
        for (index, value) in listing.tools.into_iter().enumerate() {
            if let Some(why) = value.get(UNREADABLE).and_then(Value::as_str) {
                let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
                quarantined.push(Quarantined {
                    tool: name.unwrap_or_else(|| format!("#{}", index + 1)),
                    reason: format!("it cannot be read: {why}"),
                });
                continue;
            }
            match Tool::try_from(value) {
                Ok(tool) if refused.contains(&tool.name) => {}
                Ok(tool) => tools.push(tool),
                Err(invalid) => {
                    quarantined
                        .push(Quarantined { tool: format!("#{}", index + 1), reason: invalid.to_string() });
                }
            }
        }
        let mut sound = Vec::with_capacity(tools.len());
        let mut tools = tools.into_iter().peekable();
        while tools.peek().is_some() {
            let some: Vec<Tool> = tools.by_ref().take(AT_ONCE).collect();
            // What plain `openai` refuses, no dialect can say: references to nowhere, schemas that nothing fits.
            let reports = Toolset::new(&some, Dialect::OpenAi, &Options::default());
            for (tool, report) in some.into_iter().zip(reports.reports()) {
                match &report.reason {
                    Some(reason) if report.status == Status::Refused && reason.code != "duplicate_name" => {
                        let place = match reason.pointer.as_str() {
                            "" => String::new(),
                            pointer => format!(" (at `{pointer}`)"),
                        };
                        let reason = format!("{}{place}", reason.message);
                        quarantined.push(Quarantined { tool: tool.name, reason });
                    }
                    _ => sound.push(tool),
                }
            }
        }
        let checkers = sound.iter().map(|tool| (tool.name.clone(), ToolChecker::default())).collect();
        Catalog { tools: sound, quarantined, ttl: listing.ttl, cut: listing.cut, checkers }
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Arguments as the tool takes them, mended where its schema says so.
    pub(crate) fn check(
        &self,
        tool: &Tool,
        sent: &Value,
        validation: Option<ValidationStamp>,
    ) -> Result<serde_json::Map<String, Value>, ArgumentError> {
        let Some(ToolChecker { checker, schema }) = self.checkers.get(&tool.name) else {
            return Checker::new(&Value::Bool(true)).check(&tool.name, sent).map(|decoded| decoded.arguments);
        };
        if let (Some(stamp), Some(input_schema), Value::Object(arguments)) =
            (validation, &tool.input_schema, sent)
        {
            let schema = *schema.get_or_init(|| SchemaFingerprint::of(input_schema));
            if stamp == ValidationStamp::new(schema, arguments) {
                return Ok(arguments.clone());
            }
        }
        let checker =
            checker.get_or_init(|| Checker::new(tool.input_schema.as_ref().unwrap_or(&Value::Bool(true))));
        let decoded = checker.check(&tool.name, sent)?;
        for repair in &decoded.repairs {
            tracing::debug!(target: "toolwire::hub", tool = tool.name, at = repair.pointer, "{}", repair.kind);
        }
        Ok(decoded.arguments)
    }
}

/// What becomes of the tools that a server lists.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) admitted: usize,
    pub(crate) denied: usize,
    pub(crate) doubled: Vec<String>,
    /// Patterns that fit nothing: mistyped, or of another version of the server.
    pub(crate) idle_patterns: Vec<String>,
}

impl Census {
    pub(crate) fn of(catalog: &Catalog, config: &ServerConfig) -> Census {
        let mut census = Census::default();
        let mut names = HashSet::new();
        for tool in &catalog.tools {
            match (config.allows_tool(&tool.name), names.insert(tool.name.as_str())) {
                (false, _) => census.denied += 1,
                (true, true) => census.admitted += 1,
                (true, false) => census.doubled.push(tool.name.clone()),
            }
        }
        let kept_back = catalog.quarantined.iter().map(|tool| tool.tool.as_str());
        names.extend(kept_back);
        let patterns = config.allow.iter().chain(&config.deny);
        let idle = patterns.filter(|pattern| !names.iter().any(|name| pattern.matches(name)));
        census.idle_patterns = idle.map(ToString::to_string).collect();
        census
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_configuration_keeps_out_is_counted() {
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        let tools = ["read", "write", "list", "read"].map(tool).into();
        let catalog = Catalog::read(Listing { tools, ..Listing::default() });
        let text = r#"{"mcpServers": {"s": {"command": "c", "tools": {"allow": ["r*", "wrote", "write"], "deny": ["write", "drop_*"]}}}}"#;
        let parsed = crate::config::Config::parse(text, std::path::Path::new("mcp.json"), &|_| None);
        let census = Census::of(&catalog, &parsed.expect("it is valid").0.servers[0]);
        let expected = Census {
            admitted: 1,
            denied: 2,
            doubled: vec!["read".to_owned()],
            idle_patterns: vec!["wrote".to_owned(), "drop_*".to_owned()],
        };
        assert_eq!(census, expected);
    }

    #[test]
    fn arguments_are_validated_again_unless_the_stamp_matches_them_and_the_schema() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let tools = vec![json!({"name": "count", "inputSchema": schema})];
        let catalog = Catalog::read(Listing { tools, ..Listing::default() });
        let tool = catalog.tool("count").expect("it is listed");
        // Invalid arguments show whether they are validated.
        let arguments = json!({"n": "many"});
        let fields = arguments.as_object().expect("arguments are an object");
        let stamp = ValidationStamp::new(SchemaFingerprint::of(&schema), fields);
        assert!(catalog.check(tool, &arguments, Some(stamp)).is_ok());
        assert!(catalog.check(tool, &arguments, None).is_err());
        assert!(catalog.check(tool, &json!({"n": "few"}), Some(stamp)).is_err());
        let older = ValidationStamp::new(SchemaFingerprint::of(&json!({"type": "object"})), fields);
        assert!(catalog.check(tool, &arguments, Some(older)).is_err());
    }

    #[test]
    fn one_bad_tool_costs_that_tool_alone() {
        let listing = Listing {
            tools: vec![
                json!({"name": "good", "inputSchema": {"type": "object"}}),
                json!({"title": "nameless"}),
                json!({"name": "lost", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}}),
                json!({"name": "bare"}),
                json!(7),
            ],
            ..Listing::default()
        };
        let catalog = Catalog::read(listing);
        let names: Vec<&str> = catalog.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["good", "bare"]);
        let kept_back: Vec<&str> = catalog.quarantined.iter().map(|tool| tool.tool.as_str()).collect();
        assert_eq!(kept_back, ["#2", "#5", "lost"]);
    }
}
