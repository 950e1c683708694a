//! What is running, read from /proc.
//!
//! A process whose parent died belongs to init, so a tree alone does not find what was left behind. What does is a
//! variable in the environment: children inherit it wherever they end up (see [`marked`]).

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// A process as /proc shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub group: u32,
    /// The first 15 bytes of the program's name.
    pub name: String,
    /// `R`unning, `S`leeping, … `Z`ombie: dead and not yet waited for.
    pub state: char,
}

/// The children of a process, their children and so on; zombies too. Not those whose parent died.
pub fn descendants(pid: u32) -> Vec<Process> {
    let all = all();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|process| process.parent == parent) {
            parents.push(child.pid);
            found.push(child.clone());
        }
    }
    found
}

/// The processes that have this variable in the environment they were started with. Zombies have none.
pub fn marked(name: &str, value: &str) -> Vec<Process> {
    let wanted = format!("{name}={value}");
    let has_mark = |process: &Process| {
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    all().into_iter().filter(has_mark).collect()
}

/// Waits until none of what `look` sees is left, at most until the deadline; else what is left.
///
/// `wait_gone(|| descendants(pid), Duration::from_secs(10))`
pub fn wait_gone(look: impl Fn() -> Vec<Process>, within: Duration) -> Result<(), Vec<Process>> {
    let deadline = Instant::now() + within;
    loop {
        let left = look();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(left);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The memory a process holds, in bytes. Nothing when it is gone.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    memory(pid, "VmRSS:")
}

/// The most memory a process ever held, in bytes. Nothing when it is gone.
pub fn peak_bytes(pid: u32) -> Option<u64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, key: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// How many files, pipes and sockets a process has open. Nothing when it is gone.
pub fn open_files(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| read(&entry.ok()?.path())).collect()
}

/// One that ends while we look is not there.
fn read(folder: &Path) -> Option<Process> {
    let pid = folder.file_name()?.to_str()?.parse().ok()?;
    let stat = fs::read(folder.join("stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // `PID (NAME) STATE PARENT GROUP …`, where the name may hold anything, brackets too.
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    Some(Process {
        pid,
        name: name.to_owned(),
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
    })
}
