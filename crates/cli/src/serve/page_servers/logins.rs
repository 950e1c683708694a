//! Login pages of servers, as links on the gateway's page.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use tokio::sync::watch;
use toolwire_hub::Browser;

use crate::servers::TerminalBrowser;

/// Offers the login pages of servers as links. If the gateway has no terminal, a login page is opened only
/// when a user requested it, because no user would see it.
pub(crate) struct PageLogins {
    has_terminal: bool,
    state: Mutex<Logins>,
    version: watch::Sender<u64>,
}

#[derive(Default)]
struct Logins {
    /// Servers whose login a user requested.
    allowed: HashSet<String>,
    /// The login pages that are open, by server.
    pages: HashMap<String, String>,
}

impl PageLogins {
    pub(crate) fn new(has_terminal: bool) -> Arc<PageLogins> {
        Arc::new(PageLogins { has_terminal, state: Mutex::default(), version: watch::Sender::new(0) })
    }

    /// Permits a login page for a server.
    pub(super) fn allow(&self, server: &str) {
        self.state().allowed.insert(server.to_owned());
    }

    /// Returns the login page of a server, if it is open.
    pub(super) fn page(&self, server: &str) -> Option<String> {
        self.state().pages.get(server).cloned()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Logins> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn set_page(&self, server: &str, url: Option<&str>) {
        let mut state = self.state();
        match url {
            Some(url) => state.pages.insert(server.to_owned(), url.to_owned()),
            None => state.pages.remove(server),
        };
        drop(state);
        self.version.send_modify(|version| *version += 1);
    }
}

impl Browser for PageLogins {
    fn can_open(&self, server: &str) -> bool {
        self.has_terminal || self.state().allowed.contains(server)
    }

    fn open<'a>(&'a self, server: &'a str, url: &'a str) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            if self.has_terminal {
                TerminalBrowser.open(server, url).await?;
            }
            let _open = OpenPage::new(self, server, url);
            // The caller drops this when the login has ended.
            std::future::pending().await
        })
    }
}

/// A login page until it is dropped.
struct OpenPage<'a> {
    logins: &'a PageLogins,
    server: &'a str,
}

impl<'a> OpenPage<'a> {
    fn new(logins: &'a PageLogins, server: &'a str, url: &str) -> OpenPage<'a> {
        logins.set_page(server, Some(url));
        OpenPage { logins, server }
    }
}

impl Drop for OpenPage<'_> {
    fn drop(&mut self) {
        self.logins.set_page(self.server, None);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_login_page_is_a_link_until_the_login_ends() {
        let logins = PageLogins::new(false);
        assert!(!logins.can_open("web"), "no user requested it");
        logins.allow("web");
        assert!(logins.can_open("web") && !logins.can_open("other"));
        let changes = logins.changes();
        let mut open = logins.open("web", "https://login.example");
        assert!((&mut open).now_or_never().is_none());
        assert_eq!(logins.page("web").as_deref(), Some("https://login.example"));
        assert!(changes.has_changed().is_ok_and(|has_changed| has_changed));
        drop(open);
        assert_eq!(logins.page("web"), None);
    }
}
