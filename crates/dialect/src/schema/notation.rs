//! Changes of notation, which never change the arguments that are valid. A report lists those of a tool in one entry.

use std::cell::Cell;

/// A kind of change of notation.
#[derive(Clone, Copy)]
pub(crate) enum Notation {
    References,
    AllOf,
    Alternatives,
    Null,
    Values,
    NoEffect,
}

/// The kinds, in the order in which the report names them.
const KINDS: [(Notation, &str); 6] = [
    (Notation::References, "references replaced by their targets or by references to $defs"),
    (Notation::AllOf, "allOf merged"),
    (Notation::Alternatives, "alternatives written as anyOf, with what is beside them"),
    (Notation::Null, "null written as this API expects it"),
    (Notation::Values, "const and enum written with their type"),
    (Notation::NoEffect, "keywords without effect removed"),
];

/// The kinds of changes that a conversion made.
#[derive(Default)]
pub(crate) struct Notations(Cell<u8>);

impl Notations {
    pub(crate) fn add(&self, notation: Notation) {
        self.0.set(self.0.get() | 1 << notation as u8);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.get() == 0
    }

    /// Describes the changes.
    pub(crate) fn detail(&self) -> String {
        let mut detail = "schema rewritten with the same meaning".to_owned();
        let found = KINDS.iter().filter(|(notation, _)| self.0.get() & (1 << *notation as u8) != 0);
        for (index, (_, text)) in found.enumerate() {
            detail.push_str(if index == 0 { ": " } else { "; " });
            detail.push_str(text);
        }
        detail
    }
}
