//! The kinds of action that tools perform and queries ask for.
//!
//! The names of tools use a small vocabulary of verbs; users write others: "get rid of" instead of `delete`.

use std::collections::HashMap;
use std::sync::LazyLock;

use toolwire_contract::Tool;

use super::document::split_sentence;
use super::terms::{stem, words};

/// One kind per line; a word can belong to several. The first five only read.
const KINDS: [&str; 22] = [
    "list enumerate browse show all available every overview",
    "get fetch read retrieve view show describe detail info information inspect display see load open tell give \
     summary status",
    "search find query lookup look discover locate where select",
    "check verify validate test ensure sure lint audit health diagnose troubleshoot analyze analyse",
    "count many number total",
    "create add new make generate insert register build draw write produce compose scaffold init set put append",
    "update edit modify change set patch rename replace put correct adjust alter overwrite improve",
    "delete remove clear drop destroy erase empty flush purge uninstall wipe discard unset rid forget",
    "send post publish notify mail deliver submit reply write message ask redeliver",
    "run execute start trigger launch invoke call perform begin evaluate",
    "stop cancel abort end terminate close disconnect quit halt kill",
    "copy duplicate clone fork",
    "move transfer",
    "upload import attach",
    "download export save",
    "connect login authenticate sign link join",
    "enable activate",
    "disable deactivate",
    "record capture screenshot film",
    "convert transform translate",
    "approve accept confirm allow",
    "reject deny decline refuse dismiss",
];

/// The weights of the reading kinds for a question. "Which files are there?" asks for a list.
const QUESTION_WEIGHTS: [f32; 5] = [1.0, 0.7, 0.7, 0.7, 0.7];
/// The weight of another kind that occurs in a question: "Which image was created last?"
const MENTIONED_WEIGHT: f32 = 0.3;

const QUESTION_WORDS: [&str; 21] = [
    "which", "what", "who", "whose", "whom", "where", "when", "how", "why", "is", "are", "does", "did", "do",
    "was", "were", "has", "have", "can", "could", "will",
];
/// A shorter query that starts with a question word is not a sentence.
const MIN_QUESTION_WORDS: usize = 4;

/// A set of kinds: one bit per kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Actions(u32);

static BY_TERM: LazyLock<HashMap<String, Actions>> = LazyLock::new(|| {
    let mut kinds: HashMap<String, Actions> = HashMap::new();
    for (number, line) in KINDS.iter().enumerate() {
        for word in line.split_whitespace() {
            kinds.entry(stem(word)).or_default().0 |= 1 << number;
        }
    }
    kinds
});

impl Actions {
    fn of_word(word: &str) -> Actions {
        BY_TERM.get(&stem(word)).copied().unwrap_or_default()
    }

    /// Returns the kinds of the first verb in the tool's name, else of the first words of its description.
    pub(super) fn of_tool(tool: &Tool) -> Actions {
        let kinds = |text: &str| words(text).iter().map(|word| Actions::of_word(word)).collect::<Vec<_>>();
        let in_name = kinds(&tool.name).into_iter().find(|kinds| kinds.0 != 0);
        in_name.unwrap_or_else(|| {
            let (sentence, _) = split_sentence(tool.description.as_deref().unwrap_or_default().trim());
            Actions(kinds(sentence).iter().take(2).fold(0, |all, kinds| all | kinds.0))
        })
    }

    fn contains(self, kind: usize) -> bool {
        self.0 & (1 << kind) != 0
    }
}

/// The weight of each kind of action in a query.
pub(super) struct ActionWeights([f32; KINDS.len()]);

impl ActionWeights {
    pub(super) fn of_query(query: &str) -> ActionWeights {
        let words = words(query);
        let starts_with_question_word =
            words.first().is_some_and(|word| QUESTION_WORDS.contains(&word.as_str()));
        let is_question = words.len() >= MIN_QUESTION_WORDS
            && (starts_with_question_word || query.trim_end().ends_with('?'));
        let mut weights = [0.0_f32; KINDS.len()];
        if is_question {
            weights[..QUESTION_WEIGHTS.len()].copy_from_slice(&QUESTION_WEIGHTS);
        }
        for actions in words.iter().map(|word| Actions::of_word(word)) {
            for (kind, weight) in weights.iter_mut().enumerate().filter(|(kind, _)| actions.contains(*kind)) {
                let reads = kind < QUESTION_WEIGHTS.len();
                *weight = weight.max(if reads || !is_question { 1.0 } else { MENTIONED_WEIGHT });
            }
        }
        ActionWeights(weights)
    }

    /// Returns the weight of the most wanted of these actions.
    pub(super) fn best(&self, actions: Actions) -> f32 {
        let weights = self.0.iter().enumerate();
        weights.filter(|(kind, _)| actions.contains(*kind)).map(|(_, weight)| *weight).fold(0.0, f32::max)
    }
}
