//! MCP's own conformance suite, client side: every scenario of both revisions that the suite requires, one by one.
//!
//! The suite runs this same program as the client (it sets `MCP_CONFORMANCE_SCENARIO`), so what is tested is never older than
//! the tests. Words on the command line choose scenarios: `cargo test -p toolwire-hub --test conformance -- auth/iss`.

mod client;
mod scenarios;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use scenarios::Flow;
use toolwire_testkit::Servers;

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// The suite gives up on a client after half a minute; this is for a suite that does not end.
const LONGEST_SCENARIO: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    if let Ok(scenario) = std::env::var("MCP_CONFORMANCE_SCENARIO") {
        return client::main(&scenario);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let suite = Suite::installed();
    let mut tally = Tally::default();
    for revision in REVISIONS {
        println!("\nconformance with MCP {revision}, as a client");
        for listed in suite.scenarios(revision) {
            if chosen.is_empty() || chosen.iter().any(|word| listed.name.contains(word)) {
                tally.add(revision, &listed, &suite);
            }
        }
    }
    tally.report()
}

#[derive(Default)]
struct Tally {
    passed: usize,
    skipped: usize,
    failures: Vec<String>,
}

impl Tally {
    fn add(&mut self, revision: &str, listed: &Listed, suite: &Suite) {
        let Listed { name, scored } = listed;
        let note = if *scored { "" } else { " (not scored)" };
        match scenarios::named(name) {
            Some(scenario) => match scenario.flow {
                Flow::Skip(reason) => {
                    self.skipped += 1;
                    println!("  {name}{note}: skipped, {reason}");
                }
                _ => match suite.run(listed, revision) {
                    Ok(()) => {
                        self.passed += 1;
                        println!("  {name}{note}: passed");
                    }
                    Err(output) => {
                        println!("  {name}{note}: FAILED");
                        let wants = scenario.wants;
                        self.failures.push(format!("{name} of {revision}, which wants: {wants}\n{output}"));
                    }
                },
            },
            None => {
                println!("  {name}{note}: FAILED");
                self.failures.push(format!("{name} of {revision} is not in the table of scenarios"));
            }
        }
    }

    fn report(self) -> ExitCode {
        for failure in &self.failures {
            println!("\n---- {failure}");
        }
        println!("\n{} passed, {} failed, {} skipped\n", self.passed, self.failures.len(), self.skipped);
        match self.failures.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}

/// A client scenario as the suite lists it.
struct Listed {
    name: String,
    scored: bool,
}

struct Suite {
    node: PathBuf,
    arguments: Vec<String>,
    client: PathBuf,
    output: PathBuf,
}

impl Suite {
    fn installed() -> Suite {
        let launch = Servers::installed().conformance();
        Suite {
            node: launch.command.into(),
            arguments: launch.args,
            client: std::env::current_exe().expect("a running program has a path"),
            output: Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance"),
        }
    }

    /// What the suite says a revision requires of clients, and what it runs without scoring it.
    fn scenarios(&self, revision: &str) -> Vec<Listed> {
        let output =
            self.command().args(["list", "--requirements", revision]).output().expect("node was installed");
        let listing = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = read_listing(&listing);
        assert!(!found.is_empty(), "the suite lists no client scenarios for {revision}:\n{listing}");
        found
    }

    /// The suite's output when it is not content.
    fn run(&self, listed: &Listed, revision: &str) -> Result<(), String> {
        let mut tries = scenarios::tries(&listed.name);
        loop {
            tries -= 1;
            match self.run_once(listed, revision) {
                Err(_) if tries > 0 => (),
                outcome => return outcome,
            }
        }
    }

    fn run_once(&self, listed: &Listed, revision: &str) -> Result<(), String> {
        let client = self.client.to_str().ok_or("the path of this program is not text")?;
        let mut command = self.command();
        command.args(["client", "--command", client, "--scenario", &listed.name, "--spec-version", revision]);
        // An extension belongs to no revision, so the suite would leave it out.
        if !listed.scored {
            command.arg("--force");
        }
        let (passed, output) = self.finish(&mut command).map_err(|error| error.to_string())?;
        // The suite takes a scenario that it does not run for a success.
        match passed && !output.contains("SKIPPED: scenario") {
            true => Ok(()),
            false => Err(output),
        }
    }

    /// Waits for the suite, with its output in a file, so that neither waits for the other.
    fn finish(&self, command: &mut Command) -> io::Result<(bool, String)> {
        let file = File::create(&self.output)?;
        let mut child = command.stdout(file.try_clone()?).stderr(file).stdin(Stdio::null()).spawn()?;
        let deadline = Instant::now() + LONGEST_SCENARIO;
        let passed = loop {
            if let Some(status) = child.try_wait()? {
                break status.success();
            }
            if Instant::now() >= deadline {
                child.kill()?;
                child.wait()?;
                break false;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        Ok((passed, std::fs::read_to_string(&self.output)?))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.node);
        command.args(&self.arguments).env("NO_COLOR", "1");
        command
    }
}

/// The suite's listing has the required ones under `Client scenarios`, and the others marked with the side they are for.
fn read_listing(listing: &str) -> Vec<Listed> {
    let mut found = Vec::new();
    let mut of_clients = false;
    for line in listing.lines() {
        match line.trim_start().strip_prefix("- ") {
            None => of_clients = line.starts_with("Client scenarios"),
            Some(name) => match name.strip_suffix(" [client]") {
                Some(name) => found.push(Listed { name: name.into(), scored: false }),
                None if of_clients => found.push(Listed { name: name.into(), scored: true }),
                None => (),
            },
        }
    }
    found
}
