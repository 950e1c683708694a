//! The schema engine: one walk that mends, one that lowers, each told by a profile what a dialect takes.
//!
//! [`convert`] takes a tool's `inputSchema` as the server sent it and says it in the words of one dialect, with the way
//! back for arguments and a line for every change.

mod brief;
mod context;
mod cycles;
mod disjoint;
mod draft;
mod edition;
mod identity;
mod inline;
mod keep;
mod keyword;
mod lower;
mod mend;
mod merge;
mod nulls;
mod pattern;
mod possible;
mod profile;
mod refs;
mod root;
mod spread;
mod tidy;
mod types;
mod walk;

use std::collections::HashSet;

use bumpalo::Bump;

use self::context::Context;
use self::edition::Edition;
use self::identity::identity;
pub(crate) use self::identity::is_same_place;
pub(crate) use self::keyword::{Slot, is_annotation, slot};
pub(crate) use self::lower::Counts;
use self::lower::Stop;
pub(crate) use self::profile::{Keys, Profile};
use self::refs::Document;
use crate::arguments::Plan;
use crate::json::{Node, Place};
use crate::{Change, Dialect, Effect, Options, Refusal};

/// A schema in a dialect's words.
pub(crate) struct Converted<'a> {
    pub(crate) schema: Node<'a>,
    /// The schema as it was meant, before the dialect's words.
    pub(crate) mended: Node<'a>,
    pub(crate) plan: Plan,
    /// Plans by the number that [`Plan::Shared`] names.
    pub(crate) shared: Vec<Plan>,
    /// Whether it is strict; `None` where the dialect has no such word.
    pub(crate) strict: Option<bool>,
    pub(crate) counts: Option<Counts>,
    pub(crate) changes: Vec<Change>,
    /// Words that belong into the tool's description, since the root may have none.
    pub(crate) aside: Option<Node<'a>>,
}

impl<'a> Converted<'a> {
    /// A schema that nothing was done to.
    pub(crate) fn untouched(schema: Node<'a>) -> Converted<'a> {
        Converted {
            schema,
            mended: schema,
            plan: Plan::Same,
            shared: Vec::new(),
            strict: None,
            counts: None,
            changes: Vec::new(),
            aside: None,
        }
    }
}

/// Converts a tool's `inputSchema`.
pub(crate) fn convert<'a>(
    sent: Option<Node<'a>>,
    dialect: Dialect,
    options: &Options,
    arena: &'a Bump,
) -> Result<Converted<'a>, Refusal> {
    match convert_by(sent, Profile::of(dialect), options, arena)? {
        Ok(converted) => Ok(converted),
        Err((pointer, keyword, detail)) => {
            fall_back(sent, dialect, options, arena, (pointer, keyword, detail))
        }
    }
}

/// Where and why a schema cannot be said.
type Unsayable = (String, &'static str, String);

/// Sends a tool out non-strict, for the reason given.
pub(crate) fn fall_back<'a>(
    sent: Option<Node<'a>>,
    dialect: Dialect,
    options: &Options,
    arena: &'a Bump,
    (pointer, keyword, detail): Unsayable,
) -> Result<Converted<'a>, Refusal> {
    let plain = convert_by(sent, Profile::fallback(dialect), options, arena)?;
    let mut converted =
        plain.map_err(|(pointer, _, message)| Refusal { code: "unsayable", pointer, message })?;
    converted.strict = Some(false);
    let detail = format!("sent with `strict: false`: {detail} (`{keyword}`)");
    converted
        .changes
        .insert(0, Change { pointer, keyword: "strict".to_owned(), effect: Effect::Rewritten, detail });
    Ok(converted)
}

fn convert_by<'a>(
    sent: Option<Node<'a>>,
    profile: &'static Profile,
    options: &Options,
    arena: &'a Bump,
) -> Result<Result<Converted<'a>, Unsayable>, Refusal> {
    let mut context = Context::new(arena, profile, options);
    let root = context.read_root(sent)?;
    let edition = Edition::of(root, arena);
    let drops_edition = profile.grammar.is_some() || profile.tidies || profile.inline;
    let mut mended = if edition < Edition::V2020 && drops_edition {
        let modern = context.modernise(root, edition);
        context.mend(modern, &Place::ROOT)
    } else {
        context.mend(root, &Place::ROOT)
    };
    if context.upgraded && edition < Edition::V2020 && !drops_edition {
        // One thing in today's words means that all of it must be.
        context = Context::new(arena, profile, options);
        let root = context.read_root(sent)?;
        let modern = context.modernise(root, edition);
        mended = context.mend(modern, &Place::ROOT);
    }
    let mut document = None;
    let mut impossible = identity::Identities::default();
    if context.refs || context.doubtful {
        let found = Document::new(mended, arena)?;
        impossible = possible::impossible(&found);
        if impossible.contains(&identity(mended)) {
            return Err(Stop::unsatisfiable());
        }
        document = Some(found);
    }
    if let Some(grammar) = profile.grammar
        && grammar.strict
        && let Some(keyword) = ["enum", "const"].into_iter().find(|keyword| mended.member(keyword).is_some())
    {
        return Ok(Err((String::new(), keyword, "the root lists whole sets of arguments".to_owned())));
    }
    let mut tidy = mended;
    if profile.tidies {
        tidy = context.tidy_root(mended, &impossible);
        if document.is_some() && !identity::is_same_place(tidy, mended) {
            document = Some(Document::new(tidy, arena)?);
        }
    }
    let fixed = context.fix_root(tidy, document.as_ref())?;
    if let Some(document) = &mut document {
        document.rooted(fixed);
    }
    let Some(grammar) = profile.grammar else {
        return context.keep(root, fixed, mended, document.as_ref()).map(Ok);
    };
    match lower::lower(&mut context, fixed, mended, document.as_ref(), impossible) {
        Ok(lowered) => {
            if context.changes.is_empty()
                && grammar.types == profile::Types::Lists
                && !lowered.node.same(root)
            {
                context.note(
                    &Place::ROOT,
                    "inputSchema",
                    Effect::Rewritten,
                    "the same in the dialect's words",
                );
            }
            Ok(Ok(Converted {
                schema: if profile.bare_root { undescribed(lowered.node, arena) } else { lowered.node },
                mended,
                plan: lowered.plan,
                shared: lowered.shared,
                strict: grammar.strict.then_some(true),
                counts: Some(lowered.counts),
                changes: if lowered.moved {
                    anchored(once_each(context.changes), root)
                } else {
                    once_each(context.changes)
                },
                aside: if profile.bare_root { lowered.node.member("description") } else { None },
            }))
        }
        Err(Stop::Never) => Err(Stop::unsatisfiable()),
        Err(Stop::Unsayable { pointer, keyword, detail }) => Ok(Err((pointer, keyword, detail))),
    }
}

/// A root that may have no words of its own.
fn undescribed<'a>(root: Node<'a>, arena: &'a Bump) -> Node<'a> {
    let mut draft = draft::Draft::of(root.object().unwrap_or_default());
    draft.remove("description");
    Node::Object(arena.alloc_slice_copy(draft.members()))
}

/// Every change at a place that the original has: where something was made up, the nearest place above it.
fn anchored(mut changes: Vec<Change>, root: Node<'_>) -> Vec<Change> {
    let lookup = walk::Lookup::default();
    for change in &mut changes {
        while lookup.walk(root, &change.pointer).is_none() {
            let end = change.pointer.rfind('/').unwrap_or(0);
            change.pointer.truncate(end);
        }
    }
    changes
}

/// Alternatives repeat what stands beside them; a report says it once.
fn once_each(changes: Vec<Change>) -> Vec<Change> {
    let mut seen = HashSet::with_capacity(changes.len());
    let new: Vec<bool> = changes.iter().map(|change| seen.insert(change)).collect();
    changes.into_iter().zip(new).filter_map(|(change, new)| new.then_some(change)).collect()
}
