//! The names of items and events in the Responses API.

use serde_json::{Value, json};

/// The kind of the open item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenItem {
    Text,
    Refusal,
    Reasoning,
}

/// The names of a call of one kind of tools.
pub(super) struct CallForm {
    pub(super) id_prefix: &'static str,
    pub(super) item_type: &'static str,
    /// The key of the arguments.
    pub(super) key: &'static str,
    pub(super) delta: &'static str,
    pub(super) done: &'static str,
}

pub(super) const FUNCTION: CallForm = CallForm {
    id_prefix: "fc",
    item_type: "function_call",
    key: "arguments",
    delta: "response.function_call_arguments.delta",
    done: "response.function_call_arguments.done",
};

/// A call of a free-text tool.
pub(super) const CUSTOM: CallForm = CallForm {
    id_prefix: "ctc",
    item_type: "custom_tool_call",
    key: "input",
    delta: "response.custom_tool_call_input.delta",
    done: "response.custom_tool_call_input.done",
};

impl OpenItem {
    /// Returns the kind of an item that may be open.
    pub(super) fn of(item: &Value) -> Option<OpenItem> {
        match (item["type"].as_str()?, item["content"][0]["type"].as_str()) {
            ("reasoning", _) if item["summary"][0].is_object() => Some(OpenItem::Reasoning),
            ("message", Some("output_text")) => Some(OpenItem::Text),
            ("message", Some("refusal")) => Some(OpenItem::Refusal),
            _ => None,
        }
    }

    /// Returns the type of the part, the key of its text, and the names of the events for a fragment and for
    /// the end.
    pub(super) const fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            OpenItem::Text => {
                ("output_text", "text", "response.output_text.delta", "response.output_text.done")
            }
            OpenItem::Refusal => ("refusal", "refusal", "response.refusal.delta", "response.refusal.done"),
            OpenItem::Reasoning => (
                "summary_text",
                "text",
                "response.reasoning_summary_text.delta",
                "response.reasoning_summary_text.done",
            ),
        }
    }

    pub(super) fn part(self, text: &str) -> Value {
        let (type_name, key, ..) = self.names();
        let mut part = json!({"type": type_name, key: text});
        if self == OpenItem::Text {
            part["annotations"] = json!([]);
            part["logprobs"] = json!([]);
        }
        part
    }

    pub(super) const fn part_events(self) -> (&'static str, &'static str) {
        match self {
            OpenItem::Text | OpenItem::Refusal => {
                ("response.content_part.added", "response.content_part.done")
            }
            OpenItem::Reasoning => {
                ("response.reasoning_summary_part.added", "response.reasoning_summary_part.done")
            }
        }
    }

    /// Returns the key of the parts in the item, and of their position in events.
    pub(super) const fn keys(self) -> (&'static str, &'static str) {
        match self {
            OpenItem::Text | OpenItem::Refusal => ("content", "content_index"),
            OpenItem::Reasoning => ("summary", "summary_index"),
        }
    }
}
