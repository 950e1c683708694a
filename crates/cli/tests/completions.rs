//! The completion scripts, in the shells that are installed.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::env;
use std::path::Path;
use std::process::Command;

/// Runs a script in a shell and returns the words that it prints, or `None` if the shell is not installed.
fn words(shell: &str, arguments: &[&str], script: &str) -> Option<Vec<String>> {
    let folder = Path::new(env!("CARGO_BIN_EXE_toolwire")).parent().unwrap();
    let path = env::var("PATH").unwrap();
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(shell)
        .args(arguments)
        .args(["-c", script])
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("HOME", home.path())
        .output()
        .ok()?;
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{shell}");
    Some(String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect())
}

#[test]
fn bash_completes_commands_options_and_values() {
    let complete = |line: &str| {
        let script = format!(
            "source <(toolwire completions bash); COMP_WORDS=(toolwire {line}); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); complete -p toolwire > /dev/null; _toolwire; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        words("bash", &["--norc"], &script).expect("bash is installed")
    };
    assert_eq!(complete("con"), ["convert", "conversations"]);
    assert_eq!(complete("conversations re"), ["rename"]);
    assert!(complete("conversations ''").contains(&"delete".to_owned()));
    assert_eq!(complete("convert --to gem"), ["gemini", "gemini-openapi"]);
    assert_eq!(complete("check --fo"), ["--for"]);
    assert!(complete("convert file").is_empty());
}

#[test]
fn zsh_completes_commands() {
    let script = "compdef() { : }; source <(toolwire completions zsh); \
                  _describe() { print -rl -- ${(P)2} }; _files() { print files }; \
                  words=(toolwire con); CURRENT=2; _toolwire; words=(toolwire convert f); CURRENT=3; _toolwire";
    if let Some(words) = words("zsh", &["-f"], script) {
        assert!(words.iter().any(|word| word.starts_with("conversations:")), "{words:?}");
        assert!(words[0].starts_with("convert:") && words.ends_with(&["files".to_owned()]), "{words:?}");
    }
}

#[test]
fn fish_completes_commands() {
    let script = "toolwire completions fish | source; complete -C 'toolwire con'";
    if let Some(words) = words("fish", &["--no-config"], script) {
        assert!(
            words.contains(&"convert".to_owned()) && words.contains(&"conversations".to_owned()),
            "{words:?}"
        );
    }
}
