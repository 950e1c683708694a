//! The second protection against untrusted HTML: removes elements, attributes and schemes that the writer
//! does not use.

#[cfg(any(test, feature = "sanitizer"))]
mod list;

use maud::{Markup, PreEscaped};

/// Returns the HTML of the writer as markup.
///
/// This is the only place where a string becomes markup without being escaped.
#[cfg(any(test, feature = "sanitizer"))]
pub(super) fn sanitize(html: &str) -> Markup {
    PreEscaped(list::clean(html))
}

/// Returns the HTML of the writer as markup. Without the feature `sanitizer`, it is not checked again.
///
/// This is the only place where a string becomes markup without being escaped.
#[cfg(not(any(test, feature = "sanitizer")))]
pub(super) fn sanitize(html: &str) -> Markup {
    PreEscaped(html.to_owned())
}
