//! Which tools a question is about.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use toolwire_contract::{Tool, ToolChoice};

use super::fill::{choices, fill};
use super::words::{Token, clauses, operation, stem, stems, tokens};

/// What a question leads to.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Choice {
    pub(super) calls: Vec<(String, Map<String, Value>)>,
    /// Tools that fit, with what the question does not say.
    pub(super) incomplete: Vec<(String, Vec<String>)>,
}

/// What a match is worth, by where the word stands.
const IN_NAME: f64 = 3.0;
const IN_LIST: f64 = 2.5;
const IN_TITLE: f64 = 2.0;
const IN_TEXT: f64 = 1.0;

/// Less is an accident.
const ENOUGH: f64 = 2.0;

/// More calls at once are not meant.
const MOST_CALLS: usize = 8;

/// Chooses tools for a question, with their arguments.
pub(super) fn choose(tools: &[Tool], question: &str, choice: &ToolChoice) -> Choice {
    let offered: Vec<&Tool> = match choice {
        ToolChoice::None => Vec::new(),
        ToolChoice::Tool(name) => tools.iter().filter(|tool| tool.name == *name).collect(),
        ToolChoice::Auto | ToolChoice::Required => tools.iter().collect(),
    };
    let index = Index::new(&offered);
    let tokens = tokens(question);
    let mut chosen = Choice::default();
    for clause in clauses(&tokens) {
        choose_for(clause, &offered, &index, &mut chosen);
    }
    chosen.calls.truncate(MOST_CALLS);
    let demanded = matches!(choice, ToolChoice::Required | ToolChoice::Tool(_));
    if demanded && chosen.calls.is_empty() {
        let taken = vec![false; tokens.len()];
        let best = index.best(&tokens, &taken, &HashSet::new()).map_or(0, |(tool, _, _)| tool);
        if let Some(tool) = offered.get(best) {
            let schema = tool.input_schema.as_ref().unwrap_or(&Value::Null);
            chosen.calls.push((tool.name.clone(), fill(schema, &tokens, &taken).arguments));
            chosen.incomplete.clear();
        }
    }
    chosen
}

/// Takes the tool that fits best, then the next one for the words that are left.
fn choose_for(clause: &[Token], offered: &[&Tool], index: &Index, chosen: &mut Choice) {
    let mut taken = vec![false; clause.len()];
    let mut passed_over = HashSet::new();
    let mut incomplete = None;
    let before = chosen.calls.len();
    while passed_over.len() < 4
        && let Some((best, score, matched)) = index.best(clause, &taken, &passed_over)
        && score >= ENOUGH
    {
        passed_over.insert(best);
        let tool = offered[best];
        let mut for_arguments = taken.clone();
        for at in &matched {
            // A word that stands for one of a list is both: it led here and is the argument.
            for_arguments[*at] |= operation(clause, *at).is_none()
                && !index.tools[best].listed.contains(&stem(&clause[*at].text));
        }
        let schema = tool.input_schema.as_ref().unwrap_or(&Value::Null);
        let filled = fill(schema, clause, &for_arguments);
        if filled.missing.is_empty() {
            for at in matched.into_iter().chain(filled.used) {
                taken[at] = true;
            }
            let call = (tool.name.clone(), filled.arguments);
            if !chosen.calls.contains(&call) {
                chosen.calls.push(call);
            }
        } else if incomplete.is_none() {
            incomplete = Some((tool.name.clone(), filled.missing));
        }
    }
    if chosen.calls.len() == before {
        chosen.incomplete.extend(incomplete);
    }
}

/// The words of every tool, and how common each is.
struct Index {
    tools: Vec<ToolWords>,
    common: HashMap<String, usize>,
}

struct ToolWords {
    worth: HashMap<String, f64>,
    /// Words of lists among its parameters.
    listed: HashSet<String>,
}

impl Index {
    fn new(tools: &[&Tool]) -> Index {
        let tools: Vec<ToolWords> = tools.iter().map(|tool| ToolWords::new(tool)).collect();
        let mut common = HashMap::new();
        for word in tools.iter().flat_map(|tool| tool.worth.keys()) {
            *common.entry(word.clone()).or_default() += 1;
        }
        Index { tools, common }
    }

    /// The tool that fits best, how well it fits, and the pieces that say so.
    fn best(
        &self,
        clause: &[Token],
        taken: &[bool],
        passed_over: &HashSet<usize>,
    ) -> Option<(usize, f64, Vec<usize>)> {
        let words: Vec<(usize, String)> = clause
            .iter()
            .enumerate()
            .filter(|(at, _)| !taken[*at])
            .filter_map(|(at, token)| {
                let operation = operation(clause, at).map(stem);
                Some((at, operation.or_else(|| token.stem())?))
            })
            .collect();
        let all = self.tools.len() as f64;
        let mut best: Option<(usize, f64, Vec<usize>)> = None;
        for (tool, known) in self.tools.iter().enumerate().filter(|(tool, _)| !passed_over.contains(tool)) {
            let mut seen = HashSet::new();
            let (mut score, mut matched) = (0.0, Vec::new());
            for (at, word) in &words {
                let Some(worth) = known.worth.get(word) else { continue };
                matched.push(*at);
                if seen.insert(word) {
                    let common = self.common.get(word).copied().unwrap_or(1) as f64;
                    score += worth * (1.0 + all / common).ln() / (1.0 + all).ln();
                }
            }
            if score > best.as_ref().map_or(0.0, |(_, score, _)| *score) {
                best = Some((tool, score, matched));
            }
        }
        best
    }
}

impl ToolWords {
    fn new(tool: &Tool) -> ToolWords {
        let mut words = ToolWords { worth: HashMap::new(), listed: HashSet::new() };
        words.add(stems(&tool.name), IN_NAME);
        words.add(stems(tool.title.as_deref().unwrap_or_default()), IN_TITLE);
        words.add(stems(tool.description.as_deref().unwrap_or_default()), IN_TEXT);
        let schema = tool.input_schema.as_ref().unwrap_or(&Value::Null);
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            words.add(stems(name), IN_TEXT);
            let pointer =
                property.get("$ref").and_then(Value::as_str).and_then(|pointer| pointer.strip_prefix('#'));
            let property = pointer.and_then(|pointer| schema.pointer(pointer)).unwrap_or(property);
            let listed: Vec<String> = choices(schema, property).iter().map(|word| stem(word)).collect();
            words.listed.extend(listed.iter().cloned());
            words.add(listed, IN_LIST);
        }
        words
    }

    fn add(&mut self, words: Vec<String>, worth: f64) {
        for word in words {
            let known = self.worth.entry(word).or_default();
            *known = known.max(worth);
        }
    }
}
