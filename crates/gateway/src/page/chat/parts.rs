//! Parts of conversations: exports, texts, results and media.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, HeaderValue};
use toolwire_contract::conversations::{ConversationId, Entry};
use toolwire_contract::{Block, Content, ResourceBody, ToolResult};
use toolwire_page::chat;
use toolwire_page::result::safe_media_type;

use super::super::Context;
use super::super::failure::PageFailure;
use super::super::reply::Reply;
use super::super::request::{Format, PageRequest};
use super::active::store_failure;
use super::{input, view};

/// Prevents scripts in a media file from running when a browser opens it as a page.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");

/// The number of messages after one with calls that are searched for their results.
const MAX_FOLLOWING: usize = 200;

/// Returns a conversation: its page, or an export.
pub(super) async fn conversation(
    context: &Context<'_>,
    request: &PageRequest,
    id: &ConversationId,
) -> Result<Reply, PageFailure> {
    let store = &context.page.parts.conversations;
    let (media_type, text, extension) = match request.format {
        Format::Html => return view::open(context, request, id).await,
        Format::Json => {
            let text = store.export(id).await.map_err(store_failure)?;
            ("application/json", text, "json")
        }
        Format::Markdown => {
            let transcript = store.load(id, 0).await.map_err(store_failure)?;
            let text = chat::to_markdown(&transcript, toolwire_agent::run::is_summary);
            ("text/markdown; charset=utf-8", text, "md")
        }
    };
    let name = format!("attachment; filename=\"chat-{id}.{extension}\"");
    let name = HeaderValue::from_str(&name).unwrap_or(HeaderValue::from_static("attachment"));
    Ok(Reply::data(media_type, text).with_header(CONTENT_DISPOSITION, name))
}

/// Returns the text of a message as it was written.
pub(super) async fn text(
    context: &Context<'_>,
    id: &ConversationId,
    position: &str,
) -> Result<Reply, PageFailure> {
    let entries = entries(context, id, position, 1).await?;
    let text = entries.first().map(|entry| input::text_of(&entry.message)).unwrap_or_default();
    Ok(Reply::data("text/plain; charset=utf-8", text))
}

/// Returns a part of the result of a call: `result`, as JSON, or `media-2`, a block of its content.
pub(super) async fn call(
    context: &Context<'_>,
    id: &ConversationId,
    call: &str,
    part: &str,
) -> Result<Reply, PageFailure> {
    let unknown = || PageFailure::not_found("there is no such result");
    let (message, position) = call.split_once('-').ok_or_else(unknown)?;
    let position: usize = position.parse().map_err(|_| unknown())?;
    let entries = entries(context, id, message, 1 + MAX_FOLLOWING).await?;
    let (entry, following) = entries.split_first().ok_or_else(unknown)?;
    let calls: Vec<_> = entry.message.calls().collect();
    let result = view::results(&calls, following).get(position).copied().flatten().ok_or_else(unknown)?;
    match part.strip_prefix("media-") {
        None if part == "result" => Ok(json(result)),
        None => Err(unknown()),
        Some(block) => {
            let block = block.parse().ok().and_then(|block: usize| result.blocks().get(block));
            media_of(block.ok_or_else(unknown)?)
        }
    }
}

fn json(result: &ToolResult) -> Reply {
    let attachment = HeaderValue::from_static("attachment; filename=\"result.json\"");
    Reply::json(serde_json::Value::from(result.clone())).with_header(CONTENT_DISPOSITION, attachment)
}

/// Returns an image or audio of a message.
pub(super) async fn media(
    context: &Context<'_>,
    id: &ConversationId,
    position: &str,
    block: &str,
) -> Result<Reply, PageFailure> {
    let unknown = || PageFailure::not_found("the message has no such image or audio");
    let entries = entries(context, id, position, 1).await?;
    let content = entries.first().map(|entry| &entry.message.content).ok_or_else(unknown)?;
    match block.parse().ok().and_then(|block: usize| content.get(block)) {
        Some(Block::Content(content)) => media_of(content),
        _ => Err(unknown()),
    }
}

fn media_of(content: &Content) -> Result<Reply, PageFailure> {
    let unknown = || PageFailure::not_found("the page does not display images or audio of this type");
    let (data, mime_type) = match content {
        Content::Image { data, mime_type, .. } | Content::Audio { data, mime_type, .. } => {
            (data, mime_type.as_str())
        }
        Content::Resource { resource, .. } => match &resource.body {
            ResourceBody::Blob(data) => (data, resource.mime_type.as_deref().unwrap_or_default()),
            ResourceBody::Text(_) => return Err(unknown()),
        },
        _ => return Err(unknown()),
    };
    let media_type = safe_media_type(mime_type).ok_or_else(unknown)?;
    let bytes = BASE64_STANDARD.decode(data).map_err(|_| PageFailure::not_found("the data is not base64"))?;
    Ok(Reply::data(media_type, bytes)
        .with_header(CONTENT_SECURITY_POLICY, SANDBOX)
        .with_header(CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600, immutable")))
}

async fn entries(
    context: &Context<'_>,
    id: &ConversationId,
    position: &str,
    limit: usize,
) -> Result<Vec<Entry>, PageFailure> {
    let position: u64 = position.parse().ok().filter(|position| *position > 0).unwrap_or(u64::MAX);
    let store = &context.page.parts.conversations;
    Ok(store.load_range(id, position - 1, limit).await.map_err(store_failure)?.entries)
}
