//! Messages that take the place of a view, such as an unknown path.

use maud::{Markup, html};

use crate::text::WithCode;

/// Returns a heading, what happened, and what to try.
pub fn notice(title: &str, message: &str, hint: Option<&str>) -> Markup {
    html! {
        h1 { (title) }
        (error(message, hint))
    }
}

/// Returns an error, and what to try.
pub fn error(message: &str, hint: Option<&str>) -> Markup {
    html! {
        div.error {
            p dir="auto" { (WithCode(message)) }
            @if let Some(hint) = hint { p.hint dir="auto" { (WithCode(hint)) } }
        }
    }
}
