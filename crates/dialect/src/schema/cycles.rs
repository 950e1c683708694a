//! Circles of references.

use crate::schema::identity::{ByIdentity, Identities};

/// Nodes of a graph that lie on a circle, and the length of its longest way, each circle counting once.
pub(super) fn cycles(uses: &ByIdentity<Vec<usize>>) -> (Identities, usize) {
    // Tarjan's strongly connected components, with the stack in our hands.
    let mut index: ByIdentity<(usize, usize)> = ByIdentity::default();
    let mut on_stack: Identities = Identities::default();
    let mut component: Vec<usize> = Vec::new();
    let mut found = Identities::default();
    let mut ways: ByIdentity<usize> = ByIdentity::default();
    let none = Vec::new();
    for start in uses.keys() {
        if index.contains_key(start) {
            continue;
        }
        let mut work: Vec<(usize, usize)> = vec![(*start, 0)];
        while let Some((node, edge)) = work.pop() {
            if edge == 0 {
                let order = index.len();
                index.insert(node, (order, order));
                component.push(node);
                on_stack.insert(node);
            }
            let edges = uses.get(&node).unwrap_or(&none);
            if let Some(next) = edges.get(edge) {
                work.push((node, edge + 1));
                if !index.contains_key(next) {
                    work.push((*next, 0));
                } else if on_stack.contains(next) {
                    let low = index[next].0;
                    let entry = index.get_mut(&node).expect("the node was just entered");
                    entry.1 = entry.1.min(low);
                }
                continue;
            }
            let (order, low) = index[&node];
            if let Some((parent, _)) = work.last() {
                let entry = index.get_mut(parent).expect("a parent is entered before its child");
                entry.1 = entry.1.min(low);
            }
            if order == low {
                let from = component.iter().rposition(|member| *member == node).unwrap_or(0);
                let members = component.split_off(from);
                let circular = members.len() > 1 || edges.contains(&node);
                // What a component leads to was finished before it.
                let onward = members.iter().filter_map(|member| uses.get(member)).flatten();
                let way = 1 + onward.filter_map(|next| ways.get(next)).max().copied().unwrap_or(0);
                ways.extend(members.iter().map(|member| (*member, way)));
                for member in members {
                    on_stack.remove(&member);
                    if circular {
                        found.insert(member);
                    }
                }
            }
        }
    }
    (found, ways.values().max().copied().unwrap_or(0))
}
