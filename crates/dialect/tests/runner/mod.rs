//! Reads the case folders, converts them, and says how a result differs from what was expected.

use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolwire_dialect::{Dialect, Options, ReadError, Report, Toolset};

/// Above this an expected file holds a digest, to keep the repository small.
const LARGEST_FILE: usize = 20_000;

/// One folder.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) listings: Vec<Listing>,
    form: Form,
}

/// Tools that are converted together.
pub(crate) struct Listing {
    server: Option<String>,
    pub(crate) text: String,
    pub(crate) tools: Vec<Value>,
}

#[derive(PartialEq)]
enum Form {
    OneTool,
    List,
    Servers,
}

/// One column of the expected files.
pub(crate) struct Variant {
    pub(crate) dialect: Dialect,
    pub(crate) reshape: bool,
}

/// What `trap.txt` asks of one dialect: one of several outcomes.
pub(crate) struct Demand {
    column: String,
    pub(crate) text: String,
}

/// Everything that went wrong, so that one run shows all of it.
#[derive(Default)]
pub(crate) struct Failures(Vec<String>);

impl Case {
    /// All cases, by name.
    pub(crate) fn all() -> Vec<Case> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
        let entries = fs::read_dir(root).expect("the folder of cases is there");
        let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        folders.sort();
        let cases: Vec<Case> = folders.into_iter().map(Case::read).collect();
        assert!(cases.len() >= 145, "only {} cases were found", cases.len());
        cases
    }

    /// The one case whose name starts like this.
    pub(crate) fn named(start: &str) -> Case {
        Case::all().into_iter().find(|case| case.name.starts_with(start)).expect("there is such a case")
    }

    fn read(folder: PathBuf) -> Case {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if let Ok(text) = fs::read_to_string(folder.join("tool.json")) {
            let tools = vec![serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))];
            return Case {
                name,
                folder,
                listings: vec![Listing { server: None, text, tools }],
                form: Form::OneTool,
            };
        }
        let text =
            fs::read_to_string(folder.join("tools.json")).unwrap_or_else(|error| panic!("{name}: {error}"));
        let list: Vec<Value> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        if list.iter().all(|entry| entry.get("server").is_none()) {
            return Case {
                name,
                folder,
                listings: vec![Listing { server: None, text, tools: list }],
                form: Form::List,
            };
        }
        let listings = list.iter().map(|entry| Listing {
            server: entry["server"].as_str().map(str::to_owned),
            text: entry["tools"].to_string(),
            tools: entry["tools"].as_array().expect("a server has a list of tools").clone(),
        });
        Case { name, folder, listings: listings.collect(), form: Form::Servers }
    }

    pub(crate) fn is_one_tool(&self) -> bool {
        self.form == Form::OneTool
    }

    /// The JSON files of the folder that are not its input.
    pub(crate) fn other_json_files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).expect("the case's folder can be listed");
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".json") && name != "tool.json" && name != "tools.json").collect()
    }

    /// What `trap.txt` demands: `about | column: outcome/outcome, remark | …`.
    pub(crate) fn demands(&self) -> Vec<Demand> {
        let path = self.folder.join("trap.txt");
        let line = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let columns = line.trim().split(" | ").skip(1);
        let demands = columns.map(|column| {
            let (column, text) = column.split_once(": ").expect("a column is a dialect and its outcome");
            Demand { column: column.to_owned(), text: text.to_owned() }
        });
        demands.collect()
    }
}

impl Listing {
    pub(crate) fn options(&self, variant: &Variant) -> Options {
        Options { reshape: variant.reshape, server: self.server.clone(), ..Options::default() }
    }

    pub(crate) fn bind(&self, variant: &Variant) -> Result<Toolset, ReadError> {
        Toolset::from_json(&self.text, variant.dialect, &self.options(variant))
    }

    fn outcome(&self, variant: &Variant) -> (Value, Value) {
        match self.bind(variant) {
            Ok(toolset) => (json!(toolset.definitions()), json!(toolset.reports())),
            Err(error) => (Value::Null, json!({"error": error.to_string()})),
        }
    }
}

impl Variant {
    /// Every dialect, and the strict ones reshaped as well.
    pub(crate) fn all() -> Vec<Variant> {
        let plain = Dialect::ALL.into_iter().map(|dialect| Variant { dialect, reshape: false });
        let strict = Dialect::ALL.into_iter().filter(|dialect| dialect.name().ends_with("-strict"));
        plain.chain(strict.map(|dialect| Variant { dialect, reshape: true })).collect()
    }

    pub(crate) fn file_name(&self) -> String {
        format!("{}{}.json", self.dialect, if self.reshape { ".reshape" } else { "" })
    }
}

impl Demand {
    /// The dialects a column speaks for.
    pub(crate) fn dialects(&self) -> Vec<Dialect> {
        let own: Dialect = self.column.parse().unwrap_or_else(|error| panic!("{error}"));
        if own == Dialect::OpenAiStrict { vec![own, Dialect::ResponsesStrict] } else { vec![own] }
    }

    pub(crate) fn allows(&self, outcome: &[&str]) -> bool {
        let words = self.text.split([',', ' ']).next().unwrap_or_default();
        words.split('/').any(|word| {
            assert!(
                ["same", "mended", "kept", "lossy", "fallback", "refused", "any"].contains(&word),
                "`{word}` is not an outcome"
            );
            word == "any" || outcome.contains(&word)
        })
    }
}

impl Failures {
    pub(crate) fn add(&mut self, label: &str, failure: String) {
        self.0.push(format!("{label}: {failure}"));
    }

    /// Runs `work`; a panic in it is one more failure, not the end of the run.
    pub(crate) fn attempt<T>(&mut self, label: &str, work: impl FnOnce() -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(value) => Some(value),
            Err(panic) => {
                self.add(label, format!("panicked: {}", panic_message(&*panic)));
                None
            }
        }
    }

    #[track_caller]
    pub(crate) fn report(self) {
        assert!(self.0.is_empty(), "{} failures\n\n{}", self.0.len(), self.0.join("\n"));
    }
}

/// The text of the expected file: the whole outcome, or a digest of it when that is large.
pub(crate) fn file_text(case: &Case, variant: &Variant) -> String {
    let outcomes: Vec<(Value, Value)> =
        case.listings.iter().map(|listing| listing.outcome(variant)).collect();
    let whole = match case.form {
        Form::OneTool => json!({"definition": outcomes[0].0.get(0), "report": one_or_all(&outcomes[0].1)}),
        Form::List => json!({"definitions": outcomes[0].0, "reports": outcomes[0].1}),
        Form::Servers => {
            let servers = case.listings.iter().zip(&outcomes).map(|(listing, (definitions, reports))| {
                json!({"server": listing.server, "definitions": definitions, "reports": reports})
            });
            json!({"servers": servers.collect::<Vec<_>>()})
        }
    };
    let text = pretty(&whole);
    if text.len() <= LARGEST_FILE {
        return text;
    }
    let reports: Vec<Report> = case
        .listings
        .iter()
        .flat_map(|listing| {
            listing.bind(variant).map(|toolset| toolset.reports().to_vec()).unwrap_or_default()
        })
        .collect();
    pretty(&json!({
        "fnv1a": format!("{:016x}", fnv1a(text.as_bytes())),
        "length": text.len(),
        "report": summary(&reports),
    }))
}

/// The lines that differ, with a little of what is around them.
pub(crate) fn difference(expected: &str, actual: &str) -> String {
    const AROUND: usize = 3;
    const MOST: usize = 30;
    let (expected, actual): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let shorter = expected.len().min(actual.len());
    let start = (0..shorter).take_while(|&line| expected[line] == actual[line]).count();
    let end = (0..shorter - start)
        .take_while(|&line| expected[expected.len() - 1 - line] == actual[actual.len() - 1 - line])
        .count();
    let mut text = format!("differs from line {}\n", start + 1);
    let mut put = |mark: char, lines: &[&str]| {
        for line in lines.iter().take(MOST) {
            text.push_str(&format!("  {mark} {line}\n"));
        }
        if lines.len() > MOST {
            text.push_str(&format!("  {mark} … {} more lines\n", lines.len() - MOST));
        }
    };
    put(' ', &expected[start.saturating_sub(AROUND)..start]);
    put('-', &expected[start..expected.len() - end]);
    put('+', &actual[start..actual.len() - end]);
    put(' ', &expected[expected.len() - end..(expected.len() - end + AROUND).min(expected.len())]);
    text
}

fn one_or_all(reports: &Value) -> &Value {
    match reports.as_array().map(Vec::as_slice) {
        Some([report]) => report,
        _ => reports,
    }
}

/// Enough of large reports to see in a review what changed.
fn summary(reports: &[Report]) -> Value {
    const MOST: usize = 20;
    let briefs = reports.iter().take(MOST).map(|report| {
        json!({
            "tool": report.tool, "name": report.name, "status": report.status, "reason": report.reason,
            "change_count": report.changes.len(),
            "changes": report.changes.iter().take(MOST).collect::<Vec<_>>(),
        })
    });
    let mut statuses = serde_json::Map::new();
    for report in reports {
        let count = statuses.entry(report.status.name()).or_insert(json!(0));
        *count = json!(count.as_u64().unwrap_or(0) + 1);
    }
    json!({"count": reports.len(), "statuses": statuses, "first": briefs.collect::<Vec<_>>()})
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a value is always JSON") + "\n"
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or("without words".to_owned())
}
