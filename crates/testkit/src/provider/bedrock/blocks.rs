//! The blocks of a Converse message, each by itself.
//!
//! | rule | source |
//! |---|---|
//! | fields and unions | 3.6 [S botocore] |
//! | no blank text; an error result is not empty | 6.2 [?], gh:aws-samples/sample-multi-agent-orchestration-chat-on-agentcore#15 |
//! | ids: 1 to 64 of `[a-zA-Z0-9_.:-]`; names: 1 to 64 of `[a-zA-Z0-9_-]` | 3.6, 6.1 |
//! | input and `json` are objects | 3.6 |
//! | four kinds of image that are what they say | 2.3, 3.6, 6.2 |
//! | thinking comes back with the signature it was given | 3.4: Claude's own rule, told in Bedrock's frame |

use serde_json::Value;

use super::{constraint, known, member, missing, refuse};
use crate::provider::json::{is_name, list, present, text};
use crate::provider::judge::Refusal;
use crate::provider::{media, seal};

const BLOCKS: [&str; 12] = [
    "text",
    "image",
    "document",
    "video",
    "audio",
    "toolUse",
    "toolResult",
    "guardContent",
    "cachePoint",
    "reasoningContent",
    "citationsContent",
    "searchResult",
];
const RESULT_BLOCKS: [&str; 6] = ["json", "text", "image", "document", "video", "searchResult"];

/// `way` counts as people do, `aws` as the service model does.
pub(super) fn judge(way: &str, aws: &str, role: &str, block: &Value) -> Result<(), Refusal> {
    let (kind, inner) = member(block, way, &BLOCKS)?;
    match (kind, role) {
        ("toolUse", "user") => {
            Err(refuse(&format!("The toolUse block at {way} is only allowed in assistant messages.")))
        }
        ("toolResult", "assistant") => {
            Err(refuse(&format!("The toolResult block at {way} is only allowed in user messages.")))
        }
        ("toolUse", _) => call(way, aws, inner),
        ("toolResult", _) => result(way, aws, inner),
        ("reasoningContent", _) => reasoning(way, inner),
        _ => content(way, aws, kind, inner),
    }
}

fn content(way: &str, aws: &str, kind: &str, inner: &Value) -> Result<(), Refusal> {
    match kind {
        "text" if inner.as_str().is_none_or(|text| text.trim().is_empty()) => Err(refuse(&format!(
            "The text field in the ContentBlock object at {way} is blank. Add text to the text field, and try again."
        ))),
        "image" => image(way, aws, inner),
        "document" => document(way, aws, inner),
        _ => Ok(()),
    }
}

fn call(way: &str, aws: &str, call: &Value) -> Result<(), Refusal> {
    known(call, &format!("{way}.toolUse"), &["toolUseId", "name", "input", "type"])?;
    id(&format!("{aws}.toolUse.toolUseId"), call)?;
    name(&format!("{aws}.toolUse.name"), call)?;
    match call.get("input") {
        Some(Value::Object(_)) => Ok(()),
        None => Err(missing(&format!("{aws}.toolUse.input"))),
        Some(_) => Err(refuse(&format!(
            "The format of the value at {way}.toolUse.input is invalid. Provide a json object for the field and try again."
        ))),
    }
}

fn id(aws: &str, value: &Value) -> Result<(), Refusal> {
    let id = text(value, "toolUseId").ok_or_else(|| missing(aws))?;
    if id.len() > 64 {
        return Err(constraint(id, aws, "Member must have length less than or equal to 64"));
    }
    if !is_name(id, 64, "_.:-") {
        let rule = "Member must satisfy regular expression pattern: [a-zA-Z0-9_.:-]+";
        return Err(constraint(id, aws, rule));
    }
    Ok(())
}

pub(super) fn name(aws: &str, value: &Value) -> Result<(), Refusal> {
    let name = text(value, "name").ok_or_else(|| missing(aws))?;
    if name.len() > 64 {
        return Err(constraint(name, aws, "Member must have length less than or equal to 64"));
    }
    if !is_name(name, 64, "_-") {
        return Err(constraint(name, aws, "Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+"));
    }
    Ok(())
}

fn result(way: &str, aws: &str, result: &Value) -> Result<(), Refusal> {
    let way = format!("{way}.toolResult");
    known(result, &way, &["toolUseId", "content", "status", "type"])?;
    let aws = format!("{aws}.toolResult");
    id(&format!("{aws}.toolUseId"), result)?;
    let status = text(result, "status");
    if let Some(status) = status.filter(|status| !["success", "error"].contains(status)) {
        let rule = "Member must satisfy enum value set: [success, error]";
        return Err(constraint(status, &format!("{aws}.status"), rule));
    }
    if present(result, "content").is_none() {
        return Err(missing(&format!("{aws}.content")));
    }
    let blocks = list(result, "content");
    if blocks.is_empty() && status == Some("error") {
        return Err(refuse(&format!(
            "The content field at {way} cannot be empty when status value is error."
        )));
    }
    for (index, block) in blocks.iter().enumerate() {
        let way = format!("{way}.content.{index}");
        let aws = format!("{aws}.content.{}.member", index + 1);
        let (kind, inner) = member(block, &way, &RESULT_BLOCKS)?;
        if kind == "json" && !inner.is_object() {
            return Err(refuse(&format!(
                "The format of the value at {way}.json is invalid. Provide a json object for the field and try again."
            )));
        }
        content(&way, &aws, kind, inner)?;
    }
    Ok(())
}

fn image(way: &str, aws: &str, image: &Value) -> Result<(), Refusal> {
    known(image, &format!("{way}.image"), &["format", "source"])?;
    let format = text(image, "format").ok_or_else(|| missing(&format!("{aws}.image.format")))?;
    if !["png", "jpeg", "gif", "webp"].contains(&format) {
        let rule = "Member must satisfy enum value set: [png, jpeg, gif, webp]";
        return Err(constraint(format, &format!("{aws}.image.format"), rule));
    }
    let source = image.get("source").ok_or_else(|| missing(&format!("{aws}.image.source")))?;
    let (kind, inner) = member(source, &format!("{way}.image.source"), &["bytes", "s3Location"])?;
    if kind != "bytes" {
        return Ok(());
    }
    let bytes = inner.as_str().and_then(media::decode).ok_or_else(|| {
        super::error(400, "SerializationException", &format!("'{way}.image.source.bytes' is not base64"))
    })?;
    let expected = format!("image/{format}");
    if media::kind(&bytes) == Some(expected.as_str()) {
        return Ok(());
    }
    Err(refuse(&format!(
        "The model returned the following errors: {way}.image.source.base64.data: Image does not match the provided media type \
         {expected}"
    )))
}

fn document(way: &str, aws: &str, document: &Value) -> Result<(), Refusal> {
    known(document, &format!("{way}.document"), &["format", "name", "source", "context", "citations"])?;
    let formats = ["pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"];
    if let Some(format) = text(document, "format").filter(|format| !formats.contains(format)) {
        let rule = format!("Member must satisfy enum value set: [{}]", formats.join(", "));
        return Err(constraint(format, &format!("{aws}.document.format"), &rule));
    }
    let name = text(document, "name").ok_or_else(|| missing(&format!("{aws}.document.name")))?;
    let fits = |character: char| character.is_ascii_alphanumeric() || " \t\n-()[]".contains(character);
    if name.is_empty() || !name.chars().all(fits) || name.contains("  ") {
        return Err(refuse(
            "The document file name can only contain alphanumeric characters, whitespace characters, hyphens, parentheses, and \
             square brackets. The name can't contain more than one consecutive whitespace character.",
        ));
    }
    present(document, "source").map(drop).ok_or_else(|| missing(&format!("{aws}.document.source")))
}

fn reasoning(way: &str, reasoning: &Value) -> Result<(), Refusal> {
    let (kind, inner) =
        member(reasoning, &format!("{way}.reasoningContent"), &["reasoningText", "redactedContent"])?;
    let is_ours = if kind == "reasoningText" {
        known(inner, &format!("{way}.reasoningContent.reasoningText"), &["text", "signature"])?;
        let thought = text(inner, "text").unwrap_or_default();
        let signature = text(inner, "signature").and_then(|signature| seal::unseal("thinking", signature));
        signature == Some(seal::digest("thought", thought))
    } else {
        inner.as_str().is_some_and(|data| seal::unseal("redacted", data).is_some())
    };
    if is_ours {
        return Ok(());
    }
    let what = if kind == "reasoningText" {
        "Invalid `signature` in `thinking` block"
    } else {
        "Invalid `data` in `redacted_thinking` block"
    };
    Err(refuse(&format!("The model returned the following errors: {way}: {what}")))
}
