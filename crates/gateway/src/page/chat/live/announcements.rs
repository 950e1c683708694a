//! Short texts about a conversation: its symbol in the list, the title of the page, and texts for screen
//! readers.

use toolwire_contract::Message;
use toolwire_contract::text::counted;
use toolwire_page::chat;
use toolwire_page::text::shortened;

use super::LiveChat;
use crate::page::chat::input;
use crate::page::events::Event;

impl LiveChat {
    /// Publishes the symbol in the list of conversations, and the title and the icon of open pages.
    pub(super) fn publish_activity(&self) {
        let glyph = chat::list_activity(&self.id, self.activity());
        self.events.publish("chat", &[Event::put(format!("chat-{}-activity", self.id), glyph)]);
        self.publish([self.title_event()]);
    }

    /// Returns the name of a tool whose call waits for a decision or a reply.
    pub(in crate::page::chat) fn waiting_name(&self) -> Option<String> {
        self.calls.first_that_asks().filter(|_| self.is_busy()).map(str::to_owned)
    }

    /// Returns the title and the icon of a page with this conversation.
    pub(in crate::page::chat) fn title_event(&self) -> Event {
        match self.calls.first_that_asks().filter(|_| self.is_busy()) {
            Some(name) => Event::Title { text: format!("? {name}"), has_dot: true },
            None => {
                let title = self.title.as_deref().unwrap_or("untitled");
                Event::Title { text: format!("{title} · Toolwire"), has_dot: false }
            }
        }
    }

    /// Announces a call that waits for a decision.
    pub(super) fn announce_waiting_call(&self) {
        if let Some(name) = self.calls.first_waiting() {
            let text = format!("{name} waits for your decision");
            self.publish([Event::Say { text, is_urgent: true }]);
        }
    }
}

/// Returns the summary of a message for screen readers: the number of its calls, or its start.
pub(super) fn spoken_summary(message: &Message, calls: usize) -> String {
    if calls > 0 {
        return counted(calls, "call");
    }
    let text = input::text_of(message);
    let sentence = text.split_inclusive(['.', '!', '?', '\n', '。']).next().unwrap_or_default();
    format!("{} · {}", shortened(sentence, 200), counted(text.split_whitespace().count(), "word"))
}
