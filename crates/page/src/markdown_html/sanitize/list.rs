//! The elements, attributes and classes that remain.

use std::collections::HashSet;
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

/// The elements, each with its attributes and classes.
const ELEMENTS: [(&str, &[&str], &[&str]); 30] = [
    ("p", &["dir"], &["raw"]),
    ("h2", &["dir"], &[]),
    ("h3", &["dir"], &[]),
    ("h4", &["dir"], &[]),
    ("h5", &["dir"], &[]),
    ("h6", &["dir"], &[]),
    ("ul", &[], &[]),
    ("ol", &["start"], &[]),
    ("li", &["dir"], &[]),
    ("blockquote", &["dir"], &[]),
    ("hr", &[], &[]),
    ("br", &[], &[]),
    ("em", &[], &[]),
    ("strong", &[], &[]),
    ("del", &[], &[]),
    ("a", &["href", "target"], &[]),
    ("code", &["dir"], &[]),
    ("pre", &["dir", "tabindex"], &[]),
    ("span", &["role", "aria-label"], &SPAN_CLASSES),
    ("figure", &[], &["code"]),
    ("figcaption", &[], &[]),
    ("button", &["type", "data-copy"], &["button", "quiet"]),
    ("div", &["tabindex", "role", "aria-label"], &["table-wrap"]),
    ("table", &[], &[]),
    ("thead", &[], &[]),
    ("tbody", &[], &[]),
    ("tr", &[], &[]),
    ("th", &["dir", "scope"], &CELL_CLASSES),
    ("td", &["dir"], &CELL_CLASSES),
    ("bdi", &[], &[]),
];

const SPAN_CLASSES: [&str; 13] =
    ["hl-k", "hl-s", "hl-n", "hl-c", "hl-p", "hl-a", "hl-d", "hl-h", "task", "image", "alt", "host", "muted"];
const CELL_CLASSES: [&str; 2] = ["align-center", "align-end"];

/// Removes what is not on the list.
pub(super) fn clean(html: &str) -> String {
    static SANITIZER: LazyLock<Builder<'static>> = LazyLock::new(sanitizer);
    SANITIZER.clean(html).to_string()
}

fn sanitizer() -> Builder<'static> {
    let set = |names: &[&'static str]| -> HashSet<&'static str> { names.iter().copied().collect() };
    let mut builder = Builder::empty();
    builder
        .tags(ELEMENTS.iter().map(|(name, ..)| *name).collect())
        .tag_attributes(ELEMENTS.iter().map(|(name, attributes, _)| (*name, set(attributes))).collect())
        .allowed_classes(ELEMENTS.iter().map(|(name, _, classes)| (*name, set(classes))).collect())
        // By default, every element may have `lang` and `title`, and addresses may be relative.
        .generic_attributes(HashSet::new())
        .url_relative(UrlRelative::Deny)
        .url_schemes(set(&["http", "https", "mailto"]))
        .link_rel(Some("noopener noreferrer"));
    builder
}
