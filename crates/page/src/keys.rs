//! The keys of the page. This table is the only list of them: the dialog displays it, and the script reads
//! its bindings from the dialog.

use maud::{Markup, html};

/// A key, or several keys one after the other.
struct Binding {
    keys: &'static str,
    /// The action of the script: `go:/path`, `open:dialog`, `focus:selector`, `click:selector`,
    /// `next:selector`, `prev:selector`. Empty if the key belongs to a button (`data-key`) or to the browser.
    action: &'static str,
    text: &'static str,
}

const fn binding(keys: &'static str, action: &'static str, text: &'static str) -> Binding {
    Binding { keys, action, text }
}

const GROUPS: [(&str, &[Binding]); 6] = [
    (
        "Everywhere",
        &[
            binding("Ctrl+k", "open:palette", "Go to a view or a tool"),
            binding("?", "open:keys", "These keys"),
            binding("/", "focus:[data-search]", "Search in this view"),
            binding("g c", "go:/", "Chat"),
            binding("c", "go:/", "New chat"),
            binding("g s", "go:/servers", "Servers"),
            binding("g t", "go:/tools", "Tools"),
            binding("g d", "go:/dialects", "Dialects"),
            binding("g f", "go:/traffic", "Traffic"),
            binding("[", "prev:.item", "Previous in the list"),
            binding("]", "next:.item", "Next in the list"),
            binding("Escape", "click:#stop", "Close; in a chat, stop the response"),
        ],
    ),
    (
        "Composer",
        &[
            binding("Enter", "", "Send"),
            binding("Shift+Enter", "", "New line"),
            binding("ArrowUp", "", "In an empty field: edit the last message"),
        ],
    ),
    (
        "Chat",
        &[
            binding("j", "next:.message", "Next message"),
            binding("k", "prev:.message", "Previous message"),
            binding("o", "fold:.call", "Open or fold a call"),
            binding("y", "", "Run the call once"),
            binding("a", "", "Always run this tool in this chat"),
            binding("n", "", "Do not run it; decline a question"),
            binding("Shift+n", "", "Do not run it, with a reason"),
            binding(
                "e",
                "focus:.call-question :is(input, textarea, select):not([type=hidden]), .both-ways textarea",
                "Edit the arguments",
            ),
            binding("r", "", "Retry"),
            binding(",", "", "Previous branch"),
            binding(".", "", "Next branch"),
            binding("End", "end", "Go to the end and follow"),
        ],
    ),
    ("Tools", &[binding("Ctrl+Enter", "", "Call the tool")]),
    (
        "Dialects",
        &[
            binding("ArrowLeft", "", "Previous dialect"),
            binding("ArrowRight", "", "Next dialect"),
            binding("0", "", "All dialects"),
            binding("n", "next:.pair-row.begins", "Next change"),
            binding("p", "prev:.pair-row.begins", "Previous change"),
            binding("m", "", "Only changes"),
            binding("x", "", "Swap the sides"),
            binding("e", "", "Arguments"),
            binding("v", "", "Paste a tool"),
        ],
    ),
    ("Servers", &[binding("a", "", "Add a server")]),
];

/// Returns the dialog that lists the keys.
pub(crate) fn dialog() -> Markup {
    html! {
        dialog #keys aria-labelledby="keys-title" {
            div.row {
                h2 #keys-title.grow { "Keys" }
                button.button.quiet type="button" data-closes="keys" { "Close" }
            }
            @for (title, bindings) in GROUPS {
                h3 { (title) }
                table {
                    @for binding in bindings {
                        tr data-keys=(binding.keys) data-do=[(!binding.action.is_empty()).then_some(binding.action)] {
                            td { @for key in binding.keys.split(' ') { kbd { (label(key)) } " " } }
                            td { (binding.text) }
                        }
                    }
                }
            }
            label.row { input #letter-keys type="checkbox" checked; "Keys that are single letters" }
        }
    }
}

/// Returns the name on the key.
fn label(key: &str) -> String {
    match key {
        "ArrowUp" => "↑".to_owned(),
        "ArrowLeft" => "←".to_owned(),
        "ArrowRight" => "→".to_owned(),
        "Escape" => "Esc".to_owned(),
        "Shift+n" => "N".to_owned(),
        key => key.replace('+', " "),
    }
}
