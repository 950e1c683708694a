//! The icons: one sprite per page, on a grid of 20, drawn with strokes in the current color.

use maud::{Markup, html};

/// An icon of the sprite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Icon {
    Chat,
    Servers,
    Tools,
    Dialects,
    Traffic,
    Copy,
    Save,
    Again,
    Edit,
    Branch,
    Attach,
    Stop,
    Link,
    More,
}

/// The icons, their ids and their paths.
const ICONS: [(Icon, &str, &str); 14] = [
    (Icon::Chat, "i-chat", "M3 4.5h14v9H9.5L6 16.5v-3H3z"),
    (Icon::Servers, "i-servers", "M3.5 4h13v5h-13zM3.5 11h13v5h-13zM6.5 6.5h.01M6.5 13.5h.01"),
    (
        Icon::Tools,
        "i-tools",
        "M12.5 3.5a4 4 0 0 0-3.8 5.3L3.5 14l2.5 2.5 5.2-5.2a4 4 0 0 0 5.1-5.1L13.6 8.9 11.1 6.4l2.7-2.7",
    ),
    (
        Icon::Dialects,
        "i-dialects",
        "M3.5 4h5.5v12H3.5zM11 4h5.5v12H11zM5.3 7.5h2M5.3 10.5h2M12.8 7.5h2M12.8 12.5h2",
    ),
    (Icon::Traffic, "i-traffic", "M3.5 16.5h13M5.5 13.5v-4M9 13.5V4M12.5 13.5V8M16 13.5V6"),
    (Icon::Copy, "i-copy", "M7 7h9.5v9.5H7zM13 7V3.5H3.5V13H7"),
    (Icon::Save, "i-save", "M10 3.5v9M6.5 9.5l3.5 3.5 3.5-3.5M4 16.5h12"),
    (Icon::Again, "i-again", "M16 10a6 6 0 1 1-2-4.5M14.5 2.5v3.3h-3.3"),
    (Icon::Edit, "i-edit", "M4 16l1-3.8 8.3-8.3 2.8 2.8L7.8 15z"),
    (Icon::Branch, "i-branch", "M6 3.5v13M6 11c5 0 8-1 8-4.5M14 6.5V3.5"),
    (Icon::Attach, "i-attach", "M15.5 9.5l-5.2 5.2a3.4 3.4 0 0 1-4.8-4.8l6-6a2.2 2.2 0 0 1 3.1 3.1l-5.7 5.7"),
    (Icon::Stop, "i-stop", "M5.5 5.5h9v9h-9z"),
    (
        Icon::Link,
        "i-link",
        "M8.5 11.5l3-3M7.5 9L5 11.5a2.5 2.5 0 0 0 3.5 3.5L11 12.5M9 7.5L11.5 5A2.5 2.5 0 0 1 15 8.5L12.5 11",
    ),
    (Icon::More, "i-more", "M4.5 10h.01M10 10h.01M15.5 10h.01"),
];

impl Icon {
    fn id(self) -> &'static str {
        ICONS.iter().find(|(icon, ..)| *icon == self).map_or("", |(_, id, _)| id)
    }
}

/// Returns the sprite with all icons.
pub(crate) fn sprite() -> Markup {
    html! {
        svg.sprite aria-hidden="true" width="0" height="0" {
            // The fill of bars that represent an interruption or a wait.
            pattern #hatch width="6" height="6" patternUnits="userSpaceOnUse" { path.hatch d="M0 6L6 0" {} }
            @for (_, id, path) in ICONS {
                symbol id=(id) viewBox="0 0 20 20" {
                    path d=(path) fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" {}
                }
            }
        }
    }
}

/// Returns an icon. It has no name of its own, so a word or a label must be beside it.
pub(crate) fn icon(icon: Icon) -> Markup {
    html! { svg.icon aria-hidden="true" width="20" height="20" { use href={ "#" (icon.id()) } {} } }
}
