//! Writes results as Chat Completions messages.

use serde_json::{Value, json};

use super::request::attachment;
use crate::Dialect;
use crate::result::{ContentLimits, ContentPart, Media, ResultTurn};

const MEGABYTE: usize = 1_000_000;
const WITH_IMAGES: ContentLimits = ContentLimits {
    image_types: &["image/png", "image/jpeg", "image/gif", "image/webp"],
    max_image_bytes: 20 * MEGABYTE,
    ..ContentLimits::TEXT
};

/// Returns the content that a result accepts. Images of results are in a user message, so its limits apply.
pub(super) fn result_limits(dialect: Dialect) -> ContentLimits {
    match dialect {
        // Images are rejected.
        Dialect::DeepSeek => ContentLimits::TEXT,
        Dialect::Xai => ContentLimits { image_types: &["image/png", "image/jpeg"], ..WITH_IMAGES },
        Dialect::Groq => ContentLimits { max_image_bytes: 3 * MEGABYTE, ..WITH_IMAGES },
        Dialect::Mistral => ContentLimits { max_image_bytes: 10 * MEGABYTE, ..WITH_IMAGES },
        Dialect::Dial => {
            ContentLimits { accepts_any_media: true, max_file_bytes: 20 * MEGABYTE, ..WITH_IMAGES }
        }
        _ => WITH_IMAGES,
    }
}

/// Writes one tool message per call, always with a string: some servers split an array of parts. Tool
/// messages cannot contain images, so all images follow in one user message after the last tool message.
pub(super) fn write_results(turn: &ResultTurn<'_>) -> Vec<Value> {
    let dialect = turn.dialect;
    let has_attachments = dialect == Dialect::Dial;
    let location = if has_attachments { "attached" } else { "in the next user message" };
    let mut messages = Vec::with_capacity(turn.outcomes.len() + 1);
    let mut images = Vec::new();
    for result in turn.prepare(result_limits(dialect)) {
        let text = result.texts_with_error(location).join("\n");
        let mut message = json!({"role": "tool", "tool_call_id": result.id});
        if dialect == Dialect::Mistral {
            message["name"] = json!(result.call.name);
        }
        message["content"] = json!(text);
        if has_attachments {
            let attachments: Vec<Value> = result.media().map(attachment).collect();
            if !attachments.is_empty() {
                message["custom_content"] = json!({"attachments": attachments});
            }
        }
        for (label, part) in result.separate_media() {
            let image = match part {
                ContentPart::Image(media) if !has_attachments => image_part(media),
                ContentPart::Native(image) => image.clone(),
                _ => continue,
            };
            images.push(json!({"type": "text", "text": label}));
            images.push(image);
        }
        messages.push(message);
    }
    if !images.is_empty() {
        messages.push(json!({"role": "user", "content": images}));
    }
    messages
}

pub(super) fn image_part(media: &Media) -> Value {
    let mut part = json!({"type": "image_url", "image_url": {"url": media.data_url()}});
    if let Some(detail) = &media.detail {
        part["image_url"]["detail"] = json!(detail);
    }
    part
}
