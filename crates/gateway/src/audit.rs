//! The audit log: who has called which tool, as JSON lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::principal::{Principal, now};

/// Arguments whose JSON is longer than this are not written.
const MAX_ARGUMENTS_BYTES: usize = 64 * 1024;

/// The part of the arguments of a call that the log contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditArguments {
    /// The SHA-256 hash of their JSON.
    #[default]
    Hash,
    /// The hash and the arguments, which may contain secrets.
    Full,
    Nothing,
}

/// Stores the lines of an audit log.
pub trait AuditSink: Send + Sync {
    /// Appends a line, which ends with a line break. It must not wait for a disk, because the call waits
    /// until it returns.
    fn append(&self, line: String);

    /// Returns the number of lines that were lost since the last call.
    fn take_lost(&self) -> u64;
}

/// Logs calls as JSON lines.
pub struct AuditLog {
    arguments: AuditArguments,
    sink: Arc<dyn AuditSink>,
    /// The number of lines so far. Each line contains its number, so that missing lines can be noticed.
    sequence: AtomicU64,
}

/// A call, as it is logged.
#[derive(Clone, Debug)]
pub(crate) struct AuditedCall {
    request: String,
    key: Option<String>,
    client: Option<String>,
    owner: Option<String>,
    server: Option<String>,
    tool: String,
    arguments: Value,
}

impl AuditLog {
    pub fn new(sink: Arc<dyn AuditSink>, arguments: AuditArguments) -> AuditLog {
        AuditLog { arguments, sink, sequence: AtomicU64::new(0) }
    }

    /// Describes a call.
    pub(crate) fn call(
        &self,
        principal: &Principal,
        request: &str,
        server: Option<String>,
        tool: String,
        arguments: &Value,
    ) -> AuditedCall {
        AuditedCall {
            request: request.to_owned(),
            key: principal.key_id().map(str::to_owned),
            client: principal.name().map(str::to_owned),
            owner: principal.owner_id(),
            server,
            tool,
            arguments: self.describe(arguments),
        }
    }

    fn describe(&self, arguments: &Value) -> Value {
        let text = arguments.to_string();
        let hash =
            || Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        match self.arguments {
            AuditArguments::Nothing => json!({}),
            AuditArguments::Full if text.len() <= MAX_ARGUMENTS_BYTES => {
                json!({"arguments": arguments, "argumentsSha256": hash()})
            }
            _ => json!({"argumentsSha256": hash()}),
        }
    }

    /// Logs that a call begins.
    pub(crate) fn started(&self, call: &AuditedCall) {
        self.log("call_started", call, json!({}));
    }

    /// Logs the end of a call.
    pub(crate) fn finished(&self, call: &AuditedCall, outcome: &str, elapsed: std::time::Duration) {
        let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.log("call_finished", call, json!({"outcome": outcome, "durationMs": milliseconds}));
    }

    fn log(&self, event: &str, call: &AuditedCall, more: Value) {
        let lost = self.sink.take_lost();
        if lost > 0 {
            self.sink.append(self.line(json!({"event": "lost", "lines": lost})));
        }
        let AuditedCall { request, key, client, owner, server, tool, arguments } = call;
        let mut line = json!({
            "event": event, "request": request, "key": key, "client": client, "owner": owner, "server": server,
            "tool": tool,
        });
        for value in [more, arguments.clone()] {
            extend(&mut line, value);
        }
        self.sink.append(self.line(line));
    }

    /// Returns a line with its time and its number. Characters that some programs read as line breaks are
    /// escaped.
    fn line(&self, content: Value) -> String {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        let mut line = json!({"time": now().rfc_3339().to_string(), "sequence": sequence});
        extend(&mut line, content);
        let mut text = line.to_string();
        for (character, escaped) in
            [('\u{85}', "\\u0085"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029"), ('\u{7f}', "\\u007f")]
        {
            if text.contains(character) {
                text = text.replace(character, escaped);
            }
        }
        text.push('\n');
        text
    }
}

fn extend(line: &mut Value, more: Value) {
    if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), more) {
        line.extend(fields);
    }
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AuditLog").field("arguments", &self.arguments).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use super::*;
    use crate::principal::tests::principals;

    #[derive(Default)]
    struct Lines {
        text: Mutex<String>,
        lost: AtomicU64,
    }

    impl AuditSink for Lines {
        fn append(&self, line: String) {
            self.text.lock().unwrap_or_else(PoisonError::into_inner).push_str(&line);
        }

        fn take_lost(&self) -> u64 {
            self.lost.swap(0, Ordering::Relaxed)
        }
    }

    impl Lines {
        fn text(&self) -> String {
            self.text.lock().expect("no panic").clone()
        }

        fn lines(&self) -> Vec<Value> {
            self.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        }
    }

    #[test]
    fn a_line_is_one_line_whatever_the_names_contain() {
        let sink = Arc::new(Lines::default());
        let log = AuditLog::new(sink.clone(), AuditArguments::Full);
        let [principal, ..] = principals();
        let evil = "a\n{\"event\":\"x\"}\r\u{1b}[2J\u{85}\u{2028}\u{2029}\u{7f}\0\"";
        let arguments = json!({evil: evil});
        let call = log.call(&principal, "req_1", Some(evil.to_owned()), evil.to_owned(), &arguments);
        log.started(&call);
        log.finished(&call, "ok", Duration::from_millis(5));
        let text = sink.text();
        let breaks = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
        assert_eq!(text.split(breaks).filter(|line| !line.is_empty()).count(), 2);
        assert!(!text.contains(['\u{1b}', '\0', '\u{7f}']));
        let lines = sink.lines();
        assert_eq!((&lines[0]["tool"], &lines[0]["arguments"]), (&json!(evil), &arguments));
        assert_eq!((&lines[1]["outcome"], &lines[1]["durationMs"]), (&json!("ok"), &json!(5)));
        assert_eq!((&lines[0]["sequence"], &lines[1]["sequence"]), (&json!(1), &json!(2)));
    }

    #[test]
    fn arguments_are_hashed_by_default() {
        let described = |arguments: &Value, mode: AuditArguments| {
            let log = AuditLog::new(Arc::new(Lines::default()), mode);
            log.call(&Principal::without_key(), "r", None, "t".to_owned(), arguments).arguments
        };
        let hashed = |arguments: Value| described(&arguments, AuditArguments::default());
        let one = hashed(json!({"a": 1}));
        assert_eq!(one, hashed(json!({"a": 1})));
        assert_ne!(one, hashed(json!({"a": 2})));
        assert_eq!(one["argumentsSha256"].as_str().map(str::len), Some(64));
        assert!(one.get("arguments").is_none());
        let long = described(&json!({"a": "x".repeat(MAX_ARGUMENTS_BYTES)}), AuditArguments::Full);
        assert!(long.get("arguments").is_none() && long.get("argumentsSha256").is_some());
        assert_eq!(described(&json!({"a": 1}), AuditArguments::Nothing), json!({}));
    }

    #[test]
    fn loss_is_logged() {
        let sink = Arc::new(Lines::default());
        let log = AuditLog::new(sink.clone(), AuditArguments::Nothing);
        let call = log.call(&Principal::without_key(), "r", None, "t".to_owned(), &json!({}));
        sink.lost.store(3, Ordering::Relaxed);
        log.started(&call);
        let lines = sink.lines();
        assert_eq!((&lines[0]["event"], &lines[0]["lines"]), (&json!("lost"), &json!(3)));
        assert_eq!(lines[1]["event"], "call_started");
    }
}
