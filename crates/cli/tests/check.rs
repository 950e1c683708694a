//! `toolwire check`.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

fn check(arguments: &[&str]) -> Output {
    let example = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/travel.json");
    Command::new(env!("CARGO_BIN_EXE_toolwire"))
        .arg("check")
        .arg(example)
        .args(arguments)
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .env("COLUMNS", "80")
        .output()
        .unwrap()
}

#[test]
fn a_refused_tool_is_shown_and_sets_the_exit_code() {
    let output = check(&["--for", "openai,anthropic"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.starts_with("5 tools in 2 dialects "), "{page}");
    let row = page.lines().find(|line| line.starts_with("cancel_booking")).unwrap();
    assert_eq!(row.matches('✗').count(), 2, "{page}");
    assert!(page.contains("✗ /properties/booking  refused: "), "{page}");
}

#[test]
fn piped_output_has_no_colours() {
    let page = String::from_utf8(check(&[]).stdout).unwrap();
    assert!(page.starts_with("5 tools in 17 dialects "), "{page:?}");
    assert!(!page.contains('\u{1b}'), "{page:?}");
}

#[test]
fn every_dialect_but_mcp_is_checked() {
    let reports: Value = serde_json::from_slice(&check(&["--json"]).stdout).unwrap();
    let reports = reports.as_array().unwrap();
    assert_eq!(reports.len(), 5 * 17);
    let first: Vec<&str> = reports[..17].iter().map(|report| report["dialect"].as_str().unwrap()).collect();
    assert_eq!((first[0], first[16]), ("openai", "dial"));
    assert!(reports[..17].iter().all(|report| report["tool"] == "search_flights"));
}

#[test]
fn a_page_with_all_comparisons_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        let output = check(&["--html", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "the exit code is that of the check");
        assert!(String::from_utf8(output.stdout).unwrap().starts_with("5 tools in 17 dialects "));
        std::fs::read_to_string(path).unwrap()
    };
    let page = write("one.html");
    assert_eq!(page, write("two.html"), "the same tools give the same bytes");
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    for text in
        ["search_flights", "moved to the description", "which does not exist", "5 tools in 17 dialects"]
    {
        assert!(page.contains(text), "{text}");
    }
    for forbidden in ["<script", "<link", "src=", "/-/"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn a_page_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = check(&["--html", folder.path().to_str().unwrap()]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.starts_with("error: cannot write `"), "{error}");
}

#[test]
fn convertible_tools_exit_with_0() {
    let output = Command::new(env!("CARGO_BIN_EXE_toolwire"))
        .args(["check", "-"])
        .write_stdin(r#"{"name": "ping", "inputSchema": {"type": "object", "properties": {}}}"#)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("1 tool in 17 dialects"));
}
