//! `toolwire conversations` on a store that `toolwire ask` has filled.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::Value;

struct Setup(PathBuf);

impl Setup {
    /// Creates an empty store and asks the demo model these questions.
    fn new(name: &str, questions: &[&str]) -> Setup {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("conversations").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let setup = Setup(folder);
        for question in questions {
            setup.check(&["ask", question, "--keep", "-m", "demo"], 0);
        }
        setup
    }

    /// Runs `toolwire`, checks its exit code, and returns standard output and standard error.
    #[track_caller]
    fn check(&self, arguments: &[&str], code: i32) -> (String, String) {
        self.check_with_input(arguments, "", code)
    }

    #[track_caller]
    fn check_with_input(&self, arguments: &[&str], input: &str, code: i32) -> (String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
        command.current_dir(&self.0).env("XDG_DATA_HOME", self.0.join("data")).env("NO_COLOR", "1");
        command.env("XDG_CONFIG_HOME", self.0.join("config")).env_remove("TOOLWIRE_CONFIG");
        let output = command.args(arguments).write_stdin(input).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{stdout}\n{stderr}");
        (stdout, stderr)
    }
}

#[test]
fn conversations_are_listed_searched_and_displayed() {
    let setup = Setup::new("listed", &["What is 25 + 17?", "What is the weather in Paris?"]);
    let (list, _) = setup.check(&["conversations", "list"], 0);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 2, "{list}");
    assert!(lines[0].contains("weather in Paris") && lines[1].contains("25 + 17"), "{list}");

    let (json, _) = setup.check(&["conversations", "list", "--json"], 0);
    let listed: Vec<Value> = serde_json::from_str(&json).unwrap();
    let id = listed[1]["id"].as_str().unwrap();
    let (found, _) = setup.check(&["conversations", "search", "calculate", "--json"], 0);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["hits"][0]["conversation"], id, "{found}");
    let (_, error) = setup.check(&["conversations", "search", "nowhere-to-be-found"], 1);
    assert!(error.contains("no message contains all these words"), "{error}");

    for reference in [id, &id[..13], "25 +"] {
        let (text, _) = setup.check(&["conversations", "show", reference], 0);
        assert!(
            text.starts_with("# What is 25 + 17?\n\n## You\n") && text.contains("> called `calculate`"),
            "{text}"
        );
    }
}

#[test]
fn a_reference_that_is_not_clear_is_an_error() {
    let setup = Setup::new("unclear", &["What is 1 + 1?", "What is 2 + 2?"]);
    let (_, error) = setup.check(&["conversations", "show", "what is"], 2);
    assert!(error.contains("2 conversations match `what is`") && error.contains("What is 1 + 1?"), "{error}");
    let (_, error) = setup.check(&["conversations", "show", "tides"], 2);
    assert!(error.contains("no conversation matches `tides`"), "{error}");
}

#[test]
fn conversations_are_renamed_and_deleted() {
    let setup = Setup::new("changed", &["What is 1 + 1?", "What is 2 + 2?"]);
    setup.check(&["conversations", "rename", "1 + 1", "Small sums"], 0);
    let (_, error) = setup.check(&["conversations", "delete", "small sums"], 2);
    assert!(error.contains("`--yes` confirms it"), "{error}");
    // Either all are found, or none is deleted.
    setup.check(&["conversations", "delete", "small sums", "tides", "--yes"], 2);
    let (_, note) = setup.check(&["conversations", "delete", "small sums", "--yes"], 0);
    assert!(note.contains("deleted `Small sums`"), "{note}");
    let (list, _) = setup.check(&["conversations", "list"], 0);
    assert!(list.lines().count() == 1 && list.contains("2 + 2"), "{list}");
}

#[test]
fn exported_conversations_are_imported_unchanged() {
    let setup = Setup::new("exported", &["What is 1 + 1?", "What is 2 + 2?"]);
    setup.check(&["conversations", "export", "--all", "--output", "all.jsonl"], 0);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(setup.0.join("all.jsonl")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let exported = fs::read_to_string(setup.0.join("all.jsonl")).unwrap();
    assert_eq!(exported.lines().count(), 2);
    let (_, error) = setup.check(&["conversations", "import", "all.jsonl"], 1);
    assert!(error.contains("conversation 2: conversation `") && error.contains("already exists"), "{error}");

    let other = Setup::new("imported", &[]);
    let indented: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    let input = format!("{indented:#}\n{}\n", exported.lines().nth(1).unwrap());
    let (_, note) = other.check_with_input(&["conversations", "import", "-"], &input, 0);
    assert!(note.contains("2 conversations imported"), "{note}");
    let (again, _) = other.check(&["conversations", "export", "--all"], 0);
    assert_eq!(again, exported);
    let (_, error) = other.check_with_input(&["conversations", "import", "-"], "{", 1);
    assert!(error.contains("invalid JSON") && error.contains("1 conversation not imported"), "{error}");
}
