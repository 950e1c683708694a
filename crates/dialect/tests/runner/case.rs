//! A case file: a description, requirements, tools and the expected outputs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolwire_dialect::{Dialect, Options, ReadError, Toolset};

use super::output::output;
use super::variants::{Outputs, decode, encode};
use super::{Failures, Variant, layout};

pub(crate) struct Case {
    pub(crate) listings: Vec<Listing>,
    path: PathBuf,
    text: String,
    file: CaseFile,
}

/// The content of a case file. The input is exactly one of `tool`, `tools` and `servers`.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    about: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    requires: Vec<Requirement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<Vec<Server>>,
    #[serde(default)]
    outputs: Map<String, Value>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Server {
    server: String,
    tools: Vec<Value>,
}

/// The outcomes that are allowed in some dialects. A person decides them; the update mode never changes them.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Requirement {
    dialects: Vec<String>,
    pub(crate) allowed: Vec<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// The effect of a conversion on one tool.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// The schema is the original one, key for key.
    Unchanged,
    /// The schema differs from the original one but means the same.
    Rewritten,
    /// In requirements: either of the two above.
    Lossless,
    Lossy,
    /// The dialect is strict, but this tool could not be offered as strict.
    NotStrict,
    Refused,
}

/// Tools that are converted together.
pub(crate) struct Listing {
    pub(crate) server: Option<String>,
    pub(crate) text: String,
    pub(crate) tools: Vec<Value>,
}

impl Case {
    /// Returns the names of all case files.
    pub(crate) fn names() -> BTreeSet<String> {
        let entries = fs::read_dir(folder()).expect("a readable folder");
        let files = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let cases = files.filter(|file| file != "README.md");
        cases.map(|file| file.trim_end_matches(".json").to_owned()).collect()
    }

    pub(crate) fn read(name: &str) -> Case {
        let path = folder().join(format!("{name}.json"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file: CaseFile =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let listings = match (&file.tool, &file.tools, &file.servers) {
            (Some(tool), None, None) => {
                vec![Listing { server: None, text: tool.to_string(), tools: vec![tool.clone()] }]
            }
            (None, Some(tools), None) => vec![Listing::new(None, tools)],
            (None, None, Some(servers)) => servers
                .iter()
                .map(|server| Listing::new(Some(server.server.clone()), &server.tools))
                .collect(),
            _ => panic!("{}: expected one of `tool`, `tools` and `servers`", path.display()),
        };
        Case { listings, path, text, file }
    }

    pub(crate) fn is_one_tool(&self) -> bool {
        self.file.tool.is_some()
    }

    pub(crate) fn requirements(&self) -> &[Requirement] {
        &self.file.requires
    }

    /// Compares the outputs of all variants with the expected ones. With `TOOLWIRE_BLESS=1` it rewrites the
    /// file with the actual outputs.
    pub(crate) fn check_outputs(&self, failures: &mut Failures) {
        let mut actual = Outputs::new();
        for variant in Variant::all() {
            let Some(output) = failures.attempt(&variant.to_string(), |_| output(self, variant)) else {
                return;
            };
            actual.push((variant.to_string(), output));
        }
        if std::env::var_os("TOOLWIRE_BLESS").is_some_and(|value| value == "1") {
            let text = self.file_text(&actual);
            fs::write(&self.path, text).expect("a writable file");
            return;
        }
        match decode(&self.file.outputs) {
            Ok(expected) => compare(&expected, &actual, failures),
            Err(error) => failures.add("outputs", error),
        }
        if failures.is_empty() && self.text != self.file_text(&actual) {
            let difference = layout::difference(&self.text, &self.file_text(&actual));
            failures.add("layout", format!("{difference}run with TOOLWIRE_BLESS=1 to rewrite the file"));
        }
    }

    fn file_text(&self, outputs: &Outputs) -> String {
        let mut file = json!(self.file);
        file["outputs"] = Value::Object(encode(outputs));
        layout::to_text(&file)
    }
}

impl Listing {
    fn new(server: Option<String>, tools: &[Value]) -> Listing {
        Listing { server, text: json!(tools).to_string(), tools: tools.to_vec() }
    }

    pub(crate) fn options(&self, variant: Variant) -> Options {
        Options::default().with_reshape(variant.reshape).with_server(self.server.clone())
    }

    pub(crate) fn bind(&self, variant: Variant) -> Result<Toolset, ReadError> {
        Toolset::from_json(&self.text, variant.dialect, &self.options(variant))
    }

    /// Whether two tools have the same name. The second one is then refused.
    pub(crate) fn has_duplicates(&self) -> bool {
        let mut names = BTreeSet::new();
        !self.tools.iter().all(|tool| names.insert(tool["name"].as_str()))
    }
}

impl Requirement {
    pub(crate) fn dialects(&self) -> impl Iterator<Item = Dialect> {
        self.dialects.iter().map(|name| name.parse().unwrap_or_else(|error| panic!("{error}")))
    }

    pub(crate) fn allows(&self, outcome: Outcome) -> bool {
        let is_lossless = matches!(outcome, Outcome::Unchanged | Outcome::Rewritten);
        self.allowed.contains(&outcome) || (is_lossless && self.allowed.contains(&Outcome::Lossless))
    }
}

fn compare(expected: &Outputs, actual: &Outputs, failures: &mut Failures) {
    for (name, actual) in actual {
        match expected.iter().find(|(expected_name, _)| expected_name == name) {
            Some((_, expected)) => {
                let (expected, actual) = (layout::to_text(expected), layout::to_text(actual));
                if expected != actual {
                    failures.add(name, layout::difference(&expected, &actual));
                }
            }
            None => failures.add(name, "no expected output; TOOLWIRE_BLESS=1 adds it".to_owned()),
        }
    }
    for (name, _) in expected {
        if actual.iter().all(|(actual_name, _)| actual_name != name) {
            failures.add(name, "no such dialect".to_owned());
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}
