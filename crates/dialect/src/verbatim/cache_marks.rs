//! Marks of a client for Anthropic's cache in messages that are written again, for example with results of the client and of
//! servers for one response.

use std::collections::HashSet;

use serde_json::Value;
use toolwire_contract::VerbatimRequest;

const MARK: &str = "cache_control";

/// The marks of items that are not sent as the client wrote them.
pub(super) struct CacheMarks(Vec<CacheMark>);

/// A mark, and the block that has it.
struct CacheMark {
    block: MarkedBlock,
    value: Value,
}

#[derive(PartialEq)]
enum MarkedBlock {
    /// The result of the call with this id.
    Result(String),
    Text(String),
}

impl CacheMarks {
    /// Finds the marks in all items of the client but those of `sent`, which are sent unchanged.
    pub(super) fn of_rewritten_items(verbatim: &VerbatimRequest, sent: &[Option<&[String]>]) -> CacheMarks {
        let sent: HashSet<*const String> =
            sent.iter().flatten().filter_map(|items| items.first()).map(std::ptr::from_ref).collect();
        let is_sent =
            |items: &[String]| items.first().is_some_and(|item| sent.contains(&std::ptr::from_ref(item)));
        let messages = verbatim.messages.iter().filter(|(_, items)| !is_sent(items));
        let items = messages.flat_map(|(_, items)| items).filter(|item| item.contains(MARK));
        let items = items.filter_map(|item| serde_json::from_str::<Value>(item).ok());
        let marks = items.flat_map(|item| {
            let blocks = item.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
            let mark = |block: &Value| {
                let value = block.get(MARK).filter(|mark| !mark.is_null())?.clone();
                Some(CacheMark { block: MarkedBlock::of(block)?, value })
            };
            blocks.iter().filter_map(mark).collect::<Vec<_>>()
        });
        CacheMarks(marks.collect())
    }

    /// Adds the marks to the same blocks in written items. Each mark is used once, so a request does not get more of them.
    pub(super) fn restore(&mut self, items: &mut [Value]) {
        if self.0.is_empty() {
            return;
        }
        let blocks = items.iter_mut().filter_map(|item| item.get_mut("content")?.as_array_mut()).flatten();
        for block in blocks.filter(|block| block.get(MARK).is_none()) {
            let found = MarkedBlock::of(block)
                .and_then(|written| self.0.iter().position(|mark| mark.block == written));
            if let (Some(position), Some(fields)) = (found, block.as_object_mut()) {
                fields.insert(MARK.to_owned(), self.0.remove(position).value);
            }
        }
    }
}

impl MarkedBlock {
    fn of(block: &Value) -> Option<MarkedBlock> {
        let text = |key: &str| block.get(key)?.as_str().map(str::to_owned);
        match block.get("type")?.as_str()? {
            "tool_result" => text("tool_use_id").map(MarkedBlock::Result),
            "text" => text("text").map(MarkedBlock::Text),
            _ => None,
        }
    }
}
