//! Complete documents: the frame that all views share.

use maud::{DOCTYPE, Markup, html};

use crate::icons::{self, Icon, icon};
use crate::{assets, keys};

/// A view of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Chat,
    Servers,
    Tools,
    Dialects,
    Traffic,
}

/// The views in the navigation, which is called the rail.
const VIEWS: [(View, &str, &str, &str, Icon); 5] = [
    (View::Chat, "chat", "/", "Chat", Icon::Chat),
    (View::Servers, "servers", "/servers", "Servers", Icon::Servers),
    (View::Tools, "tools", "/tools", "Tools", Icon::Tools),
    (View::Dialects, "dialects", "/dialects", "Dialects", Icon::Dialects),
    (View::Traffic, "traffic", "/traffic", "Traffic", Icon::Traffic),
];

impl View {
    /// Returns the names and the paths of all views.
    pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
        VIEWS.iter().map(|(_, _, path, label, _)| (*label, *path))
    }

    pub fn name(self) -> &'static str {
        VIEWS.iter().find(|(view, ..)| *view == self).map_or("", |(_, name, ..)| name)
    }

    fn label(self) -> &'static str {
        VIEWS.iter().find(|(view, ..)| *view == self).map_or("", |(_, _, _, label, _)| label)
    }
}

/// The colors that the visitor chose. Without a choice, the page follows the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    Light,
    Dark,
}

impl Theme {
    pub fn name(self) -> &'static str {
        match self {
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }

    pub fn from_name(name: &str) -> Option<Theme> {
        [Theme::Light, Theme::Dark].into_iter().find(|theme| theme.name() == name)
    }
}

/// The role of a visitor, which determines the permitted actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    User,
    /// May also change servers and accept definitions.
    Admin,
}

/// The visitor of a page.
#[derive(Clone, Debug)]
pub struct Visitor {
    pub role: Role,
    pub theme: Option<Theme>,
    /// The name of the key that the visitor signed in with.
    pub key: Option<String>,
    /// Whether the visitor has a session that can be ended.
    pub is_signed_in: bool,
}

/// A page.
pub struct Shell<'a> {
    pub visitor: &'a Visitor,
    pub view: View,
    pub title: &'a str,
    /// The topics of events that change this page.
    pub topics: &'a [String],
    /// The id of the last event that this page contains.
    pub event: &'a str,
    /// Whether an item of the list is open. On a narrow screen, the list is a page of its own.
    pub has_item: bool,
    pub list: Option<Markup>,
    /// The content, with a heading `h1`.
    pub main: Markup,
}

impl Shell<'_> {
    /// Returns the complete document.
    pub fn document(&self) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" data-theme=[self.visitor.theme.map(Theme::name)] {
                (head(self.title))
                body data-view=(self.view.name()) data-topics=(self.topics.join(" ")) data-event=(self.event)
                    data-build=(assets::build()) .has-item[self.has_item] .has-list[self.list.is_some()] {
                    a.skip href="#main" { "Skip to the content" }
                    (icons::sprite())
                    (self.rail())
                    @if let Some(list) = &self.list {
                        aside.list #list aria-label=(format!("{} list", self.view.label())) { (list) }
                    }
                    main #main tabindex="-1" {
                        div.bar #connection hidden {}
                        (self.main)
                    }
                    p.unseen #say role="status" {}
                    p.unseen #alert role="alert" {}
                    dialog #palette aria-label="Go to" {
                        form method="dialog" {
                            input name="q" type="search" autocomplete="off" aria-label="Go to" placeholder="a view, or @ and a tool";
                        }
                        ul #palette-entries role="listbox" aria-label="Entries" {}
                    }
                    (keys::dialog())
                }
            }
        }
    }

    fn rail(&self) -> Markup {
        html! {
            nav.rail aria-label="Views" {
                @for (view, name, path, label, symbol) in VIEWS {
                    a.rail-link href=(path) aria-current=[(view == self.view).then_some("page")] {
                        (icon(symbol))
                        span { (label) }
                        span.dot id={ "dot-" (name) } hidden {}
                    }
                }
                div.rail-foot {
                    button.button.quiet type="button" data-opens="keys" { kbd { "?" } span { "keys" } }
                    (theme_form(self.visitor.theme))
                    (self.account())
                }
            }
        }
    }

    fn account(&self) -> Markup {
        let visitor = self.visitor;
        html! {
            @if visitor.role == Role::Admin { span.muted { "admin" } }
            @if let Some(key) = &visitor.key { bdi.muted { (key) } }
            @if visitor.is_signed_in {
                form method="post" action="/-/sign-out" { button.button.quiet { "Sign out" } }
            } @else {
                a.button.quiet href="/sign-in" { "Sign in" }
            }
        }
    }
}

/// Returns the link to the list, for narrow screens.
pub(crate) fn back() -> Markup {
    html! { a.back href="#list" aria-label="Back to the list" { "‹" } }
}

/// Returns the button that opens the palette, for narrow screens.
pub(crate) fn palette_button() -> Markup {
    html! { button.button.quiet.icon-only.phone type="button" data-opens="palette" aria-label="Go to" { (icon(Icon::More)) } }
}

/// Returns the head of a document that uses the page's files.
pub(crate) fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            title { (title) " · Toolwire" }
            meta name="viewport" content="width=device-width, initial-scale=1, interactive-widget=resizes-content";
            meta name="color-scheme" content="light dark";
            link rel="stylesheet" href=(assets::path(assets::STYLESHEET));
            link #icon rel="icon" type="image/svg+xml" href=(assets::path(assets::ICON));
            script type="module" blocking="render" src=(assets::path(assets::MODULE)) {}
        }
    }
}

fn theme_form(theme: Option<Theme>) -> Markup {
    let current = theme.map_or("system", Theme::name);
    html! {
        form.theme method="post" action="/-/theme" data-theme-form {
            label {
                span.unseen { "Colors" }
                select name="theme" aria-label="Colors" {
                    @for name in ["system", "light", "dark"] {
                        option value=(name) selected[name == current] { (name) }
                    }
                }
            }
            noscript { button.button.quiet { "Apply" } }
        }
    }
}
