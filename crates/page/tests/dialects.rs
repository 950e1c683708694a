//! Compares real tools with their definitions: every entry of a report is displayed once, and every
//! difference has an entry.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use toolwire_dialect::comparison::compare;
use toolwire_dialect::{Change, Dialect, Options};
use toolwire_page::dialects::Pair;

/// Each of this many servers is compared, because all of them take minutes. Among the others are schemas with
/// references into other properties and with nested alternatives, whose differences the view marks as
/// unexplained.
const SAMPLE: usize = 6;

#[test]
fn every_entry_is_displayed_once_and_every_difference_has_one() {
    check(real_tools().into_iter().step_by(SAMPLE).collect());
}

fn check(servers: Vec<(String, Value)>) {
    let next = Mutex::new(servers.into_iter());
    let found = Mutex::new(Found::default());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let server = next.lock().expect("no panic").next();
                    let Some((name, tools)) = server else { return };
                    let of_server = compare_all(&name, &tools);
                    let mut found = found.lock().expect("no panic");
                    found.compared += of_server.compared;
                    found.unexplained.extend(of_server.unexplained);
                }
            });
        }
    });
    let found = found.into_inner().expect("no panic");
    println!("{} comparisons", found.compared);
    assert!(found.compared > 10_000, "{}", found.compared);
    assert!(found.unexplained.is_empty(), "{} lines: {:#?}", found.unexplained.len(), found.unexplained);
}

#[derive(Default)]
struct Found {
    compared: usize,
    /// The lines of differences without an entry.
    unexplained: Vec<String>,
}

fn compare_all(server: &str, tools: &Value) -> Found {
    let text = json!({"tools": tools}).to_string();
    let mut found = Found::default();
    for dialect in Dialect::all() {
        for comparison in compare(&text, dialect, &Options::default()).expect("a list of tools") {
            found.compared += 1;
            let pair = Pair::new(&comparison);
            let mut displayed: Vec<&Change> = pair.displayed().collect();
            let mut reported: Vec<&Change> = comparison.report.changes.iter().collect();
            let key =
                |change: &&Change| (change.pointer.clone(), change.keyword.clone(), change.detail.clone());
            displayed.sort_by_key(key);
            reported.sort_by_key(key);
            let tool = format!("{server}/{} in {dialect}", comparison.report.tool);
            assert_eq!(displayed, reported, "{tool}");
            found.unexplained.extend(pair.unexplained().iter().map(|line| format!("{tool}: {line}")));
        }
    }
    found
}

/// Returns the captured tools if they are available, else the committed shapes, by server.
fn real_tools() -> Vec<(String, Value)> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let configured = std::env::var_os("TOOLWIRE_CORPUS").map(PathBuf::from);
    let folder = configured.unwrap_or_else(|| repository.join("../shared/corpus"));
    if !folder.is_dir() {
        let file = fs::File::open(repository.join("corpus/shapes.jsonl.gz")).expect("the committed shapes");
        let mut text = String::new();
        GzDecoder::new(file).read_to_string(&mut text).expect("UTF-8 in gzip");
        let server = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("valid JSON");
            (line["server"].as_str().expect("a server name").to_owned(), line["tools"].clone())
        };
        return text.lines().map(server).collect();
    }
    let entries = fs::read_dir(folder).expect("a readable folder");
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect();
    paths.sort();
    let server = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a readable file");
        let captured: Value = serde_json::from_str(&text).expect("valid JSON");
        let name = path.file_stem().expect("a file name").to_string_lossy().into_owned();
        (name, captured["tools"].clone())
    };
    paths.iter().map(server).collect()
}
