//! Truncates a result to a budget.

use serde_json::{Value, json};
use toolwire_contract::{Content, ResourceBody, ToolResult};

use super::StoredResultId;

/// The `_meta` field of a truncated result: the id of the complete one.
const TRUNCATED_KEY: &str = "toolwire/truncated";

/// Limits for the part of a result that is returned to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultBudget {
    /// The maximum for the text of all blocks together, and separately for structured content.
    pub max_text_chars: usize,
    /// The maximum for one image, sound or other binary, decoded.
    pub max_media_bytes: usize,
}

/// A result within its budget.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TruncatedResult {
    pub(crate) result: ToolResult,
    /// All text of the result, to be stored under the id in the truncation note; `None` if no text was
    /// truncated.
    pub(crate) full_text: Option<String>,
}

impl Default for ResultBudget {
    fn default() -> ResultBudget {
        // About 25,000 tokens, and the largest image that the strictest large provider accepts.
        ResultBudget { max_text_chars: 100_000, max_media_bytes: 5 << 20 }
    }
}

/// Truncates a result to a budget. Truncated text ends with a note that contains `id`.
///
/// The blocks of a result, joined with line breaks, are one text. Offsets into it mean the same in the note
/// and in the stored text. Blocks without text stay in place.
pub(crate) fn truncate_result(
    result: ToolResult,
    budget: &ResultBudget,
    id: &StoredResultId,
) -> TruncatedResult {
    let result = without_large_media(result, budget.max_media_bytes);
    let result = without_large_structure(result, budget.max_text_chars);
    let total = text_length(&result);
    if total <= budget.max_text_chars {
        return TruncatedResult { result, full_text: None };
    }
    let mut full_text = String::new();
    // Characters before the current block.
    let mut before = 0;
    let mut blocks: Vec<Content> = Vec::new();
    let mut is_cut = false;
    for mut block in result.content.unwrap_or_default() {
        let Some(text) = text_of(&block) else {
            blocks.push(block);
            continue;
        };
        if !full_text.is_empty() {
            full_text.push('\n');
            before += 1;
        }
        full_text.push_str(&text);
        if is_cut {
            continue;
        }
        let head = prefix(&text, budget.max_text_chars.saturating_sub(before));
        let included = before + head.chars().count();
        if head.len() == text.len() {
            before = included;
            blocks.push(block);
            continue;
        }
        is_cut = true;
        let head = format!("{head}{}", truncation_note(included, total, id));
        match &mut block {
            Content::Text { text, .. } => *text = head,
            Content::Resource { resource, .. } => resource.body = ResourceBody::Text(head),
            // Incomplete JSON would not be a valid block of its type.
            _ => block = Content::text(head),
        }
        blocks.push(block);
    }
    let mut result = ToolResult { content: Some(blocks), ..result };
    let meta = result.extra.entry("_meta").or_insert_with(|| json!({}));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert(TRUNCATED_KEY.to_owned(), json!(id.to_string()));
    }
    TruncatedResult { result, full_text: is_cut.then_some(full_text) }
}

/// Whether a result was truncated, and the rest of it can be read with `read_result`.
pub(crate) fn is_truncated(result: &ToolResult) -> bool {
    result.extra.get("_meta").is_some_and(|meta| meta.get(TRUNCATED_KEY).is_some())
}

fn truncation_note(included: usize, total: usize, id: &StoredResultId) -> String {
    format!(
        "\n[truncated: {included} of {total} characters; to read more, call read_result with {{\"id\": \"{id}\", \
         \"offset\": {included}}}]"
    )
}

/// Replaces binaries over the limit with notes, because a model cannot read half an image.
fn without_large_media(mut result: ToolResult, limit: usize) -> ToolResult {
    for block in result.content.iter_mut().flatten() {
        let (kind, data, uri) = match &*block {
            Content::Image { data, mime_type, .. } => (format!("image ({mime_type})"), data, None),
            Content::Audio { data, mime_type, .. } => (format!("audio ({mime_type})"), data, None),
            Content::Resource { resource, .. } => match &resource.body {
                ResourceBody::Blob(data) => {
                    let mime_type = resource.mime_type.as_deref().unwrap_or("unknown type");
                    (format!("resource ({mime_type})"), data, Some(&resource.uri))
                }
                ResourceBody::Text(_) => continue,
            },
            _ => continue,
        };
        // Four characters of base64 are three bytes.
        let size = data.len() / 4 * 3;
        if size > limit {
            let uri = uri.map(|uri| format!(" {}", prefix(uri, 500))).unwrap_or_default();
            let (size, limit) = (in_megabytes(size), in_megabytes(limit));
            *block = Content::text(format!(
                "[{}{uri} omitted: {size} exceeds the limit of {limit}]",
                prefix(&kind, 200)
            ));
        }
    }
    result
}

/// Removes structured content over the limit. Its JSON becomes a text block if the result has no text.
fn without_large_structure(mut result: ToolResult, limit: usize) -> ToolResult {
    let Some(structure) = &result.structured_content else { return result };
    let json = structure.to_string();
    if json.chars().count() <= limit {
        return result;
    }
    let has_text = result.blocks().iter().any(|block| matches!(block, Content::Text { .. }));
    if !has_text {
        result.content.get_or_insert_default().push(Content::text(json));
    }
    result.structured_content = None;
    result
}

/// Returns the text that a model reads of a block; `None` for binaries.
fn text_of(block: &Content) -> Option<std::borrow::Cow<'_, str>> {
    Some(match block {
        Content::Text { text, .. } => text.into(),
        Content::Resource { resource, .. } => match &resource.body {
            ResourceBody::Text(text) => text.into(),
            ResourceBody::Blob(_) => return None,
        },
        Content::Image { .. } | Content::Audio { .. } => return None,
        Content::ResourceLink(_) | Content::Other(_) => Value::from(block.clone()).to_string().into(),
    })
}

/// Counts the characters of all text, with a line break between blocks.
fn text_length(result: &ToolResult) -> usize {
    let texts = result.blocks().iter().filter_map(text_of);
    let lengths: Vec<usize> = texts.map(|text| text.chars().count()).collect();
    lengths.iter().sum::<usize>()
        + lengths.iter().skip_while(|length| **length == 0).count().saturating_sub(1)
}

/// Returns the first `max_chars` characters of a text.
fn prefix(text: &str, max_chars: usize) -> &str {
    text.char_indices().nth(max_chars).map_or(text, |(end, _)| &text[..end])
}

fn in_megabytes(bytes: usize) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: ResultBudget = ResultBudget { max_text_chars: 10, max_media_bytes: 30 };

    fn id() -> StoredResultId {
        StoredResultId::parse("r0123456789abcdef").expect("a valid id")
    }

    #[track_caller]
    fn check(result: Value, expected: Value, full_text: Option<&str>) {
        let result = ToolResult::try_from(result).expect("a valid result");
        let mut truncated = truncate_result(result, &BUDGET, &id());
        assert_eq!(is_truncated(&truncated.result), full_text.is_some());
        if let Some(Value::Object(meta)) = truncated.result.extra.get_mut("_meta") {
            meta.shift_remove(TRUNCATED_KEY);
            if meta.is_empty() {
                truncated.result.extra.shift_remove("_meta");
            }
        }
        assert_eq!(Value::from(truncated.result), expected);
        assert_eq!(truncated.full_text.as_deref(), full_text);
    }

    #[track_caller]
    fn check_unchanged(result: Value) {
        check(result.clone(), result, None);
    }

    fn note(included: usize, total: usize) -> String {
        truncation_note(included, total, &id())
    }

    #[test]
    fn the_note_explains_how_to_read_more() {
        assert_eq!(
            note(10, 12),
            "\n[truncated: 10 of 12 characters; to read more, call read_result with {\"id\": \"r0123456789abcdef\", \
             \"offset\": 10}]"
        );
    }

    fn text(text: impl Into<String>) -> Value {
        json!({"type": "text", "text": text.into()})
    }

    #[test]
    fn a_result_within_the_budget_is_unchanged() {
        check_unchanged(json!({}));
        check_unchanged(json!({"content": null, "isError": true}));
        check_unchanged(json!({"content": [text("0123456789")], "_meta": {"a": "b".repeat(50)}}));
        check_unchanged(json!({"content": [text("0123"), text("56789")]}));
        check_unchanged(json!({"content": [text("天気天気天気天気天気")]}));
        check_unchanged(json!({"content": [text("a")], "structuredContent": {"a": 1}}));
        check_unchanged(
            json!({"content": [{"type": "image", "data": "A".repeat(40), "mimeType": "image/png"}]}),
        );
        check_unchanged(json!({"resultType": "input_required", "inputRequests": {"a": "b".repeat(50)}}));
    }

    #[test]
    fn text_is_cut_between_characters_and_ends_with_a_note() {
        check(
            json!({"content": [{"type": "text", "text": "天気天気天気天気天気予報", "annotations": {"priority": 1}}], "isError": true}),
            json!({"content": [{"type": "text", "text": format!("天気天気天気天気天気{}", note(10, 12)), "annotations": {"priority": 1}}], "isError": true}),
            Some("天気天気天気天気天気予報"),
        );
    }

    #[test]
    fn the_budget_applies_to_all_blocks_together() {
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        check(
            json!({"content": [text("0123"), image, text("56789abc"), text("efg"), image]}),
            json!({"content": [text("0123"), image, text(format!("56789{}", note(10, 17))), image]}),
            Some("0123\n56789abc\nefg"),
        );
        check(
            json!({"content": [text("0123456789"), text("b")]}),
            json!({"content": [text("0123456789"), text(note(11, 12))]}),
            Some("0123456789\nb"),
        );
    }

    #[test]
    fn text_of_resources_and_unknown_blocks_counts() {
        check(
            json!({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "0123456789abc"}}]}),
            json!({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": format!("0123456789{}", note(10, 13))}}]}),
            Some("0123456789abc"),
        );
        check(
            json!({"content": [{"type": "new", "n": 1}]}),
            json!({"content": [text(format!("{}{}", r#"{"type":"n"#, note(10, 20)))]}),
            Some(r#"{"type":"new","n":1}"#),
        );
    }

    #[test]
    fn large_media_are_replaced_with_notes() {
        let data = "A".repeat(44);
        check(
            json!({"content": [{"type": "audio", "data": data, "mimeType": "audio/wav"}]}),
            json!({"content": [text(format!("[audio (au{}", note(10, 63)))]}),
            Some("[audio (audio/wav) omitted: 0.0 MB exceeds the limit of 0.0 MB]"),
        );
        let large = ResultBudget { max_text_chars: 1000, max_media_bytes: 1_000_000 };
        let blob = json!({"type": "resource", "resource": {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "A".repeat(2_800_000)}});
        let image = json!({"type": "image", "data": "A".repeat(2_000_000), "mimeType": "image/png"});
        let result = ToolResult::try_from(json!({"content": [blob, image]})).expect("a valid result");
        let notes = [
            "[resource (application/pdf) file:///a.pdf omitted: 2.1 MB exceeds the limit of 1.0 MB]",
            "[image (image/png) omitted: 1.5 MB exceeds the limit of 1.0 MB]",
        ];
        let truncated = truncate_result(result, &large, &id());
        assert_eq!(Value::from(truncated.result), json!({"content": [text(notes[0]), text(notes[1])]}));
        assert_eq!(truncated.full_text, None);
    }

    #[test]
    fn large_structured_content_is_replaced_with_text() {
        check(
            json!({"structuredContent": {"a": "0123456789"}}),
            json!({"content": [text(format!("{}{}", r#"{"a":"0123"#, note(10, 18)))]}),
            Some(r#"{"a":"0123456789"}"#),
        );
        check(
            json!({"content": [text("short")], "structuredContent": {"a": "0123456789"}}),
            json!({"content": [text("short")]}),
            None,
        );
    }

    #[test]
    fn any_text_is_cut_at_the_offset_in_the_note() {
        for total in 0..40usize {
            for first in 0..=total {
                let one: String = "aä天".chars().cycle().take(first).collect();
                let other: String = "bö気".chars().cycle().take(total - first).collect();
                let result = json!({"content": [text(one), text(other)]});
                let result = ToolResult::try_from(result).expect("a valid result");
                let TruncatedResult { result, full_text } = truncate_result(result, &BUDGET, &id());
                let Some(full_text) = full_text else { continue };
                let included: Vec<String> =
                    result.blocks().iter().filter_map(text_of).map(|text| text.into_owned()).collect();
                let included = included.join("\n");
                let (head, rest) = included.split_once("\n[truncated: ").expect("a note");
                let count: usize =
                    rest.split(' ').next().and_then(|n| n.parse().ok()).expect("a number in the note");
                let of: usize =
                    rest.split(' ').nth(2).and_then(|n| n.parse().ok()).expect("a number in the note");
                assert_eq!(of, full_text.chars().count());
                assert_eq!(full_text.chars().take(count).collect::<String>(), head.trim_start_matches('\n'));
            }
        }
    }
}
