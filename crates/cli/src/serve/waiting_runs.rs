//! Files with runs that wait for a decision, so that they survive a restart of the gateway.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use toolwire_gateway::page::RunStorage;

/// A folder with one file for each run.
pub(super) struct WaitingRuns {
    folder: PathBuf,
}

impl WaitingRuns {
    pub(super) fn new(folder: PathBuf) -> WaitingRuns {
        WaitingRuns { folder }
    }

    /// Runs an action with the file of a run, on a thread that may wait for the disk.
    fn with_file<T: Send + 'static>(
        &self,
        name: &str,
        action: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'_, io::Result<T>> {
        let path = self.folder.join(format!("{name}.json"));
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || action(&path)).await;
            done.unwrap_or_else(|error| Err(io::Error::other(error)))
        })
    }
}

impl RunStorage for WaitingRuns {
    fn names(&self) -> Vec<String> {
        let Ok(files) = fs::read_dir(&self.folder) else { return Vec::new() };
        let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
        names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
    }

    fn save(&self, name: String, text: String) -> BoxFuture<'_, io::Result<()>> {
        self.with_file(&name, move |path| write(path, &text))
    }

    fn load(&self, name: String) -> BoxFuture<'_, io::Result<String>> {
        self.with_file(&name, |path| fs::read_to_string(path))
    }

    fn remove(&self, name: String) -> BoxFuture<'_, io::Result<()>> {
        self.with_file(&name, |path| fs::remove_file(path))
    }
}

/// Writes a file that only its owner can read. A crash leaves the old file or the new one.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut folders = fs::DirBuilder::new();
    folders.recursive(true);
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
        folders.mode(0o700);
        options.mode(0o600);
    }
    if let Some(folder) = path.parent() {
        folders.create(folder)?;
    }
    let new = path.with_extension("new");
    let mut file = options.open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_is_found_by_the_next_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new/waiting");
        let runs = WaitingRuns::new(path.clone());
        assert_eq!(runs.names(), Vec::<String>::new());
        runs.save("a".to_owned(), "1".to_owned()).await.expect("saved");
        runs.save("a".to_owned(), "2".to_owned()).await.expect("saved");
        let next = WaitingRuns::new(path);
        assert_eq!(next.names(), ["a"]);
        assert_eq!(next.load("a".to_owned()).await.expect("loaded"), "2");
        next.remove("a".to_owned()).await.expect("removed");
        assert_eq!(next.names(), Vec::<String>::new());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_a_run() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("runs/a.json");
        write(&path, "x").expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
    }
}
