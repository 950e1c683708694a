//! Finds the program of a server, and what it may know of our environment.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::Secret;

/// Variables that a process needs to run at all. The rest of our environment is none of a server's business.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TMPDIR",
    "TZ",
    "LC_*",
    // Where programs find and keep their files; what else begins like this tells of the desktop.
    "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];
#[cfg(windows)]
const PASSED_ON_BY_WINDOWS: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];
#[cfg(not(windows))]
const PASSED_ON_BY_WINDOWS: &[&str] = &[];

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("there is no command `{command}` in {}", places(searched))]
    NotFound { command: String, searched: Vec<PathBuf> },
    #[error("`{}` is not executable", path.display())]
    NotExecutable { path: PathBuf },
    #[error("there is no folder `{}` to run `{command}` in", cwd.display())]
    NoFolder { command: String, cwd: PathBuf },
    #[error("`{}` could not be started", path.display())]
    Failed { path: PathBuf, source: std::io::Error },
}

/// What a server's process sees: the little of `ours` that it needs, and what the configuration gives it.
pub(super) fn environment(
    ours: &[(OsString, OsString)],
    given: &[(String, Secret)],
) -> Vec<(OsString, OsString)> {
    let needed = ours.iter().filter(|(name, _)| name.to_str().is_some_and(is_passed_on)).cloned();
    let given = given.iter().map(|(name, value)| (name.into(), value.expose().into()));
    needed.chain(given).collect()
}

/// The program that `command` stands for.
pub(super) fn find(
    command: &str,
    cwd: Option<&Path>,
    environment: &[(OsString, OsString)],
) -> Result<PathBuf, SpawnError> {
    if Path::new(command).components().count() > 1 || Path::new(command).is_absolute() {
        let path = cwd.map_or_else(|| PathBuf::from(command), |cwd| cwd.join(command));
        return match look(&path) {
            Found::Program(path) => Ok(path),
            Found::NotExecutable => Err(SpawnError::NotExecutable { path }),
            Found::Nothing => {
                let folder = path.parent().map(Path::to_owned).into_iter().collect();
                Err(SpawnError::NotFound { command: command.into(), searched: folder })
            }
        };
    }
    let path_variable =
        environment.iter().rev().find(|(name, _)| is_path(name)).map(|(_, value)| value.as_os_str());
    let folders = std::env::split_paths(path_variable.unwrap_or(OsStr::new("")));
    let folders: Vec<PathBuf> = folders.filter(|folder| !folder.as_os_str().is_empty()).collect();
    let mut refused = None;
    for folder in &folders {
        match look(&folder.join(command)) {
            Found::Program(path) => return Ok(path),
            Found::NotExecutable => refused = refused.or(Some(folder.join(command))),
            Found::Nothing => {}
        }
    }
    match refused {
        Some(path) => Err(SpawnError::NotExecutable { path }),
        None => Err(SpawnError::NotFound { command: command.into(), searched: folders }),
    }
}

enum Found {
    Program(PathBuf),
    NotExecutable,
    Nothing,
}

#[cfg(unix)]
fn look(path: &Path) -> Found {
    use std::os::unix::fs::PermissionsExt;

    match path.metadata() {
        Ok(metadata) if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 => {
            Found::Program(path.into())
        }
        Ok(metadata) if metadata.is_file() => Found::NotExecutable,
        _ => Found::Nothing,
    }
}

#[cfg(not(unix))]
fn look(path: &Path) -> Found {
    let named = ["", "exe", "cmd", "bat", "com"].iter().map(|extension| match *extension {
        "" => path.to_owned(),
        extension => path.with_added_extension(extension),
    });
    named
        .into_iter()
        .find(|path| path.extension().is_some() && path.is_file())
        .map_or(Found::Nothing, Found::Program)
}

fn is_passed_on(name: &str) -> bool {
    let mut names = PASSED_ON.iter().chain(PASSED_ON_BY_WINDOWS);
    names.any(|passed| match passed.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *passed || (cfg!(windows) && name.eq_ignore_ascii_case(passed)),
    })
}

fn is_path(name: &OsStr) -> bool {
    name == "PATH" || (cfg!(windows) && name.eq_ignore_ascii_case("PATH"))
}

fn places(searched: &[PathBuf]) -> String {
    if searched.is_empty() {
        return "`PATH`, which is empty".into();
    }
    let shown: Vec<String> = searched.iter().map(|folder| format!("`{}`", folder.display())).collect();
    shown.join(", ")
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn path(folders: &str) -> Vec<(OsString, OsString)> {
        vec![("PATH".into(), folders.into())]
    }

    #[test]
    fn only_what_a_process_needs_is_passed_on() {
        let ours: Vec<(OsString, OsString)> = [
            "PATH",
            "HOME",
            "LC_ALL",
            "XDG_RUNTIME_DIR",
            "XDG_SESSION_ID",
            "XDG_API_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "OPENAI_API_KEY",
            "PATHOLOGY",
        ]
        .map(|name| (name.into(), "ours".into()))
        .into();
        let given = [("OPENAI_API_KEY".to_owned(), Secret::new("given"))];
        let seen: Vec<String> = environment(&ours, &given)
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert_eq!(
            seen,
            ["PATH=ours", "HOME=ours", "LC_ALL=ours", "XDG_RUNTIME_DIR=ours", "OPENAI_API_KEY=given"]
        );
    }

    #[test]
    fn a_command_is_looked_up_in_the_path_that_it_will_see() {
        let mut environment = path("/nowhere");
        assert_eq!(
            find("sh", None, &environment).unwrap_err().to_string(),
            "there is no command `sh` in `/nowhere`"
        );
        environment.push(("PATH".into(), "/nowhere:/bin".into()));
        assert_eq!(find("sh", None, &environment).unwrap(), Path::new("/bin/sh"));
    }

    #[test]
    fn a_file_that_cannot_be_run_is_told_apart_from_none() {
        assert_eq!(
            find("/etc/passwd", None, &[]).unwrap_err().to_string(),
            "`/etc/passwd` is not executable"
        );
        assert_eq!(
            find("passwd", None, &path("/etc")).unwrap_err().to_string(),
            "`/etc/passwd` is not executable"
        );
        assert_eq!(find("./none", None, &[]).unwrap_err().to_string(), "there is no command `./none` in `.`");
        assert_eq!(
            find("none", None, &[]).unwrap_err().to_string(),
            "there is no command `none` in `PATH`, which is empty"
        );
    }

    #[test]
    fn a_relative_command_is_one_of_the_folder_it_runs_in() {
        assert_eq!(find("./sh", Some(Path::new("/bin")), &[]).unwrap(), Path::new("/bin/./sh"));
    }
}
