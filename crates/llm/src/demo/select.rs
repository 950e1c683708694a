//! Selects the tools that a question is about.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use toolwire_contract::Tool;
use toolwire_contract::model::ToolChoice;

use super::arguments::extract_arguments;
use super::properties::allowed_strings;
use super::tokens::{Token, clauses, operation, stem, stems, tokens};

/// The tool calls for a question.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Selection {
    pub(super) calls: Vec<(String, Map<String, Value>)>,
    /// Matching tools, with the required arguments that the question does not contain.
    pub(super) incomplete: Vec<(String, Vec<String>)>,
}

/// The weight of a matching term, by where the tool contains it.
const NAME_WEIGHT: f64 = 3.0;
const ENUM_WEIGHT: f64 = 2.5;
const TITLE_WEIGHT: f64 = 2.0;
const DESCRIPTION_WEIGHT: f64 = 1.0;

/// The minimum score of a match.
const MIN_SCORE: f64 = 2.0;

/// The maximum number of tools that are tried for one clause.
const MAX_TRIED_TOOLS: usize = 4;

/// The maximum number of calls in one response.
const MAX_CALLS: usize = 8;

/// Selects tools for a question, with their arguments.
pub(super) fn select_calls(tools: &[Tool], question: &str, choice: &ToolChoice) -> Selection {
    let offered: Vec<&Tool> = match choice {
        ToolChoice::None => Vec::new(),
        ToolChoice::Tool(name) => tools.iter().filter(|tool| tool.name == *name).collect(),
        ToolChoice::Auto | ToolChoice::Required => tools.iter().collect(),
    };
    let index = TermIndex::new(&offered);
    let tokens = tokens(question);
    let mut selection = Selection::default();
    for clause in clauses(&tokens) {
        select_for_clause(clause, &offered, &index, &mut selection);
    }
    selection.calls.truncate(MAX_CALLS);
    let is_call_required = matches!(choice, ToolChoice::Required | ToolChoice::Tool(_));
    if is_call_required && selection.calls.is_empty() {
        let used = vec![false; tokens.len()];
        let best = index.best(&tokens, &used, &HashSet::new()).map_or(0, |(tool, _, _)| tool);
        if let Some(tool) = offered.get(best) {
            let schema = tool.input_schema.as_ref().unwrap_or(&Value::Null);
            selection.calls.push((tool.name.clone(), extract_arguments(schema, &tokens, &used).arguments));
            selection.incomplete.clear();
        }
    }
    selection
}

/// Selects the best tool for a clause, then the best one for the words that are left.
fn select_for_clause(clause: &[Token], offered: &[&Tool], index: &TermIndex, selection: &mut Selection) {
    let mut used = vec![false; clause.len()];
    let mut tried = HashSet::new();
    let mut incomplete = None;
    let before = selection.calls.len();
    while tried.len() < MAX_TRIED_TOOLS
        && let Some((best, score, matched)) = index.best(clause, &used, &tried)
        && score >= MIN_SCORE
    {
        tried.insert(best);
        let tool = offered[best];
        let mut used_for_arguments = used.clone();
        for at in &matched {
            // A word that matches an enum value selects the tool and is also its argument.
            used_for_arguments[*at] |= operation(clause, *at).is_none()
                && !index.tools[best].enum_values.contains(&stem(&clause[*at].text));
        }
        let schema = tool.input_schema.as_ref().unwrap_or(&Value::Null);
        let extracted = extract_arguments(schema, clause, &used_for_arguments);
        if extracted.missing.is_empty() {
            for at in matched.into_iter().chain(extracted.used) {
                used[at] = true;
            }
            let call = (tool.name.clone(), extracted.arguments);
            if !selection.calls.contains(&call) {
                selection.calls.push(call);
            }
        } else if incomplete.is_none() {
            incomplete = Some((tool.name.clone(), extracted.missing));
        }
    }
    if selection.calls.len() == before {
        selection.incomplete.extend(incomplete);
    }
}

/// The terms of all tools, and how many tools contain each term.
struct TermIndex {
    tools: Vec<ToolTerms>,
    tool_counts: HashMap<String, usize>,
}

struct ToolTerms {
    weights: HashMap<String, f64>,
    /// The enum values of its parameters.
    enum_values: HashSet<String>,
}

impl TermIndex {
    fn new(tools: &[&Tool]) -> TermIndex {
        let tools: Vec<ToolTerms> = tools.iter().map(|tool| ToolTerms::new(tool)).collect();
        let mut tool_counts = HashMap::new();
        for term in tools.iter().flat_map(|tool| tool.weights.keys()) {
            *tool_counts.entry(term.clone()).or_default() += 1;
        }
        TermIndex { tools, tool_counts }
    }

    /// Returns the best tool, its score, and the positions of the matching tokens.
    fn best(
        &self,
        clause: &[Token],
        used: &[bool],
        tried: &HashSet<usize>,
    ) -> Option<(usize, f64, Vec<usize>)> {
        let terms: Vec<(usize, String)> = clause
            .iter()
            .enumerate()
            .filter(|(at, _)| !used[*at])
            .filter_map(|(at, token)| {
                let operation = operation(clause, at).map(stem);
                Some((at, operation.or_else(|| token.stem())?))
            })
            .collect();
        let all = self.tools.len() as f64;
        let mut best: Option<(usize, f64, Vec<usize>)> = None;
        for (tool, known) in self.tools.iter().enumerate().filter(|(tool, _)| !tried.contains(tool)) {
            let mut seen = HashSet::new();
            let (mut score, mut matched) = (0.0, Vec::new());
            for (at, term) in &terms {
                let Some(weight) = known.weights.get(term) else { continue };
                matched.push(*at);
                if seen.insert(term) {
                    let tool_count = self.tool_counts.get(term).copied().unwrap_or(1) as f64;
                    score += weight * (1.0 + all / tool_count).ln() / (1.0 + all).ln();
                }
            }
            if score > best.as_ref().map_or(0.0, |(_, score, _)| *score) {
                best = Some((tool, score, matched));
            }
        }
        best
    }
}

impl ToolTerms {
    fn new(tool: &Tool) -> ToolTerms {
        let mut terms = ToolTerms { weights: HashMap::new(), enum_values: HashSet::new() };
        terms.add(stems(&tool.name), NAME_WEIGHT);
        terms.add(stems(tool.title.as_deref().unwrap_or_default()), TITLE_WEIGHT);
        terms.add(stems(tool.description.as_deref().unwrap_or_default()), DESCRIPTION_WEIGHT);
        let schema = tool.input_schema.as_ref().unwrap_or(&Value::Null);
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            terms.add(stems(name), DESCRIPTION_WEIGHT);
            let pointer =
                property.get("$ref").and_then(Value::as_str).and_then(|pointer| pointer.strip_prefix('#'));
            let property = pointer.and_then(|pointer| schema.pointer(pointer)).unwrap_or(property);
            let enum_values: Vec<String> =
                allowed_strings(schema, property).iter().map(|value| stem(value)).collect();
            terms.enum_values.extend(enum_values.iter().cloned());
            terms.add(enum_values, ENUM_WEIGHT);
        }
        terms
    }

    fn add(&mut self, terms: Vec<String>, weight: f64) {
        for term in terms {
            let known = self.weights.entry(term).or_default();
            *known = known.max(weight);
        }
    }
}
