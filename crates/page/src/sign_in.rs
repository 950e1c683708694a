//! The page with a field for a key.

use maud::{DOCTYPE, Markup, html};

use crate::notice::error;
use crate::shell::{Theme, head};

/// Returns the document. If the fragment of the address contains a token, the script fills it in and sends
/// the form.
pub fn document(theme: Option<Theme>, next: &str, problem: Option<&str>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme.map(Theme::name)] {
            (head("Sign in"))
            body data-view="sign-in" data-topics="" {
                main #main tabindex="-1" {
                    h1 { "Sign in" }
                    @if let Some(problem) = problem { (error(problem, Some("`toolwire serve` prints a new link for each start"))) }
                    form #sign-in .card method="post" action="/sign-in" {
                        input type="hidden" name="next" value=(next);
                        label.field {
                            span { "Key of the gateway, or the token of the link that " code { "toolwire serve" } " printed" }
                            input type="password" name="key" autocomplete="current-password" required autofocus;
                        }
                        button.button.primary { "Sign in" }
                    }
                }
                p.unseen #say role="status" {}
                p.unseen #alert role="alert" {}
            }
        }
    }
}
