//! Converts schemas of older JSON Schema versions to 2020-12.
//!
//! A dialect without `$schema` reads every schema as 2020-12. Keywords that the older version did not define
//! had no effect there and are removed; so is everything next to a `$ref` before 2019-09.

use super::context::Context;
use super::edit::ObjectEdit;
use super::{KeywordKind, is_annotation, keyword_kind};
use crate::Effect;
use crate::json::{Member, Node, Object, Place, get};

/// A version of the JSON Schema specification, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SpecVersion {
    Draft04,
    Draft06,
    Draft07,
    V2019,
    V2020,
}

impl SpecVersion {
    /// Returns the version that the root's `$schema` names, or 2020-12 if it names none of the known ones.
    pub(crate) fn of(root: Node<'_>, arena: &bumpalo::Bump) -> SpecVersion {
        // Draft 5 changed nothing for validation.
        const VERSIONS: [(&str, SpecVersion); 6] = [
            ("draft-03", SpecVersion::Draft04),
            ("draft-04", SpecVersion::Draft04),
            ("draft-05", SpecVersion::Draft04),
            ("draft-06", SpecVersion::Draft06),
            ("draft-07", SpecVersion::Draft07),
            ("2019-09", SpecVersion::V2019),
        ];
        let uri = root.member("$schema").and_then(|node| node.text(arena)).unwrap_or_default();
        let known = VERSIONS.iter().find(|(name, _)| uri.contains(name));
        known.map_or(SpecVersion::V2020, |(_, version)| *version)
    }

    fn name(self) -> &'static str {
        match self {
            SpecVersion::Draft04 => "draft-04",
            SpecVersion::Draft06 => "draft-06",
            SpecVersion::Draft07 => "draft-07",
            SpecVersion::V2019 => "2019-09",
            SpecVersion::V2020 => "2020-12",
        }
    }

    fn defines(self, keyword: &str) -> bool {
        let since = match keyword {
            "const" | "contains" | "propertyNames" => SpecVersion::Draft06,
            "if" | "then" | "else" => SpecVersion::Draft07,
            "dependentRequired"
            | "dependentSchemas"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "minContains"
            | "maxContains" => SpecVersion::V2019,
            "prefixItems" | "$dynamicRef" => SpecVersion::V2020,
            _ => return true,
        };
        self >= since
    }

    /// Whether a schema has a `$ref` whose neighbours have no effect.
    pub(crate) fn ignores_siblings_of_ref(self, members: Object<'_>) -> bool {
        self < SpecVersion::V2019 && get(members, "$ref").is_some_and(Node::is_string)
    }
}

impl<'a> Context<'a, '_> {
    /// Converts a complete schema from `version` to 2020-12.
    pub(crate) fn upgrade(&mut self, root: Node<'a>, version: SpecVersion) -> Node<'a> {
        let upgraded = self.upgrade_at(root, version, &Place::ROOT);
        if self.profile.grammar.is_none() {
            let detail = "schema converted to JSON Schema 2020-12";
            self.record(&Place::ROOT, "$schema", Effect::Dropped, detail);
        }
        Node::Object(self.without(upgraded.object().unwrap_or_default(), "$schema"))
    }

    fn upgrade_at(&mut self, node: Node<'a>, version: SpecVersion, place: &Place<'_>) -> Node<'a> {
        let Some(members) = node.object() else { return node };
        let mut edit = ObjectEdit::of(members);
        let name = version.name();
        let only_ref = version.ignores_siblings_of_ref(members);
        for member in members {
            let Member { key, value } = *member;
            let removed = if only_ref && key != "$ref" && !is_annotation(key) {
                format!("{key} removed; {name} ignores keywords next to $ref")
            } else if !version.defines(key) {
                format!("{key} removed; {name} does not define it")
            } else {
                match (keyword_kind(key), value) {
                    (KeywordKind::Exclusive, Node::Number(_)) if version == SpecVersion::Draft04 => {
                        format!("{key} removed; draft-04 requires a boolean here")
                    }
                    (KeywordKind::Dependencies, Node::Object(entries)) if version < SpecVersion::V2019 => {
                        self.split_dependencies(&mut edit, entries, version, place);
                        continue;
                    }
                    (KeywordKind::Dependencies, _) => continue,
                    _ => {
                        let upgraded = self.map_schemas(*member, place, |context, schema, _, place| {
                            Some(context.upgrade_at(schema, version, place))
                        });
                        if let Some(value) = upgraded {
                            edit.put(key, value);
                        }
                        continue;
                    }
                }
            };
            edit.remove(key);
            self.record(place, key, Effect::Rewritten, removed);
        }
        Node::Object(self.finish(edit))
    }

    /// Replaces `dependencies` by `dependentRequired` and `dependentSchemas`.
    fn split_dependencies(
        &mut self,
        edit: &mut ObjectEdit<'a>,
        entries: Object<'a>,
        version: SpecVersion,
        place: &Place<'_>,
    ) {
        let inside = place.key("dependencies");
        let (mut names, mut schemas) = (Vec::new(), Vec::new());
        for entry in entries {
            match entry.value {
                Node::List(_) => names.push(*entry),
                value if value.is_string() => names.push(Member::new(entry.key, self.list(&[value]))),
                value => {
                    let upgraded = self.upgrade_at(value, version, &inside.key(entry.key));
                    schemas.push(Member::new(entry.key, upgraded));
                }
            }
        }
        edit.remove("dependencies");
        for (keyword, entries) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
            if !entries.is_empty() {
                edit.put(keyword, self.object(&entries));
            }
        }
        let detail = "dependencies replaced by dependentRequired and dependentSchemas";
        self.record(place, "dependencies", Effect::Rewritten, detail);
    }
}
