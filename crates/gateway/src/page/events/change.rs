//! One change of the page.

use serde_json::{Value, json};
use toolwire_page::Markup;

/// A change that the script of the page applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::page) enum Event {
    /// Replaces the element `id`. If there is none, inserts it into the element `parent`, before the element
    /// `before`.
    Put {
        id: String,
        html: String,
        parent: Option<String>,
        before: Option<String>,
        /// A browser ignores a version that is older than its own.
        version: Option<u64>,
    },
    /// A block of a message that may still change.
    Open { message: String, block: usize, html: String },
    /// A block of a message that does not change any more.
    Settle { message: String, block: usize, html: String },
    /// Lines at the end of a block, which had `at` lines before and has `to` lines then.
    Grow { message: String, block: usize, at: usize, to: usize, html: String },
    /// Removes an element.
    Drop { id: String },
    /// The element must be loaded again.
    Reset { id: String },
    /// A text for screen readers.
    Say { text: String, is_urgent: bool },
    /// The title of the page, and whether its icon has a dot.
    Title { text: String, has_dot: bool },
}

impl Event {
    /// Replaces the element with this id.
    pub(in crate::page) fn put(id: impl Into<String>, html: Markup) -> Event {
        Event::Put { id: id.into(), html: html.into_string(), parent: None, before: None, version: None }
    }

    /// Replaces the element with this id, or adds it at the end of another one.
    pub(in crate::page) fn append(id: impl Into<String>, parent: impl Into<String>, html: Markup) -> Event {
        Event::Put {
            id: id.into(),
            html: html.into_string(),
            parent: Some(parent.into()),
            before: None,
            version: None,
        }
    }

    /// Sets the version of an element.
    pub(in crate::page) fn with_version(self, number: u64) -> Event {
        match self {
            Event::Put { id, html, parent, before, .. } => {
                Event::Put { id, html, parent, before, version: Some(number) }
            }
            other => other,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Event::Put { .. } => "put",
            Event::Open { .. } => "open",
            Event::Settle { .. } => "settle",
            Event::Grow { .. } => "grow",
            Event::Drop { .. } => "drop",
            Event::Reset { .. } => "reset",
            Event::Say { .. } => "say",
            Event::Title { .. } => "title",
        }
    }

    fn data(&self) -> Value {
        match self {
            Event::Put { id, html, parent, before, version } => {
                let mut data = json!({"id": id, "html": html, "in": parent, "before": before});
                if let (Some(version), Some(data)) = (version, data.as_object_mut()) {
                    data.insert("v".to_owned(), (*version).into());
                }
                data
            }
            Event::Open { message, block, html } | Event::Settle { message, block, html } => {
                json!({"m": message, "n": block, "html": html})
            }
            Event::Grow { message, block, at, to, html } => {
                json!({"m": message, "n": block, "at": at, "to": to, "html": html})
            }
            Event::Drop { id } => json!({"id": id}),
            Event::Reset { id } => json!({"in": id}),
            Event::Say { text, is_urgent } => json!({"text": text, "urgent": is_urgent}),
            Event::Title { text, has_dot } => json!({"text": text, "dot": has_dot}),
        }
    }

    /// Returns the change with its name, for the response to a form.
    pub(in crate::page) fn to_json(&self) -> Value {
        let mut data = self.data();
        if let Some(data) = data.as_object_mut() {
            data.insert("type".to_owned(), self.name().into());
        }
        data
    }

    /// Returns the change as a server-sent event without an id.
    pub(super) fn to_text(&self) -> String {
        // JSON contains no line breaks, so the data is one line.
        format!("event: {}\ndata: {}\n", self.name(), self.data())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_line_breaks_is_one_event() {
        let event = Event::Say { text: "a\n\nevent: reset\r\u{2028}b".to_owned(), is_urgent: true };
        let text = event.to_text();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(!text.contains('\r'), "{text}");
        assert_eq!(event.to_json()["type"], "say");
    }
}
