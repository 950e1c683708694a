//! What a server logs while it runs a tool.

use std::sync::Arc;

use serde_json::Value;

/// MCP's log levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    const ALL: [Level; 8] = [
        Level::Debug,
        Level::Info,
        Level::Notice,
        Level::Warning,
        Level::Error,
        Level::Critical,
        Level::Alert,
        Level::Emergency,
    ];

    /// Returns MCP's name of the level.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Notice => "notice",
            Level::Warning => "warning",
            Level::Error => "error",
            Level::Critical => "critical",
            Level::Alert => "alert",
            Level::Emergency => "emergency",
        }
    }

    /// Returns the level with one of MCP's names.
    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// A message that a server has logged.
#[derive(Clone, Debug, PartialEq)]
pub struct LogMessage {
    pub level: Level,
    /// The part of the server that has logged it, if the server names one.
    pub logger: Option<String>,
    pub data: Value,
}

/// Receives the log messages of a call.
#[derive(Clone)]
pub struct LogReceiver {
    /// Messages below this level are not needed.
    pub level: Level,
    /// It must not block.
    pub receive: Arc<dyn Fn(LogMessage) + Send + Sync>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_its_own_name() {
        for level in Level::ALL {
            assert_eq!(Level::from_name(level.name()), Some(level));
        }
        assert_eq!(Level::from_name("Info"), None);
        assert!(Level::ALL.is_sorted());
    }
}
