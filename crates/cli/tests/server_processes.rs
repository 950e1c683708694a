//! No process of a server is left behind, however `toolwire` and the server end.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use toolwire_testkit::misbehaving_server;

/// Long enough for a busy machine; a passing test never waits this long.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A server whose processes all sleep for a time that no other process uses.
struct TestServer {
    folder: PathBuf,
    mark: String,
}

impl TestServer {
    /// `$MARK` in the script is the time, and `$SERVER` a server that ends at the end of its input.
    fn new(test: u32, script: &str) -> TestServer {
        let mark = format!("86{}.{test}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("processes").join(&mark);
        fs::create_dir_all(&folder).unwrap();
        let server = misbehaving_server().display().to_string();
        let script = script.replace("$MARK", &mark).replace("$SERVER", &server);
        let config = json!({"mcpServers": {"good": {"command": "sh", "args": ["-c", script]}}});
        fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
        TestServer { folder, mark }
    }

    fn prepare<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.current_dir(&self.folder).env("XDG_DATA_HOME", &self.folder).env_remove("TOOLWIRE_CONFIG")
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
        self.prepare(&mut command).args(arguments).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Starts a call that never returns, and waits until the server has started `count` other processes.
    fn start_endless_call(&self, count: usize) -> Child {
        let mut client = self.start(&["call", "wait", r#"{"milliseconds": 100000000}"#, "--timeout", "1h"]);
        wait_until("the processes of the server", || {
            assert!(client.try_wait().unwrap().is_none(), "the call returned");
            self.sleeping() == count
        });
        client
    }

    fn sleeping(&self) -> usize {
        let is_sleep = |line: &String| line.starts_with("sleep\0");
        self.processes().iter().filter(|(_, line)| is_sleep(line)).count()
    }

    /// Returns the processes that have the mark in their command line. Zombies have no command line.
    fn processes(&self) -> Vec<(i32, String)> {
        let pids =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let lines =
            pids.filter_map(|pid: i32| Some((pid, fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?)));
        lines.filter(|(_, line)| line.contains(&self.mark)).collect()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        for (process, _) in self.processes() {
            kill(process);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn kill(process: i32) {
    let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
}

#[track_caller]
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts four processes that leave the session of the server: a child, a daemon, one that ignores SIGTERM,
/// and one without the environment of the server.
const DETACHES: &str = "
    setsid sleep $MARK <&- >&- 2>&- &
    (setsid sleep $MARK <&- >&- 2>&- &)
    (trap '' TERM; setsid sleep $MARK <&- >&- 2>&- &)
    (env -i setsid sleep $MARK <&- >&- 2>&- &)
    exec $SERVER";

#[test]
fn detached_processes_end_with_the_command() {
    let server = TestServer::new(1, DETACHES);
    let output = server.start(&["call", "echo", r#"{"text": "x"}"#]).wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"x\n"[..]));
    assert_eq!(server.processes(), []);
}

#[test]
fn detached_processes_end_when_toolwire_is_killed() {
    let server = TestServer::new(2, DETACHES);
    let mut client = server.start_endless_call(4);
    client.kill().unwrap();
    client.wait().unwrap();
    wait_until("the end of all processes", || server.processes().is_empty());
}

#[test]
fn nothing_is_left_when_toolwire_is_killed_during_the_start() {
    // The parent of the server is its guard, and the parent of the guard is `toolwire`.
    let script = "read -r pid name state toolwire rest < /proc/$PPID/stat; kill -KILL $toolwire;";
    let server = TestServer::new(3, &format!("{script} trap '' TERM; {DETACHES}"));
    for _ in 0..3 {
        let status = server.start(&["tools"]).wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status:?}");
        wait_until("the end of all processes", || server.processes().is_empty());
    }
}

#[test]
fn a_server_ends_when_its_guard_is_killed() {
    // A restart fails, so that only the processes of the first start can be left.
    let script = "[ -e started ] && exit 1; : > started; sleep $MARK <&- >&- 2>&- & exec $SERVER";
    let server = TestServer::new(4, script);
    let mut client = server.start_endless_call(1);
    let processes = server.processes();
    let (guard, _) = processes.iter().find(|(_, line)| line.starts_with("toolwire-guard\0")).unwrap();
    kill(*guard);
    wait_until("the end of all processes", || server.processes().is_empty());
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn the_exit_status_of_a_server_is_reported() {
    for (test, script, expected) in [
        (5, "exit 7", "exited with code 7"),
        (6, "kill -SEGV $$", "was killed by signal 11"),
        (7, "sleep $MARK & kill -KILL $$", "was killed by signal 9"),
    ] {
        let server = TestServer::new(test, script);
        let output = server.start(&["tools", "--json"]).wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(expected), "{text}");
        assert_eq!(server.processes(), []);
    }
}

/// The first process of a PID namespace, which waits only for the process that it has started. It prints the
/// exit status and all processes that are left with their states.
const FIRST_PROCESS: &str = r#"
import os, signal, subprocess, sys, time
def others():
    found = []
    for entry in os.listdir('/proc'):
        if entry.isdigit() and entry != '1':
            try:
                stat = open('/proc/' + entry + '/stat').read()
            except OSError:
                continue
            found.append(stat[stat.index('(') + 1:stat.rindex(')')] + ' ' + stat[stat.rindex(')') + 2])
    return sorted(found)
client = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)
if sys.argv[1] == 'kill':
    while others().count('sleep S') != 4:
        time.sleep(0.02)
    client.kill()
print(client.wait())
if sys.argv[1] == 'kill':
    while any(not process.endswith('Z') for process in others()):
        time.sleep(0.02)
else:
    print(others())
"#;

/// Runs `toolwire` in a PID namespace whose first process waits for no orphan. Returns `None` where this is
/// not permitted.
fn run_in_namespace(server: &TestServer, how: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !command.arg("true").status().is_ok_and(|status| status.success()) {
        // Not captured, unlike `eprintln!`.
        let _ = writeln!(std::io::stderr(), "SKIPPED: `unshare --pid` is not permitted here");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "python3", "-c", FIRST_PROCESS, how]);
    let output =
        server.prepare(command.arg(env!("CARGO_BIN_EXE_toolwire")).args(arguments)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn no_zombie_is_left_where_nothing_waits_for_orphans() {
    let server = TestServer::new(8, DETACHES);
    let Some(outcome) = run_in_namespace(&server, "wait", &["call", "echo", r#"{"text": "x"}"#]) else {
        return;
    };
    assert_eq!(outcome, "0\n[]\n");
}

#[test]
fn all_processes_end_where_nothing_waits_for_orphans() {
    let server = TestServer::new(9, DETACHES);
    let call = ["call", "wait", r#"{"milliseconds": 100000000}"#, "--timeout", "1h"];
    let Some(outcome) = run_in_namespace(&server, "kill", &call) else { return };
    assert_eq!(outcome, "-9\n");
}

#[test]
fn a_program_that_cannot_be_executed_is_reported_like_without_a_guard() {
    use std::os::unix::fs::PermissionsExt;

    let server = TestServer::new(90, "");
    let program = server.folder.join("server");
    fs::write(&program, "\u{7f}ELF").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = json!({"mcpServers": {"good": {"command": "./server"}}});
    fs::write(server.folder.join("mcp.json"), config.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    let output = server.prepare(&mut command).arg("tools").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("could not start `./server`: Exec format error (os error 8)"), "{stderr}");
}
