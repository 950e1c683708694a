//! MCP's own conformance suite, server side: every scenario of both revisions that the suite requires, one by one.
//!
//! Words on the command line choose scenarios: `cargo test -p toolwire-toolkit --test conformance -- prompts`. With
//! `--serve` the fixture is served until it is stopped, for a closer look.

#[path = "../fixture/mod.rs"]
mod fixture;
mod scenarios;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use scenarios::Verdict;
use toolwire_testkit::Servers;
use toolwire_toolkit::{HttpOptions, HttpServer, serve_http};

/// Each revision with the number of checks that the scenarios which are run come to: fewer would mean that some were not
/// made. In 2026-07-28 there would be one more if single answers were streams: they are JSON, which the suite only notes.
const REVISIONS: [(&str, usize); 2] = [("2025-11-25", 83), ("2026-07-28", 196)];

/// This is for a suite that does not end.
const LONGEST_SCENARIO: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let server = runtime.block_on(serve());
    if words.iter().any(|word| word == "--serve") {
        println!("{}", server.url());
        runtime.block_on(std::future::pending::<()>());
    }
    let chosen: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let suite = Suite::installed(server.url());
    let mut tally = Tally::default();
    for (revision, checks) in REVISIONS {
        println!("\nconformance with MCP {revision}, as a server");
        let mut made = 0;
        for listed in suite.scenarios(revision) {
            if chosen.is_empty() || chosen.iter().any(|word| listed.name.contains(word)) {
                made += tally.add(revision, &listed, &suite);
            }
        }
        println!("  {made} checks passed");
        if chosen.is_empty() && made < checks {
            tally.failures.push(format!("{revision} wants {checks} checks passed, and {made} were"));
        }
    }
    runtime.block_on(server.shutdown(Duration::from_secs(5)));
    tally.report()
}

async fn serve() -> HttpServer {
    let address = ([127, 0, 0, 1], 0).into();
    serve_http(fixture::server(), address, HttpOptions::default())
        .await
        .expect("a free port can be listened on")
}

#[derive(Default)]
struct Tally {
    passed: usize,
    skipped: usize,
    failures: Vec<String>,
}

impl Tally {
    /// How many checks passed.
    fn add(&mut self, revision: &str, listed: &Listed, suite: &Suite) -> usize {
        let Listed { name, scored } = listed;
        let note = if *scored { "" } else { " (not scored)" };
        match scenarios::verdict(name, *scored) {
            Verdict::Skip(reason) => {
                self.skipped += 1;
                println!("  {name}{note}: skipped, {reason}");
                0
            }
            verdict => match suite.run(listed, revision, &verdict) {
                Ok(checks) => {
                    self.passed += 1;
                    let but = match verdict {
                        Verdict::Warns(_, reason) => format!(", with a warning: {reason}"),
                        _ => String::new(),
                    };
                    println!("  {name}{note}: passed, {checks} checks{but}");
                    checks
                }
                Err(output) => {
                    println!("  {name}{note}: FAILED");
                    self.failures.push(format!("{name} of {revision}\n{output}"));
                    0
                }
            },
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

/// A server scenario as the suite lists it.
struct Listed {
    name: String,
    scored: bool,
}

struct Suite {
    node: PathBuf,
    arguments: Vec<String>,
    url: String,
    output: PathBuf,
}

impl Suite {
    fn installed(url: String) -> Suite {
        let launch = Servers::installed().conformance();
        Suite {
            node: launch.command.into(),
            arguments: launch.args,
            url,
            output: Path::new(env!("CARGO_TARGET_TMPDIR")).join("server-conformance"),
        }
    }

    /// What the suite says a revision requires of servers, and what it runs without scoring it.
    fn scenarios(&self, revision: &str) -> Vec<Listed> {
        let output =
            self.command().args(["list", "--requirements", revision]).output().expect("node was installed");
        let listing = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = read_listing(&listing);
        assert!(!found.is_empty(), "the suite lists no server scenarios for {revision}:\n{listing}");
        found
    }

    /// How many checks passed, or the suite's output when it is not content.
    fn run(&self, listed: &Listed, revision: &str, verdict: &Verdict) -> Result<usize, String> {
        let allowed = match verdict {
            Verdict::Warns(warnings, _) => *warnings,
            _ => 0,
        };
        let mut tries = scenarios::tries(&listed.name);
        loop {
            tries -= 1;
            match self.run_once(listed, revision, allowed) {
                Err(_) if tries > 0 => (),
                outcome => return outcome,
            }
        }
    }

    fn run_once(&self, listed: &Listed, revision: &str, allowed: usize) -> Result<usize, String> {
        let mut command = self.command();
        command.args(["server", "--url", &self.url, "--scenario", &listed.name, "--spec-version", revision]);
        if !listed.scored {
            command.arg("--force");
        }
        let (ended_well, output) = self.finish(&mut command).map_err(|error| error.to_string())?;
        let tally = read_tally(&output);
        // The suite takes a scenario that it does not run for a success.
        match (ended_well, tally) {
            (true, Some((passed, 0, warnings))) if passed > 0 && warnings == allowed => Ok(passed),
            _ => Err(output),
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

/// Passed, failed and warned, as the suite sums a scenario up: `Passed: 3/3, 0 failed, 0 warnings`.
fn read_tally(output: &str) -> Option<(usize, usize, usize)> {
    let line = output.lines().find_map(|line| line.trim().strip_prefix("Passed: "))?;
    let mut parts = line.split(", ");
    let passed = parts.next()?.split('/').next()?.parse().ok()?;
    let mut number = || parts.next()?.split(' ').next()?.parse().ok();
    Some((passed, number()?, number()?))
}

/// The suite's listing has the required ones under `Server scenarios`, and the others marked with the side they are for.
fn read_listing(listing: &str) -> Vec<Listed> {
    let mut found = Vec::new();
    let mut of_servers = false;
    for line in listing.lines() {
        match line.trim_start().strip_prefix("- ") {
            None => of_servers = line.starts_with("Server scenarios"),
            Some(name) => match name.strip_suffix(" [server]") {
                Some(name) => found.push(Listed { name: name.into(), scored: false }),
                None if of_servers => found.push(Listed { name: name.into(), scored: true }),
                None => (),
            },
        }
    }
    found
}
