//! Finds the program of a server, and selects its environment variables.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::Secret;

/// The variables that a process needs to run. The rest of our environment is hidden from servers.
const INHERITED: &[&str] = &[
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
    // The folders of programs' files. Other `XDG_` variables describe the desktop session.
    "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    // Certificates and proxies: without them, a server in a company network reaches nothing.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "all_proxy",
    "no_proxy",
];
#[cfg(windows)]
const INHERITED_ON_WINDOWS: &[&str] = &[
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
const INHERITED_ON_WINDOWS: &[&str] = &[];

#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    #[error("command `{command}` not found in {}", folder_list(searched))]
    NotFound { command: String, searched: Vec<PathBuf> },
    #[error("no such file: `{}`", path.display())]
    NoFile { path: PathBuf },
    #[error("`{}` is not executable", path.display())]
    NotExecutable { path: PathBuf },
    #[error("`{}` is a directory, not a program", path.display())]
    IsDirectory { path: PathBuf },
    #[error("the working directory `{}` of `{command}` does not exist", cwd.display())]
    NoDirectory { command: String, cwd: PathBuf },
    #[error("the working directory `{}` of `{command}` is not a directory", cwd.display())]
    NotADirectory { command: String, cwd: PathBuf },
    #[error("`{}` is run by `{}`, which does not exist", path.display(), interpreter.escape_debug())]
    NoInterpreter { path: PathBuf, interpreter: String },
    #[error("could not start `{}`: {source}", path.display())]
    Failed { path: PathBuf, source: std::io::Error },
}

/// Returns the environment of a server process: the variables of `ours` that it needs, and the configured
/// ones.
pub(super) fn environment(
    ours: &[(OsString, OsString)],
    configured: &[(String, Secret)],
) -> Vec<(OsString, OsString)> {
    let inherited = ours.iter().filter(|(name, _)| name.to_str().is_some_and(is_inherited)).cloned();
    let configured = configured.iter().map(|(name, value)| (name.into(), value.expose().into()));
    inherited.chain(configured).collect()
}

/// Replaces `~` or `~/` at the start of a path by the home folder, as a shell does.
pub(super) fn expand_home(path: &str, environment: &[(OsString, OsString)]) -> OsString {
    let variable = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    let home = environment.iter().rev().find(|(name, _)| name == variable).map(|(_, value)| value);
    match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.clone(),
        (Some(rest), Some(home)) if rest.starts_with(std::path::is_separator) => {
            Path::new(home).join(&rest[1..]).into_os_string()
        }
        _ => path.into(),
    }
}

/// Returns the path of the program that `command` names.
pub(super) fn find_program(
    command: &str,
    cwd: Option<&Path>,
    environment: &[(OsString, OsString)],
) -> Result<PathBuf, SpawnError> {
    let mut components = Path::new(command).components();
    let is_name = matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
    if !is_name {
        let path = cwd.map_or_else(|| PathBuf::from(command), |cwd| cwd.join(command));
        return match look_up(&path) {
            FoundFile::Program(path) => with_interpreter(path, environment),
            FoundFile::NotExecutable => Err(SpawnError::NotExecutable { path }),
            FoundFile::None if path.is_dir() => Err(SpawnError::IsDirectory { path }),
            // It may have arguments.
            FoundFile::None if command.contains(' ') => {
                let folder = path.parent().map(Path::to_owned).into_iter().collect();
                Err(SpawnError::NotFound { command: command.into(), searched: folder })
            }
            FoundFile::None => Err(SpawnError::NoFile { path }),
        };
    }
    match find_in_path(command, environment) {
        Ok(path) => with_interpreter(path, environment),
        not_found => not_found,
    }
}

fn find_in_path(command: &str, environment: &[(OsString, OsString)]) -> Result<PathBuf, SpawnError> {
    let path_variable =
        environment.iter().rev().find(|(name, _)| is_path(name)).map(|(_, value)| value.as_os_str());
    let folders = std::env::split_paths(path_variable.unwrap_or(OsStr::new("")));
    let folders: Vec<PathBuf> = folders.filter(|folder| !folder.as_os_str().is_empty()).collect();
    let mut not_executable = None;
    for folder in &folders {
        match look_up(&folder.join(command)) {
            FoundFile::Program(path) => return Ok(path),
            FoundFile::NotExecutable => not_executable = not_executable.or(Some(folder.join(command))),
            FoundFile::None => {}
        }
    }
    match not_executable {
        Some(path) => Err(SpawnError::NotExecutable { path }),
        None => Err(SpawnError::NotFound { command: command.into(), searched: folders }),
    }
}

/// Checks that the interpreter of a script exists. Otherwise the system reports that the script is missing,
/// or `env` fails.
fn with_interpreter(path: PathBuf, environment: &[(OsString, OsString)]) -> Result<PathBuf, SpawnError> {
    const MAX_LINE_BYTES: u64 = 256;
    let mut start = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(MAX_LINE_BYTES).read_to_end(&mut start));
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let script = std::str::from_utf8(line).ok().and_then(|line| line.strip_prefix("#!"));
    let (Ok(_), Some(script), true) = (read, script, cfg!(unix)) else { return Ok(path) };
    let mut words = script.split([' ', '\t']).filter(|word| !word.is_empty());
    let program = words.next().unwrap_or_default();
    let is_missing = |program: &str| Path::new(program).is_absolute() && !Path::new(program).exists();
    let missing = match program.ends_with("/env") {
        _ if is_missing(program) => Some(program),
        // Options and variables are left to `env`.
        true => words.next().filter(|name| {
            !name.starts_with('-') && !name.contains(['=', '/']) && find_in_path(name, environment).is_err()
        }),
        false => None,
    };
    match missing {
        Some(interpreter) => Err(SpawnError::NoInterpreter { interpreter: interpreter.into(), path }),
        None => Ok(path),
    }
}

enum FoundFile {
    Program(PathBuf),
    NotExecutable,
    None,
}

#[cfg(unix)]
fn look_up(path: &Path) -> FoundFile {
    use std::os::unix::fs::PermissionsExt;

    match path.metadata() {
        Ok(metadata) if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 => {
            FoundFile::Program(path.into())
        }
        Ok(metadata) if metadata.is_file() => FoundFile::NotExecutable,
        _ => FoundFile::None,
    }
}

#[cfg(not(unix))]
fn look_up(path: &Path) -> FoundFile {
    let candidates = ["", "exe", "cmd", "bat", "com"].iter().map(|extension| match *extension {
        "" => path.to_owned(),
        extension => path.with_added_extension(extension),
    });
    candidates
        .into_iter()
        .find(|path| path.extension().is_some() && path.is_file())
        .map_or(FoundFile::None, FoundFile::Program)
}

/// Whether a process gets this variable of ours.
pub(crate) fn is_inherited(name: &str) -> bool {
    let mut patterns = INHERITED.iter().chain(INHERITED_ON_WINDOWS);
    patterns.any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *pattern || (cfg!(windows) && name.eq_ignore_ascii_case(pattern)),
    })
}

fn is_path(name: &OsStr) -> bool {
    name == "PATH" || (cfg!(windows) && name.eq_ignore_ascii_case("PATH"))
}

fn folder_list(searched: &[PathBuf]) -> String {
    if searched.is_empty() {
        return "`PATH`, which is empty".into();
    }
    let folders: Vec<String> = searched.iter().map(|folder| format!("`{}`", folder.display())).collect();
    folders.join(", ")
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn path(folders: &str) -> Vec<(OsString, OsString)> {
        vec![("PATH".into(), folders.into())]
    }

    #[test]
    fn only_necessary_variables_are_inherited() {
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
            "SSL_CERT_FILE",
            "NODE_EXTRA_CA_CERTS",
            "REQUESTS_CA_BUNDLE",
            "HTTPS_PROXY",
            "HTTP_PROXY",
            "NO_PROXY",
            "https_proxy",
            "http_proxy",
            "no_proxy",
            "FTP_PROXY_PASSWORD",
        ]
        .map(|name| (name.into(), "ours".into()))
        .into();
        let configured = [("OPENAI_API_KEY".to_owned(), Secret::new("configured"))];
        let variables: Vec<String> = environment(&ours, &configured)
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert_eq!(
            variables,
            [
                "PATH=ours",
                "HOME=ours",
                "LC_ALL=ours",
                "XDG_RUNTIME_DIR=ours",
                "SSL_CERT_FILE=ours",
                "NODE_EXTRA_CA_CERTS=ours",
                "REQUESTS_CA_BUNDLE=ours",
                "HTTPS_PROXY=ours",
                "HTTP_PROXY=ours",
                "NO_PROXY=ours",
                "https_proxy=ours",
                "http_proxy=ours",
                "no_proxy=ours",
                "OPENAI_API_KEY=configured"
            ]
        );
    }

    #[test]
    fn the_home_folder_is_expanded_only_at_the_start() {
        let environment = [("HOME".into(), "/home/me".into())];
        for (path, expected) in
            [("~/bin/x", "/home/me/bin/x"), ("a~/b", "a~/b"), ("~other/x", "~other/x"), ("~", "/home/me")]
        {
            assert_eq!(expand_home(path, &environment), expected);
        }
        assert_eq!(expand_home("~/x", &[]), "~/x");
    }

    #[test]
    fn a_directory_is_not_a_program() {
        for directory in ["/", ".", ".."] {
            let error = find_program(directory, None, &[]).unwrap_err();
            assert_eq!(error.to_string(), format!("`{directory}` is a directory, not a program"));
        }
    }

    #[test]
    fn the_interpreter_of_a_script_must_exist() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("server");
        let check = |first_line: &str, expected: Option<&str>| {
            std::fs::write(&script, format!("{first_line}\necho\n")).unwrap();
            std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
            let found = find_program(script.to_str().unwrap(), None, &path("/bin:/usr/bin"));
            let missing = match &found {
                Err(SpawnError::NoInterpreter { interpreter, .. }) => Some(interpreter.as_str()),
                _ => None,
            };
            assert_eq!(missing, expected, "{first_line}: {found:?}");
        };
        check("#!/usr/bin/env nope", Some("nope"));
        check("#!/nowhere/python3 -u", Some("/nowhere/python3"));
        check("#!/usr/bin/env sh", None);
        check("#!/bin/sh", None);
        check("#!/usr/bin/env sh\r", Some("sh\r"));
        check("#!sh", None);
        check("#!/usr/bin/env -S nope", None);
        check("echo", None);
    }

    #[test]
    fn a_command_is_looked_up_in_its_own_path_variable() {
        let mut environment = path("/nowhere");
        assert_eq!(
            find_program("sh", None, &environment).unwrap_err().to_string(),
            "command `sh` not found in `/nowhere`"
        );
        environment.push(("PATH".into(), "/nowhere:/bin".into()));
        assert_eq!(find_program("sh", None, &environment).unwrap(), Path::new("/bin/sh"));
    }

    #[test]
    fn a_file_that_is_not_executable_is_not_reported_as_missing() {
        assert_eq!(
            find_program("/etc/passwd", None, &[]).unwrap_err().to_string(),
            "`/etc/passwd` is not executable"
        );
        assert_eq!(
            find_program("passwd", None, &path("/etc")).unwrap_err().to_string(),
            "`/etc/passwd` is not executable"
        );
        assert_eq!(find_program("./none", None, &[]).unwrap_err().to_string(), "no such file: `./none`");
        assert_eq!(
            find_program("none", None, &[]).unwrap_err().to_string(),
            "command `none` not found in `PATH`, which is empty"
        );
    }

    #[test]
    fn a_relative_command_is_looked_up_in_the_working_directory() {
        assert_eq!(find_program("./sh", Some(Path::new("/bin")), &[]).unwrap(), Path::new("/bin/./sh"));
    }
}
