//! What can be wrong with this server.

/// One way to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Ordinary,
    Unhinted,
    // before and during the handshake
    ExitsAtOnce,
    StartsLate,
    NeverInitializes,
    IgnoresUnknown,
    OtherVersion,
    // lists
    ManyTools,
    ListsFile,
    BadTools,
    UnreadableTools,
    ChangesTools,
    CursorLoop,
    DripsPages,
    NeverLists,
    // calls
    ExitsMidCall,
    ExitsMidAnswer,
    NeverAnswers,
    AnswersLate,
    SlowProgress,
    HugeResult,
    DuplicateIds,
    ClosesStdout,
    BadResult,
    UnreadableResult,
    Counts,
    Asks,
    // all the time
    Garbage,
    FloodsNotifications,
    WritesStderr,
    // the process
    IgnoresSigterm,
    ForksAChild,
    PrintsEnvironment,
    // HTTP
    Streams,
    Status500,
    Status502,
    Status401,
    SessionGone,
    SessionUnknown,
    CutStream,
    HtmlBody,
    Hangs,
    Sse,
    SseForeignEndpoint,
}

/// Which of the two ways to serve a behaviour is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Both,
    Stdio,
    Http,
}

/// Every behaviour with its name and what it does, in the order of `--help`.
pub(crate) const TABLE: &[(Behaviour, &str, Over, &str)] = {
    use Behaviour::*;
    use Over::*;
    &[
        (Ordinary, "ordinary", Both, "does everything right (the default)"),
        (
            Unhinted,
            "unhinted",
            Both,
            "answers calls after --delay milliseconds (0), and does not say that `echo` only reads",
        ),
        (StartsLate, "starts-late", Stdio, "reads nothing for the first --delay milliseconds (1000)"),
        (ExitsAtOnce, "exits-at-once", Stdio, "writes a line to stderr and exits with code 3"),
        (NeverInitializes, "never-initializes", Stdio, "reads everything and answers nothing"),
        (
            IgnoresUnknown,
            "ignores-unknown",
            Stdio,
            "is silent about methods it does not know, instead of refusing them",
        ),
        (OtherVersion, "other-version", Both, "says that it speaks protocol version 1999-01-01"),
        (ManyTools, "many-tools", Both, "lists --count tools (1500), 100 a page"),
        (ListsFile, "lists-file", Both, "lists the tools of the JSON array in --file, 100 a page"),
        (
            BadTools,
            "bad-tools",
            Both,
            "lists malformed tools between good ones; `odd_content` answers with unknown content",
        ),
        (
            UnreadableTools,
            "unreadable-tools",
            Both,
            "lists tools that are no JSON between good ones; answers calls with text that is none",
        ),
        (
            ChangesTools,
            "changes-tools",
            Stdio,
            "after the first call: another description, a new tool, one gone, `list_changed`",
        ),
        (CursorLoop, "cursor-loop", Both, "each page of tools points to the same next page"),
        (
            DripsPages,
            "drips-pages",
            Stdio,
            "each page of tools comes after --delay milliseconds (100) and points to one more",
        ),
        (NeverLists, "never-lists", Stdio, "never answers `tools/list`"),
        (
            ExitsMidCall,
            "exits-mid-call",
            Stdio,
            "exits with code 4 when a tool is called, after a line to stderr",
        ),
        (
            ExitsMidAnswer,
            "exits-mid-answer",
            Stdio,
            "exits with code 5 in the middle of writing an answer to a call",
        ),
        (
            NeverAnswers,
            "never-answers",
            Stdio,
            "never answers calls, but for `cancelled`: the ids of the calls that were cancelled; a line in --file for \
             each call, each that is cancelled, and the end of input",
        ),
        (AnswersLate, "answers-late", Both, "answers calls after --delay milliseconds (1000)"),
        (
            SlowProgress,
            "slow-progress",
            Stdio,
            "reports progress every --delay ms, --count times (10), then answers",
        ),
        (HugeResult, "huge-result", Both, "answers calls with --size bytes of text (50000000)"),
        (BadResult, "bad-result", Both, "answers calls with a text where the list of content belongs"),
        (UnreadableResult, "unreadable-result", Both, "answers calls with an object that is not closed"),
        (DuplicateIds, "duplicate-ids", Stdio, "answers everything twice, and requests that nobody made"),
        (ClosesStdout, "closes-stdout", Stdio, "closes stdout when a tool is called, and lives on"),
        (
            Counts,
            "counts",
            Stdio,
            "each call adds a line to --file; the first --count (1) calls of a tool then die unanswered",
        ),
        (
            Asks,
            "asks",
            Stdio,
            "`ask` sends the client the request it is given and answers with the client's answer",
        ),
        (Garbage, "garbage", Stdio, "log lines, broken JSON and bytes that are no text between all messages"),
        (
            FloodsNotifications,
            "floods-notifications",
            Stdio,
            "sends --count notifications (100000) before each answer to a call",
        ),
        (
            WritesStderr,
            "writes-stderr",
            Stdio,
            "writes --count lines (10000), one of them 1 MB long, to stderr at start and at each call",
        ),
        (IgnoresSigterm, "ignores-sigterm", Stdio, "lives on after stdin closes and after SIGTERM"),
        (
            ForksAChild,
            "forks-a-child",
            Stdio,
            "starts a child that inherits stdout and outlives this process",
        ),
        (
            PrintsEnvironment,
            "prints-environment",
            Stdio,
            "`environment` answers with the variables, arguments and folder of this process",
        ),
        (Streams, "streams", Http, "answers every request with an event stream"),
        (Status500, "status-500", Http, "500 with a JSON body that is no message"),
        (Status502, "status-502", Http, "502 with a page of HTML, as a proxy whose server is gone"),
        (Status401, "status-401", Http, "401 with a challenge"),
        (SessionGone, "session-gone", Http, "404: the first session is forgotten; a new one works"),
        (
            SessionUnknown,
            "session-unknown",
            Http,
            "400 without an id, as some servers answer after a restart",
        ),
        (
            CutStream,
            "cut-stream",
            Http,
            "starts an event stream and cuts the connection within an event, --delay milliseconds later (0); not for `wait`",
        ),
        (HtmlBody, "html-body", Http, "200 with a page of HTML"),
        (Hangs, "hangs", Http, "accepts the request and never answers"),
        (Sse, "sse", Http, "the older HTTP+SSE: GET /sse for the stream, POST to where it says"),
        (
            SseForeignEndpoint,
            "sse-foreign-endpoint",
            Http,
            "HTTP+SSE whose stream names an endpoint on another host",
        ),
    ]
};

impl Behaviour {
    pub(crate) fn named(name: &str) -> Option<(Behaviour, Over)> {
        let row = TABLE.iter().find(|row| row.1 == name)?;
        Some((row.0, row.2))
    }
}
