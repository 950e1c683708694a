//! The ways in which this server can misbehave.

/// The transports that a behaviour applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Any,
    Stdio,
    Http,
}

/// A behaviour as `--help` lists it.
pub(crate) struct BehaviourEntry {
    pub(crate) behaviour: Behaviour,
    pub(crate) name: &'static str,
    pub(crate) transport: Transport,
    pub(crate) description: &'static str,
}

/// Declares the enum and the table of `--help` from one list.
macro_rules! behaviours {
    ($($behaviour:ident $name:literal $transport:ident $description:literal)*) => {
        /// One way to misbehave.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Behaviour {
            $($behaviour,)*
        }

        /// Every behaviour, in the order of `--help`.
        pub(crate) const BEHAVIOURS: &[BehaviourEntry] = &[
            $(BehaviourEntry {
                behaviour: Behaviour::$behaviour,
                name: $name,
                transport: Transport::$transport,
                description: $description,
            },)*
        ];
    };
}

behaviours! {
    Ordinary "ordinary" Any "behaves correctly (the default)"
    Unhinted "unhinted" Any
        "responds to calls after --delay milliseconds (0), and does not mark `echo` as read-only"
    // before and during the handshake
    StartsLate "starts-late" Stdio "reads nothing for the first --delay milliseconds (1000)"
    BurnsProcessor "burns-processor" Stdio
        "uses a core for --delay milliseconds of processor time (1000) before it reads anything"
    ExitsAtOnce "exits-at-once" Stdio "writes a line to stderr and exits with code 3"
    NeverInitializes "never-initializes" Stdio "reads everything and sends no response"
    IgnoresUnknown "ignores-unknown" Stdio "sends no response to unknown methods, instead of an error"
    OtherVersion "other-version" Any "announces protocol version 1999-01-01"
    // lists
    ManyTools "many-tools" Any "lists --count tools (1500), 100 per page"
    ListsFile "lists-file" Any "lists the tools of the JSON array in --file, 100 per page"
    BadTools "bad-tools" Any
        "lists malformed tools between good ones; `odd_content` returns unknown content"
    UnreadableTools "unreadable-tools" Any
        "lists tools that are not valid JSON between good ones; call results contain invalid text"
    ChangesTools "changes-tools" Stdio
        "after the first call: another description, a new tool, a removed tool, `list_changed`"
    CursorLoop "cursor-loop" Any "each page of tools points to the same next page"
    DripsPages "drips-pages" Stdio
        "each page of tools arrives after --delay milliseconds (100) and points to another one"
    NeverLists "never-lists" Stdio "sends no response to `tools/list`"
    // calls
    ExitsMidCall "exits-mid-call" Stdio "exits with code 4 when a tool is called, after a line to stderr"
    ExitsMidResponse "exits-mid-response" Stdio "exits with code 5 while it writes the response to a call"
    NeverResponds "never-responds" Stdio
        "sends no response to calls, except for `cancelled`: the ids of the cancelled calls; appends a line to --file \
         for each call, each cancelled call, and the end of input"
    RespondsLate "responds-late" Any "responds to calls after --delay milliseconds (1000)"
    SlowProgress "slow-progress" Stdio
        "reports progress every --delay milliseconds (1000), --count times (10), then responds"
    HugeResult "huge-result" Any "responds to calls with --size bytes of text (50000000)"
    BadResult "bad-result" Any "responds to calls with a string as `content` instead of an array"
    UnreadableResult "unreadable-result" Any "responds to calls with an unclosed JSON object"
    DuplicateIds "duplicate-ids" Stdio
        "sends every response twice, and responses to requests that were never made"
    ClosesStdout "closes-stdout" Stdio "closes stdout when a tool is called, and keeps running"
    Counts "counts" Stdio
        "each call appends a line to --file; the server exits without a response to the first --count (1) calls of a tool"
    Asks "asks" Stdio
        "`ask` sends the given request to the client and returns the client's response"
    Logs "logs" Stdio "each call logs at several levels, from the level on that the client has set (none)"
    // at any time
    Garbage "garbage" Stdio "log lines, broken JSON and invalid UTF-8 between all messages"
    FloodsNotifications "floods-notifications" Stdio
        "sends --count notifications (100000) before each response to a call"
    WritesStderr "writes-stderr" Stdio
        "writes --count lines (10000), one of them 1 MB long, to stderr at startup and at each call"
    // the process
    IgnoresSigterm "ignores-sigterm" Stdio "keeps running after stdin closes and after SIGTERM"
    ForksAChild "forks-a-child" Stdio "starts a child that inherits stdout and outlives this process"
    PrintsEnvironment "prints-environment" Stdio
        "`environment` returns the variables, arguments and working directory of this process"
    // HTTP
    Streams "streams" Http "responds to every request with an event stream"
    Status500 "status-500" Http "500 with a JSON body that is not a JSON-RPC message"
    Status502 "status-502" Http "502 with an HTML page, like a proxy whose upstream is down"
    Status401 "status-401" Http "401 with a challenge"
    SessionLost "session-lost" Http "404: the first session is lost; a new one works"
    SessionUnknown "session-unknown" Http
        "400 with an error that has no id, as some servers respond after a restart"
    CutStream "cut-stream" Http
        "starts an event stream and cuts the connection within an event, --delay milliseconds later (0); calls of `wait` succeed"
    HtmlBody "html-body" Http "200 with an HTML page"
    Hangs "hangs" Http "accepts the request and never responds"
    Sse "sse" Http "the deprecated HTTP+SSE transport: GET /sse for the stream, POST to the endpoint it names"
    SseForeignEndpoint "sse-foreign-endpoint" Http
        "HTTP+SSE whose stream names an endpoint on another host"
}
