//! The positions of values in a body, and the keys that lead to them.

/// The position of a value, which determines the meaning of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    Metadata,
    Tools,
    Tool,
    /// An object that refers to stored data by its `id`.
    Reference(&'static str),
    /// Refers to stored data if it is not empty.
    Stored(&'static str),
    /// The type of an object, and of a tool.
    Type,
    ToolType,
    /// The items of a request, and one of them.
    Items,
    Item,
    /// Messages and blocks.
    Content,
    /// Schemas, arguments and other data of the client, which are not searched.
    Other,
}

/// A key with a meaning for the search.
pub(super) struct Key {
    pub(super) name: &'static str,
    /// The place of its value below each parent. The first parent that matches is used; if none matches, the
    /// place is [`Place::Content`].
    below: &'static [(Parent, Place)],
}

enum Parent {
    Any,
    One(Place),
}

use Parent::{Any, One};
use Place::{Content, Item, Items, Metadata, Other, Reference, Root, Stored, Tool, ToolType, Tools, Type};

/// The keys, sorted by name.
static KEYS: [Key; 35] = [
    // The output of a model, in which the provider looks nothing up.
    key("annotations", &[(Any, Other)]),
    key("arguments", &[(Any, Other)]),
    key("audio", &[(Any, Reference("audio"))]),
    key("citations", &[(Any, Other)]),
    key("container", &[(One(Root), Stored("container")), (One(Tool), Stored("container"))]),
    // Also in calls of the history: a tool whose container is chosen automatically reuses that of an earlier
    // call.
    key("container_id", &[(Any, Stored("container_id"))]),
    key("content", &[]),
    key("conversation", &[(One(Root), Stored("conversation"))]),
    key("encrypted_content", &[]),
    key("file_id", &[(Any, Stored("file_id"))]),
    key("file_ids", &[(Any, Stored("file_ids"))]),
    key("function", &[(One(Tool), Other)]),
    key("guided_json", &[(One(Root), Other)]),
    key("id", &[]),
    key("input", &[(One(Root), Items), (Any, Other)]),
    key("input_examples", &[(Any, Other)]),
    key("input_schema", &[(Any, Other)]),
    key("mcp_servers", &[]),
    key("metadata", &[(One(Root), Metadata), (Any, Other)]),
    key("output_schema", &[(Any, Other)]),
    key("parameters", &[(Any, Other)]),
    key("previous_response_id", &[(One(Root), Stored("previous_response_id"))]),
    key("prompt", &[(One(Root), Reference("prompt"))]),
    key("response_format", &[(Any, Other)]),
    key("result", &[]),
    key("results", &[(One(Item), Other)]),
    key("role", &[]),
    key("schema", &[(Any, Other)]),
    key("signature", &[]),
    key("skill_id", &[]),
    key("structured_outputs", &[(One(Root), Other)]),
    // Items and tools may contain tools.
    key("tools", &[(One(Root), Tools), (One(Item), Tools), (One(Content), Tools), (One(Tool), Tools)]),
    key("toolwire", &[]),
    key("type", &[(One(Tool), ToolType), (Any, Type)]),
    key("vector_store_ids", &[(Any, Stored("vector_store_ids"))]),
];

const fn key(name: &'static str, below: &'static [(Parent, Place)]) -> Key {
    Key { name, below }
}

impl Key {
    /// Finds a key by its name in lower case.
    pub(super) fn find(name: &str) -> Option<&'static Key> {
        KEYS.binary_search_by(|key| key.name.cmp(name)).ok().map(|index| &KEYS[index])
    }
}

impl Place {
    /// Returns the place of the value of a key; `None` is a key that is not in the table.
    pub(super) fn below(self, key: Option<&Key>) -> Place {
        if matches!(self, Other | Metadata) {
            return Other;
        }
        let is_parent = |parent: &Parent| match parent {
            Any => true,
            One(place) => *place == self,
        };
        let mut places = key.into_iter().flat_map(|key| key.below);
        places.find(|(parent, _)| is_parent(parent)).map_or(Content, |(_, place)| *place)
    }

    /// Returns the place of an object that is the value here.
    pub(super) fn of_object(self) -> Place {
        match self {
            // It refers to stored data only if it has an `id`.
            Stored(name @ ("conversation" | "container")) => Reference(name),
            Items => Item,
            place => place,
        }
    }

    /// Returns the place of an element of the list that is the value here.
    pub(super) fn of_element(self) -> Place {
        match self {
            Tools => Tool,
            Items => Item,
            place => place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::KEYS;

    #[test]
    fn keys_are_sorted() {
        assert!(KEYS.is_sorted_by_key(|key| key.name));
    }
}
