//! Every command shown in the README, the guides and `--help` is run, and its output compared with what is shown.
//!
//! A command is a line that starts with `$ `; its output follows until the next command or the end of the fence, in the
//! help texts until the title of the next command or text that is not indented. JSON is compared as a value, so that
//! the page may lay it out for readers. With `TOOLWIRE_BLESS=1` the pages are rewritten to what the commands print now:
//! read the difference before committing it.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

#[test]
fn the_readme_shows_what_happens() {
    check(&["README.md"]);
}

#[test]
fn the_guides_show_what_happens() {
    check(&["docs/guide/convert.md", "docs/guide/check.md", "docs/guide/decode-encode.md"]);
}

#[test]
fn the_help_shows_what_happens() {
    check(&[
        "crates/cli/src/help/convert.txt",
        "crates/cli/src/help/decode.txt",
        "crates/cli/src/help/encode.txt",
        "crates/cli/src/help/check.txt",
    ]);
}

/// A command of a page, and the lines shown as its output.
struct Example {
    command: String,
    indent: String,
    /// Positions in the page's lines: the first shown line, and the one after the last.
    from: usize,
    to: usize,
}

#[track_caller]
fn check(pages: &[&str]) {
    let mut faults = Vec::new();
    for page in pages {
        let path = root().join(page);
        let text = fs::read_to_string(&path).expect("the page is there");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let examples = examples(&lines, page.ends_with(".md"));
        assert!(!examples.is_empty(), "{page} shows no command");
        let folder = folder_for(page);
        // From the last to the first, so that a rewritten output does not move those still to come.
        let outputs: Vec<String> = examples.iter().map(|example| run(&example.command, &folder)).collect();
        for (example, output) in examples.iter().zip(outputs).rev() {
            let shown: Vec<&str> = lines[example.from..example.to]
                .iter()
                .map(|line| line.strip_prefix(example.indent.as_str()).unwrap_or(line))
                .collect();
            if same(&shown.join("\n"), output.trim_end()) {
                continue;
            }
            if std::env::var_os("TOOLWIRE_BLESS").is_some() {
                let indented = output.trim_end().lines().map(|line| match line {
                    "" => String::new(),
                    _ => format!("{}{line}", example.indent),
                });
                lines.splice(example.from..example.to, indented);
            } else {
                faults.push(format!(
                    "{page}, line {}: $ {}\n--- shown\n{}\n--- printed\n{output}",
                    example.from,
                    example.command,
                    shown.join("\n")
                ));
            }
        }
        let rewritten = lines.join("\n") + "\n";
        if rewritten != text {
            fs::write(&path, rewritten).expect("the page can be written");
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// The commands of a page; in Markdown only those in a fence for a terminal.
fn examples(lines: &[String], markdown: bool) -> Vec<Example> {
    let mut found = Vec::new();
    let mut in_terminal = !markdown;
    let mut number = 0;
    while number < lines.len() {
        let line = &lines[number];
        number += 1;
        if markdown && line.starts_with("```") {
            in_terminal = line == "```console";
        }
        let Some(command) = line.trim_start().strip_prefix("$ ").filter(|_| in_terminal) else { continue };
        let indent = line[..line.len() - line.trim_start().len()].to_owned();
        let from = number;
        let is_command = |line: &String| line.trim_start().starts_with("$ ");
        let ends = |at: usize| match &lines[at..] {
            [line, ..] if is_command(line) => true,
            [line, ..] if markdown => line == "```",
            [line, title, rest @ ..] => {
                line.is_empty() && (!title.starts_with(' ') || rest.first().is_some_and(is_command))
            }
            _ => false,
        };
        while number < lines.len() && !ends(number) {
            number += 1;
        }
        found.push(Example { command: command.to_owned(), indent, from, to: number });
    }
    found
}

/// Equal as JSON, or equal as text.
fn same(shown: &str, printed: &str) -> bool {
    match (serde_json::from_str::<Value>(shown), serde_json::from_str::<Value>(printed)) {
        (Ok(shown), Ok(printed)) => shown == printed,
        _ => shown == printed,
    }
}

/// What a shell prints for the command, both streams together as a terminal shows them.
fn run(command: &str, folder: &Path) -> String {
    let command = command.replace("cargo run --release -p toolwire --", "toolwire");
    let binary = Path::new(env!("CARGO_BIN_EXE_toolwire"));
    let commands = binary.parent().expect("a program is in a folder");
    let path = format!("{}:{}", commands.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(folder)
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS")
        .output()
        .expect("a shell is there");
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}

/// A fresh folder with the examples, where commands may also write.
fn folder_for(page: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(page.replace(['/', '.'], "-"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("examples")).expect("the folder can be made");
    for entry in fs::read_dir(root().join("examples")).expect("the examples are there") {
        let path = entry.expect("the examples can be listed").path();
        fs::copy(&path, folder.join("examples").join(path.file_name().expect("a file has a name")))
            .expect("an example can be copied");
    }
    folder
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
