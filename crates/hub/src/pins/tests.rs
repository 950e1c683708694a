use std::fs;
use std::path::Path;

use serde_json::Value;

use super::tool_pin::{MAX_TEXT_BYTES, MAX_TEXT_BYTES_PER_SERVER, write_canonical};
use super::*;

fn tool(text: &str) -> Tool {
    serde_json::from_str(text).expect("a valid tool")
}

fn id(name: &str) -> ServerId {
    ServerId { name: name.to_owned(), identity: "0".repeat(16) }
}

fn pins(tools: &[Tool]) -> (tempfile::TempDir, Pins) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut pins = Pins::open(folder.path().join("store/pins.json"));
    assert_eq!(pins.problem(), None);
    pins.add_new(&id("s"), tools);
    (folder, pins)
}

fn drift(tool: &str, kind: DriftKind) -> Drift {
    Drift { tool: tool.to_owned(), kind, is_blocked: false }
}

#[track_caller]
fn check(before: &str, now: &str, expected: &[DefinitionPart]) {
    let (_folder, pins) = pins(&[tool(before)]);
    let drifts = pins.compare(&id("s"), &[tool(now)]);
    let changed = drift("f", DriftKind::Changed(expected.to_vec()));
    let expected = if expected.is_empty() { Vec::new() } else { vec![changed] };
    assert_eq!(drifts, expected, "{before} → {now}");
}

#[test]
fn every_part_of_a_definition_is_compared() {
    use DefinitionPart::{Annotations, Description, InputSchema, OutputSchema, Title};
    let bare = r#"{"name":"f"}"#;
    check(bare, bare, &[]);
    check(bare, r#"{"name":"f","description":"d"}"#, &[Description]);
    check(r#"{"name":"f","description":"a"}"#, r#"{"name":"f","description":"b"}"#, &[Description]);
    check(bare, r#"{"name":"f","title":"T","inputSchema":{}}"#, &[Title, InputSchema]);
    check(r#"{"name":"f","outputSchema":{}}"#, bare, &[OutputSchema]);
    check(
        r#"{"name":"f","annotations":{"readOnlyHint":true}}"#,
        r#"{"name":"f","annotations":{"readOnlyHint":false}}"#,
        &[Annotations],
    );
    check(r#"{"name":"f","description":5}"#, r#"{"name":"f","description":6}"#, &[Description]);
    check(bare, r#"{"name":"f","inputSchema":null}"#, &[InputSchema]);
    check(
        r#"{"name":"f","inputSchema":{"enum":["a","b"]}}"#,
        r#"{"name":"f","inputSchema":{"enum":["b","a"]}}"#,
        &[InputSchema],
    );
    // Models do not see icons and other fields.
    check(bare, r#"{"name":"f","icons":[],"_meta":{"a":1}}"#, &[]);
}

#[test]
fn the_order_of_keys_is_ignored() {
    check(
        r#"{"name":"f","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{}}}}"#,
        r#"{"inputSchema":{"properties":{"b":{},"a":{"type":"string"}},"type":"object"},"name":"f"}"#,
        &[],
    );
}

#[test]
fn a_hash_is_the_hash_of_the_canonical_json() {
    let value: Value = serde_json::from_str(r#"{ "b": [1.0, "ä\n"], "a": {} }"#).expect("valid JSON");
    let mut text = Vec::new();
    write_canonical(&value, &mut |bytes| text.extend_from_slice(bytes));
    assert_eq!(String::from_utf8(text).expect("UTF-8"), r#"{"a":{},"b":[1.0,"ä\n"]}"#);
    let empty_object_hash = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    assert_eq!(hash(&json!({})), empty_object_hash);
}

#[test]
fn new_and_removed_tools_are_reported() {
    let (_folder, pins) = pins(&[tool(r#"{"name":"a"}"#), tool(r#"{"name":"c"}"#)]);
    assert!(pins.has_server(&id("s")) && !pins.has_server(&id("t")));
    assert_eq!(pins.tools(&id("s")).collect::<Vec<_>>(), ["a", "c"]);
    let drifts = pins.compare(&id("s"), &[tool(r#"{"name":"b"}"#), tool(r#"{"name":"c"}"#)]);
    assert_eq!(drifts, [drift("a", DriftKind::Removed), drift("b", DriftKind::New)]);
    assert_eq!(pins.compare(&id("t"), &[tool(r#"{"name":"b"}"#)]), [drift("b", DriftKind::New)]);
}

#[test]
fn a_change_is_reported_until_it_is_accepted() {
    let before = tool(r#"{"name":"f","description":"a"}"#);
    let after = [tool(r#"{"name":"f","description":"b"}"#)];
    let changed = [drift("f", DriftKind::Changed(vec![DefinitionPart::Description]))];
    let (folder, mut pins) = pins(&[before]);
    let path = folder.path().join("store/pins.json");
    // Removed for a while, then listed with another definition.
    pins.add_new(&id("s"), &[]);
    pins.save().expect("saved");
    for _ in 0..2 {
        let mut pins = Pins::open(&path);
        assert_eq!(pins.compare(&id("s"), &after), changed);
        pins.add_new(&id("s"), &after);
        pins.save().expect("saved");
    }
    // A process with older pins does not undo what the user accepted.
    let mut late = Pins::open(&path);
    let mut accepting = Pins::open(&path);
    accepting.accept(&id("s"), &after, |_| true);
    accepting.save().expect("saved");
    late.add_new(&id("s"), &[tool(r#"{"name":"new"}"#)]);
    late.save().expect("saved");
    let pins = Pins::open(&path);
    assert_eq!(pins.compare(&id("s"), &after), [drift("new", DriftKind::Removed)]);
}

#[test]
fn a_different_program_with_the_same_name_is_a_different_server() {
    let server = |json: &str| {
        let text = format!(r#"{{"mcpServers": {{"s": {json}}}}}"#);
        let parsed = crate::config::Config::parse(&text, Path::new("mcp.json"), &|_| None);
        ServerId::of(&parsed.expect("a valid configuration").0.servers[0])
    };
    let one = server(r#"{"command": "a", "args": ["1"]}"#);
    assert_eq!(one, server(r#"{"command": "a", "args": ["1"], "env": {"KEY": "k"}, "timeout": 5}"#));
    assert_ne!(one, server(r#"{"command": "a", "args": ["2"]}"#));
    assert_ne!(one, server(r#"{"command": "b", "args": ["1"]}"#));
    let web = server(r#"{"url": "https://example.com/mcp?key=1"}"#);
    assert_eq!(web, server(r#"{"url": "https://example.com/mcp?key=2"}"#));
    assert_ne!(web, server(r#"{"url": "https://example.com/other"}"#));
    assert_eq!(one.name, web.name);
}

#[test]
fn a_server_that_always_lists_new_tools_has_a_limited_number_of_pins() {
    let (_folder, mut pins) = pins(&[]);
    for round in 0..3 {
        let tools: Vec<Tool> =
            (0..4000).map(|number| tool(&format!(r#"{{"name":"t{round}-{number}"}}"#))).collect();
        pins.add_new(&id("s"), &tools);
    }
    assert_eq!(pins.tools(&id("s")).count(), 4000);
}

#[test]
fn pins_are_stored_in_a_private_file() {
    let tools = [tool(r#"{"name":"a","description":"d","inputSchema":{"type":"object"}}"#)];
    let (folder, mut pins) = pins(&tools);
    pins.save().expect("saved");
    let path = folder.path().join("store/pins.json");
    let reopened = Pins::open(&path);
    assert_eq!(reopened.problem(), None);
    assert_eq!(reopened.compare(&id("s"), &tools), []);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).expect("the file exists").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.path().join("store"))), (0o600, 0o700));
    }
    let entries: Vec<_> = fs::read_dir(folder.path().join("store")).expect("a folder").collect();
    assert_eq!(entries.len(), 2, "only the file and its lock: {entries:?}");
}

#[test]
fn two_processes_do_not_overwrite_each_other() {
    let (folder, mut one) = pins(&[tool(r#"{"name":"a"}"#)]);
    let path = folder.path().join("store/pins.json");
    let mut other = Pins::open(&path);
    other.add_new(&id("t"), &[tool(r#"{"name":"b"}"#)]);
    one.save().expect("saved");
    other.save().expect("saved");
    let both = Pins::open(&path);
    assert!(both.has_server(&id("s")) && both.has_server(&id("t")) && other.has_server(&id("s")));
}

#[test]
fn an_invalid_file_is_reported_and_kept_until_tools_are_accepted() {
    for text in [
        "",
        "{",
        "[]",
        r#"{"version":1,"servers":{}}"#,
        r#"{"version":2,"servers":{"s":{"a":7}}}"#,
        r#"{"version":2,"servers":{"s":{"0000000000000000":{"a":{"title":1}}}}}"#,
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("pins.json");
        fs::write(&path, text).expect("the file can be written");
        let tools = [tool(r#"{"name":"a"}"#)];
        let mut pins = Pins::open(&path);
        assert!(pins.problem().is_some() && !pins.has_server(&id("s")), "{text}");
        pins.add_new(&id("s"), &tools);
        pins.save().expect("there is nothing to save");
        assert_eq!(fs::read_to_string(&path).expect("the file exists"), text);
        pins.accept(&id("s"), &tools, |_| true);
        pins.save().expect("the file can be replaced");
        assert!(Pins::open(&path).has_server(&id("s")), "{text}");
    }
}

#[test]
fn a_file_that_becomes_invalid_is_not_replaced() {
    let (folder, mut pins) = pins(&[tool(r#"{"name":"a"}"#)]);
    let path = folder.path().join("store/pins.json");
    fs::create_dir_all(folder.path().join("store")).expect("a folder");
    fs::write(&path, "{").expect("the file can be written");
    assert!(pins.save().is_err());
    assert_eq!(fs::read_to_string(&path).expect("the file exists"), "{");
}

#[test]
fn tools_can_be_accepted_one_by_one() {
    let definitions =
        |text: &str| ["f", "g"].map(|name| tool(&format!(r#"{{"name":"{name}","title":"{text}"}}"#)));
    let (_folder, mut pins) = pins(&definitions("a"));
    pins.accept(&id("s"), &definitions("b"), |tool| tool == "g");
    let changed = drift("f", DriftKind::Changed(vec![DefinitionPart::Title]));
    assert_eq!(pins.compare(&id("s"), &definitions("b")), [changed]);
}

/// The file of an earlier version, which has only hashes.
fn without_texts(path: &Path) {
    let mut file: Value = serde_json::from_slice(&fs::read(path).expect("the file exists")).expect("JSON");
    let tools = file["servers"]["s"]["0000000000000000"].as_object_mut().expect("pins");
    for (_, pin) in tools.iter_mut() {
        assert!(pin.as_object_mut().expect("a pin").remove("text").is_some());
    }
    fs::write(path, file.to_string()).expect("the file can be written");
}

#[test]
fn the_accepted_words_are_known_after_a_change() {
    let before = tool(r#"{"name":"f","description":"Delete one file","inputSchema":{"type":"object"}}"#);
    let (folder, mut pins) = pins(&[before]);
    pins.save().expect("saved");
    let path = folder.path().join("store/pins.json");
    let after = tool(r#"{"name":"f","description":"Delete files","inputSchema":{"type":"object"}}"#);
    let reopened = Pins::open(&path);
    let expected = DefinitionChange {
        part: DefinitionPart::Description,
        pointer: String::new(),
        before: Some(json!("Delete one file")),
        after: Some(json!("Delete files")),
    };
    assert_eq!(reopened.difference(&id("s"), &after), Some(vec![expected]));
    assert_eq!(reopened.difference(&id("s"), &tool(r#"{"name":"unknown"}"#)), None);
    // A text that does not match its hashes is not the accepted one.
    let edited = fs::read_to_string(&path).expect("the file exists").replace("one file", "a folder");
    fs::write(&path, edited).expect("the file can be written");
    assert_eq!(Pins::open(&path).difference(&id("s"), &after), None);
}

#[test]
fn pins_of_earlier_versions_get_the_text_of_unchanged_tools() {
    let tools = [tool(r#"{"name":"f","title":"a"}"#), tool(r#"{"name":"g","title":"a"}"#)];
    let (folder, mut pins) = pins(&tools);
    pins.save().expect("saved");
    let path = folder.path().join("store/pins.json");
    without_texts(&path);
    let mut older = Pins::open(&path);
    assert_eq!((older.problem(), older.compare(&id("s"), &tools)), (None, Vec::new()));
    let changed = [tools[0].clone(), tool(r#"{"name":"g","title":"b"}"#)];
    let of_g = DriftKind::Changed(vec![DefinitionPart::Title]);
    assert_eq!(older.compare(&id("s"), &changed), [drift("g", of_g)]);
    older.add_new(&id("s"), &changed);
    older.save().expect("saved");
    let saved = Pins::open(&path);
    assert_eq!(saved.difference(&id("s"), &changed[0]), Some(Vec::new()));
    assert_eq!(saved.difference(&id("s"), &changed[1]), None, "its accepted text is unknown");
}

#[test]
fn the_stored_texts_have_a_limited_length() {
    let with_length = |name: &str, length: usize| {
        tool(&json!({"name": name, "description": "x".repeat(length)}).to_string())
    };
    let long = MAX_TEXT_BYTES - 100;
    let count = MAX_TEXT_BYTES_PER_SERVER / long;
    let mut tools = vec![with_length("a", MAX_TEXT_BYTES + 1)];
    tools.extend((0..=count).map(|number| with_length(&format!("t{number:03}"), long)));
    let (_folder, pins) = pins(&tools);
    let known: Vec<bool> = tools.iter().map(|tool| pins.difference(&id("s"), tool).is_some()).collect();
    assert_eq!((known[0], known[1], known[count], known[count + 1]), (false, true, true, false));
    assert_eq!(pins.compare(&id("s"), &tools), [], "hashes have no limit");
}

#[test]
fn a_changed_tool_that_a_person_blocked_stays_blocked_until_it_is_accepted() {
    let before = tool(r#"{"name":"f","title":"a"}"#);
    let after = [tool(r#"{"name":"f","title":"b"}"#)];
    let (folder, mut pins) = pins(std::slice::from_ref(&before));
    assert!(!pins.block_tool(&id("s"), "unknown") && !pins.block_tool(&id("t"), "f"));
    assert!(pins.block_tool(&id("s"), "f"));
    pins.save().expect("saved");
    let path = folder.path().join("store/pins.json");
    let mut reopened = Pins::open(&path);
    let blocked = |pins: &Pins, tools: &[Tool]| -> Vec<bool> {
        pins.compare(&id("s"), tools).iter().map(|drift| drift.is_blocked).collect()
    };
    assert_eq!(blocked(&reopened, &after), [true]);
    assert!(blocked(&reopened, &[before]).is_empty(), "the accepted definition is offered");
    reopened.accept(&id("s"), &after, |_| true);
    reopened.save().expect("saved");
    assert_eq!(blocked(&Pins::open(&path), &[tool(r#"{"name":"f","title":"c"}"#)]), [false]);
}
