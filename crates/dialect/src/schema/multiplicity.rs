//! Refuses schemas whose references expand exponentially.
//!
//! A validator evaluates a definition once for every path of references that leads to it. When each of twelve
//! definitions refers to the next one eight times, that is 8¹² evaluations for every value.

use std::collections::hash_map::Entry;

use toolwire_validation::MAX_SCHEMAS_PER_VALUE;

use super::keywords::applies_in_place;
use super::node_id::{NodeMap, node_id};
use super::refs::Document;
use super::walk::each_child;
use super::{Refusal, TOO_COMPLEX};
use crate::json::{Node, Object, Place, get};

/// Whether more than [`MAX_SCHEMAS_PER_VALUE`] schemas could apply to one value in the worst case: the number
/// of paths grows fastest with three references from each definition to the next, and all schemas are at the
/// end of each path.
pub(super) fn may_multiply(schemas: usize, references: usize, unevaluated: usize) -> bool {
    let exponent = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let paths = 3u64.saturating_pow(exponent(references.div_ceil(3)));
    let paths = paths.saturating_mul(2u64.saturating_pow(exponent(unevaluated)));
    paths.saturating_mul(schemas as u64) > MAX_SCHEMAS_PER_VALUE
}

/// Whether a validator evaluates the schemas under a keyword again to find out what they evaluate.
fn is_evaluated_again(keyword: &str) -> bool {
    matches!(keyword, "allOf" | "anyOf" | "oneOf")
}

/// Returns how many keywords of a schema make the validator evaluate its parts and alternatives again.
pub(super) fn count_unevaluated(members: Object<'_>) -> usize {
    members.iter().filter(|member| matches!(member.key, "unevaluatedProperties" | "unevaluatedItems")).count()
}

/// The schemas that apply to the same value as another one.
struct InPlace<'a> {
    schemas: Vec<usize>,
    place: &'a Place<'a>,
}

/// Refuses the schema if too many schemas apply to one value. `targets` are the root and the targets of all
/// references.
pub(super) fn check_multiplicity<'a>(
    document: &Document<'a>,
    targets: Vec<(Node<'a>, &'a Place<'a>)>,
) -> Result<(), Refusal> {
    let graph = in_place_graph(document, targets);
    let mut counts: NodeMap<u64> = NodeMap::default();
    for start in graph.keys() {
        let mut stack = vec![(*start, false)];
        while let Some((id, are_children_counted)) = stack.pop() {
            let Some(InPlace { schemas, place }) = graph.get(&id) else { continue };
            if are_children_counted {
                let count_of = |id: &usize| counts.get(id).copied().unwrap_or(1);
                let count = schemas.iter().fold(1, |sum: u64, id| sum.saturating_add(count_of(id)));
                if count > MAX_SCHEMAS_PER_VALUE {
                    let message = format!(
                        "references multiply: more than {MAX_SCHEMAS_PER_VALUE} schemas apply to one value"
                    );
                    return Err(Refusal { code: TOO_COMPLEX, pointer: place.pointer(), message });
                }
                counts.insert(id, count);
            } else if let Entry::Vacant(entry) = counts.entry(id) {
                // A cycle does not add to the count.
                entry.insert(0);
                stack.push((id, true));
                stack.extend(schemas.iter().filter(|id| !counts.contains_key(id)).map(|id| (*id, false)));
            }
        }
    }
    Ok(())
}

fn in_place_graph<'a>(
    document: &Document<'a>,
    mut stack: Vec<(Node<'a>, &'a Place<'a>)>,
) -> NodeMap<InPlace<'a>> {
    let mut graph: NodeMap<InPlace<'a>> = NodeMap::default();
    while let Some((node, place)) = stack.pop() {
        let Some(members) = node.object() else { continue };
        if graph.contains_key(&node_id(node)) {
            continue;
        }
        let mut schemas = Vec::new();
        let reference = get(members, "$ref").and_then(|value| value.text(document.arena));
        let target = reference.and_then(|reference| document.find(reference));
        schemas.extend(target.map(|(target, _)| node_id(target)));
        let unevaluated = count_unevaluated(members);
        each_child(members, |path, child| {
            if applies_in_place(path.keyword()) {
                let times = if is_evaluated_again(path.keyword()) { 1 + unevaluated } else { 1 };
                schemas.extend(std::iter::repeat_n(node_id(child), times));
            }
            if !path.is_definition() {
                stack.push((child, path.below(place, document.arena)));
            }
        });
        graph.insert(node_id(node), InPlace { schemas, place });
    }
    graph
}
