//! Says a mended schema in the words of one grammar, with the way back for arguments.
//!
//! Lowering looks at a schema as a whole: references followed, `allOf` merged, alternatives spread, one type at a time.
//! What the grammar has no word for is told in the description and reported; what may not be left out either stops the
//! tool from being strict or, where the caller asked for it, is given another shape that arguments are turned back from.

mod array;
mod flat;
mod kinds;
mod map;
mod object;
mod reference;
mod scalar;
mod union;
mod values;
mod wire;
mod words;

use std::collections::HashMap;

use super::context::Context;
use super::draft::Draft;
use super::identity::{ByIdentity, Identities, identity, is_same_place};
use super::is_annotation;
use super::profile::{Grammar, Types};
use super::refs::Document;
use super::types::TypeSet;
use crate::arguments::Plan;
use crate::json::{Member, Node, Object, Place, get};
use crate::{Effect, Refusal};

pub(crate) use self::wire::{Counts, nullable};

/// How many schemas one tool may grow to when references are replaced by what they point to.
const BUDGET: usize = 10_000;

/// How many references may be replaced inside each other.
const DEEPEST: usize = 64;

/// A lowered schema, and how arguments for it are turned back.
pub(crate) struct Lowered<'a> {
    pub(crate) node: Node<'a>,
    pub(crate) plan: Plan,
}

/// Why a schema could not be lowered.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The grammar cannot say it.
    Unsayable { pointer: String, keyword: &'static str, detail: String },
    /// No value fits.
    Never,
}

type Lower<'a> = Result<Lowered<'a>, Stop>;

/// A whole tool, lowered.
pub(crate) struct Root<'a> {
    pub(crate) node: Node<'a>,
    pub(crate) plan: Plan,
    /// Plans by the number that [`Plan::Shared`] names.
    pub(crate) shared: Vec<Plan>,
    pub(crate) counts: Counts,
    /// Some schemas stand elsewhere than in the original.
    pub(crate) moved: bool,
}

pub(crate) struct Lowering<'c, 'a, 'o> {
    context: &'c mut Context<'a, 'o>,
    grammar: &'static Grammar,
    document: Option<&'c Document<'a>>,
    impossible: Identities,
    root: Node<'a>,
    /// The root before it was made over.
    mended: Node<'a>,
    /// Definitions that are pointed at, in the order they were met.
    definitions: Vec<Definition<'a>>,
    by_target: ByIdentity<usize>,
    /// The names of definitions, each with the number that another of its kind would get.
    definition_names: HashMap<String, usize>,
    /// Targets whose insides are being lowered, and whether an optional property lies between one and the next.
    open: Vec<(usize, bool)>,
    /// Which definition needs which, where no optional property lies between.
    needs: ByIdentity<Vec<usize>>,
    spent: usize,
    /// Targets that were merged into the schema at hand.
    inlined: Identities,
    /// Where schemas stand in the original, once some were moved.
    origins: Option<ByIdentity<&'a Place<'a>>>,
    /// Siblings of `$ref` say nothing, as before 2019-09.
    lone_refs: bool,
}

struct Definition<'a> {
    target: Node<'a>,
    pointer: String,
    name: String,
    lowered: Option<Lowered<'a>>,
}

/// Lowers a schema whose root is an object without composition.
pub(crate) fn lower<'a>(
    context: &mut Context<'a, '_>,
    root: Node<'a>,
    mended: Node<'a>,
    document: Option<&Document<'a>>,
    impossible: Identities,
) -> Result<Root<'a>, Stop> {
    let grammar = context.profile.grammar.expect("only profiles with a grammar lower");
    let arena = context.arena;
    let lone_refs = root.member("$schema").and_then(|schema| schema.text(arena)).is_some_and(is_before_2019);
    let mut lowering = Lowering {
        context,
        grammar,
        document,
        impossible,
        root,
        mended,
        definitions: Vec::new(),
        by_target: ByIdentity::default(),
        definition_names: HashMap::new(),
        open: vec![(identity(root), false)],
        needs: ByIdentity::default(),
        spent: 0,
        inlined: Identities::default(),
        origins: None,
        lone_refs,
    };
    if !is_same_place(root, mended) {
        lowering.moved();
    }
    let lowered = lowering.root_object(root)?;
    lowering.finish(lowered)
}

/// Whether a `$schema` names draft-07 or earlier.
pub(crate) fn is_before_2019(schema: &str) -> bool {
    ["draft-07", "draft-06", "draft-05", "draft-04", "draft-03"].iter().any(|draft| schema.contains(draft))
}

impl<'a> Lowering<'_, 'a, '_> {
    /// Lowers the definitions that are pointed at and puts everything together.
    fn finish(mut self, root: Lowered<'a>) -> Result<Root<'a>, Stop> {
        let mut at = 0;
        while at < self.definitions.len() {
            let target = self.definitions[at].target;
            let pointer = self.context.arena.alloc_str(&self.definitions[at].pointer);
            self.open = vec![(identity(target), false)];
            let lowered = self.lower(target, &Place::at(pointer))?;
            self.definitions[at].lowered = Some(lowered);
            at += 1;
        }
        let mut shared = vec![root.plan.clone()];
        let mut entries = Vec::new();
        for definition in &self.definitions {
            let lowered = definition.lowered.as_ref().expect("every definition was lowered just now");
            shared.push(lowered.plan.clone());
            entries.push(Member::new(self.context.arena.alloc_str(&definition.name), lowered.node));
        }
        let mut node = root.node;
        if !entries.is_empty() {
            let mut draft = Draft::of(node.object().unwrap_or_default());
            draft.put("$defs", self.context.object(&entries));
            node = self.context.object(draft.members());
        }
        let counts = Counts::of(node);
        if let Some((keyword, detail)) = counts.over(&self.grammar.limits) {
            return Err(Stop::Unsayable { pointer: String::new(), keyword, detail });
        }
        let moved = self.origins.is_some() || self.context.options.reshape;
        Ok(Root { node, plan: root.plan, shared, counts, moved })
    }

    /// Lowers a schema at a place where `null` alone cannot stand in OpenAPI's words.
    fn lower_item(&mut self, node: Node<'a>, place: &Place<'_>) -> Lower<'a> {
        let lowered = self.lower(node, place)?;
        if self.grammar.types == Types::OpenApi
            && matches!(lowered.node.member("type"), Some(Node::Text("NULL")))
        {
            return self.unsayable_or_text(
                node.object().unwrap_or_default(),
                place,
                "type",
                "only `null` fits",
            );
        }
        Ok(lowered)
    }

    /// Lowers any schema.
    fn lower(&mut self, node: Node<'a>, place: &Place<'_>) -> Lower<'a> {
        let members = match node {
            Node::Bool(false) => return Err(Stop::Never),
            Node::Object(members) => members,
            _ => &[],
        };
        if self.impossible.contains(&identity(node)) {
            return Err(Stop::Never);
        }
        self.spent += 1;
        if self.spent > 100 * BUDGET {
            return Err(self.unsayable(place, "$ref", "the schema grows without end"));
        }
        let place = self.origin(node).unwrap_or(place);
        if get(members, "$ref").is_some_and(Node::is_string) {
            return self.reference(members, place);
        }
        if get(members, "$dynamicRef").is_some() {
            return self.unsayable_or_text(
                members,
                place,
                "$dynamicRef",
                "what it points to depends on the way there",
            );
        }
        if let Some(alone) = self.lone_part(members) {
            return self.reference(alone, place);
        }
        let around = std::mem::take(&mut self.inlined);
        let flat = self.flatten(members, place);
        // What was merged in must not be merged in again on the way down.
        let inlined = std::mem::replace(&mut self.inlined, around);
        let (members, leftover) = flat?;
        let open = self.open.len();
        self.open.extend(inlined.into_iter().map(|id| (id, false)));
        let lowered = self.flattened(members, leftover, place);
        self.open.truncate(open);
        lowered
    }

    /// An `allOf` around nothing but a reference, as a reference.
    fn lone_part(&self, members: Object<'a>) -> Option<Object<'a>> {
        let part = match get(members, "allOf")? {
            Node::List([part]) => part.object()?,
            _ => return None,
        };
        let plain = |schema: Object<'a>, keyword: &str| {
            schema.iter().all(|member| member.key == keyword || is_annotation(member.key))
        };
        if !plain(members, "allOf") || !plain(part, "$ref") || !get(part, "$ref")?.is_string() {
            return None;
        }
        let mut draft = Draft::of(part);
        for member in members.iter().filter(|member| member.key != "allOf") {
            draft.put(member.key, member.value);
        }
        Some(self.context.members(draft.members()))
    }

    /// Where a schema stands in the original, if schemas were moved.
    fn origin(&self, node: Node<'a>) -> Option<&'a Place<'a>> {
        self.origins.as_ref()?.get(&identity(node)).copied()
    }

    /// Lowers a schema without `$ref` and `allOf`. `leftover` holds rules that found no place in it.
    fn flattened(&mut self, members: Object<'a>, leftover: Vec<Member<'a>>, place: &Place<'_>) -> Lower<'a> {
        if matches!(get(members, "not"), Some(Node::Bool(true) | Node::Object([]))) {
            return Err(Stop::Never);
        }
        if let Some(lowered) = self.alternatives(members, &leftover, place)? {
            return Ok(lowered);
        }
        if get(members, "enum").and_then(Node::list).is_some() || get(members, "const").is_some() {
            return self.values(members, &leftover, place);
        }
        let (types, implied) = self.types(members, place);
        if types == TypeSet::ALL && !implied && !has_rules(members) && leftover.is_empty() {
            return self.anything(members, place);
        }
        if types == TypeSet::ALL && get(members, "type").is_none() {
            // Only rules without a type of their own, such as `not`.
            return self.untyped_rules(members, &leftover, place);
        }
        let names = types.names();
        match names.as_slice() {
            [] => Err(Stop::Never),
            [name] => self.one_type(name, members, &leftover, place),
            [name, "null"] => {
                let lowered = self.one_type(name, members, &leftover, place)?;
                Ok(Lowered { node: self.with_null(lowered.node), plan: lowered.plan })
            }
            names => self.several_types(names, members, &leftover, place),
        }
    }

    /// The finished node, its `type` as the grammar spells types.
    fn typed(&self, members: &[Member<'a>]) -> Node<'a> {
        if self.grammar.types == Types::Lists {
            return self.context.object(members);
        }
        let spelled: Vec<Member<'a>> = members
            .iter()
            .map(|member| match (member.key, member.value) {
                ("type", Node::Text(name)) => Member::new("type", Node::Text(upper(name))),
                _ => *member,
            })
            .collect();
        self.context.object(&spelled)
    }

    fn note(&mut self, place: &Place<'_>, keyword: &str, effect: Effect, detail: impl Into<String>) {
        self.context.note(place, keyword, effect, detail);
    }

    fn unsayable(&self, place: &Place<'_>, keyword: &'static str, detail: impl Into<String>) -> Stop {
        Stop::Unsayable { pointer: place.pointer(), keyword, detail: detail.into() }
    }
}

impl Stop {
    /// The refusal of a tool whose schema no arguments can satisfy.
    pub(crate) fn unsatisfiable() -> Refusal {
        Refusal {
            code: "unsatisfiable",
            pointer: String::new(),
            message: "no arguments can satisfy the schema".to_owned(),
        }
    }
}

/// Whether a rule may promise keys.
pub(crate) fn speaks_of_keys(keyword: &str) -> bool {
    matches!(
        keyword,
        "properties" | "additionalProperties" | "patternProperties" | "anyOf" | "oneOf" | "allOf"
    )
}

/// Whether a schema says more than its type and annotations.
fn has_rules(members: Object<'_>) -> bool {
    members.iter().any(|member| member.key != "type" && !is_annotation(member.key))
}

fn upper(name: &str) -> &'static str {
    match name {
        "string" => "STRING",
        "number" => "NUMBER",
        "integer" => "INTEGER",
        "boolean" => "BOOLEAN",
        "array" => "ARRAY",
        "object" => "OBJECT",
        _ => "NULL",
    }
}
