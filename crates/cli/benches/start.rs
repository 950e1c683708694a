//! From the start of the process to the first byte of output, for one tool, beside the smallest program of the system.
//!
//! `cargo bench -p toolwire --bench start`

use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const RUNS: usize = 300;

fn main() -> ExitCode {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/weather.json");
    let mut convert = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    convert.arg("convert").arg(&tool).args(["--to", "openai"]);
    let mut baseline = Command::new("cat");
    baseline.arg(&tool);
    // In turns, so that what else the machine does strikes both.
    let (mut ours, mut theirs) = (Vec::with_capacity(RUNS), Vec::with_capacity(RUNS));
    for _ in 0..RUNS {
        match (first_byte(&mut convert), first_byte(&mut baseline)) {
            (Ok(one), Ok(other)) => {
                ours.push(one);
                theirs.push(other);
            }
            (Err(error), _) | (_, Err(error)) => {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("| | median | 90 % within |\n|---|--:|--:|");
    for (name, mut times) in [("toolwire convert", ours), ("cat", theirs)] {
        times.sort_unstable();
        let (median, most) = (times[RUNS / 2], times[RUNS * 9 / 10]);
        println!("| {name} | {:.2} ms | {:.2} ms |", milliseconds(median), milliseconds(most));
    }
    ExitCode::SUCCESS
}

fn first_byte(command: &mut Command) -> std::io::Result<Duration> {
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
    output.read_exact(&mut [0])?;
    let took = started.elapsed();
    output.read_to_end(&mut Vec::new())?;
    child.wait()?;
    Ok(took)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
