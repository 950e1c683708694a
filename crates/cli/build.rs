//! Makes the linker fold identical functions in the binary for users, if it can.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Rust's own linker on x86-64 Linux knows it, and so do LLD, mold and gold; GNU ld does not.
const FOLD_FUNCTIONS: &str = "-Wl,--icf=all";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Only the profile `dist` optimizes for size.
    let is_small = variable("OPT_LEVEL") == "z" && variable("CARGO_CFG_TARGET_OS") == "linux";
    if is_small && linker_accepts(FOLD_FUNCTIONS) {
        println!("cargo::rustc-link-arg-bins={FOLD_FUNCTIONS}");
    }
}

/// Links an empty program as Cargo would.
fn linker_accepts(argument: &str) -> bool {
    let program = Path::new(&variable("OUT_DIR")).join("probe");
    let source = program.with_extension("rs");
    if fs::write(&source, "fn main() {}\n").is_err() {
        return false;
    }
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.arg(&source).arg("-o").arg(&program).args(["--target", &variable("TARGET")]);
    let linker = variable("RUSTC_LINKER");
    if !linker.is_empty() {
        rustc.args(["-C", &format!("linker={linker}")]);
    }
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    rustc.args(["-C", &format!("link-arg={argument}")]);
    rustc.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
