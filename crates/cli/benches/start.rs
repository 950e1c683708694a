//! Measures the time from the start of the process to the first byte of output, for one tool, compared with
//! `cat`.
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
    // Alternating, so that other load on the machine affects both.
    let (mut convert_times, mut baseline_times) = (Vec::with_capacity(RUNS), Vec::with_capacity(RUNS));
    for _ in 0..RUNS {
        match (time_to_first_byte(&mut convert), time_to_first_byte(&mut baseline)) {
            (Ok(convert_time), Ok(baseline_time)) => {
                convert_times.push(convert_time);
                baseline_times.push(baseline_time);
            }
            (Err(error), _) | (_, Err(error)) => {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("| | median | 90 % within |\n|---|--:|--:|");
    for (name, mut times) in [("toolwire convert", convert_times), ("cat", baseline_times)] {
        times.sort_unstable();
        let (median, percentile_90) = (times[RUNS / 2], times[RUNS * 9 / 10]);
        println!("| {name} | {:.2} ms | {:.2} ms |", milliseconds(median), milliseconds(percentile_90));
    }
    ExitCode::SUCCESS
}

fn time_to_first_byte(command: &mut Command) -> std::io::Result<Duration> {
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
    output.read_exact(&mut [0])?;
    let elapsed = started.elapsed();
    output.read_to_end(&mut Vec::new())?;
    child.wait()?;
    Ok(elapsed)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
