//! Runs every command in the README, the guides and `--help`, and compares the output with the page.
//!
//! A command is a line that starts with `$ `. Its output follows until the next command or the end of the
//! fence; in help texts, until the title of the next command or text that is not indented. JSON is compared
//! as a value, so pages may format it for readers. `TOOLWIRE_BLESS=1` rewrites the pages with the current
//! output; review the difference before committing it.
//!
//! It also checks that the tests which `docs/security-tests.md` names exist.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toolwire_testkit::api_key_variables;

use serde_json::Value;

#[test]
fn the_readme_shows_the_current_output() {
    check(&["README.md"]);
}

#[test]
fn the_guides_show_the_current_output() {
    check(&["docs/guide/convert.md", "docs/guide/check.md", "docs/guide/decode-encode.md"]);
}

#[test]
fn the_help_shows_the_current_output() {
    check(&[
        "crates/cli/src/help/convert.txt",
        "crates/cli/src/help/decode.txt",
        "crates/cli/src/help/encode.txt",
        "crates/cli/src/help/check.txt",
    ]);
}

/// Every test that the table of security tests names exists: a function, or a module of tests.
#[test]
fn the_security_tests_exist() {
    let page = fs::read_to_string(root().join("docs/security-tests.md")).expect("the page exists");
    let is_path = |text: &&str| {
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        text.contains("::") && text.split("::").all(is_name)
    };
    let named: Vec<&str> = page.split('`').skip(1).step_by(2).filter(is_path).collect();
    assert!(named.len() > 50, "only {} tests are named", named.len());
    let name = |path: &str| path.rsplit("::").next().unwrap_or_default().to_owned();
    let mut unknown: Vec<(&str, String)> = named.into_iter().map(|path| (path, name(path))).collect();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("sources can be listed") {
            let path = entry.expect("sources can be listed").path();
            let module = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            if path.is_dir() || is_source {
                unknown.retain(|(_, name)| *name != module);
            }
            if path.is_dir() {
                folders.push(path);
            } else if is_source {
                let text = fs::read_to_string(&path).expect("a source can be read");
                unknown.retain(|(_, name)| !text.contains(&format!("fn {name}(")));
            }
        }
    }
    let unknown: Vec<&str> = unknown.into_iter().map(|(path, _)| path).collect();
    assert_eq!(unknown, [""; 0], "docs/security-tests.md names tests that do not exist");
}

/// A command of a page, and the lines of its output.
struct Example {
    command: String,
    indent: String,
    /// The range of the output in the lines of the page, without `to`.
    from: usize,
    to: usize,
}

#[track_caller]
fn check(pages: &[&str]) {
    let mut differences = Vec::new();
    for page in pages {
        let path = root().join(page);
        let text = fs::read_to_string(&path).expect("the page exists");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let examples = examples(&lines, page.ends_with(".md"));
        assert!(!examples.is_empty(), "{page} shows no command");
        let folder = folder_for(page);
        let outputs: Vec<String> = examples.iter().map(|example| run(&example.command, &folder)).collect();
        // From the last to the first, because rewriting an output moves the lines after it.
        for (example, output) in examples.iter().zip(outputs).rev() {
            let documented: Vec<&str> = lines[example.from..example.to]
                .iter()
                .map(|line| line.strip_prefix(example.indent.as_str()).unwrap_or(line))
                .collect();
            if is_same(&documented.join("\n"), output.trim_end()) {
                continue;
            }
            if std::env::var_os("TOOLWIRE_BLESS").is_some() {
                let indented = output.trim_end().lines().map(|line| match line {
                    "" => String::new(),
                    _ => format!("{}{line}", example.indent),
                });
                lines.splice(example.from..example.to, indented);
            } else {
                differences.push(format!(
                    "{page}, line {}: $ {}\n--- documented\n{}\n--- printed\n{output}",
                    example.from,
                    example.command,
                    documented.join("\n")
                ));
            }
        }
        let rewritten = lines.join("\n") + "\n";
        if rewritten != text {
            fs::write(&path, rewritten).expect("the page can be written");
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// Finds the commands of a page; in Markdown only those in `console` fences.
fn examples(lines: &[String], is_markdown: bool) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut in_terminal = !is_markdown;
    let mut number = 0;
    while number < lines.len() {
        let line = &lines[number];
        number += 1;
        if is_markdown && line.starts_with("```") {
            in_terminal = line == "```console";
        }
        let Some(command) = line.trim_start().strip_prefix("$ ").filter(|_| in_terminal) else { continue };
        let indent = line[..line.len() - line.trim_start().len()].to_owned();
        let from = number;
        let is_command = |line: &String| line.trim_start().starts_with("$ ");
        let is_end = |at: usize| match &lines[at..] {
            [line, ..] if is_command(line) => true,
            [line, ..] if is_markdown => line == "```",
            [line, title, rest @ ..] => {
                line.is_empty() && (!title.starts_with(' ') || rest.first().is_some_and(is_command))
            }
            _ => false,
        };
        while number < lines.len() && !is_end(number) {
            number += 1;
        }
        examples.push(Example { command: command.to_owned(), indent, from, to: number });
    }
    examples
}

/// Whether both are equal as JSON or as text.
fn is_same(documented: &str, printed: &str) -> bool {
    match (serde_json::from_str::<Value>(documented), serde_json::from_str::<Value>(printed)) {
        (Ok(documented), Ok(printed)) => documented == printed,
        _ => documented == printed,
    }
}

/// Runs the command in a shell and returns standard output and standard error together, as on a terminal.
fn run(command: &str, folder: &Path) -> String {
    let command =
        command.replace("cargo run --profile quick --no-default-features -p toolwire --", "toolwire");
    let binary = Path::new(env!("CARGO_BIN_EXE_toolwire"));
    let commands = binary.parent().expect("a program is in a folder");
    let path = format!("{}:{}", commands.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    api_key_variables().for_each(|name| {
        shell.env_remove(name);
    });
    let output = shell
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(folder)
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS")
        .output()
        .expect("a shell exists");
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}

/// Creates a folder with a copy of the examples; commands may write to it.
fn folder_for(page: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(page.replace(['/', '.'], "-"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("examples")).expect("the folder can be created");
    for entry in fs::read_dir(root().join("examples")).expect("the examples exist") {
        let path = entry.expect("the examples can be listed").path();
        fs::copy(&path, folder.join("examples").join(path.file_name().expect("a file has a name")))
            .expect("an example can be copied");
    }
    folder
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
