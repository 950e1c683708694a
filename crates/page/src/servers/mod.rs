//! The servers view: what each server does, why one does not work, and what a user can do about it.

mod card;
mod change;
mod data;
pub mod file_change;
pub mod form;
mod view;

use std::time::{Duration, SystemTime};

use toolwire_contract::text::counted;

pub use data::data;
pub use view::{Part, detail, list, main, parts, removal};

use crate::link::Link;

/// A server of the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    pub name: String,
    /// `stdio`, or the type of a remote server.
    pub transport: String,
    /// The program or the URL, without what may be secret.
    pub address: String,
    pub state: ServerState,
    /// The time at which the state began.
    pub since: SystemTime,
    /// The information that the server sent about itself.
    pub description: Option<ServerDescription>,
    pub tools: Vec<ListedTool>,
    /// Tools that are not offered: quarantined and blocked ones.
    pub withheld: Vec<WithheldTool>,
    /// Facts about the tools that a user should know, in sentences without a full stop.
    pub notes: Vec<String>,
    pub restarts: u32,
    pub calls: ServerCalls,
    /// The last lines that the server wrote to standard error.
    pub stderr: Vec<String>,
    pub changed: Vec<ChangedTool>,
    /// Whether the form can change it: it is in the file that the form writes.
    pub is_editable: bool,
}

/// The state of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerState {
    Ready,
    /// The first attempt to connect is running.
    Connecting {
        detail: String,
    },
    /// A user must log in.
    SignIn {
        /// The login page of the provider, if it is open already.
        page: Option<Link>,
        reason: String,
    },
    /// The server failed, and the gateway tries to connect again.
    Recovering {
        problem: ServerProblem,
    },
    /// The server keeps failing, or cannot work with its configuration.
    Down {
        problem: ServerProblem,
    },
    /// Switched off in the configuration.
    Disabled,
    Stopped,
}

/// The reason why a server does not work, and the next attempt to connect to it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerProblem {
    pub reason: String,
    /// A hint for the user.
    pub hint: Option<String>,
    pub attempt: ConnectionAttempt,
}

/// An attempt to connect to a server that does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionAttempt {
    Running,
    At(SystemTime),
    /// The gateway tries again only when a user requests it.
    OnRequest,
}

/// The information that a connected server sent about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerDescription {
    /// The revision of MCP.
    pub protocol: String,
    /// The name and the version of the program.
    pub program: Option<String>,
    pub instructions: Option<String>,
}

/// A tool that is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedTool {
    /// The name for the model.
    pub name: String,
    /// The name on the server, if it is another one.
    pub original: Option<String>,
    pub description: Option<String>,
}

/// A tool that is not offered, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct WithheldTool {
    pub name: String,
    pub reason: String,
}

/// The calls of a server since the gateway was started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerCalls {
    pub answered: u64,
    pub failed: u64,
    pub p50: Option<Duration>,
    pub p99: Option<Duration>,
}

/// A tool whose definition differs from the accepted one.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedTool {
    /// The name on the server.
    pub tool: String,
    /// Identifies the current definition, so that a user accepts only what was displayed.
    pub fingerprint: String,
    /// Whether the tool is blocked: not offered until the change is accepted.
    pub is_blocked: bool,
    /// The names of the changed parts; empty if they are unknown.
    pub parts: Vec<String>,
    /// The places that differ; `None` if the accepted definition is not known.
    pub places: Option<Vec<ChangedPlace>>,
    pub current_description: Option<String>,
}

/// A place where a definition differs from the accepted one.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedPlace {
    /// The part of the definition and the place in it, such as `input schema /properties/path`.
    pub place: String,
    /// The accepted and the current text in order, with words that they share.
    pub words: Vec<Words>,
    pub has_before: bool,
    pub has_after: bool,
}

/// Words of the accepted or of the current text.
#[derive(Clone, Debug, PartialEq)]
pub struct Words {
    pub text: String,
    pub is_before: bool,
    pub is_after: bool,
}

/// Returns the id of the element of a server. Any name results in a valid and distinct id.
pub fn id(server: &str) -> String {
    let mut id = String::from("server-");
    for byte in server.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => id.push(char::from(byte)),
            byte => id.push_str(&format!("_{byte:02x}")),
        }
    }
    id
}

impl Server {
    /// Returns the class and the character of the state, and the word for it.
    fn glyph(&self) -> (&'static str, &'static str, &'static str) {
        let has_changes = !self.changed.is_empty();
        match &self.state {
            ServerState::Ready if has_changes => ("rewritten", "~", "ready"),
            ServerState::Ready => ("ready", "✓", "ready"),
            ServerState::Connecting { .. } => ("running", "◐", "connecting"),
            ServerState::SignIn { .. } => ("waiting", "⚿", "needs you"),
            ServerState::Recovering { .. } => ("running", "◐", "recovering"),
            ServerState::Down { .. } => ("down", "✗", "down"),
            ServerState::Disabled => ("", "–", "switched off"),
            ServerState::Stopped => ("", "–", "stopped"),
        }
    }

    /// Returns the most important fact for the list.
    fn summary(&self) -> String {
        match &self.state {
            ServerState::Ready if !self.changed.is_empty() => "changed".to_owned(),
            ServerState::Ready => counted(self.tools.len(), "tool"),
            ServerState::SignIn { .. } => "sign in".to_owned(),
            _ => self.glyph().2.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
