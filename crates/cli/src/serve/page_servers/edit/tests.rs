use toolwire_page::servers::form::{HIDDEN, ServerKind};

use super::*;

fn editor(text: &str) -> (tempfile::TempDir, ConfigEditor) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mcp.json");
    if !text.is_empty() {
        fs::write(&path, text).expect("written");
    }
    (folder, ConfigEditor::new(path, HubOptions::default()))
}

fn file(folder: &tempfile::TempDir) -> String {
    fs::read_to_string(folder.path().join("mcp.json")).expect("the file exists")
}

const TEXT: &str = r#"// mine
{"mcpServers": {
  "files": {
    "command": "uvx", // the program
    "args": ["mcp-files", "--root", "/home/me"],
    "env": {"LEVEL": 3, "TOKEN": "s3cret", "KEY": "${KEY}"},
    "timeout": 5
  }
}}
"#;

#[test]
fn secrets_are_not_displayed() {
    let (_folder, editor) = editor(TEXT);
    let draft = editor.draft(Some("files")).expect("a draft");
    assert_eq!(draft.command, "uvx");
    assert_eq!(draft.arguments, "mcp-files\n--root\n/home/me");
    assert_eq!(draft.environment, "LEVEL=…\nTOKEN=…\nKEY=${KEY}");
    let entry = json!({"headers": {"A": "Bearer ${T}", "B": "Bearer ${T:-secret}", "C": "Bearer x"}});
    let shown = without_secrets(entry);
    assert_eq!(shown, json!({"headers": {"A": "Bearer ${T}", "B": "…", "C": "…"}}));
}

#[tokio::test]
async fn an_unchanged_form_changes_nothing() {
    let (folder, editor) = editor(TEXT);
    let draft = editor.draft(Some("files")).expect("a draft");
    // The variable is not set here, so the file cannot be used.
    let text = TEXT.replace("${KEY}", "k");
    fs::write(folder.path().join("mcp.json"), &text).expect("written");
    let draft = Draft { file_hash: hash(&text), ..draft };
    let draft = Draft { environment: draft.environment.replace("${KEY}", HIDDEN), ..draft };
    editor.write(&draft, |_| Ok(())).await.expect("written");
    assert_eq!(file(&folder), text);
}

#[tokio::test]
async fn only_what_was_changed_is_written() {
    let text = TEXT.replace("${KEY}", "k");
    let (folder, editor) = editor(&text);
    let draft = editor.draft(Some("files")).expect("a draft");
    let draft = Draft {
        arguments: "mcp-files\n--root\n/srv".to_owned(),
        environment: "LEVEL=…\nTOKEN=n3w".to_owned(),
        ..draft
    };
    let config = editor.write(&draft, |_| Ok(())).await.expect("written");
    assert_eq!(config.servers.len(), 1);
    let written = file(&folder);
    for kept in ["// mine", "// the program", "\"timeout\": 5", "\"LEVEL\": 3", "\"n3w\"", "/srv"] {
        assert!(written.contains(kept), "{kept}: {written}");
    }
    assert!(!written.contains("s3cret") && !written.contains("KEY"), "{written}");
}

#[tokio::test]
async fn a_file_that_changed_meanwhile_is_not_overwritten() {
    let (folder, editor) = editor(TEXT);
    let draft =
        Draft { name: "time".to_owned(), command: "uvx".to_owned(), ..editor.draft(None).expect("a draft") };
    let other = TEXT.replace("timeout", "timeout ").replace("${KEY}", "k");
    fs::write(folder.path().join("mcp.json"), &other).expect("written");
    let error = editor.write(&draft, |_| Ok(())).await.expect_err("a conflict");
    assert_eq!(error.kind, ServerChangeErrorKind::Conflict);
    assert_eq!(file(&folder), other);
}

#[tokio::test]
async fn the_first_server_creates_the_file() {
    let (folder, editor) = editor("");
    let draft = Draft {
        name: " web ".to_owned(),
        kind: ServerKind::Url,
        url: "https://example.com/mcp".to_owned(),
        headers: "X-Key: a: b\n\n".to_owned(),
        ..editor.draft(None).expect("a draft")
    };
    editor.write(&draft, |_| Ok(())).await.expect("written");
    let written: Value = serde_json::from_str(&file(&folder)).expect("JSON");
    let server = json!({"url": "https://example.com/mcp", "headers": {"X-Key": "a: b"}});
    assert_eq!(written, json!({"mcpServers": {"web": server}}));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let metadata = fs::metadata(folder.path().join("mcp.json")).expect("the file exists");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }
    let again = Draft { file_hash: hash(&file(&folder)), ..draft };
    let error = editor.write(&again, |_| Ok(())).await.expect_err("the name exists");
    assert_eq!((error.kind, error.field.as_deref()), (ServerChangeErrorKind::Invalid, Some("name")));
}

#[tokio::test]
async fn another_kind_removes_the_keys_of_the_first() {
    let text = TEXT.replace("${KEY}", "k");
    let (folder, editor) = editor(&text);
    let draft = editor.draft(Some("files")).expect("a draft");
    let draft = Draft { kind: ServerKind::Url, url: "https://example.com/mcp".to_owned(), ..draft };
    editor.write(&draft, |_| Ok(())).await.expect("written");
    let servers = Config::raw_servers(&file(&folder), Path::new("mcp.json")).expect("valid");
    assert_eq!(servers[0].1, json!({"timeout": 5, "url": "https://example.com/mcp"}));
}

#[test]
fn wrong_fields_are_named() {
    let (_folder, editor) = editor(TEXT);
    let new = || Draft { name: "new".to_owned(), command: "c".to_owned(), ..Draft::default() };
    for (draft, field) in [
        (Draft { name: " ".to_owned(), ..new() }, "name"),
        (Draft { name: "files".to_owned(), ..new() }, "name"),
        (Draft { command: String::new(), ..new() }, "command"),
        (Draft { kind: ServerKind::Url, ..new() }, "url"),
        (Draft { environment: "A=1\nwrong".to_owned(), ..new() }, "environment"),
        (Draft { environment: "A=…".to_owned(), ..new() }, "environment"),
        (
            Draft { kind: ServerKind::Url, url: "http://x".to_owned(), headers: ": x".to_owned(), ..new() },
            "headers",
        ),
    ] {
        let error = editor.changed(&draft).expect_err(field);
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
}
