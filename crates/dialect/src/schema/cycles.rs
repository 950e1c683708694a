//! Cycles in the graph of references.

use super::node_id::{NodeMap, NodeSet};

/// Returns the nodes of a graph that are part of a cycle, and the length of the longest path, on which every
/// strongly connected component counts as one node.
pub(super) fn cycles(uses: &NodeMap<Vec<usize>>) -> (NodeSet, usize) {
    // Tarjan's algorithm with an explicit stack.
    let mut index: NodeMap<(usize, usize)> = NodeMap::default();
    let mut on_stack: NodeSet = NodeSet::default();
    let mut component: Vec<usize> = Vec::new();
    let mut found = NodeSet::default();
    let mut path_lengths: NodeMap<usize> = NodeMap::default();
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
                let is_cycle = members.len() > 1 || edges.contains(&node);
                // The components that this one leads to are finished.
                let next = members.iter().filter_map(|member| uses.get(member)).flatten();
                let longest = next.filter_map(|next| path_lengths.get(next)).max().copied().unwrap_or(0);
                path_lengths.extend(members.iter().map(|member| (*member, longest + 1)));
                for member in members {
                    on_stack.remove(&member);
                    if is_cycle {
                        found.insert(member);
                    }
                }
            }
        }
    }
    (found, path_lengths.values().max().copied().unwrap_or(0))
}
