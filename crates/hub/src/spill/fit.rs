//! What of a result is handed on, and what is kept aside.

use serde_json::Value;
use toolwire_contract::{Content, ResourceBody, ToolResult};

use super::SpillId;

/// How much of a result is handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Characters of text over all blocks, and again of structured content.
    pub text: usize,
    /// Bytes of one image, sound or other binary, decoded.
    pub media: usize,
}

/// A result within its budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    pub result: ToolResult,
    /// All text of the result, to be kept under the id that the mark names; `None` when nothing was cut.
    pub whole: Option<String>,
}

impl Default for Budget {
    fn default() -> Budget {
        // About 25,000 tokens; and the image size that the strictest large provider takes.
        Budget { text: 100_000, media: 5 << 20 }
    }
}

/// Fits a result to a budget; text that is cut says so and names `id`.
///
/// All text of the result, block after block with a line break between, is one text: its beginning is handed on, and offsets
/// into it mean the same in the mark and in what is kept. What holds no text stays where it stands.
pub fn fit(result: ToolResult, budget: &Budget, id: &SpillId) -> Fitted {
    let result = without_large_media(result, budget.media);
    let result = without_large_structure(result, budget.text);
    let total = text_length(&result);
    if total <= budget.text {
        return Fitted { result, whole: None };
    }
    let mut whole = String::new();
    // Characters before the block at hand.
    let mut before = 0;
    let mut blocks: Vec<Content> = Vec::new();
    let mut is_cut = false;
    for mut block in result.content.unwrap_or_default() {
        let Some(text) = text_of(&block) else {
            blocks.push(block);
            continue;
        };
        if !whole.is_empty() {
            whole.push('\n');
            before += 1;
        }
        whole.push_str(&text);
        if is_cut {
            continue;
        }
        let head = prefix(&text, budget.text.saturating_sub(before));
        let shown = before + head.chars().count();
        if head.len() == text.len() {
            before = shown;
            blocks.push(block);
            continue;
        }
        is_cut = true;
        let mark = format!(
            "\n[cut here: {shown} of {total} characters are shown; to read on, call read_result with {{\"id\": \"{id}\", \"offset\": {shown}}}]"
        );
        let head = format!("{head}{mark}");
        match &mut block {
            Content::Text { text, .. } => *text = head,
            Content::Resource { resource, .. } => resource.body = ResourceBody::Text(head),
            // Half of its JSON is no block of its kind.
            _ => block = Content::text(head),
        }
        blocks.push(block);
    }
    Fitted { result: ToolResult { content: Some(blocks), ..result }, whole: is_cut.then_some(whole) }
}

/// Binaries over the limit become notes: no model reads half an image.
fn without_large_media(mut result: ToolResult, limit: usize) -> ToolResult {
    for block in result.content.iter_mut().flatten() {
        let (what, data, place) = match &*block {
            Content::Image { data, mime_type, .. } => (format!("image ({mime_type})"), data, None),
            Content::Audio { data, mime_type, .. } => (format!("audio ({mime_type})"), data, None),
            Content::Resource { resource, .. } => match &resource.body {
                ResourceBody::Blob(data) => {
                    let kind = resource.mime_type.as_deref().unwrap_or("unknown type");
                    (format!("resource ({kind})"), data, Some(&resource.uri))
                }
                ResourceBody::Text(_) => continue,
            },
            _ => continue,
        };
        // Four characters of base64 are three bytes.
        let size = data.len() / 4 * 3;
        if size > limit {
            let place = place.map(|uri| format!(" {}", prefix(uri, 500))).unwrap_or_default();
            let (size, limit) = (in_megabytes(size), in_megabytes(limit));
            *block = Content::text(format!(
                "[{}{place} left out: {size} is more than the {limit} that can be handed on]",
                prefix(&what, 200)
            ));
        }
    }
    result
}

/// Structured content over the budget goes; its JSON takes its place as text if there is no text that says the same.
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

/// The text that a model reads of a block; `None` for binaries.
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

/// Characters of all text, with a line break between blocks.
fn text_length(result: &ToolResult) -> usize {
    let texts = result.blocks().iter().filter_map(text_of);
    let lengths: Vec<usize> = texts.map(|text| text.chars().count()).collect();
    lengths.iter().sum::<usize>()
        + lengths.iter().skip_while(|length| **length == 0).count().saturating_sub(1)
}

/// The first `characters` of a text.
fn prefix(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

fn in_megabytes(bytes: usize) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BUDGET: Budget = Budget { text: 10, media: 30 };

    fn id() -> SpillId {
        SpillId::parse("r0123456789abcdef").expect("it is an id")
    }

    #[track_caller]
    fn check(result: Value, expected: Value, whole: Option<&str>) {
        let result = ToolResult::try_from(result).expect("the case is a result");
        let fitted = fit(result, &BUDGET, &id());
        assert_eq!(Value::from(fitted.result), expected);
        assert_eq!(fitted.whole.as_deref(), whole);
    }

    #[track_caller]
    fn check_untouched(result: Value) {
        check(result.clone(), result, None);
    }

    fn mark(shown: usize, total: usize) -> String {
        format!(
            "\n[cut here: {shown} of {total} characters are shown; to read on, call read_result with {{\"id\": \"r0123456789abcdef\", \"offset\": {shown}}}]"
        )
    }

    fn text(text: impl Into<String>) -> Value {
        json!({"type": "text", "text": text.into()})
    }

    #[test]
    fn what_fits_is_not_touched() {
        check_untouched(json!({}));
        check_untouched(json!({"content": null, "isError": true}));
        check_untouched(json!({"content": [text("0123456789")], "_meta": {"a": "b".repeat(50)}}));
        check_untouched(json!({"content": [text("0123"), text("56789")]}));
        check_untouched(json!({"content": [text("天気天気天気天気天気")]}));
        check_untouched(json!({"content": [text("a")], "structuredContent": {"a": 1}}));
        check_untouched(
            json!({"content": [{"type": "image", "data": "A".repeat(40), "mimeType": "image/png"}]}),
        );
        check_untouched(json!({"resultType": "input_required", "inputRequests": {"a": "b".repeat(50)}}));
    }

    #[test]
    fn text_is_cut_between_characters_and_says_so() {
        check(
            json!({"content": [{"type": "text", "text": "天気天気天気天気天気予報", "annotations": {"priority": 1}}], "isError": true}),
            json!({"content": [{"type": "text", "text": format!("天気天気天気天気天気{}", mark(10, 12)), "annotations": {"priority": 1}}], "isError": true}),
            Some("天気天気天気天気天気予報"),
        );
    }

    #[test]
    fn the_budget_is_for_all_blocks_together() {
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        check(
            json!({"content": [text("0123"), image, text("56789abc"), text("efg"), image]}),
            json!({"content": [text("0123"), image, text(format!("56789{}", mark(10, 17))), image]}),
            Some("0123\n56789abc\nefg"),
        );
        check(
            json!({"content": [text("0123456789"), text("b")]}),
            json!({"content": [text("0123456789"), text(mark(11, 12))]}),
            Some("0123456789\nb"),
        );
    }

    #[test]
    fn text_of_resources_and_unknown_blocks_counts_too() {
        check(
            json!({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "0123456789abc"}}]}),
            json!({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": format!("0123456789{}", mark(10, 13))}}]}),
            Some("0123456789abc"),
        );
        check(
            json!({"content": [{"type": "new", "n": 1}]}),
            json!({"content": [text(format!("{}{}", r#"{"type":"n"#, mark(10, 20)))]}),
            Some(r#"{"type":"new","n":1}"#),
        );
    }

    #[test]
    fn large_media_become_notes() {
        let data = "A".repeat(44);
        check(
            json!({"content": [{"type": "audio", "data": data, "mimeType": "audio/wav"}]}),
            json!({"content": [text(format!("[audio (au{}", mark(10, 82)))]}),
            Some("[audio (audio/wav) left out: 0.0 MB is more than the 0.0 MB that can be handed on]"),
        );
        let roomy = Budget { text: 1000, media: 1_000_000 };
        let blob = json!({"type": "resource", "resource": {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "A".repeat(2_800_000)}});
        let image = json!({"type": "image", "data": "A".repeat(2_000_000), "mimeType": "image/png"});
        let result = ToolResult::try_from(json!({"content": [blob, image]})).expect("it is a result");
        let notes = [
            "[resource (application/pdf) file:///a.pdf left out: 2.1 MB is more than the 1.0 MB that can be handed on]",
            "[image (image/png) left out: 1.5 MB is more than the 1.0 MB that can be handed on]",
        ];
        let fitted = fit(result, &roomy, &id());
        assert_eq!(Value::from(fitted.result), json!({"content": [text(notes[0]), text(notes[1])]}));
        assert_eq!(fitted.whole, None);
    }

    #[test]
    fn large_structured_content_gives_way_to_text() {
        check(
            json!({"structuredContent": {"a": "0123456789"}}),
            json!({"content": [text(format!("{}{}", r#"{"a":"0123"#, mark(10, 18)))]}),
            Some(r#"{"a":"0123456789"}"#),
        );
        check(
            json!({"content": [text("short")], "structuredContent": {"a": "0123456789"}}),
            json!({"content": [text("short")]}),
            None,
        );
    }

    #[test]
    fn any_text_is_cut_where_the_mark_says() {
        for total in 0..40usize {
            for first in 0..=total {
                let one: String = "aä天".chars().cycle().take(first).collect();
                let other: String = "bö気".chars().cycle().take(total - first).collect();
                let result = json!({"content": [text(one), text(other)]});
                let fitted = fit(ToolResult::try_from(result).expect("it is a result"), &BUDGET, &id());
                let Some(whole) = fitted.whole else { continue };
                let shown: Vec<String> =
                    fitted.result.blocks().iter().filter_map(text_of).map(|text| text.into_owned()).collect();
                let shown = shown.join("\n");
                let (head, rest) = shown.split_once("\n[cut here: ").expect("there is a mark");
                let count: usize = rest.split(' ').next().and_then(|n| n.parse().ok()).expect("it counts");
                let of: usize = rest.split(' ').nth(2).and_then(|n| n.parse().ok()).expect("it counts");
                assert_eq!(of, whole.chars().count());
                assert_eq!(whole.chars().take(count).collect::<String>(), head.trim_start_matches('\n'));
            }
        }
    }
}
