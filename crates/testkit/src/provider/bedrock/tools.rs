//! The tools of a Converse request.
//!
//! Rules in `docs/providers.md`: `bedrock/tool-config`, `bedrock/tool-definition`, `bedrock/tool-names`,
//! `bedrock/schema`, `bedrock/tool-choice`.

use serde_json::Value;

use super::{blocks, check_keys, constraint, missing, reject, union_member};
use crate::provider::check::Rejection;
use crate::provider::json::{list, present, text, type_name};

pub(super) fn check(body: &Value) -> Result<(), Rejection> {
    let Some(config) = present(body, "toolConfig") else { return Ok(()) };
    check_keys(config, "toolConfig", &["tools", "toolChoice"])?;
    if present(config, "tools").is_none() {
        return Err(missing("toolConfig.tools"));
    }
    let tools = list(config, "tools");
    if tools.is_empty() {
        let rule = "Member must have length greater than or equal to 1";
        return Err(constraint("[]", "toolConfig.tools", rule));
    }
    for (index, tool) in tools.iter().enumerate() {
        let path = format!("toolConfig.tools.{index}");
        let (kind, inner) = union_member(tool, &path, &["toolSpec", "systemTool", "cachePoint"])?;
        if kind == "toolSpec" {
            check_tool(&path, &format!("toolConfig.tools.{}.member.toolSpec", index + 1), inner)?;
        }
    }
    let Some(choice) = present(config, "toolChoice") else { return Ok(()) };
    let (kind, inner) = union_member(choice, "toolConfig.toolChoice", &["auto", "any", "tool"])?;
    match kind {
        "tool" => {
            check_keys(inner, "toolConfig.toolChoice.tool", &["name"])?;
            blocks::check_name("toolConfig.toolChoice.tool.name", inner)
        }
        _ => check_keys(inner, &format!("toolConfig.toolChoice.{kind}"), &[]),
    }
}

fn check_tool(path: &str, member_path: &str, tool: &Value) -> Result<(), Rejection> {
    check_keys(tool, &format!("{path}.toolSpec"), &["name", "description", "inputSchema", "strict"])?;
    blocks::check_name(&format!("{member_path}.name"), tool)?;
    if text(tool, "description") == Some("") {
        let rule = "Member must have length greater than or equal to 1";
        return Err(constraint("", &format!("{member_path}.description"), rule));
    }
    let input = tool.get("inputSchema").ok_or_else(|| missing(&format!("{member_path}.inputSchema")))?;
    let path = format!("{path}.toolSpec.inputSchema");
    let (_, schema) = union_member(input, &path, &["json"])?;
    if text(schema, "type") != Some("object") {
        return Err(reject(&format!("The value at {path}.json.type must be one of the following: object.")));
    }
    match schema.get("properties") {
        None | Some(Value::Object(_)) => Ok(()),
        Some(other) => {
            let found = type_name(other);
            Err(reject(&format!(
                "The json schema definition at {path} is invalid. Fix the following errors and try again: $.properties: {found} \
                 found, object expected"
            )))
        }
    }
}
