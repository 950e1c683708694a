//! Turns the errors of `jsonschema` into violations.
//!
//! An error of `anyOf` or `oneOf` holds the errors of every alternative. Usually only one alternative was
//! meant: the one that has the type and the tag of the value. Then its errors are explained instead.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::Value;
use toolwire_contract::text::{counted, nearest_names, unescape_pointer_segment};

use crate::reference::References;
use crate::violation::{MAX_LISTED, Requirement, Violation, ViolationKind, quoted};

/// The maximum number of violations that are put in order, of which the first are listed.
const MAX_EXPLAINED: usize = 1000;

/// The maximum number of keys that are compared with a missing property.
const MAX_COMPARED_KEYS: usize = 100;
/// The maximum length of such a key. Longer ones are not compared.
const MAX_COMPARED_BYTES: usize = 200;

/// The errors of one alternative.
type Alternative = Vec<ValidationError<'static>>;

/// The properties that a schema describes; `None` if that could not be determined.
type KnownNames = Option<Arc<[String]>>;

/// Violations of one schema.
struct Explanation<'s> {
    schema: &'s Value,
    violations: Vec<Violation>,
    /// The number of violations that were not explained.
    omitted: usize,
    /// The known names by the address of the schema, and whether those of its parts and alternatives count.
    known: HashMap<(usize, bool), KnownNames>,
}

/// Returns the violations in the order of the schema's properties; unknown properties come last.
pub(crate) fn explain_all<'e>(
    mut errors: impl Iterator<Item = ValidationError<'e>>,
    schema: &Value,
) -> Vec<Violation> {
    let mut explanation = Explanation { schema, violations: Vec::new(), omitted: 0, known: HashMap::new() };
    let explained: Vec<ValidationError<'_>> = errors.by_ref().take(MAX_EXPLAINED).collect();
    for error in &explained {
        let first = explanation.violations.len();
        explanation.explain(error);
        if is_undecided(error, &explained) {
            let added = explanation.violations.split_off(first);
            explanation.violations.extend(added.into_iter().filter(|added| !belongs_to_alternative(added)));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let names: Vec<&String> = properties.into_iter().flat_map(|properties| properties.keys()).collect();
    let mut violations: Vec<_> = explanation
        .violations
        .into_iter()
        .map(|violation| {
            let path = path(&violation);
            let position = path.first().and_then(|(_, first)| names.iter().position(|name| *name == first));
            ((position.unwrap_or(usize::MAX), path), violation)
        })
        .collect();
    violations.sort_by(|(a_key, a), (b_key, b)| a_key.cmp(b_key).then_with(|| a.message().cmp(&b.message())));
    let mut violations: Vec<Violation> = violations.into_iter().map(|(_, violation)| violation).collect();
    violations.dedup();
    let omitted = explanation.omitted + errors.count() + violations.len().saturating_sub(MAX_LISTED);
    violations.truncate(MAX_LISTED);
    if omitted > 0 {
        violations.push(Violation { pointer: String::new(), kind: ViolationKind::More { count: omitted } });
    }
    violations
}

/// Whether an error reports properties as unknown only because no alternative matches.
fn is_undecided(error: &ValidationError<'_>, errors: &[ValidationError<'_>]) -> bool {
    matches!(error.kind(), Kind::UnevaluatedProperties { .. })
        && errors.iter().any(|other| {
            matches!(other.kind(), Kind::AnyOf { .. } | Kind::OneOfNotValid { .. })
                && other.instance_path() == error.instance_path()
        })
}

fn belongs_to_alternative(violation: &Violation) -> bool {
    matches!(&violation.kind, ViolationKind::UnknownProperty { name, known: Some(known) } if known.contains(name))
}

/// Returns the steps to the invalid place, with indexes as numbers, so that item 10 comes after item 9.
fn path(violation: &Violation) -> Vec<(usize, String)> {
    let segments =
        violation.pointer.split('/').skip(1).map(|step| unescape_pointer_segment(step).into_owned());
    let steps = segments.chain(violation.property().map(str::to_owned));
    steps.map(|step| (step.parse().unwrap_or_default(), step)).collect()
}

impl Explanation<'_> {
    fn add(&mut self, error: &ValidationError<'_>, kind: ViolationKind) {
        self.violations.push(Violation { pointer: pointer(error).to_owned(), kind });
    }

    fn explain(&mut self, error: &ValidationError<'_>) {
        match error.kind() {
            Kind::Required { property } => {
                let name = plain(property);
                let similar = self.similar_unknown_name(error, &name);
                self.add(error, ViolationKind::MissingProperty { name, similar });
            }
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                let known = self.known_names(error);
                for name in unexpected.iter().take(MAX_EXPLAINED) {
                    let (name, known) = (name.clone(), known.clone());
                    self.add(error, ViolationKind::UnknownProperty { name, known });
                }
                self.omitted += unexpected.len().saturating_sub(MAX_EXPLAINED);
            }
            Kind::PropertyNames { error: invalid } => {
                let (name, requirement) = (plain(invalid.instance()), requirement(invalid));
                self.add(error, ViolationKind::InvalidPropertyName { name, requirement });
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                if let Some(alternative) = intended_alternative(error, context) {
                    alternative.iter().take(MAX_EXPLAINED).for_each(|error| self.explain(error));
                    self.omitted += alternative.len().saturating_sub(MAX_EXPLAINED);
                } else if let Some(violation) = wrong_tag(context) {
                    self.violations.push(violation);
                } else {
                    self.add(error, invalid_value(error));
                }
            }
            _ => self.add(error, invalid_value(error)),
        }
    }

    /// Returns a key that looks like a misspelling of a missing property. The schema does not describe the
    /// key. If it may reject the key, `None` is returned, because that is a separate violation.
    fn similar_unknown_name(&self, error: &ValidationError<'_>, missing: &str) -> Option<String> {
        let (schema_pointer, _) = error.schema_path().as_str().rsplit_once('/')?;
        let schema = self.schema.pointer(schema_pointer)?;
        let is_open = |keyword| schema.get(keyword).is_none_or(|rule| *rule == Value::Bool(true));
        let has_rule = !is_open("additionalProperties") || !is_open("unevaluatedProperties");
        let has_rule = has_rule || schema.get("patternProperties").is_some();
        if has_rule || is_part(schema_pointer) || missing.len() > MAX_COMPARED_BYTES {
            return None;
        }
        let keys = error.instance().as_object()?.keys().map(String::as_str);
        let comparable = keys.filter(|key| key.len() <= MAX_COMPARED_BYTES).take(MAX_COMPARED_KEYS);
        let similar = nearest_names(missing, comparable);
        // Usually no key is similar, and then the names that the schema describes are not needed.
        let known = if similar.is_empty() { Vec::new() } else { known_names(schema, self.schema, true) };
        let unknown = similar.into_iter().find(|key| !known.iter().any(|known| known == key))?;
        Some(unknown.to_owned())
    }

    /// Returns the properties that are allowed where an unknown one was found, if the schema lists them.
    fn known_names(&mut self, error: &ValidationError<'_>) -> KnownNames {
        let (schema_pointer, _) = error.schema_path().as_str().rsplit_once('/')?;
        let (root, schema) = (self.schema, self.schema.pointer(schema_pointer)?);
        let is_unevaluated = matches!(error.kind(), Kind::UnevaluatedProperties { .. });
        let key = (std::ptr::from_ref(schema) as usize, is_unevaluated);
        let known = self.known.entry(key).or_insert_with(|| {
            let names = known_names(schema, root, is_unevaluated);
            let is_complete = !names.is_empty() || schema.get("patternProperties").is_none();
            is_complete.then(|| names.into_iter().cloned().collect())
        });
        known.clone()
    }
}

/// Whether the schema at the pointer applies to the same value as the schema around it, which may describe
/// more properties.
fn is_part(schema_pointer: &str) -> bool {
    let mut steps = schema_pointer.rsplit('/');
    let (last, container) = (steps.next(), steps.next());
    matches!(last, Some("if" | "then" | "else" | "not"))
        || matches!(container, Some("allOf" | "anyOf" | "oneOf" | "dependentSchemas"))
}

fn invalid_value(error: &ValidationError<'_>) -> ViolationKind {
    ViolationKind::InvalidValue {
        requirement: requirement(error),
        value: error.instance().clone().into_owned(),
    }
}

/// Returns what the schema requires of the value.
fn requirement(error: &ValidationError<'_>) -> Requirement {
    let array = |what: String| Requirement::Have { owner: "an array", what };
    let object = |what: String| Requirement::Have { owner: "an object", what };
    Requirement::Be(match error.kind() {
        Kind::Type { kind: TypeKind::Single(one) } => return Requirement::Type(vec![*one]),
        Kind::Type { kind: TypeKind::Multiple(types) } => return Requirement::Type(types.iter().collect()),
        Kind::Enum { options } => {
            return Requirement::OneOf(options.as_array().cloned().unwrap_or_default());
        }
        Kind::Constant { expected_value } => expected_value.to_string(),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("at least {} long", counted(*limit, "character")),
        Kind::MaxLength { limit } => format!("at most {} long", counted(*limit, "character")),
        Kind::Pattern { pattern } => format!("a string matching `{pattern}`"),
        Kind::Format { format } => format!("a string in the format `{format}`"),
        Kind::ContentEncoding { content_encoding } => {
            format!("a string in the encoding `{content_encoding}`")
        }
        Kind::ContentMediaType { content_media_type } => {
            format!("a string of the media type `{content_media_type}`")
        }
        Kind::MinItems { limit } => return array(format!("at least {}", counted(*limit, "item"))),
        Kind::MaxItems { limit } => return array(format!("at most {}", counted(*limit, "item"))),
        Kind::AdditionalItems { limit } => {
            return array(format!("at most {}", counted(*limit, "item")));
        }
        Kind::UnevaluatedItems { .. } => return array("only items that the schema describes".to_owned()),
        Kind::UniqueItems => return array("unique items".to_owned()),
        Kind::Contains => return array("the items that `contains` requires".to_owned()),
        Kind::MinProperties { limit } => {
            return object(format!("at least {}", counted(*limit, "property")));
        }
        Kind::MaxProperties { limit } => {
            return object(format!("at most {}", counted(*limit, "property")));
        }
        Kind::Required { property } => return object(format!("property {}", quoted(&plain(property)))),
        Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. } => {
            return object("only known properties".to_owned());
        }
        Kind::PropertyNames { error } => {
            return object(format!("property names that are each {}", requirement(error).expected()));
        }
        Kind::Not { schema } => return Requirement::NotMatch(schema.clone()),
        Kind::FalseSchema => return Requirement::Nothing,
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => any_of(context, pointer(error)),
        Kind::OneOfMultipleValid { .. } => "valid for only one alternative".to_owned(),
        other => format!("valid according to `{}`", other.keyword()),
    })
}

/// Returns the only alternative that has the type and the tag of the value.
fn intended_alternative<'c>(
    error: &ValidationError<'_>,
    alternatives: &'c [Alternative],
) -> Option<&'c Alternative> {
    let has_type_and_tag = |alternative: &&Alternative| {
        !alternative.iter().any(|other| match other.kind() {
            Kind::Constant { .. } => true,
            Kind::Type { .. } | Kind::Enum { .. } => other.instance_path() == error.instance_path(),
            _ => false,
        })
    };
    // A variant can also be tagged by its only key.
    let has_key = |alternative: &Alternative| {
        !alternative.iter().any(|missing| {
            matches!(missing.kind(), Kind::Required { .. })
                && alternative.iter().any(|unknown| {
                    matches!(unknown.kind(), Kind::AdditionalProperties { .. })
                        && unknown.instance_path() == missing.instance_path()
                })
        })
    };
    let possible: Vec<&Alternative> = alternatives.iter().filter(has_type_and_tag).collect();
    if let [only] = possible.as_slice() {
        return Some(only);
    }
    let mut possible = possible.into_iter().filter(|alternative| has_key(alternative));
    let only = possible.next()?;
    possible.next().is_none().then_some(only)
}

/// Returns the violation for a tag that is wrong or missing in every alternative.
fn wrong_tag(alternatives: &[Alternative]) -> Option<Violation> {
    // A tag is a constant at a pointer, or a missing property of the object at a pointer.
    fn tag<'e>(error: &'e ValidationError<'static>) -> Option<(&'e str, Option<&'e Value>)> {
        match error.kind() {
            Kind::Constant { .. } => Some((pointer(error), None)),
            Kind::Required { property } => Some((pointer(error), Some(property))),
            _ => None,
        }
    }
    let has_tag =
        |alternative: &Alternative, wanted| alternative.iter().any(|error| tag(error) == Some(wanted));
    let candidates = alternatives.first()?.iter().filter_map(|error| Some((tag(error)?, error)));
    let is_in_all = |wanted| alternatives.iter().all(|alternative| has_tag(alternative, wanted));
    let ((place, missing), error) = candidates.into_iter().find(|(wanted, _)| is_in_all(*wanted))?;
    let kind = match missing {
        Some(name) => ViolationKind::MissingProperty { name: plain(name), similar: None },
        None => {
            let mut options: Vec<Value> = Vec::new();
            for error in alternatives.iter().flatten().filter(|error| tag(error) == Some((place, None))) {
                if let Kind::Constant { expected_value } = error.kind()
                    && !options.contains(expected_value)
                {
                    options.push(Value::clone(expected_value));
                }
            }
            let value = error.instance().clone().into_owned();
            ViolationKind::InvalidValue { requirement: Requirement::OneOf(options), value }
        }
    };
    Some(Violation { pointer: place.to_owned(), kind })
}

/// Returns what the alternatives require, joined by "or". Places inside the value are relative to `base`.
fn any_of(alternatives: &[Alternative], base: &str) -> String {
    let mut phrases: Vec<String> = Vec::new();
    for alternative in alternatives {
        let is_unknown_property = |error: &&ValidationError<'_>| {
            matches!(error.kind(), Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. })
        };
        // Unknown properties are listed only if the alternative has no other errors, which are more useful.
        let has_others = !alternative.iter().all(|error| is_unknown_property(&error));
        let errors = alternative.iter().filter(|error| !(has_others && is_unknown_property(error)));
        let parts: Vec<String> = errors
            .map(|error| {
                let expected = requirement(error).expected();
                match pointer(error).strip_prefix(base) {
                    None | Some("") => expected,
                    Some(place) => format!("{expected} at {place}"),
                }
            })
            .collect();
        let phrase = parts.join(" and ");
        if !phrase.is_empty() && !phrases.contains(&phrase) {
            phrases.push(phrase);
        }
    }
    if phrases.is_empty() { "valid for one of the alternatives".to_owned() } else { phrases.join(" or ") }
}

/// Returns the properties of an object, and with `composed` those of its parts and alternatives.
fn known_names<'s>(schema: &'s Value, root: &'s Value, composed: bool) -> Vec<&'s String> {
    let references = composed.then(|| References::of(root));
    let (mut names, mut seen, mut visited) = (Vec::new(), HashSet::new(), HashSet::new());
    let mut stack = vec![schema];
    while let Some(schema) = stack.pop() {
        if !visited.insert(std::ptr::from_ref(schema)) {
            continue;
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let keys = properties.into_iter().flat_map(|properties| properties.keys());
        names.extend(keys.filter(|name| seen.insert(*name)));
        let Some(references) = &references else { break };
        let first_of_stack = stack.len();
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let reference = schema.get(keyword).and_then(Value::as_str);
            stack.extend(reference.into_iter().flat_map(|reference| references.targets(reference)));
        }
        for keyword in ["oneOf", "anyOf", "allOf"] {
            stack.extend(schema.get(keyword).and_then(Value::as_array).into_iter().flatten());
        }
        stack.extend(["if", "then", "else"].into_iter().filter_map(|keyword| schema.get(keyword)));
        let dependent = schema.get("dependentSchemas").and_then(Value::as_object);
        stack.extend(dependent.into_iter().flat_map(|schemas| schemas.values()));
        // The names are listed in the order of the schema.
        stack[first_of_stack..].reverse();
    }
    names
}

fn pointer<'e>(error: &'e ValidationError<'_>) -> &'e str {
    error.instance_path().as_str()
}

/// Returns a string without quotes, and any other value as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
