//! MCP's own conformance suite: what it lists, one run of it, and the sum of all runs.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::Servers;

/// The suite gives up on a scenario after half a minute; this is for a suite that does not end.
const LONGEST_SCENARIO: Duration = Duration::from_secs(120);

/// Which side of MCP is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

/// A scenario as the suite lists it.
pub struct Listed {
    pub name: String,
    pub scored: bool,
}

/// The installed suite, for one side.
pub struct Suite {
    node: PathBuf,
    arguments: Vec<String>,
    side: Side,
    output: PathBuf,
}

impl Suite {
    /// `output` is a file for what a run says.
    ///
    /// # Panics
    ///
    /// When it is not installed.
    pub fn installed(side: Side, output: PathBuf) -> Suite {
        let launch = Servers::installed().conformance();
        Suite { node: launch.command.into(), arguments: launch.args, side, output }
    }

    /// What the suite says a revision requires of this side, and what it runs without scoring it.
    ///
    /// # Panics
    ///
    /// When it lists nothing.
    pub fn scenarios(&self, revision: &str) -> Vec<Listed> {
        let output =
            self.command().args(["list", "--requirements", revision]).output().expect("node was installed");
        let listing = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = read_listing(&listing, self.side);
        assert!(!found.is_empty(), "the suite lists no {:?} scenarios for {revision}:\n{listing}", self.side);
        found
    }

    /// Runs a scenario against what `target` names; whether the suite ended well, and what it said.
    ///
    /// # Errors
    ///
    /// When it cannot be run.
    pub fn run(&self, listed: &Listed, revision: &str, target: &str) -> io::Result<(bool, String)> {
        let (side, option) = match self.side {
            Side::Client => ("client", "--command"),
            Side::Server => ("server", "--url"),
        };
        let mut command = self.command();
        command.args([side, option, target, "--scenario", &listed.name, "--spec-version", revision]);
        // An extension belongs to no revision, so the suite would leave it out.
        if !listed.scored {
            command.arg("--force");
        }
        self.finish(&mut command)
    }

    /// Waits for the suite, with its output in a file, so that neither waits for the other.
    fn finish(&self, command: &mut Command) -> io::Result<(bool, String)> {
        let file = File::create(&self.output)?;
        let mut child = command.stdout(file.try_clone()?).stderr(file).stdin(Stdio::null()).spawn()?;
        let deadline = Instant::now() + LONGEST_SCENARIO;
        let ended_well = loop {
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
        Ok((ended_well, std::fs::read_to_string(&self.output)?))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.node);
        command.args(&self.arguments).env("NO_COLOR", "1");
        command
    }
}

/// What came of all scenarios.
#[derive(Default)]
pub struct Tally {
    pub passed: usize,
    pub skipped: usize,
    pub failures: Vec<String>,
}

impl Tally {
    /// Tells the failures and the sum.
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

/// The listing has the required ones under a title for each side, and the others marked with the side they are for.
fn read_listing(listing: &str, side: Side) -> Vec<Listed> {
    let (title, mark) = match side {
        Side::Client => ("Client scenarios", " [client]"),
        Side::Server => ("Server scenarios", " [server]"),
    };
    let mut found = Vec::new();
    let mut of_this_side = false;
    for line in listing.lines() {
        match line.trim_start().strip_prefix("- ") {
            None => of_this_side = line.starts_with(title),
            Some(name) => match name.strip_suffix(mark) {
                Some(name) => found.push(Listed { name: name.into(), scored: false }),
                None if of_this_side => found.push(Listed { name: name.into(), scored: true }),
                None => (),
            },
        }
    }
    found
}
