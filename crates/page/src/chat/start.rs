//! The view without a conversation.

use maud::{Markup, html};

use crate::link::Link;
use crate::shell::View;
use crate::text::{Outside, count};

/// The question of the first button. The demo model answers it with two calls of the demo server.
const EXAMPLE: &str = "What is the weather in Paris, and what is 25 + 17?";

/// Returns the content of the view: what one can do first.
pub fn start(tools: &[String], is_demo: bool) -> Markup {
    html! {
        div.start {
            h2 { "Ask, and watch the tools work" }
            p.muted { (count(tools.len(), "tool")) @if tools.len() == 1 { " is ready" } @else { " are ready" } }
            @if tools.iter().any(|tool| tool == "get_weather") {
                form method="post" action="/-/chat/send" data-live {
                    input type="hidden" name="text" value=(EXAMPLE);
                    button.button.primary.wraps { (EXAMPLE) }
                    div.error role="alert" hidden {}
                }
            }
            div.row.wrap {
                @if let Some(tool) = tools.first() {
                    a.button href=(Link::to(&["tools", tool])) { "Call " bdi { (Outside(tool)) } " by hand" }
                }
                @if View::all().any(|(_, path)| path == "/dialects") {
                    a.button href="/dialects" { "See the tools in every dialect" }
                    a.button href="/dialects/try" { "Paste a tool" }
                }
            }
        }
        @if is_demo {
            p.note {
                code { "demo" } " matches words and is not a language model. For a language model, set a key in the environment, such as "
                code #model-variable { "ANTHROPIC_API_KEY" } " or " code { "OPENAI_API_KEY" } ", and start " code { "toolwire serve" } " again. "
                a href="/servers" { "Add a server" }
            }
        }
    }
}
