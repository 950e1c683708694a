//! The choice of strict tools where a request may have only some.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use toolwire_contract::Tool;
use toolwire_dialect::{Dialect, Options, Toolset};

/// Returns a tool with this many required and optional arguments.
fn tool(name: &str, required: usize, optional: usize) -> Tool {
    let names: Vec<String> = (0..required + optional).map(|number| format!("a{number}")).collect();
    let properties: Value = names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
    Tool::new(name, json!({"type": "object", "properties": properties, "required": names[..required]}))
}

/// Returns the names of the strict tools, and what the report of each tool says about it.
fn strict(tools: &[Tool], recent_tools: &[&str]) -> (Vec<String>, Vec<Option<String>>) {
    let recent_tools = recent_tools.iter().copied().map(str::to_owned).collect();
    let options = Options::default().with_recent_tools(recent_tools);
    let toolset = Toolset::new(tools, Dialect::AnthropicStrict, &options);
    let definitions = toolset.definitions();
    let strict = definitions.iter().filter(|definition| definition["strict"] == json!(true));
    let details = toolset.reports().iter().map(|report| {
        let change = report.changes.iter().find(|change| change.keyword == "strict");
        change.map(|change| change.detail.clone())
    });
    (strict.map(|definition| definition["name"].as_str().unwrap().to_owned()).collect(), details.collect())
}

#[test]
fn if_all_tools_can_be_strict_there_is_no_choice() {
    let tools = [tool("a", 1, 12), tool("b", 0, 12)];
    assert_eq!(strict(&tools, &["b"]), (vec!["a".to_owned(), "b".to_owned()], vec![None, None]));
}

#[test]
fn tools_with_more_required_arguments_come_first() {
    let tools = [tool("none", 0, 20), tool("one", 1, 20), tool("two", 2, 20), tool("small", 0, 3)];
    let (names, details) = strict(&tools, &[]);
    assert_eq!(names, ["two", "small"]);
    let left_out = "sent with strict: false: with this tool, the request would have 40 optional properties in strict \
                    tools; the limit is 24, and tools that were used before or have more required arguments come first";
    let details: Vec<&str> = details.iter().map(|detail| detail.as_deref().unwrap()).collect();
    assert_eq!(
        details,
        [
            left_out.replace("40", "43").as_str(),
            left_out,
            "strict: true; not all tools can be strict, and this one was chosen because it has 2 required arguments",
            "strict: true; not all tools can be strict, and this one was chosen because it has 0 required arguments",
        ]
    );
}

#[test]
fn tools_that_were_used_come_first() {
    let tools: Vec<Tool> = (0..30).map(|number| tool(&format!("t{number}"), 1, 1)).collect();
    let (names, details) = strict(&tools, &["t29", "unknown", "t25"]);
    assert_eq!(names.len(), 20);
    assert_eq!(names[17..], ["t17", "t25", "t29"]);
    let used =
        "strict: true; not all tools can be strict, and this one was chosen because it was used before";
    assert_eq!(details[29].as_deref(), Some(used));
}

#[test]
fn a_tool_that_cannot_be_strict_takes_no_place() {
    let open = Tool::new("open", json!({"type": "object", "additionalProperties": true}));
    let mut tools = vec![open];
    tools.extend((0..20).map(|number| tool(&format!("t{number}"), 1, 0)));
    assert_eq!(strict(&tools, &["open"]).0.len(), 20);
}
