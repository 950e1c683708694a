//! The content blocks of a Converse message, each by itself.
//!
//! Rules in `docs/providers.md`: `bedrock/blocks`, `bedrock/empty-content`, `bedrock/call-ids`,
//! `bedrock/tool-names`, `bedrock/arguments`, `bedrock/tool-results`, `bedrock/images`, `bedrock/documents`,
//! `bedrock/reasoning`.

use serde_json::Value;

use super::{check_keys, constraint, missing, reject, union_member};
use crate::provider::check::Rejection;
use crate::provider::json::{is_name, list, present, text};
use crate::provider::{media, opaque_token};

const CONTENT_BLOCKS: [&str; 12] = [
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

/// Checks a block. `path` counts from 0; `member_path` is the path for [`constraint`].
pub(super) fn check(path: &str, member_path: &str, role: &str, block: &Value) -> Result<(), Rejection> {
    let (kind, inner) = union_member(block, path, &CONTENT_BLOCKS)?;
    match (kind, role) {
        ("toolUse", "user") => {
            Err(reject(&format!("The toolUse block at {path} is only allowed in assistant messages.")))
        }
        ("toolResult", "assistant") => {
            Err(reject(&format!("The toolResult block at {path} is only allowed in user messages.")))
        }
        ("toolUse", _) => check_call(path, member_path, inner),
        ("toolResult", _) => check_result(path, member_path, inner),
        ("reasoningContent", _) => check_reasoning(path, inner),
        _ => check_content(path, member_path, kind, inner),
    }
}

fn check_content(path: &str, member_path: &str, kind: &str, inner: &Value) -> Result<(), Rejection> {
    match kind {
        "text" if inner.as_str().is_none_or(|text| text.trim().is_empty()) => Err(reject(&format!(
            "The text field in the ContentBlock object at {path} is blank. Add text to the text field, and try again."
        ))),
        "image" => check_image(path, member_path, inner),
        "document" => check_document(path, member_path, inner),
        _ => Ok(()),
    }
}

fn check_call(path: &str, member_path: &str, call: &Value) -> Result<(), Rejection> {
    check_keys(call, &format!("{path}.toolUse"), &["toolUseId", "name", "input", "type"])?;
    check_id(&format!("{member_path}.toolUse.toolUseId"), call)?;
    check_name(&format!("{member_path}.toolUse.name"), call)?;
    match call.get("input") {
        Some(Value::Object(_)) => Ok(()),
        None => Err(missing(&format!("{member_path}.toolUse.input"))),
        Some(_) => Err(reject(&format!(
            "The format of the value at {path}.toolUse.input is invalid. Provide a json object for the field and try again."
        ))),
    }
}

fn check_id(member_path: &str, value: &Value) -> Result<(), Rejection> {
    check_identifier(member_path, text(value, "toolUseId"), "_.:-")
}

pub(super) fn check_name(member_path: &str, value: &Value) -> Result<(), Rejection> {
    check_identifier(member_path, text(value, "name"), "_-")
}

fn check_identifier(member_path: &str, value: Option<&str>, extra: &str) -> Result<(), Rejection> {
    let value = value.ok_or_else(|| missing(member_path))?;
    if value.len() > 64 {
        return Err(constraint(value, member_path, "Member must have length less than or equal to 64"));
    }
    if !is_name(value, 64, extra) {
        let rule = format!("Member must satisfy regular expression pattern: [a-zA-Z0-9{extra}]+");
        return Err(constraint(value, member_path, &rule));
    }
    Ok(())
}

fn check_result(path: &str, member_path: &str, result: &Value) -> Result<(), Rejection> {
    let path = format!("{path}.toolResult");
    check_keys(result, &path, &["toolUseId", "content", "status", "type"])?;
    let member_path = format!("{member_path}.toolResult");
    check_id(&format!("{member_path}.toolUseId"), result)?;
    let status = text(result, "status");
    if let Some(status) = status.filter(|status| !["success", "error"].contains(status)) {
        let rule = "Member must satisfy enum value set: [success, error]";
        return Err(constraint(status, &format!("{member_path}.status"), rule));
    }
    if present(result, "content").is_none() {
        return Err(missing(&format!("{member_path}.content")));
    }
    let blocks = list(result, "content");
    if blocks.is_empty() && status == Some("error") {
        return Err(reject(&format!(
            "The content field at {path} cannot be empty when status value is error."
        )));
    }
    for (index, block) in blocks.iter().enumerate() {
        let path = format!("{path}.content.{index}");
        let member_path = format!("{member_path}.content.{}.member", index + 1);
        let (kind, inner) = union_member(block, &path, &RESULT_BLOCKS)?;
        if kind == "json" && !inner.is_object() {
            return Err(reject(&format!(
                "The format of the value at {path}.json is invalid. Provide a json object for the field and try again."
            )));
        }
        check_content(&path, &member_path, kind, inner)?;
    }
    Ok(())
}

fn check_image(path: &str, member_path: &str, image: &Value) -> Result<(), Rejection> {
    check_keys(image, &format!("{path}.image"), &["format", "source"])?;
    let format = text(image, "format").ok_or_else(|| missing(&format!("{member_path}.image.format")))?;
    if !["png", "jpeg", "gif", "webp"].contains(&format) {
        let rule = "Member must satisfy enum value set: [png, jpeg, gif, webp]";
        return Err(constraint(format, &format!("{member_path}.image.format"), rule));
    }
    let source = image.get("source").ok_or_else(|| missing(&format!("{member_path}.image.source")))?;
    let (kind, inner) = union_member(source, &format!("{path}.image.source"), &["bytes", "s3Location"])?;
    if kind != "bytes" {
        return Ok(());
    }
    let bytes = inner.as_str().and_then(media::decode).ok_or_else(|| {
        super::error(400, "SerializationException", &format!("'{path}.image.source.bytes' is not base64"))
    })?;
    let expected = format!("image/{format}");
    if media::media_type(&bytes) == Some(expected.as_str()) {
        return Ok(());
    }
    Err(reject(&format!(
        "The model returned the following errors: {path}.image.source.base64.data: Image does not match the provided media type \
         {expected}"
    )))
}

fn check_document(path: &str, member_path: &str, document: &Value) -> Result<(), Rejection> {
    check_keys(document, &format!("{path}.document"), &["format", "name", "source", "context", "citations"])?;
    let formats = ["pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"];
    if let Some(format) = text(document, "format").filter(|format| !formats.contains(format)) {
        let rule = format!("Member must satisfy enum value set: [{}]", formats.join(", "));
        return Err(constraint(format, &format!("{member_path}.document.format"), &rule));
    }
    let name = text(document, "name").ok_or_else(|| missing(&format!("{member_path}.document.name")))?;
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || " \t\n-()[]".contains(character);
    if name.is_empty() || !name.chars().all(is_allowed) || name.contains("  ") {
        return Err(reject(
            "The document file name can only contain alphanumeric characters, whitespace characters, hyphens, parentheses, and \
             square brackets. The name can't contain more than one consecutive whitespace character.",
        ));
    }
    present(document, "source").map(drop).ok_or_else(|| missing(&format!("{member_path}.document.source")))
}

fn check_reasoning(path: &str, reasoning: &Value) -> Result<(), Rejection> {
    let (kind, inner) =
        union_member(reasoning, &format!("{path}.reasoningContent"), &["reasoningText", "redactedContent"])?;
    let is_authentic = if kind == "reasoningText" {
        check_keys(inner, &format!("{path}.reasoningContent.reasoningText"), &["text", "signature"])?;
        let thinking = text(inner, "text").unwrap_or_default();
        text(inner, "signature")
            .is_some_and(|signature| opaque_token::is_thinking_signature(thinking, signature))
    } else {
        inner.as_str().is_some_and(|data| opaque_token::open("redacted", data).is_some())
    };
    if is_authentic {
        return Ok(());
    }
    let problem = if kind == "reasoningText" {
        "Invalid `signature` in `thinking` block"
    } else {
        "Invalid `data` in `redacted_thinking` block"
    };
    Err(reject(&format!("The model returned the following errors: {path}: {problem}")))
}
