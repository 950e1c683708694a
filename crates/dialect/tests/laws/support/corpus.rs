//! Loads real tools: the committed shapes, or the captured tools if they are available.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;

/// One server's tools, as its `tools/list` returned them or reduced to shapes.
pub struct Server {
    pub name: String,
    pub tools: Vec<Value>,
}

/// Returns the captured tools if they are available, else the committed shapes, with a label.
///
/// `corpus/strip.py --check` checks that both contain the same tools.
pub fn real_tools() -> (&'static str, Vec<Server>) {
    match captured_folder() {
        Some(folder) => ("captured tools", captured(&folder)),
        None => ("committed shapes", shapes()),
    }
}

/// Returns the committed shapes.
pub fn shapes() -> Vec<Server> {
    let path = repository().join("corpus/shapes.jsonl.gz");
    let file = fs::File::open(&path).expect("the committed shapes");
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).expect("UTF-8 in gzip");
    text.lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).expect("valid JSON");
            server(line["server"].as_str().expect("a server name"), &line["tools"])
        })
        .collect()
}

/// Returns the captured tools, including descriptions.
fn captured(folder: &Path) -> Vec<Server> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a readable folder")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).expect("a readable file");
            let captured: Value = serde_json::from_str(&text).expect("valid JSON");
            let name = path.file_stem().expect("a file name").to_string_lossy().into_owned();
            server(&name, &captured["tools"])
        })
        .collect()
}

fn captured_folder() -> Option<PathBuf> {
    let configured = std::env::var_os("TOOLWIRE_CORPUS").map(PathBuf::from);
    let folder = configured.unwrap_or_else(|| repository().join("../shared/corpus"));
    folder.is_dir().then_some(folder)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn server(name: &str, tools: &Value) -> Server {
    let tools = tools.as_array().expect("a list of tools").clone();
    Server { name: name.to_owned(), tools }
}
