//! Help texts, usage errors and unreadable input.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use assert_cmd::Command;

/// Empty at the start of each run: definitions pinned by an earlier build would cause warnings.
static DATA_FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("command-line-data");
    let _ = fs::remove_dir_all(&folder);
    folder
});

fn toolwire() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    // Ignore the configuration of the user who runs the tests.
    command
        .env("XDG_CONFIG_HOME", "/config")
        .env("XDG_DATA_HOME", &*DATA_FOLDER)
        .env_remove("TOOLWIRE_CONFIG");
    command.env_remove("COLUMNS").env("NO_COLOR", "1");
    command
}

/// Writes a file to the folder of these tests and returns its path.
fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path
}

/// Runs `toolwire` and returns the exit code and both outputs as one text.
#[track_caller]
fn run(arguments: &[&str], stdin: &[u8]) -> String {
    let output = toolwire().args(arguments).write_stdin(stdin).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    let all = format!("exit {code}\n--- stdout\n{}--- stderr\n{}", text(output.stdout), text(output.stderr));
    all.replace(env!("CARGO_TARGET_TMPDIR"), "FOLDER")
}

#[test]
fn short_help_lists_the_commands() {
    insta::assert_snapshot!(run(&["-h"], b""));
}

#[test]
fn long_help_matches_its_snapshots() {
    insta::assert_snapshot!("help_toolwire", run(&["--help"], b""));
    for command in ["convert", "decode", "encode", "check"] {
        insta::assert_snapshot!(format!("help_{command}"), run(&[command, "--help"], b""));
    }
}

#[test]
fn a_missing_command_is_a_usage_error_with_help() {
    let output = toolwire().output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"");
    assert!(String::from_utf8(output.stderr).unwrap().contains("convert"));
}

#[test]
fn a_misspelled_dialect_gets_suggestions() {
    insta::assert_snapshot!(run(&["convert", "--to", "opnai-strict"], b"[]"));
}

#[test]
fn definitions_of_some_dialects_cannot_be_input() {
    insta::assert_snapshot!(run(&["convert", "--to", "openai", "--from", "openai-strict"], b"[]"));
}

#[test]
fn a_missing_option_is_a_usage_error() {
    insta::assert_snapshot!(run(&["decode", "--dialect", "openai"], b""));
}

#[test]
fn check_without_a_file_uses_the_demo_server() {
    insta::assert_snapshot!(run(&["check", "--for", "openai"], b"[]"));
}

#[test]
fn a_missing_file_is_reported() {
    insta::assert_snapshot!(run(&["convert", "no/such/tools.json", "--to", "openai"], b""));
}

#[test]
fn a_folder_is_rejected() {
    insta::assert_snapshot!(run(&["check", env!("CARGO_TARGET_TMPDIR")], b""));
}

#[test]
fn invalid_utf8_is_reported_with_its_position() {
    let path = file("latin1.json", b"[\n  {\"name\": \"caf\xe9\"}\n]");
    insta::assert_snapshot!(run(&["convert", path.to_str().unwrap(), "--to", "openai"], b""));
}

#[test]
fn utf16_is_recognized() {
    insta::assert_snapshot!(run(&["convert", "--to", "openai"], b"\xff\xfe[\0]\0"));
}

#[test]
fn calls_and_tools_cannot_both_be_standard_input() {
    insta::assert_snapshot!(run(&["decode", "--dialect", "openai", "--tools", "-"], b""));
}
