//! Restores a client's marks for Anthropic's cache in messages that are written again, for example because
//! results of the client and of servers follow one response.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;
use toolwire_contract::model::VerbatimRequest;

const MARK: &str = "cache_control";

/// The marks of items that are not sent as the client wrote them, in their order. APIs allow only a few
/// marks, but a client may send any number of them.
#[derive(Debug)]
pub(super) struct CacheMarks(HashMap<MarkedBlock, VecDeque<Value>>);

/// A block that has a mark.
#[derive(Debug, PartialEq, Eq, Hash)]
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
        let mut marks: HashMap<MarkedBlock, VecDeque<Value>> = HashMap::new();
        for item in items.filter_map(|item| serde_json::from_str::<Value>(item).ok()) {
            for block in item.get("content").and_then(Value::as_array).into_iter().flatten() {
                let mark = block.get(MARK).filter(|mark| !mark.is_null());
                if let Some((mark, block)) = mark.zip(MarkedBlock::of(block)) {
                    marks.entry(block).or_default().push_back(mark.clone());
                }
            }
        }
        CacheMarks(marks)
    }

    /// Adds the marks to the same blocks in written items. Each mark is used once, so a request does not get
    /// more of them.
    pub(super) fn restore(&mut self, items: &mut [Value]) {
        let blocks = items.iter_mut().filter_map(|item| item.get_mut("content")?.as_array_mut()).flatten();
        for block in blocks.filter(|block| block.get(MARK).is_none()) {
            if self.0.is_empty() {
                return;
            }
            let Some(written) = MarkedBlock::of(block) else { continue };
            let Some(marks) = self.0.get_mut(&written) else { continue };
            if let (Some(mark), Some(fields)) = (marks.pop_front(), block.as_object_mut()) {
                fields.insert(MARK.to_owned(), mark);
            }
            if marks.is_empty() {
                self.0.remove(&written);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use toolwire_contract::Message;

    use super::*;

    /// Equal blocks get their marks in order, and each mark is used once. Their number is not limited here.
    #[test]
    fn marks_return_to_equal_blocks_in_order() {
        let text = |number: usize| json!({"type": "text", "text": format!("{}", number % 10)});
        let marked = |number: usize| {
            let mut block = text(number);
            block[MARK] = json!({"type": "ephemeral", "number": number});
            block
        };
        let item = json!({"role": "user", "content": (0..100).map(marked).collect::<Vec<_>>()});
        let message = Arc::new(Message::user("x"));
        let verbatim = VerbatimRequest {
            messages: vec![(message, vec![item.to_string()])],
            ..VerbatimRequest::default()
        };
        let mut marks = CacheMarks::of_rewritten_items(&verbatim, &[]);
        let mut written = [json!({"role": "user", "content": (0..110).map(text).collect::<Vec<_>>()})];
        marks.restore(&mut written);
        let blocks = written[0]["content"].as_array().expect("a list");
        let expected = (0..100).map(marked).chain((100..110).map(text));
        assert_eq!(*blocks, expected.collect::<Vec<_>>());
    }
}
