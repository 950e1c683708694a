//! Sets of JSON values.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use bumpalo::Bump;

use super::{Decimal, Node, strings};

/// Values that are looked up as JSON Schema compares them, such as those of an `enum`.
pub(crate) struct ValueSet<'a>(HashSet<ByValue<'a>>);

impl<'a> ValueSet<'a> {
    pub(crate) fn of(values: &[Node<'a>]) -> ValueSet<'a> {
        ValueSet(values.iter().map(|value| ByValue(*value)).collect())
    }

    pub(crate) fn contains(&self, value: Node<'a>) -> bool {
        self.0.contains(&ByValue(value))
    }
}

/// A node that is compared with [`Node::same`].
struct ByValue<'a>(Node<'a>);

impl PartialEq for ByValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.same(other.0)
    }
}

impl Eq for ByValue<'_> {}

impl Hash for ByValue<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.0 {
            Node::Null => state.write_u8(0),
            Node::Bool(value) => value.hash(state),
            Node::Number(digits) => Decimal::of(digits).hash(state),
            Node::Text(text) => text.hash(state),
            Node::Escaped(raw) => strings::unescape(raw, &Bump::new()).hash(state),
            Node::List(nodes) => nodes.iter().for_each(|node| ByValue(*node).hash(state)),
            // The order of members does not matter.
            Node::Object(members) => {
                let sum = members.iter().fold(members.len() as u64, |sum, member| {
                    let mut hasher = DefaultHasher::new();
                    member.key.hash(&mut hasher);
                    ByValue(member.value).hash(&mut hasher);
                    sum.wrapping_add(hasher.finish())
                });
                state.write_u64(sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Member;

    #[test]
    fn values_are_found_in_any_spelling() {
        let (one, text) = (Member::new("a", Node::Number("1")), Member::new("b", Node::Text("é")));
        let (one_spelled, text_spelled) =
            (Member::new("a", Node::Number("1.0")), Member::new("b", Node::Escaped("\\u00e9")));
        let values = [Node::Object(&[one, text]), Node::Number("100"), Node::Text("é"), Node::Null];
        let set = ValueSet::of(&values);
        for found in
            [Node::Object(&[text_spelled, one_spelled]), Node::Number("1e2"), Node::Escaped("\\u00e9")]
        {
            assert!(set.contains(found), "{found:?}");
        }
        for missing in [Node::Object(&[one]), Node::Text("100"), Node::Bool(false), Node::List(&[])] {
            assert!(!set.contains(missing), "{missing:?}");
        }
    }
}
