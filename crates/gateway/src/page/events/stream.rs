//! The stream of changes to one browser.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::sync::watch;

use super::topics::{Events, News};
use crate::response::Interrupted;

/// The interval of heartbeats, so that a browser notices a lost connection. Scripts do not see comments, so a
/// heartbeat is an event.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Changes within this interval are sent together: a screen displays about 60 images per second.
const FRAME: Duration = Duration::from_millis(16);

const BEAT: &str = "event: beat\ndata: {}\n\n";

/// The last event: the gateway ends, and the browser connects again after this many milliseconds.
const BYE: &str = "event: bye\ndata: {\"after\":1000}\n\n";

/// The first line: the delay before a browser connects again, in milliseconds.
const START: &str = "retry: 500\n\n";

/// Returns the changes of some topics after an id, as they happen.
pub(in crate::page) fn stream(
    events: Arc<Events>,
    topics: Vec<String>,
    after: Option<&str>,
) -> impl Stream<Item = Result<Bytes, Interrupted>> + Send + 'static {
    let position = after.and_then(|id| events.sequence(id));
    let is_reset = position.is_none() && after.is_some();
    let mut text = START.to_owned();
    let position = position.unwrap_or_else(|| events.sequence(&events.last_id()).unwrap_or_default());
    if is_reset {
        add_reset(&mut text, &events.id(position));
    }
    let changed = events.subscribe();
    events.add_reader(&topics);
    let state = Reader { events, topics, position, changed, ready: Some(text), is_closed: false };
    futures::stream::unfold(state, |mut reader| async move {
        let text = reader.next().await?;
        Some((Ok(Bytes::from(text)), reader))
    })
}

struct Reader {
    events: Arc<Events>,
    topics: Vec<String>,
    position: u64,
    changed: watch::Receiver<u64>,
    ready: Option<String>,
    is_closed: bool,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.events.remove_reader(&self.topics);
    }
}

impl Reader {
    async fn next(&mut self) -> Option<String> {
        if let Some(text) = self.ready.take() {
            return Some(text);
        }
        loop {
            let current = *self.changed.borrow_and_update();
            match self.events.after(self.position, &self.topics) {
                News::Events(events) if events.is_empty() => self.position = self.position.max(current),
                News::Events(events) => {
                    let mut text = String::new();
                    for (number, event) in events {
                        // Writing to a string does not fail.
                        let _ = writeln!(text, "{event}id: {}\n", self.events.id(number));
                        self.position = number;
                    }
                    return Some(text);
                }
                News::Incomplete => {
                    self.position = current;
                    let mut text = String::new();
                    add_reset(&mut text, &self.events.id(current));
                    return Some(text);
                }
            }
            tokio::select! {
                biased;
                () = self.events.closing().cancelled() => {
                    // The next call ends the stream, because this event was sent.
                    return (!std::mem::replace(&mut self.is_closed, true)).then(|| BYE.to_owned());
                }
                changed = self.changed.changed() => changed.ok()?,
                () = tokio::time::sleep(HEARTBEAT) => return Some(BEAT.to_owned()),
            }
            tokio::time::sleep(FRAME).await;
        }
    }
}

fn add_reset(text: &mut String, id: &str) {
    let event = super::Event::Reset { id: "main".to_owned() }.to_text();
    // Writing to a string does not fail.
    let _ = writeln!(text, "{event}id: {id}\n");
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::super::Event;
    use super::*;

    fn say(text: &str) -> Event {
        Event::Say { text: text.to_owned(), is_urgent: false }
    }

    async fn next(stream: &mut (impl Stream<Item = Result<Bytes, Interrupted>> + Unpin)) -> String {
        let bytes = stream.next().await.expect("an open stream").expect("bytes");
        String::from_utf8(bytes.to_vec()).expect("text")
    }

    #[tokio::test(start_paused = true)]
    async fn changes_arrive_in_order_with_ids() {
        let events: Arc<Events> = Arc::default();
        events.publish("a", &[say("old")]);
        let last = events.last_id();
        let mut stream = Box::pin(stream(events.clone(), vec!["a".to_owned()], Some(&last)));
        assert_eq!(next(&mut stream).await, START);
        events.publish("b", &[say("other topic")]);
        events.publish("a", &[say("one"), say("two")]);
        let text = next(&mut stream).await;
        let expected = format!(
            "event: say\ndata: {{\"text\":\"one\",\"urgent\":false}}\nid: {}\n\nevent: say\ndata: {{\"text\":\"two\",\"urgent\":false}}\nid: {}\n\n",
            events.id(3),
            events.id(4)
        );
        assert_eq!(text, expected);
        assert_eq!(next(&mut stream).await, BEAT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_with_the_gateway() {
        let events: Arc<Events> = Arc::default();
        let mut stream = Box::pin(stream(events.clone(), vec!["a".to_owned()], None));
        assert_eq!(next(&mut stream).await, START);
        events.publish("a", &[say("last")]);
        events.close();
        assert!(next(&mut stream).await.contains("last"));
        assert_eq!(next(&mut stream).await, BYE);
        assert!(stream.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_id_resets_the_view() {
        let events: Arc<Events> = Arc::default();
        events.publish("a", &[say("one")]);
        let mut stream = Box::pin(stream(events.clone(), vec!["a".to_owned()], Some("other-1")));
        let text = next(&mut stream).await;
        assert!(
            text.contains("event: reset\n") && text.contains(&format!("id: {}\n", events.id(1))),
            "{text}"
        );
    }
}
