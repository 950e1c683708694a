//! Captured tools, if available, and questions for them.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test and benchmark uses a part of it"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_agent::search::{ToolHit, ToolIndex};
use toolwire_contract::Tool;
use toolwire_contract::toolbox::ToolServer;

/// Captured tools and their servers. The name of a server is the name of its file.
pub struct Captured {
    pub tools: Arc<[Tool]>,
    pub servers: Vec<Option<ToolServer>>,
}

/// Returns the first `count` captured tools, with the servers in the order 1, 6, 11, …, 2, 7, 12, ….
/// Returns `None` if the corpus is missing.
pub fn captured(count: usize) -> Option<Captured> {
    let configured = std::env::var_os("TOOLWIRE_CORPUS").map(PathBuf::from);
    let folder =
        configured.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"));
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let (mut tools, mut servers) = (Vec::new(), Vec::new());
    for path in (0..5).flat_map(|first| paths.iter().skip(first).step_by(5)) {
        if tools.len() >= count {
            break;
        }
        let text = fs::read_to_string(path).expect("a readable file");
        let mut captured: Value = serde_json::from_str(&text).expect("valid JSON");
        let of_server: Vec<Tool> = serde_json::from_value(captured["tools"].take()).expect("a list of tools");
        let info = &captured["initialize"]["serverInfo"];
        let title = info["title"].as_str().or(info["name"].as_str()).map(str::to_owned);
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        tools.extend(of_server);
        servers.resize(tools.len(), Some(ToolServer { name, title }));
    }
    tools.truncate(count);
    servers.truncate(count);
    Some(Captured { tools: tools.into(), servers })
}

impl Captured {
    pub fn index(&self) -> ToolIndex {
        ToolIndex::with_servers(self.tools.clone(), &self.servers)
    }

    /// Returns the questions that were written for one of these tools.
    pub fn answerable(&self, questions: Vec<Question>) -> Vec<Question> {
        let is_captured = |question: &Question| {
            let mut tools = self.tools.iter().zip(&self.servers);
            let written_for = question.answers[0];
            tools.any(|(tool, server)| is_answer(written_for, &tool.name, server.as_ref()))
        };
        questions.into_iter().filter(is_captured).collect()
    }
}

pub fn tools(count: usize) -> Option<Arc<[Tool]>> {
    captured(count).map(|captured| captured.tools)
}

/// A question in a whole sentence and in a few words, and the tools that answer it: the `server/tool` that it
/// was written for, then others, as `server/tool` or as `tool` of any server.
pub struct Question {
    pub sentence: &'static str,
    pub short: &'static str,
    pub answers: Vec<&'static str>,
}

/// The questions that the ranking was tuned with.
pub fn tuning_questions() -> Vec<Question> {
    parse_questions(include_str!("../tuning_questions.tsv"))
}

/// Questions that were written before the ranking and not used to tune it. The first 150 are for the first
/// 1,500 tools, the others for the following 2,500.
pub fn judging_questions() -> Vec<Question> {
    parse_questions(include_str!("../judging_questions.tsv"))
}

/// Questions by another author, for random tools of the whole corpus. They were only measured.
pub fn second_judging_questions() -> Vec<Question> {
    parse_questions(include_str!("../second_judging_questions.tsv"))
}

/// Questions by a third author, for 150 random tools of the first 1,500 and 150 of the following 2,500. The
/// ranking with embeddings was tuned with them.
pub fn third_author_questions() -> Vec<Question> {
    parse_questions(include_str!("../third_author_questions.tsv"))
}

fn parse_questions(text: &'static str) -> Vec<Question> {
    let parse = |line: &'static str| {
        let mut columns = line.split('\t');
        let mut next = || columns.next().expect("three columns");
        Question { sentence: next(), short: next(), answers: next().split(',').collect() }
    };
    text.lines().map(parse).collect()
}

impl Question {
    /// Whether one of the hits answers the question.
    pub fn is_answered(&self, hits: &[ToolHit<'_>]) -> bool {
        hits.iter().any(|hit| self.answers.iter().any(|answer| is_answer(answer, &hit.tool.name, hit.server)))
    }
}

fn is_answer(answer: &str, tool: &str, server: Option<&ToolServer>) -> bool {
    match answer.split_once('/') {
        Some((of_server, name)) => name == tool && server.is_some_and(|server| server.name == of_server),
        None => answer == tool,
    }
}

/// Returns how many questions have their tool among the first five hits, and how many have it as the first
/// hit.
pub fn found<'i>(questions: &[Question], search: impl Fn(&Question) -> Vec<ToolHit<'i>>) -> (usize, usize) {
    let hits: Vec<Vec<ToolHit<'i>>> = questions.iter().map(search).collect();
    let count = |limit: usize| {
        let searches = questions.iter().zip(&hits);
        searches.filter(|(question, hits)| question.is_answered(&hits[..hits.len().min(limit)])).count()
    };
    (count(5), count(1))
}

/// Returns 1,500 tools without descriptions, as a substitute for captured tools.
pub fn plain_tools() -> Arc<[Tool]> {
    let schema =
        json!({"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}});
    (0..1_500).map(|number| Tool::new(format!("tool_{number}_does_work"), schema.clone())).collect()
}

/// Questions, each with the names of suitable tools.
pub type Questions = Vec<(&'static str, Vec<&'static str>)>;

pub fn questions() -> Questions {
    parse(include_str!("../questions.tsv"))
}

/// Returns fifty more questions, written after the search was tuned.
pub fn later_questions() -> Questions {
    parse(include_str!("../later_questions.tsv"))
}

fn parse(text: &'static str) -> Questions {
    text.lines()
        .map(|line| {
            let (question, tools) = line.split_once('\t').expect("a question and its tools");
            (question, tools.split(',').collect())
        })
        .collect()
}
