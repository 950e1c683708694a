//! What one tool's conversion carries along: where things are kept, what was changed, and what was seen on the way.

use bumpalo::Bump;

use super::Profile;
use crate::json::{Member, Node, Object, Place};
use crate::{Change, Defaults, Effect, Options};

pub(crate) struct Context<'a, 'o> {
    pub(crate) arena: &'a Bump,
    pub(crate) profile: &'static Profile,
    pub(crate) options: &'o Options,
    pub(crate) changes: Vec<Change>,
    /// A `$ref` was seen.
    pub(crate) refs: bool,
    /// Something was seen that may allow no value at all: `false`, an empty `enum`, an `allOf`, a `$ref`.
    pub(crate) doubtful: bool,
    /// Something of an older draft was put in today's words, so the old `$schema` no longer holds.
    pub(crate) upgraded: bool,
    /// How many `not`, `if` and `oneOf` stand around: what is widened inside them may narrow the whole.
    pub(crate) turned: usize,
    /// How many schemas with `unevaluatedItems` stand around: an `items` inside them would evaluate everything.
    pub(crate) unevaluated: usize,
    /// How many members merging has copied.
    pub(crate) merged: std::cell::Cell<usize>,
}

impl<'a, 'o> Context<'a, 'o> {
    pub(crate) fn new(arena: &'a Bump, profile: &'static Profile, options: &'o Options) -> Self {
        Context {
            arena,
            profile,
            options,
            changes: Vec::new(),
            refs: false,
            doubtful: false,
            upgraded: false,
            turned: 0,
            unevaluated: 0,
            merged: Default::default(),
        }
    }

    pub(crate) fn note(
        &mut self,
        place: &Place<'_>,
        keyword: &str,
        effect: Effect,
        detail: impl Into<String>,
    ) {
        self.changes.push(Change {
            pointer: place.pointer(),
            keyword: keyword.to_owned(),
            effect,
            detail: detail.into(),
        });
    }

    pub(crate) fn object(&self, members: &[Member<'a>]) -> Node<'a> {
        Node::Object(self.members(members))
    }

    pub(crate) fn members(&self, members: &[Member<'a>]) -> Object<'a> {
        self.arena.alloc_slice_copy(members)
    }

    pub(crate) fn list(&self, nodes: &[Node<'a>]) -> Node<'a> {
        Node::List(self.arena.alloc_slice_copy(nodes))
    }

    pub(crate) fn text(&self, text: &str) -> Node<'a> {
        Node::Text(self.arena.alloc_str(text))
    }

    pub(crate) fn number(&self, number: usize) -> Node<'a> {
        Node::Number(self.arena.alloc_str(&number.to_string()))
    }

    /// What to do with a `default` here.
    pub(crate) fn defaults(&self) -> Defaults {
        match self.options.defaults {
            Defaults::PerDialect if self.profile.keeps_defaults => Defaults::Keep,
            Defaults::PerDialect => Defaults::Drop,
            chosen => chosen,
        }
    }
}
