//! The rules of `deny.toml` for dependencies: advisories, licences, sources, and crates that must not be
//! used. `cargo deny` checks the same, but building it takes longer than all other tests of this repository.
//!
//! The advisories are those in `advisories.txt`, or in the file of the variable `TOOLWIRE_ADVISORIES`;
//! `scripts/advisories` writes both.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use semver::{Version, VersionReq};
use serde_json::Value;

/// Crates with several versions, which cost build time and size. A new one needs a reason.
const KNOWN_DUPLICATES: [&str; 19] = [
    // The AWS crates, `jsonwebtoken`, `oauth2` and `opentelemetry_sdk` use older versions of RustCrypto,
    // `http` and `rand` than `rmcp`.
    "base64",
    "block-buffer",
    "const-oid",
    "cpufeatures",
    "crypto-common",
    "digest",
    "hmac",
    "http",
    "http-body",
    "rand",
    "rand_chacha",
    "rand_core",
    "sha2",
    // `llguidance`, for tests, and `oauth2` use older versions.
    "fluent-uri",
    "referencing",
    "thiserror",
    "thiserror-impl",
    // Crates that are used almost everywhere, in the middle of a change of version.
    "getrandom",
    "syn",
];

/// Further ones, which are not built on the platforms of the tests.
const OF_OTHER_PLATFORMS: [&str; 2] = ["r-efi", "windows-sys"];

/// The goal for the packages that the first command of the README compiles.
#[cfg(target_os = "linux")]
const MAX_PACKAGES: usize = 250;

struct Rules {
    licences: BTreeSet<String>,
    banned: BTreeSet<String>,
    registry: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the quoted texts of a list in `deny.toml`.
fn texts_of(key: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let start = text.find(&format!("\n{key} = [")).unwrap_or_else(|| panic!("`deny.toml` has no `{key}`"));
    let list = &text[start..][..text[start..].find("\n]").or_else(|| text[start..].find("]\n")).unwrap()];
    let lines = list.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2)).map(str::to_owned).collect()
}

fn rules() -> Rules {
    Rules {
        licences: texts_of("allow").into_iter().collect(),
        banned: texts_of("deny").into_iter().collect(),
        registry: texts_of("allow-registry").remove(0),
    }
}

/// Returns all dependencies, of all platforms and with all features.
fn packages() -> Vec<Value> {
    let arguments = ["metadata", "--format-version=1", "--locked", "--all-features"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let foreign: Vec<Value> = packages.filter(|package| !package["source"].is_null()).cloned().collect();
    assert!(foreign.len() > 100, "there are dependencies");
    foreign
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

/// Whether the licences of an SPDX expression can be chosen so that all are allowed. Some crates write `/`
/// for `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let spaced = spaced.replace(" WITH ", "\u{1f}");
    let words: Vec<String> = spaced.split_whitespace().map(|word| word.replace('\u{1f}', " WITH ")).collect();
    let mut words = words.iter().map(String::as_str).peekable();
    let result = alternatives(&mut words, allowed);
    result && words.next().is_none()
}

type Words<'w, I> = std::iter::Peekable<I>;

fn alternatives<'w, I: Iterator<Item = &'w str>>(
    words: &mut Words<'w, I>,
    allowed: &BTreeSet<String>,
) -> bool {
    let mut result = conjunction(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        result |= conjunction(words, allowed);
    }
    result
}

fn conjunction<'w, I: Iterator<Item = &'w str>>(
    words: &mut Words<'w, I>,
    allowed: &BTreeSet<String>,
) -> bool {
    let mut result = licence(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        result &= licence(words, allowed);
    }
    result
}

fn licence<'w, I: Iterator<Item = &'w str>>(words: &mut Words<'w, I>, allowed: &BTreeSet<String>) -> bool {
    match words.next() {
        Some("(") => {
            let result = alternatives(words, allowed);
            words.next_if_eq(&")").is_some() && result
        }
        Some(word) => allowed.contains(word),
        None => false,
    }
}

#[test]
fn every_licence_is_allowed() {
    let rules = rules();
    let refused = packages().into_iter().filter_map(|package| {
        let licence = package["license"].as_str().unwrap_or_default().to_owned();
        (!is_allowed(&licence, &rules.licences)).then(|| format!("{}: `{licence}`", name(&package)))
    });
    assert_eq!(refused.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn expressions_of_licences_are_read() {
    let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "ISC"].map(str::to_owned).into();
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("MIT AND (GPL-3.0 OR ISC)", true),
        ("(MIT OR ISC) AND GPL-3.0", false),
        ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
        ("", false),
        ("MIT MIT", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}

/// A line of the list: an advisory, its crate and kind, and the versions without the problem.
struct Advisory {
    id: String,
    package: String,
    kind: String,
    sound: Vec<VersionReq>,
}

impl Advisory {
    fn read(line: &str) -> Advisory {
        let [id, package, kind, sound] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("`{line}` has four parts")
        };
        let sound = sound.split('|').filter(|text| *text != "none");
        let sound = sound.map(|text| text.parse().unwrap_or_else(|error| panic!("{line}: {error}")));
        Advisory {
            id: id.to_owned(),
            package: package.to_owned(),
            kind: kind.to_owned(),
            sound: sound.collect(),
        }
    }

    fn concerns(&self, package: &str, version: &Version) -> bool {
        self.package == package && !self.sound.iter().any(|sound| sound.matches(version))
    }
}

#[test]
fn no_advisory_concerns_a_dependency() {
    let list = std::env::var_os("TOOLWIRE_ADVISORIES")
        .map_or_else(|| root().join("crates/cli/tests/advisories.txt"), PathBuf::from);
    let text = std::fs::read_to_string(&list).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    let mut lines = text.lines();
    println!("{}", lines.next().unwrap());
    let advisories: Vec<Advisory> = lines.map(Advisory::read).collect();
    assert!(advisories.len() > 1_000, "the list is complete");
    let mut found = BTreeSet::new();
    let mut ignored: BTreeSet<String> = texts_of("ignore").into_iter().collect();
    for package in packages() {
        let version: Version = package["version"].as_str().unwrap().parse().unwrap();
        for advisory in advisories.iter().filter(|advisory| advisory.concerns(name(&package), &version)) {
            match texts_of("ignore").contains(&advisory.id) {
                true => _ = ignored.remove(&advisory.id),
                false => {
                    _ = found.insert(format!(
                        "{} {version}: {} ({})",
                        name(&package),
                        advisory.id,
                        advisory.kind
                    ))
                }
            }
        }
    }
    assert_eq!(found, BTreeSet::new(), "see https://rustsec.org/advisories");
    assert_eq!(ignored, BTreeSet::new(), "exceptions in `deny.toml` that nothing needs");
}

#[test]
fn an_advisory_concerns_some_versions() {
    let advisory = Advisory::read("RUSTSEC-2024-0332 h2 vulnerability ^0.3.26|>=0.4.4,<0.5.0|<0.1.0");
    for (package, version, expected) in [
        ("h2", "0.3.25", true),
        ("h2", "0.3.26", false),
        ("h2", "0.3.99", false),
        ("h2", "0.4.3", true),
        ("h2", "0.4.20", false),
        ("h2", "0.5.0", true),
        ("h2", "0.0.9", false),
        ("h3", "0.3.25", false),
    ] {
        let version = version.parse().unwrap();
        assert_eq!(advisory.concerns(package, &version), expected, "{package} {version}");
    }
    assert!(
        Advisory::read("RUSTSEC-2023-0071 rsa vulnerability none").concerns("rsa", &Version::new(1, 0, 0))
    );
}

#[test]
fn every_dependency_is_from_the_registry() {
    let expected = format!("registry+{}", rules().registry);
    let others = packages().into_iter().filter(|package| package["source"] != expected.as_str());
    assert_eq!(others.map(|package| name(&package).to_owned()).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn no_dependency_is_banned_or_there_twice_without_a_reason() {
    let (rules, packages) = (rules(), packages());
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for package in &packages {
        assert!(!rules.banned.contains(name(package)), "`{}` must not be used", name(package));
        *versions.entry(name(package)).or_default() += 1;
    }
    let several =
        versions.into_iter().filter(|(name, count)| *count > 1 && !OF_OTHER_PLATFORMS.contains(name));
    let several: BTreeSet<&str> = several.map(|(name, _)| name).collect();
    let known: BTreeSet<&str> = KNOWN_DUPLICATES.into_iter().collect();
    let new: Vec<&&str> = several.difference(&known).collect();
    assert!(new.is_empty(), "several versions without a reason in `KNOWN_DUPLICATES`: {new:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_first_command_of_the_readme_compiles_few_packages() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let command = readme.lines().find_map(|line| line.strip_prefix("cargo run ")).unwrap();
    let (options, _) = command.split_once(" -- ").unwrap();
    let mut arguments = vec!["tree", "--locked", "--edges=normal,build", "--prefix=none"];
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        // The profile has no effect on the packages.
        match word {
            "--profile" => words.next().map(|_| ()).unwrap(),
            _ => arguments.push(word),
        }
    }
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    // A line is a name, a version, and possibly a path and a mark of a repetition.
    let packages: BTreeSet<Vec<&str>> =
        tree.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    assert!(packages.len() > 100, "{tree}");
    assert!(packages.len() <= MAX_PACKAGES, "{} packages: {packages:?}", packages.len());
}
