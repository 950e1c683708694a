//! Compares the public API of each library crate with its snapshot, `crates/<crate>/public-api.txt`.
//!
//! A change of the API shows up in review as a change of the snapshot. To accept it, run
//! `TOOLWIRE_BLESS=1 cargo test -p toolwire --test public_api`.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use public_api::Builder;

const CRATES: [&str; 12] = [
    "agent",
    "contract",
    "dialect",
    "gateway",
    "hub",
    "llm",
    "markdown",
    "mcp-server",
    "page",
    "store",
    "toolkit",
    "validation",
];

/// The compiler version that wrote the snapshots. Others are skipped, because rustdoc's JSON format and its
/// rendering of types depend on it.
const SNAPSHOT_RUSTC: &str = "rustc 1.95.";

#[test]
fn public_apis_match_their_snapshots() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let version = output(Command::new("rustc").arg("--version"));
    if !version.starts_with(SNAPSHOT_RUSTC) {
        // Not captured, unlike `eprintln!`.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: the snapshots of the public API were written with {SNAPSHOT_RUSTC}x, this is {}",
            version.trim()
        );
        return;
    }
    let is_update = std::env::var_os("TOOLWIRE_BLESS").is_some();
    let folder = rustdoc_json(&root);
    let mut changed = Vec::new();
    for name in CRATES {
        let public_api =
            Builder::from_rustdoc_json(folder.join(format!("toolwire_{}.json", name.replace('-', "_"))))
                .omit_blanket_impls(true)
                .omit_auto_trait_impls(true)
                .omit_auto_derived_impls(true)
                .build()
                .expect("rustdoc wrote its JSON in the supported format");
        let found = format!("{public_api}");
        let path = root.join("crates").join(name).join("public-api.txt");
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if found == expected {
            continue;
        }
        if is_update {
            fs::write(&path, found).expect("the snapshot can be written");
        } else {
            changed.push(difference(name, &expected, &found));
        }
    }
    assert!(
        changed.is_empty(),
        "{}\nto accept the change: TOOLWIRE_BLESS=1 cargo test -p toolwire --test public_api",
        changed.join("\n")
    );
}

/// Runs rustdoc on the workspace and returns the folder of its JSON files.
fn rustdoc_json(root: &Path) -> PathBuf {
    // Below the target directory of this build, so that compiled dependencies are shared.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
    let mut command = Command::new(env!("CARGO"));
    // Cargo sets these for this test. Build scripts read some of them, so their crates would be compiled
    // again, here and in the next build.
    let of_package = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_MANIFEST_")
            || ["CARGO_CRATE_NAME", "OUT_DIR"].contains(&&*name)
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| of_package(name)) {
        command.env_remove(name);
    }
    output(
        command
            .current_dir(root)
            // The complete workspace with its examples, so that dependencies have the same features as in the
            // other builds: the features that only tests and examples need are part of those.
            .args(["doc", "--quiet", "--locked", "--workspace", "--lib", "--examples", "--no-deps"])
            .arg("--target-dir")
            .arg(target)
            .env("RUSTDOCFLAGS", "-Zunstable-options --output-format=json --cap-lints=allow")
            // The wrapper allows the unstable option only for rustdoc. Set for all of Cargo, the variable
            // would recompile every dependency whose build script reads it.
            .env("RUSTDOC", root.join("scripts/rustdoc-json").canonicalize().expect("the wrapper exists")),
    );
    target.join("doc")
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("the program can be started");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}

fn difference(name: &str, expected: &str, found: &str) -> String {
    let missing = |from: &str, lines: &str, sign: char| -> String {
        let lines = lines.lines().filter(|line| !from.lines().any(|other| other == *line));
        lines.map(|line| format!("{sign} {line}\n")).collect()
    };
    let lines = missing(found, expected, '-') + &missing(expected, found, '+');
    format!(
        "crate `{name}`:\n{}",
        if lines.is_empty() { "the same lines in another order\n" } else { &lines }
    )
}
