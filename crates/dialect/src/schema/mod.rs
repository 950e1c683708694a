//! The schema engine: converts a tool's `inputSchema` to one dialect.
//!
//! [`convert`] first normalizes the schema as the server sent it, then either keeps it or lowers it to the
//! subset of JSON Schema that the dialect's [`Profile`] describes. It returns the schema, the plan for
//! converting arguments back, and one line per change.

mod budget;
mod cleanup;
mod context;
mod cycles;
mod disjoint;
mod edit;
mod excerpt;
mod inline;
mod keywords;
mod lower;
mod merge;
mod multiplicity;
mod named_refs;
mod nested_keys;
mod node_id;
mod normalize;
mod nullable;
mod optional_nulls;
mod passthrough;
mod pattern;
mod profile;
mod refs;
mod root;
mod root_alternatives;
mod root_keys;
mod satisfiable;
mod spec_version;
mod trace;
mod types;
mod walk;

use bumpalo::Bump;

use self::budget::Budget;
use self::context::Context;
use self::keywords::{KeywordKind, is_annotation, keyword_kind};
use self::lower::LowerError;
pub(crate) use self::lower::SchemaSize;
pub(crate) use self::node_id::is_same_node;
use self::node_id::{NodeSet, node_id};
pub(crate) use self::profile::{Profile, RestrictedKeys};
use self::refs::Document;
use self::root::unsatisfiable;
use self::spec_version::SpecVersion;
pub(crate) use self::trace::Trace;
use crate::arguments::Plan;
use crate::json::{Node, Place};
use crate::{Change, Dialect, Effect, Options, Refusal};

/// A schema in a dialect.
pub(crate) struct Converted<'a> {
    pub(crate) schema: Node<'a>,
    /// The normalized schema, before it was adapted to the dialect.
    pub(crate) normalized: Node<'a>,
    pub(crate) plan: Plan,
    /// Plans by the index in [`Plan::Shared`].
    pub(crate) shared: Vec<Plan>,
    /// Whether the schema is strict; `None` if the dialect has no strict mode.
    pub(crate) strict: Option<bool>,
    /// The size of a lowered schema; zero if it was not lowered.
    pub(crate) size: SchemaSize,
    pub(crate) changes: Vec<Change>,
    /// Text of the root that belongs in the tool's description, if the root may not have one.
    pub(crate) root_description: Option<Node<'a>>,
}

impl<'a> Converted<'a> {
    /// A schema that needs no conversion.
    pub(crate) fn unchanged(schema: Node<'a>) -> Converted<'a> {
        Converted {
            schema,
            normalized: schema,
            plan: Plan::Same,
            shared: Vec::new(),
            strict: None,
            size: SchemaSize::default(),
            changes: Vec::new(),
            root_description: None,
        }
    }
}

/// A part of a schema that a dialect cannot express without changing its meaning.
#[derive(Debug)]
pub(crate) struct Inexpressible {
    /// The code of the refusal if the tool cannot be converted in another way.
    pub(crate) code: &'static str,
    pub(crate) pointer: String,
    pub(crate) detail: String,
}

impl Inexpressible {
    pub(crate) fn at_root(detail: String) -> Inexpressible {
        Inexpressible { code: INEXPRESSIBLE, pointer: String::new(), detail }
    }
}

/// The code for a schema that a dialect cannot express.
pub(crate) const INEXPRESSIBLE: &str = "unsayable";

/// The code for a schema that takes too much work.
pub(crate) const TOO_COMPLEX: &str = "too_complex";

/// The reason why a schema was not converted.
enum ConvertError {
    Inexpressible(Inexpressible),
    Refused(Refusal),
}

impl From<Refusal> for ConvertError {
    fn from(refusal: Refusal) -> Self {
        ConvertError::Refused(refusal)
    }
}

/// Converts a tool's `inputSchema`.
pub(crate) fn convert<'a>(
    sent: Option<Node<'a>>,
    dialect: Dialect,
    options: &Options,
    arena: &'a Bump,
) -> Result<Converted<'a>, Refusal> {
    match convert_with(sent, Profile::of(dialect), options, None, arena) {
        Ok(converted) => Ok(converted),
        Err(ConvertError::Inexpressible(reason)) => fall_back(sent, dialect, options, arena, reason),
        Err(ConvertError::Refused(refusal)) => Err(refusal),
    }
}

impl From<Inexpressible> for Refusal {
    fn from(Inexpressible { code, pointer, detail }: Inexpressible) -> Refusal {
        Refusal { code, pointer, message: detail }
    }
}

/// Converts a tool with `strict: false`, for the reason given. Refuses it if the dialect has no strict mode.
pub(crate) fn fall_back<'a>(
    sent: Option<Node<'a>>,
    dialect: Dialect,
    options: &Options,
    arena: &'a Bump,
    reason: Inexpressible,
) -> Result<Converted<'a>, Refusal> {
    let Some(profile) = Profile::fallback(dialect) else { return Err(reason.into()) };
    let converted = convert_with(sent, profile, options, None, arena);
    let mut converted = converted.map_err(|error| match error {
        ConvertError::Inexpressible(reason) => reason.into(),
        ConvertError::Refused(refusal) => refusal,
    })?;
    converted.strict = Some(false);
    let detail = format!("sent with strict: false: {}", reason.detail);
    converted.changes.insert(0, strict_change(reason.pointer, detail));
    Ok(converted)
}

/// Converts a schema again, with the `strict` of the first conversion, and records in `trace` where the
/// schemas of the definition come from.
pub(crate) fn convert_traced<'a>(
    sent: Option<Node<'a>>,
    dialect: Dialect,
    strict: Option<bool>,
    options: &Options,
    trace: &Trace,
    arena: &'a Bump,
) -> Option<Node<'a>> {
    let fallback = Profile::fallback(dialect).filter(|_| strict == Some(false));
    let profile = fallback.unwrap_or(Profile::of(dialect));
    convert_with(sent, profile, options, Some(trace), arena).ok().map(|converted| converted.schema)
}

/// Returns the change that states whether and why a tool is strict.
pub(crate) fn strict_change(pointer: String, detail: String) -> Change {
    Change { pointer, keyword: "strict".to_owned(), effect: Effect::Rewritten, detail }
}

fn convert_with<'a>(
    sent: Option<Node<'a>>,
    profile: &'static Profile,
    options: &Options,
    trace: Option<&Trace>,
    arena: &'a Bump,
) -> Result<Converted<'a>, ConvertError> {
    let budget = arena.alloc(Budget::new());
    let mut context = Context::new(arena, profile, options, budget);
    let root = context.read_root(sent)?;
    if let Some(trace) = trace {
        trace.record_all(root);
    }
    let version = SpecVersion::of(root, arena);
    let is_old = version < SpecVersion::V2020;
    let drops_version = profile.grammar.is_some() || profile.cleans_up || profile.inlines_refs;
    let current = if is_old && drops_version { context.upgrade(root, version) } else { root };
    let mut normalized = context.normalize(current, &Place::ROOT);
    let has_names = context.has_refs && context.has_names;
    // If one keyword was replaced by its 2020-12 form, the rest of the schema must be 2020-12 too.
    let upgrades = is_old && (drops_version || context.upgraded);
    let mut replaces_names = false;
    if has_names || upgrades && !drops_version {
        context = Context::new(arena, profile, options, budget);
        let mut current = context.read_root(sent)?;
        if has_names {
            let resolved = context.resolve_names(current, version)?;
            replaces_names = !is_same_node(resolved, current);
            current = resolved;
        }
        if upgrades {
            current = context.upgrade(current, version);
        }
        normalized = context.normalize(current, &Place::ROOT);
    }
    context.trace = trace;
    if let Some(trace) = trace {
        trace.record_all(normalized);
    }
    let mut document = None;
    let mut unsatisfiable_nodes = NodeSet::default();
    if context.has_refs || context.may_be_unsatisfiable {
        let found = Document::new(normalized, arena, budget)?;
        unsatisfiable_nodes = satisfiable::unsatisfiable_schemas(&found);
        if unsatisfiable_nodes.contains(&node_id(normalized)) {
            return Err(unsatisfiable().into());
        }
        document = Some(found);
    }
    if profile.grammar.is_some_and(|grammar| grammar.strict)
        && let Some(keyword) =
            ["enum", "const"].into_iter().find(|keyword| normalized.member(keyword).is_some())
    {
        let detail = format!("{keyword} at the root lists complete argument objects");
        return Err(ConvertError::Inexpressible(Inexpressible::at_root(detail)));
    }
    let mut cleaned = normalized;
    if profile.cleans_up {
        cleaned = context.clean_up_root(normalized, &unsatisfiable_nodes);
        if document.is_some() && !is_same_node(cleaned, normalized) {
            document = Some(Document::new(cleaned, arena, budget)?);
        }
    }
    let fixed = context.fix_root(cleaned, document.as_ref())?;
    if let Some(document) = &mut document {
        document.set_root(fixed);
    }
    let Some(grammar) = profile.grammar else {
        let mut converted = context.pass_through(root, fixed, normalized, document.as_ref());
        if replaces_names && !drops_version && converted.changes.len() == 1 {
            // Only references to names were replaced, and this API accepts them.
            converted.schema = root;
            converted.changes.clear();
        }
        return Ok(converted);
    };
    let lowered =
        lower::lower(&mut context, grammar, fixed, normalized, document.as_ref(), unsatisfiable_nodes);
    let lowered = lowered.map_err(|error| match error {
        LowerError::Unsatisfiable => unsatisfiable().into(),
        LowerError::Inexpressible(reason) => ConvertError::Inexpressible(reason),
    })?;
    if context.changes.is_empty() && !grammar.openapi_types && !lowered.node.same(root) {
        let detail = "schema rewritten with the same meaning";
        context.record(&Place::ROOT, "inputSchema", Effect::Rewritten, detail);
    }
    let (schema, root_description) = if profile.minimal_root {
        let members = lowered.node.object().unwrap_or_default();
        (Node::Object(context.without(members, "description")), lowered.node.member("description"))
    } else {
        (lowered.node, None)
    };
    Ok(Converted {
        schema,
        normalized,
        plan: lowered.plan,
        shared: lowered.shared,
        strict: grammar.strict.then_some(true),
        size: lowered.size,
        changes: context.take_changes(root, lowered.moved),
        root_description,
    })
}
