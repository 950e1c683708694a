//! Makes the linker write a small binary for users: it folds identical functions and packs relocations, if it
//! can.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Rust's own linker on x86-64 Linux knows it, and so do LLD, mold and gold; GNU ld does not.
const FOLD_FUNCTIONS: &str = "-Wl,--icf=all";

/// Stores the places of addresses, which the loader adjusts, in a few bits each instead of 24 bytes. The
/// loader must know this format: glibc does since version 2.36, musl since 1.2.4.
const PACK_RELOCATIONS: &str = "-Wl,-z,pack-relative-relocs";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Only the profile `dist` optimizes for size.
    if variable("OPT_LEVEL") != "z" || variable("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    if link_probe(FOLD_FUNCTIONS).is_some() {
        println!("cargo::rustc-link-arg-bins={FOLD_FUNCTIONS}");
    }
    // Only a program that runs here shows that the loader knows the format.
    let runs_here = variable("HOST") == variable("TARGET");
    if runs_here
        && link_probe(PACK_RELOCATIONS).is_some_and(|program| is_successful(&mut Command::new(program)))
    {
        println!("cargo::rustc-link-arg-bins={PACK_RELOCATIONS}");
    }
}

/// Links an empty program as Cargo would, with the argument for the linker. Returns its path if that is
/// possible.
fn link_probe(argument: &str) -> Option<PathBuf> {
    let program = Path::new(&variable("OUT_DIR")).join("probe");
    let source = program.with_extension("rs");
    if fs::write(&source, "fn main() {}\n").is_err() {
        return None;
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
    is_successful(&mut rustc).then_some(program)
}

fn is_successful(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
