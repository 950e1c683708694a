//! The page in a browser: Playwright drives Chromium against the program. Each `*.spec.mjs` is one test here.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use toolwire_testkit::InstalledServers;

#[test]
fn module() {
    check("module");
}

#[test]
fn shell() {
    check("shell");
}

#[test]
fn chat() {
    check("chat");
}

#[test]
fn chat_states() {
    check("chat-states");
}

#[test]
fn questions() {
    check("questions");
}

#[test]
fn long() {
    check("long");
}

#[test]
fn servers() {
    check("servers");
}

#[test]
fn tools() {
    check("tools");
}

#[test]
fn traffic() {
    check("traffic");
}

#[test]
fn hostile() {
    check("hostile");
}

#[test]
fn rebinding() {
    check("rebinding");
}

#[test]
fn dialects() {
    check("dialects");
}

/// A file that no test here runs would never fail.
#[test]
fn every_file_is_run() {
    let source = fs::read_to_string(folder().join("main.rs")).unwrap();
    for path in files(&folder()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if let Some(name) = name.strip_suffix(".spec.mjs") {
            assert!(source.contains(&format!("check(\"{name}\")")), "no test runs `{name}.spec.mjs`");
        }
    }
}

/// Runs the tests of one file.
#[track_caller]
fn check(name: &str) {
    // Browsers use all cores; more of them at once only wait for each other.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);

    let packages = InstalledServers::page_packages();
    let temporary = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let tests = temporary.join("page").join(name);
    copy_tests(&tests, &packages.join("node_modules"));
    let screenshots = temporary.parent().unwrap().join("page-screenshots");
    fs::create_dir_all(&screenshots).unwrap();

    let output = Command::new(InstalledServers::node_of_page_packages())
        .current_dir(&tests)
        .arg("node_modules/@playwright/test/cli.js")
        .args(["test", &format!("{name}.spec.mjs")])
        .env("PAGE_TEST_TOOLWIRE", env!("CARGO_BIN_EXE_toolwire"))
        .env("PAGE_TEST_ASSETS", Path::new(env!("CARGO_MANIFEST_DIR")).join("../page/assets"))
        .env("PAGE_TEST_EVERYTHING", everything())
        .env("PAGE_TEST_OUTPUT", temporary.join("page-output").join(name))
        .env("PAGE_TEST_SCREENSHOTS", &screenshots)
        .env("FORCE_COLOR", "0")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{name}.spec.mjs` failed: {}\n{printed}{errors}", output.status);
    println!("{printed}");
}

/// Returns the reference server, as in `mcp.json`.
fn everything() -> String {
    let server = InstalledServers::find().everything();
    serde_json::json!({"command": server.command, "args": server.args}).to_string()
}

/// Copies the tests to a folder with the installed packages: Node.js looks for packages in the folder of a
/// file.
fn copy_tests(to: &Path, packages: &Path) {
    let _ = fs::remove_dir_all(to);
    for path in files(&folder()).into_iter().chain(files(&folder().join("support"))) {
        if path.extension().is_some_and(|extension| extension == "mjs") {
            let target = to.join(path.strip_prefix(folder()).unwrap());
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(&path, target).unwrap();
        }
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(packages, to.join("node_modules")).unwrap();
    #[cfg(windows)]
    std::os::windows::fs::symlink_dir(packages, to.join("node_modules")).unwrap();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page")
}
