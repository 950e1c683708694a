//! The pages with which a user logs in at a server that has credentials of its users.

use maud::{DOCTYPE, Markup, html};

use crate::link::Link;
use crate::notice::error;
use crate::shell::{Theme, head};

/// The user who logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User<'a> {
    /// Signed in on the page, with a key of this name if the gateway has keys.
    Known(Option<&'a str>),
    /// The form asks for the key.
    Unknown,
}

/// Returns the page that starts a login.
pub fn form(theme: Option<Theme>, server: &str, user: User<'_>, problem: Option<&str>) -> Markup {
    document(
        theme,
        html! {
            h1 { "Log in to " bdi { (server) } }
            @if let Some(problem) = problem { (error(problem, None)) }
            p { "The gateway stores the tokens of the login encrypted, and uses them only for your own requests." }
            form.card method="post" action=(Link::to(&["-", "login", server])) {
                @match user {
                    User::Known(Some(name)) => p { "You are signed in as " bdi { (name) } "." },
                    User::Known(None) => {}
                    User::Unknown => label.field {
                        span { "Your key of the gateway" }
                        input type="password" name="key" autocomplete="current-password" required autofocus;
                    }
                }
                button.button.primary { "Continue" }
            }
        },
    )
}

/// Returns the page with the link to the login page of the server.
pub fn proceed(theme: Option<Theme>, server: &str, login: &Link) -> Markup {
    document(
        theme,
        html! {
            h1 { "Log in to " bdi { (server) } }
            p {
                a.button.primary href=(login) rel="noreferrer" {
                    "Log in at " bdi { (login.host().unwrap_or_default()) }
                }
            }
        },
    )
}

/// Returns the page at the end of a login.
pub fn done(theme: Option<Theme>, server: &str) -> Markup {
    document(
        theme,
        html! {
            h1 { "Logged in to " bdi { (server) } }
            p { "Its tools are available now. You can close this page." }
        },
    )
}

fn document(theme: Option<Theme>, main: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme.map(Theme::name)] {
            (head("Log in"))
            body data-view="sign-in" data-topics="" {
                main #main tabindex="-1" { (main) }
                p.unseen #say role="status" {}
                p.unseen #alert role="alert" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_servers_are_escaped() {
        let name = "<img src=x>/..";
        let login = Link::external("https://login.example/authorize?a=b&c=d").expect("an address");
        let form = form(None, name, User::Unknown, Some(name)).into_string();
        for page in [&form, &proceed(None, name, &login).into_string(), &done(None, name).into_string()] {
            assert!(!page.contains("<img"), "{page}");
        }
        assert!(form.contains("action=\"/-/login/%3Cimg%20src%3Dx%3E%2F..\""), "{form}");
    }
}
