//! Measures the time from the last byte of the output of `toolwire call` to the exit of the command, in which
//! it stops the server.
//!
//! `cargo bench -p toolwire --bench exit`; with `TOOLWIRE_TEST_SERVERS`, also with a server in Node.

use std::error::Error;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolwire_testkit::{InstalledServers, misbehaving_server};

const RUNS: usize = 30;

/// The goal for each median.
const GOAL: Duration = Duration::from_millis(100);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let native = misbehaving_server();
    // The orphan has a session of its own, and does not end with the server.
    let script = format!("setsid sleep 600 & exec '{}'", native.display());
    let mut servers = vec![
        ("native server that exits at the end of its input", json!({"command": native}), "x\n"),
        ("the same with an orphan", json!({"command": "sh", "args": ["-c", script]}), "x\n"),
    ];
    if std::env::var_os("TOOLWIRE_TEST_SERVERS").is_some() {
        let node = InstalledServers::find().everything();
        let server = json!({"command": node.command, "args": node.args});
        servers.push(("`server-everything` (Node)", server, "Echo: x\n"));
    }
    println!("| server | median | 90 % within |\n|---|--:|--:|");
    let mut is_reached = true;
    for (name, server, output) in servers {
        let (median, percentile_90) = measure(&server, output)?;
        println!("| {name} | {:.1} ms | {:.1} ms |", milliseconds(median), milliseconds(percentile_90));
        is_reached &= median < GOAL;
    }
    Ok(if is_reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn measure(server: &Value, output: &str) -> Result<(Duration, Duration), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("mcp.json"), json!({"mcpServers": {"one": server}}).to_string())?;
    let times: Result<Vec<Duration>, _> = (0..RUNS).map(|_| time_to_exit(folder.path(), output)).collect();
    let mut times = times?;
    times.sort_unstable();
    Ok((times[RUNS / 2], times[RUNS * 9 / 10]))
}

fn time_to_exit(folder: &Path, output: &str) -> Result<Duration, Box<dyn Error>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    command.args(["call", "echo", r#"{"text": "x", "message": "x"}"#]).current_dir(folder);
    command.env("XDG_DATA_HOME", folder.join("data")).env_remove("TOOLWIRE_CONFIG");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut read = vec![0; output.len()];
    child.stdout.as_mut().ok_or("no output")?.read_exact(&mut read)?;
    let answered = Instant::now();
    let status = child.wait()?;
    let elapsed = answered.elapsed();
    if read != output.as_bytes() || !status.success() {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&read)).into());
    }
    Ok(elapsed)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
