//! The processes of this machine, read from `/proc`. Systems without it have an empty table.

use std::fs;
use std::path::Path;

/// One line of the process table.
pub(crate) struct ProcessEntry {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// Whether the process has exited, but its parent has not waited for it yet.
    pub(crate) is_zombie: bool,
    /// The processor time of the process and of the children that it has waited for, in clock ticks.
    pub(crate) processor_time: u64,
}

/// Whether the system has a process table.
pub(crate) fn exists() -> bool {
    Path::new("/proc/self/stat").exists()
}

/// Returns all processes that this user can see.
pub(crate) fn processes() -> Vec<ProcessEntry> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// Returns how many bytes a process has read and written, including its network connections and pipes.
pub(crate) fn transferred_bytes(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let number = |line: &str| line.split_once("char: ")?.1.parse::<u64>().ok();
    Some(text.lines().filter_map(number).sum())
}

/// Keeps only the descendants of `ancestor`.
pub(crate) fn descendants(ancestor: i32, processes: &[ProcessEntry]) -> Vec<&ProcessEntry> {
    let children = |parent: i32| processes.iter().filter(move |process| process.parent == parent);
    let mut found: Vec<&ProcessEntry> = children(ancestor).collect();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        found.extend(children(process.pid));
        next += 1;
    }
    found
}

/// Parses `PID (NAME) STATE PARENT GROUP …`, where the name may contain any byte.
fn parse(stat: &[u8]) -> Option<ProcessEntry> {
    let stat = String::from_utf8_lossy(stat);
    let (start, rest) = stat.rsplit_once(')')?;
    let pid = start.split_once(' ')?.0.parse().ok()?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
    Some(ProcessEntry {
        pid,
        parent: i32::try_from(number(1)?).ok()?,
        group: i32::try_from(number(2)?).ok()?,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        processor_time: (11..15).filter_map(number).filter_map(|time| u64::try_from(time).ok()).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_anything() {
        let stat = b"12 (a) b (\xff) Z 3 4 5 0 -1 0 0 0 0 0 10 20 30 40 20 0";
        let process = parse(stat).expect("it is valid");
        assert_eq!((process.pid, process.parent, process.group), (12, 3, 4));
        assert_eq!((process.is_zombie, process.processor_time), (true, 100));
        assert!(parse(b"12 (a").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn descendants_include_the_children_of_children() {
        let entry = |pid, parent| ProcessEntry { pid, parent, group: 0, is_zombie: false, processor_time: 0 };
        let table = [entry(5, 4), entry(2, 1), entry(4, 2), entry(3, 9)];
        let found: Vec<i32> = descendants(1, &table).iter().map(|process| process.pid).collect();
        assert_eq!(found, [2, 4, 5]);
        let this = i32::try_from(std::process::id()).expect("it is a process id");
        assert!(processes().iter().any(|process| process.pid == this && !process.is_zombie));
    }
}
