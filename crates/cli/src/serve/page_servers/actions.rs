//! The servers as the page lists and changes them.

use std::io;
use std::sync::atomic::Ordering;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use tokio::sync::watch;
use toolwire_gateway::page::{PageServers, ServerChangeError, ServerChangeErrorKind};
use toolwire_page::link::Link;
use toolwire_page::servers::Server;
use toolwire_page::servers::file_change::FileChange;
use toolwire_page::servers::form::{ConfigFile, Draft, ServerCheck};

use super::{HubServers, unconnected};
use crate::source::describe_io_error;

impl PageServers for HubServers {
    fn servers(&self) -> Vec<Server> {
        let config = self.config();
        let is_editable = !self.is_demo.load(Ordering::Relaxed);
        let mut status = self.hub.status();
        let in_order = config.servers.iter().map(|server| {
            let connected = status.iter().position(|status| status.name == server.name.as_str());
            let connected = connected.map(|position| self.connected(status.swap_remove(position)));
            Server { is_editable, ..connected.unwrap_or_else(|| unconnected(server)) }
        });
        in_order.collect()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        stream::select(notifications(self.hub.status_changes()), notifications(self.logins.changes())).boxed()
    }

    fn retry(&self, server: &str) {
        self.logins.allow(server);
        self.hub.retry(server);
    }

    fn restart(&self, server: &str) {
        self.logins.allow(server);
        self.hub.restart(server);
    }

    fn accept<'a>(
        &'a self,
        server: &'a str,
        tool: &'a str,
        fingerprint: &'a str,
    ) -> BoxFuture<'a, Result<(), ServerChangeError>> {
        Box::pin(async move {
            self.check_changed(server, tool, fingerprint)?;
            let (hub, name, selected) = (self.hub.clone(), server.to_owned(), tool.to_owned());
            let accept = move || hub.accept_changes(|server, tool| server == name && tool == selected);
            write(accept).await.map_err(|error| not_stored("accept the change", &error))
        })
    }

    fn block<'a>(
        &'a self,
        server: &'a str,
        tool: &'a str,
        fingerprint: &'a str,
    ) -> BoxFuture<'a, Result<(), ServerChangeError>> {
        Box::pin(async move {
            self.check_changed(server, tool, fingerprint)?;
            let (hub, name, selected) = (self.hub.clone(), server.to_owned(), tool.to_owned());
            let blocked = write(move || hub.block_tool(&name, &selected)).await;
            blocked.map(drop).map_err(|error| not_stored("block the tool", &error))
        })
    }

    fn sign_in<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<Link>, ServerChangeError>> {
        Box::pin(self.login_page(server))
    }

    fn target(&self) -> ConfigFile {
        self.editor.target()
    }

    fn draft(&self, server: Option<&str>) -> Result<Draft, ServerChangeError> {
        self.editor.draft(server)
    }

    fn check<'a>(&'a self, draft: &'a Draft) -> BoxFuture<'a, Result<ServerCheck, ServerChangeError>> {
        Box::pin(self.editor.check(draft))
    }

    fn write<'a>(&'a self, draft: &'a Draft) -> BoxFuture<'a, Result<(), ServerChangeError>> {
        Box::pin(async move {
            let check = |config: &_| self.check_users(config);
            self.use_config(self.editor.write(draft, check).await?).await;
            Ok(())
        })
    }

    fn preview(&self, draft: &Draft) -> Result<FileChange, ServerChangeError> {
        self.editor.preview(draft)
    }

    fn removal(&self, server: &str) -> Result<(FileChange, String), ServerChangeError> {
        self.editor.removal(server)
    }

    fn remove<'a>(
        &'a self,
        server: &'a str,
        file_hash: &'a str,
    ) -> BoxFuture<'a, Result<(), ServerChangeError>> {
        Box::pin(async move {
            self.use_config(self.editor.remove(server, file_hash).await?).await;
            Ok(())
        })
    }
}

/// Runs a change that writes a file.
async fn write<T: Send + 'static>(change: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(change).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn not_stored(what: &str, error: &io::Error) -> ServerChangeError {
    let message = format!("cannot {what}: {}", describe_io_error(error));
    match error.kind() {
        io::ErrorKind::InvalidInput => ServerChangeError::new(ServerChangeErrorKind::Conflict, message)
            .with_hint("accept all tools with `toolwire pins accept`"),
        _ => ServerChangeError::new(ServerChangeErrorKind::Failed, message),
    }
}

fn notifications(version: watch::Receiver<u64>) -> BoxStream<'static, ()> {
    stream::unfold(version, |mut version| async move {
        version.changed().await.ok()?;
        Some(((), version))
    })
    .boxed()
}
