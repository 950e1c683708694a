//! The last changes of each topic.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Event;
use crate::ids::random_id;

/// The limits of one topic. Above them, its oldest changes are removed.
const MAX_EVENTS: usize = 2_000;
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// The maximum number of topics. Above it, the topics that changed least recently are removed.
const MAX_TOPICS: usize = 256;

/// The changes of all topics.
pub(in crate::page) struct Events {
    /// Differs for each start of the gateway, because the numbers begin again.
    boot: String,
    state: Mutex<TopicTable>,
    /// The number of streams of each topic.
    readers: Mutex<HashMap<String, usize>>,
    /// The number of the last change of any topic.
    last: watch::Sender<u64>,
    /// The number of the last version of an element.
    version: AtomicU64,
    /// Cancelled when the gateway ends, so that no stream keeps it running.
    closing: CancellationToken,
}

#[derive(Default)]
struct TopicTable {
    sequence: u64,
    /// Changes of topics that are not in the map were removed up to this number.
    removed: u64,
    topics: HashMap<String, Topic>,
}

#[derive(Default)]
struct Topic {
    /// All changes after this number are present.
    complete_after: u64,
    events: VecDeque<(u64, Arc<str>)>,
    bytes: usize,
}

/// The changes that a browser has not seen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    Events(Vec<(u64, Arc<str>)>),
    /// Some of them were removed.
    Incomplete,
}

impl Default for Events {
    fn default() -> Events {
        // The id only distinguishes starts, so a fixed one is possible if there are no random bytes.
        let boot = random_id("").map_or_else(|_| "0".to_owned(), |id| id[..8].to_owned());
        Events {
            boot,
            state: Mutex::default(),
            readers: Mutex::default(),
            last: watch::Sender::new(0),
            version: AtomicU64::new(0),
            closing: CancellationToken::new(),
        }
    }
}

impl Events {
    /// Publishes changes of one topic, in order.
    pub(in crate::page) fn publish(&self, topic: &str, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        let mut state = self.lock();
        let TopicTable { sequence, removed, topics } = &mut *state;
        if !topics.contains_key(topic) && topics.len() >= MAX_TOPICS {
            remove_oldest(topics, removed);
        }
        let before = *removed;
        let changes = topics
            .entry(topic.to_owned())
            .or_insert_with(|| Topic { complete_after: before, ..Topic::default() });
        for event in events {
            *sequence += 1;
            changes.add(*sequence, event.to_text().into());
        }
        let last = *sequence;
        drop(state);
        self.last.send_replace(last);
    }

    /// Returns a version that is newer than all before. A browser ignores an older version of an element,
    /// which the response to a form may contain.
    pub(in crate::page) fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Ends all streams.
    pub(in crate::page) fn close(&self) {
        self.closing.cancel();
    }

    pub(super) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Returns the id of the last change.
    pub(in crate::page) fn last_id(&self) -> String {
        self.id(self.lock().sequence)
    }

    pub(super) fn id(&self, sequence: u64) -> String {
        format!("{}-{sequence}", self.boot)
    }

    /// Returns the number of an id of this start of the gateway.
    pub(super) fn sequence(&self, id: &str) -> Option<u64> {
        id.strip_prefix(&self.boot)?.strip_prefix('-')?.parse().ok()
    }

    /// Returns the changes of some topics after a number, in order.
    pub(super) fn after(&self, sequence: u64, names: &[String]) -> News {
        let state = self.lock();
        if sequence > state.sequence {
            return News::Incomplete;
        }
        let mut found = Vec::new();
        for name in names {
            let Some(topic) = state.topics.get(name) else {
                if sequence < state.removed {
                    return News::Incomplete;
                }
                continue;
            };
            if sequence < topic.complete_after {
                return News::Incomplete;
            }
            found.extend(topic.events.iter().filter(|(number, _)| *number > sequence).cloned());
        }
        found.sort_by_key(|(number, _)| *number);
        News::Events(found)
    }

    /// Whether an open page displays a topic.
    pub(in crate::page) fn has_readers(&self, topic: &str) -> bool {
        self.readers().contains_key(topic)
    }

    /// Counts a stream of some topics.
    pub(super) fn add_reader(&self, topics: &[String]) {
        let mut readers = self.readers();
        for topic in topics {
            *readers.entry(topic.clone()).or_default() += 1;
        }
    }

    /// Ends a stream that was counted.
    pub(super) fn remove_reader(&self, topics: &[String]) {
        let mut readers = self.readers();
        for topic in topics {
            if let Some(count) = readers.get_mut(topic) {
                *count -= 1;
                if *count == 0 {
                    readers.remove(topic);
                }
            }
        }
    }

    fn readers(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, TopicTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Topic {
    fn add(&mut self, number: u64, text: Arc<str>) {
        self.bytes += text.len();
        self.events.push_back((number, text));
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            let Some((number, text)) = self.events.pop_front() else { break };
            self.bytes -= text.len();
            self.complete_after = number;
        }
    }
}

/// Removes the topic whose last change is the oldest.
fn remove_oldest(topics: &mut HashMap<String, Topic>, removed: &mut u64) {
    let last = |topic: &Topic| topic.events.back().map_or(topic.complete_after, |(number, _)| *number);
    let Some(name) = topics.iter().min_by_key(|(_, topic)| last(topic)).map(|(name, _)| name.clone()) else {
        return;
    };
    if let Some(topic) = topics.remove(&name) {
        *removed = (*removed).max(last(&topic));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Event {
        Event::Drop { id: text.to_owned() }
    }

    fn numbers(news: News) -> Option<Vec<u64>> {
        match news {
            News::Events(events) => Some(events.into_iter().map(|(number, _)| number).collect()),
            News::Incomplete => None,
        }
    }

    #[test]
    fn a_browser_gets_what_it_missed() {
        let events = Events::default();
        events.publish("a", &[event("1"), event("2")]);
        events.publish("b", &[event("3")]);
        events.publish("a", &[event("4")]);
        let topics = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(numbers(events.after(0, &topics(&["a"]))), Some(vec![1, 2, 4]));
        assert_eq!(numbers(events.after(1, &topics(&["a", "b"]))), Some(vec![2, 3, 4]));
        assert_eq!(numbers(events.after(4, &topics(&["a", "b", "c"]))), Some(vec![]));
        assert_eq!(numbers(events.after(5, &topics(&["a"]))), None, "a number that is not used yet");
        assert_eq!(events.sequence(&events.last_id()), Some(4));
        assert_eq!(events.sequence("other-4"), None);
    }

    #[test]
    fn a_topic_has_readers_until_the_last_stream_ends() {
        let events = Events::default();
        let topics = ["a".to_owned(), "b".to_owned(), "a".to_owned()];
        events.add_reader(&topics);
        events.add_reader(&topics[1..2]);
        events.remove_reader(&topics);
        assert!(events.has_readers("b") && !events.has_readers("a"));
        events.remove_reader(&topics[1..2]);
        assert!(!events.has_readers("b"));
    }

    #[test]
    fn removed_changes_are_reported() {
        let events = Events::default();
        let topic = ["a".to_owned()];
        for _ in 0..=MAX_EVENTS {
            events.publish("a", &[event("x")]);
        }
        assert_eq!(numbers(events.after(0, &topic)), None);
        assert_eq!(numbers(events.after(1, &topic)).map(|numbers| numbers.len()), Some(MAX_EVENTS));
        events.publish("a", &[event(&"x".repeat(MAX_BYTES))]);
        let last = events.lock().sequence;
        assert_eq!(numbers(events.after(last - 1, &topic)), None, "a change that is too large is not kept");
        assert_eq!(numbers(events.after(last, &topic)), Some(vec![]));
    }

    #[test]
    fn the_number_of_topics_is_bounded() {
        let events = Events::default();
        for number in 0..=MAX_TOPICS {
            events.publish(&format!("t{number}"), &[event("x")]);
        }
        assert_eq!(events.lock().topics.len(), MAX_TOPICS);
        assert_eq!(numbers(events.after(0, &["t0".to_owned()])), None);
        assert_eq!(numbers(events.after(1, &["t0".to_owned()])), Some(vec![]));
        assert_eq!(numbers(events.after(1, &["t1".to_owned()])), Some(vec![2]));
    }
}
