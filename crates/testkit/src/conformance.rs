//! MCP's own conformance suite: its list of scenarios, one run of a scenario, and the totals.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::InstalledServers;

/// The suite itself gives up on a scenario after 30 seconds; this limit is for a suite that hangs.
const SCENARIO_TIMEOUT: Duration = Duration::from_secs(120);

/// The side of MCP that is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestedSide {
    Client,
    Server,
}

/// A scenario in the suite's listing.
pub struct Scenario {
    pub name: String,
    pub scored: bool,
}

/// The installed suite, for one side.
pub struct ConformanceSuite {
    node: PathBuf,
    arguments: Vec<String>,
    side: TestedSide,
    output: PathBuf,
}

impl ConformanceSuite {
    /// Creates a runner for the installed suite; `output` is the file that receives the output of each run.
    ///
    /// # Panics
    ///
    /// When the suite is not installed.
    pub fn installed(side: TestedSide, output: PathBuf) -> ConformanceSuite {
        let command = InstalledServers::find().conformance();
        ConformanceSuite { node: command.command.into(), arguments: command.args, side, output }
    }

    /// Lists the scenarios that a revision requires of this side, and those that the suite runs without
    /// scoring.
    ///
    /// # Panics
    ///
    /// When the suite lists no scenario.
    pub fn scenarios(&self, revision: &str) -> Vec<Scenario> {
        let output =
            self.command().args(["list", "--requirements", revision]).output().expect("node is installed");
        let listing = String::from_utf8_lossy(&output.stdout).into_owned();
        let scenarios = parse_listing(&listing, self.side);
        assert!(
            !scenarios.is_empty(),
            "the suite lists no {:?} scenarios for {revision}:\n{listing}",
            self.side
        );
        scenarios
    }

    /// Runs a scenario against `target`, a command or a URL. Returns whether it passed, and the suite's
    /// output.
    ///
    /// # Errors
    ///
    /// When the suite cannot be run.
    pub fn run(&self, scenario: &Scenario, revision: &str, target: &str) -> io::Result<(bool, String)> {
        let (side, option) = match self.side {
            TestedSide::Client => ("client", "--command"),
            TestedSide::Server => ("server", "--url"),
        };
        let mut command = self.command();
        command.args([side, option, target, "--scenario", &scenario.name, "--spec-version", revision]);
        // An extension belongs to no revision, so the suite would skip it.
        if !scenario.scored {
            command.arg("--force");
        }
        self.run_to_end(&mut command)
    }

    /// Waits for the suite. Its output goes to a file, so a full pipe cannot block it.
    fn run_to_end(&self, command: &mut Command) -> io::Result<(bool, String)> {
        let file = File::create(&self.output)?;
        let mut child = command.stdout(file.try_clone()?).stderr(file).stdin(Stdio::null()).spawn()?;
        let deadline = Instant::now() + SCENARIO_TIMEOUT;
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

/// The totals over all scenarios.
#[derive(Default)]
pub struct ScenarioTally {
    pub passed: usize,
    pub skipped: usize,
    pub failures: Vec<String>,
}

impl ScenarioTally {
    /// Prints the failures and the totals.
    pub fn report(self) -> ExitCode {
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

/// Parses the listing: required scenarios are below a title for each side, the others have the side as a
/// suffix.
fn parse_listing(listing: &str, side: TestedSide) -> Vec<Scenario> {
    let (title, suffix) = match side {
        TestedSide::Client => ("Client scenarios", " [client]"),
        TestedSide::Server => ("Server scenarios", " [server]"),
    };
    let mut scenarios = Vec::new();
    let mut is_below_title = false;
    for line in listing.lines() {
        match line.trim_start().strip_prefix("- ") {
            None => is_below_title = line.starts_with(title),
            Some(name) => match name.strip_suffix(suffix) {
                Some(name) => scenarios.push(Scenario { name: name.into(), scored: false }),
                None if is_below_title => scenarios.push(Scenario { name: name.into(), scored: true }),
                None => (),
            },
        }
    }
    scenarios
}
