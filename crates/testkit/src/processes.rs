//! Running processes, read from /proc.

use std::fs;
use std::path::Path;

/// A process as listed in /proc.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    pub pid: u32,
    /// The first 15 bytes of the program's name.
    pub name: String,
    /// `R` running, `S` sleeping, …, `Z` zombie: ended, but its parent has not waited for it.
    pub state: char,
}

/// Returns the processes that were started with this environment variable. Zombies have no environment.
///
/// Every child inherits the variable, so this also finds orphans, which the process tree does not.
pub fn processes_with_variable(name: &str, value: &str) -> Vec<Process> {
    let wanted = format!("{name}={value}");
    let has_variable = |process: &Process| {
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| read_process(&entry.ok()?.path())).filter(has_variable).collect()
}

/// Returns the resident memory of a process in bytes, or `None` when the process has ended.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    memory(pid, "VmRSS:")
}

/// Returns the peak resident memory of a process in bytes, or `None` when the process has ended.
pub fn peak_bytes(pid: u32) -> Option<u64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, key: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns how many files, pipes and sockets a process has open, or `None` when the process has ended.
pub fn open_file_count(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

/// Returns `None` for an entry that is not a process, or for a process that has just ended.
fn read_process(folder: &Path) -> Option<Process> {
    let pid = folder.file_name()?.to_str()?.parse().ok()?;
    let stat = fs::read(folder.join("stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // `PID (NAME) STATE …`, where the name may contain any character, even parentheses.
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    Some(Process { pid, name: name.to_owned(), state: rest.trim_start().chars().next()? })
}
