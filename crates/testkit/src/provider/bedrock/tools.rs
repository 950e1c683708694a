//! The tools of a Converse request.
//!
//! | rule | source |
//! |---|---|
//! | at least one tool; fields; names; a description is not empty | 2.1, 3.6 [S botocore] |
//! | the root of a schema is an object; `properties` is one | 3.6, 8 Bedrock |
//! | `toolChoice`: `auto`, `any`, `tool`; there is no "none" | 3.6 |

use serde_json::Value;

use super::{blocks, constraint, known, member, missing, refuse};
use crate::provider::json::{list, present, text};
use crate::provider::judge::Refusal;

pub(super) fn judge(body: &Value) -> Result<(), Refusal> {
    let Some(config) = present(body, "toolConfig") else { return Ok(()) };
    known(config, "toolConfig", &["tools", "toolChoice"])?;
    if present(config, "tools").is_none() {
        return Err(missing("toolConfig.tools"));
    }
    let tools = list(config, "tools");
    if tools.is_empty() {
        let rule = "Member must have length greater than or equal to 1";
        return Err(constraint("[]", "toolConfig.tools", rule));
    }
    for (index, tool) in tools.iter().enumerate() {
        let way = format!("toolConfig.tools.{index}");
        let (kind, inner) = member(tool, &way, &["toolSpec", "systemTool", "cachePoint"])?;
        if kind == "toolSpec" {
            specification(&way, &format!("toolConfig.tools.{}.member.toolSpec", index + 1), inner)?;
        }
    }
    let Some(choice) = present(config, "toolChoice") else { return Ok(()) };
    let (kind, inner) = member(choice, "toolConfig.toolChoice", &["auto", "any", "tool"])?;
    match kind {
        "tool" => {
            known(inner, "toolConfig.toolChoice.tool", &["name"])?;
            blocks::name("toolConfig.toolChoice.tool.name", inner)
        }
        _ => known(inner, &format!("toolConfig.toolChoice.{kind}"), &[]),
    }
}

fn specification(way: &str, aws: &str, tool: &Value) -> Result<(), Refusal> {
    known(tool, &format!("{way}.toolSpec"), &["name", "description", "inputSchema", "strict"])?;
    blocks::name(&format!("{aws}.name"), tool)?;
    if text(tool, "description") == Some("") {
        let rule = "Member must have length greater than or equal to 1";
        return Err(constraint("", &format!("{aws}.description"), rule));
    }
    let input = tool.get("inputSchema").ok_or_else(|| missing(&format!("{aws}.inputSchema")))?;
    let way = format!("{way}.toolSpec.inputSchema");
    let (_, schema) = member(input, &way, &["json"])?;
    if text(schema, "type") != Some("object") {
        return Err(refuse(&format!("The value at {way}.json.type must be one of the following: object.")));
    }
    match schema.get("properties") {
        None | Some(Value::Object(_)) => Ok(()),
        Some(other) => {
            let found = crate::provider::json::kind(other);
            Err(refuse(&format!(
                "The json schema definition at {way} is invalid. Fix the following errors and try again: $.properties: {found} \
                 found, object expected"
            )))
        }
    }
}
