//! Measures the time from the last byte of the output of `toolwire call` to the exit of the command, in which
//! it stops the server, and the time that the server alone takes to exit at the end of its input.
//!
//! `cargo bench -p toolwire --bench exit`; with `TOOLWIRE_TEST_SERVERS`, also with a server in Node.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolwire_testkit::{InstalledServers, misbehaving_server};

const RUNS: usize = 30;

/// The arguments for either server.
const ARGUMENTS: &str = r#"{"text": "x", "message": "x"}"#;

/// The goal for what the command takes longer than the server alone, from median to median.
const GOAL: Duration = Duration::from_millis(100);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let alone = json!({"command": misbehaving_server(), "args": []});
    // The orphan has a session of its own, and does not end with the server.
    let script = format!("setsid sleep 600 & exec '{}'", misbehaving_server().display());
    let with_orphan = json!({"command": "sh", "args": ["-c", script]});
    let mut servers = vec![
        ("native server that exits at the end of its input", alone.clone(), alone.clone(), "x\n"),
        ("the same with an orphan", with_orphan, alone, "x\n"),
    ];
    if std::env::var_os("TOOLWIRE_TEST_SERVERS").is_some() {
        let node = InstalledServers::find().everything();
        let server = json!({"command": node.command, "args": node.args});
        servers.push(("`server-everything` (Node)", server.clone(), server, "Echo: x\n"));
    }
    println!("| server | median | 90 % within | the server alone |\n|---|--:|--:|--:|");
    let mut is_reached = true;
    for (name, server, alone, output) in servers {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("mcp.json"), json!({"mcpServers": {"one": server}}).to_string())?;
        let (median, percentile_90) = measure(|| time_to_exit(folder.path(), output))?;
        let (baseline, _) = measure(|| time_of_server(&alone))?;
        let times = [median, percentile_90, baseline].map(|time| format!("{:.1} ms", milliseconds(time)));
        println!("| {name} | {} |", times.join(" | "));
        is_reached &= median.saturating_sub(baseline) < GOAL;
    }
    Ok(if is_reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the median, and the time within which 90 % of the runs are.
fn measure(
    run: impl Fn() -> Result<Duration, Box<dyn Error>>,
) -> Result<(Duration, Duration), Box<dyn Error>> {
    let mut times = (0..RUNS).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
    times.sort_unstable();
    Ok((times[RUNS / 2], times[RUNS * 9 / 10]))
}

fn time_to_exit(folder: &Path, output: &str) -> Result<Duration, Box<dyn Error>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    command.args(["call", "echo", ARGUMENTS]).current_dir(folder);
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

/// Makes the same call without Toolwire, and returns the time from the end of the input to the server's exit.
fn time_of_server(server: &Value) -> Result<Duration, Box<dyn Error>> {
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or("not a string");
    let arguments: Vec<String> =
        server["args"].as_array().into_iter().flatten().map(text).collect::<Result<_, _>>()?;
    let mut command = Command::new(text(&server["command"])?);
    let mut child =
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let (mut stdin, stdout) =
        (child.stdin.take().ok_or("no input")?, child.stdout.take().ok_or("no output")?);
    let mut lines = BufReader::new(stdout).lines();
    let client = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}))?;
    wait_for_response(&mut lines, 1)?;
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    let call = json!({"name": "echo", "arguments": serde_json::from_str::<Value>(ARGUMENTS)?});
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}))?;
    wait_for_response(&mut lines, 2)?;
    let answered = Instant::now();
    drop(stdin);
    child.wait()?;
    Ok(answered.elapsed())
}

/// Skips other messages, such as notifications.
fn wait_for_response(
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
    id: u64,
) -> Result<(), Box<dyn Error>> {
    for line in lines {
        let message: Value = serde_json::from_str(&line?)?;
        if message["id"] == id && message.get("method").is_none() {
            return if message.get("result").is_some() { Ok(()) } else { Err(message.to_string().into()) };
        }
    }
    Err("the server has ended".into())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
