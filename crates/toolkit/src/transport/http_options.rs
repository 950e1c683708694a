//! The options of streamable HTTP.

use std::time::Duration;

/// Options of the HTTP transport. The defaults are for clients on the same machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The allowed `Host` values, with or without a port; others get 403. An empty list allows all.
    pub hosts: Vec<String>,
    /// The allowed origins of web pages, such as `https://place.example:443`, or with `:*` for any port;
    /// others get 403. Requests without an origin do not come from a web page and are allowed.
    pub origins: Vec<String>,
    /// The maximum size of a body; larger ones get 413.
    pub max_body_bytes: usize,
    /// The time to read a body; slower requests get 408. It is also the time to read the headers of a
    /// connection.
    pub read_timeout: Duration,
    /// The maximum number of concurrent requests; more get 503.
    pub max_requests: usize,
    /// Whether clients before 2026-07-28 get a session. Without sessions their requests are independent, so
    /// that any of several processes can handle them. Such clients cannot be asked questions or notified of
    /// changes.
    pub sessions: bool,
    /// The maximum number of sessions, and of clients that listen for changes.
    pub max_sessions: usize,
    /// A session ends after this time without activity, with everything it was waiting for.
    pub session_idle: Duration,
    /// The interval of keep-alive messages on an idle stream.
    pub keep_alive: Duration,
}

impl Default for HttpOptions {
    fn default() -> HttpOptions {
        HttpOptions {
            hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            origins: [
                "http://localhost:*",
                "http://127.0.0.1:*",
                "http://[::1]:*",
                "https://localhost:*",
                "https://127.0.0.1:*",
                "https://[::1]:*",
            ]
            .map(str::to_owned)
            .to_vec(),
            max_body_bytes: 4 * 1024 * 1024,
            read_timeout: Duration::from_secs(30),
            max_requests: 1024,
            sessions: true,
            max_sessions: 1024,
            session_idle: Duration::from_secs(30 * 60),
            keep_alive: Duration::from_secs(15),
        }
    }
}
