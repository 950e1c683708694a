//! Publishes the changes of the servers to open pages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::task::JoinHandle;
use toolwire_page::servers::{self, Server};

use super::{ADMIN_TOPIC, PageServers, TOPIC};
use crate::page::Page;
use crate::page::events::Event;

/// The interval at which facts whose changes are not notified are compared: times of calls, and standard
/// error.
const INTERVAL: Duration = Duration::from_secs(2);

/// The servers as open pages display them.
#[derive(Default)]
pub(in crate::page) struct ServersFeed {
    displayed: Mutex<Displayed>,
    watcher: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Displayed {
    /// `None` before the first page.
    names: Option<Vec<String>>,
    /// The HTML of each part, by the topic and the id of its element.
    parts: HashMap<(&'static str, String), String>,
}

impl ServersFeed {
    /// Returns the servers, and publishes what has changed since the last time. The first call starts a task
    /// that repeats this until the page is dropped.
    pub(in crate::page) fn refresh(&self, page: &Arc<Page>, source: &dyn PageServers) -> Vec<Server> {
        let mut watcher = lock(&self.watcher);
        if watcher.is_none() {
            *watcher = Some(tokio::spawn(watch(Arc::downgrade(page), source.changes())));
        }
        drop(watcher);
        // Held until the changes are published, so that an older state does not replace a newer one.
        let mut displayed = lock(&self.displayed);
        let servers = source.servers();
        let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
        let is_first = displayed.names.is_none();
        let is_same_list = displayed.names.as_ref() == Some(&names);
        if !is_same_list {
            displayed.parts.clear();
        }
        for (topic, may_change) in [(TOPIC, false), (ADMIN_TOPIC, true)] {
            let mut events = Vec::new();
            for part in servers.iter().flat_map(|server| servers::parts(server, may_change)) {
                let html = part.html.into_string();
                let key = (topic, part.id);
                if displayed.parts.get(&key) != Some(&html) {
                    events.push(Event::Put {
                        id: key.1.clone(),
                        html: html.clone(),
                        parent: None,
                        before: None,
                        version: None,
                    });
                    displayed.parts.insert(key, html);
                }
            }
            if !is_same_list && !is_first {
                events = ["list", "main"].map(|id| Event::Reset { id: id.to_owned() }).into();
            }
            if !is_first {
                page.events.publish(topic, &events);
            }
        }
        displayed.names = Some(names);
        servers
    }
}

impl Drop for ServersFeed {
    fn drop(&mut self) {
        if let Some(watcher) = lock(&self.watcher).take() {
            watcher.abort();
        }
    }
}

/// Publishes the changes while pages are open, until the page is dropped.
async fn watch(page: Weak<Page>, mut changes: BoxStream<'static, ()>) {
    loop {
        tokio::select! {
            changed = changes.next() => {
                if changed.is_none() {
                    return;
                }
            }
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let Some(page) = page.upgrade() else { return };
        if let Some(source) = page.parts.servers.as_deref()
            && [TOPIC, ADMIN_TOPIC].iter().any(|topic| page.events.has_readers(topic))
        {
            page.servers.refresh(&page, source);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
