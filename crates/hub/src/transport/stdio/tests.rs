//! Starting and stopping a process.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::raw_capture::SdkSchemas;

/// Long enough for a busy machine; a passing test never waits this long.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_process_that_waits_for_a_response_after_the_end_of_its_input_is_terminated() {
    let script = r#"cat > /dev/null; echo '{"jsonrpc":"2.0","id":0,"method":"roots/list"}'; sleep 1000"#;
    let mut group = ProcessGroup::create();
    let mut command = Command::new("sh");
    group.assign(&mut command);
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("a shell exists");
    group.add(&child).expect("it has a process id");
    drop(child.stdin.take());

    let awaits_response_after_close = Arc::new(Notify::new());
    // The session has ended: the receiver of messages is dropped.
    let output = ServerOutput {
        incoming: mpsc::channel(1).0,
        awaits_response_after_close: awaits_response_after_close.clone(),
        program: PathBuf::from("sh"),
    };
    let connection = Connection::new("test", SdkSchemas::Unused);
    let exit = watch::Sender::new(None);
    let stdout = child.stdout.take().expect("it is piped");
    let mut pipe_tasks = JoinSet::new();
    pipe_tasks.spawn(read_stdout(stdout, output, connection, exit.subscribe(), oneshot::channel().1));
    let stop = CancellationToken::new();
    stop.cancel();
    let stopping = Stopping { stop, end_now: awaits_response_after_close, timeout: 10 * TEST_TIMEOUT };
    let (ended_sender, ended) = watch::channel(false);
    let stopped = supervise(child, group, pipe_tasks, exit, stopping, ended_sender);
    assert!(timeout(TEST_TIMEOUT, stopped).await.is_ok(), "it still waits");
    assert!(*ended.borrow());
}

/// A process that writes without pause, so that there is always something to read.
#[tokio::test]
async fn other_tasks_run_while_a_process_floods_its_output() {
    const LINES: usize = 500_000;
    let polls = Arc::new(AtomicUsize::new(0));
    let counter = polls.clone();
    let other = tokio::spawn(async move {
        loop {
            counter.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let script = ["-c".to_owned(), format!("yes | head -n {LINES}")];
    let server = ServerCommand { command: "sh", args: &script, env: &[], cwd: None };
    let path = [(OsString::from("PATH"), std::env::var_os("PATH").expect("a path"))];
    let connection = Connection::new("test", SdkSchemas::Unused);
    let spawned = spawn(&server, &path, None, TEST_TIMEOUT, connection.clone());
    let (_transport, _process) = spawned.map_err(|error| error.to_string()).expect("it starts");
    assert!(timeout(TEST_TIMEOUT, connection.ended()).await.is_ok());
    other.abort();
    assert_eq!(connection.capture.ignored_output().unreadable, LINES as u64);
    let polls = polls.load(Ordering::Relaxed);
    assert!(polls > LINES / 500, "another task ran {polls} times");
}

#[tokio::test]
async fn a_relative_command_starts_at_a_relative_working_directory() {
    // From here to the root, and then to the folder of the shell.
    let depth = std::env::current_dir().expect("a folder").components().count();
    let cwd = format!("{}bin", "../".repeat(depth));
    let script = ["-c".to_owned(), "echo 1; pwd >&2".to_owned()];
    let server = ServerCommand { command: "./sh", args: &script, env: &[], cwd: Some(Path::new(&cwd)) };
    let connection = Connection::new("test", SdkSchemas::Unused);
    let spawned = spawn(&server, &[], None, TEST_TIMEOUT, connection.clone());
    let (_transport, _process) = spawned.map_err(|error| error.to_string()).expect("it starts");
    assert!(timeout(TEST_TIMEOUT, connection.ended()).await.is_ok());
    assert!(connection.has_output());
    assert!(connection.stderr.lines()[0].ends_with("bin"), "{:?}", connection.stderr.lines());
}
