//! The view without a conversation.

use maud::{Markup, html};
use toolwire_contract::text::counted;

use crate::link::Link;
use crate::text::UntrustedText;

/// The question of the first button. The demo model answers it with two calls of the demo server.
const EXAMPLE: &str = "What is the weather in Paris, and what is 25 + 17?";

/// Returns the content of the view: what one can do first, and the matrix of the tools in all dialects.
pub fn start(tools: &[String], is_demo: bool, matrix: Option<Markup>) -> Markup {
    let example = tools.iter().find(|tool| *tool == "get_weather");
    let has_example = example.is_some();
    html! {
        div.start {
            h2 { "Ask, and watch the tools work" }
            p.muted { (counted(tools.len(), "tool")) @if tools.len() == 1 { " is ready" } @else { " are ready" } }
            @if has_example {
                form method="post" action="/-/chat/send" data-live {
                    input type="hidden" name="text" value=(EXAMPLE);
                    button.button.primary.wraps { (EXAMPLE) }
                    div.error role="alert" hidden {}
                }
            }
            div.row.wrap {
                @if let Some(tool) = example.or(tools.first()) {
                    @if !has_example { a.button href=(Link::to(&["tools", tool])) { "Call " bdi { (UntrustedText(tool)) } " by hand" } }
                    a.button href=(Link::to(&["dialects", tool])) { "See " bdi { (UntrustedText(tool)) } " in every dialect" }
                }
                a.button href="/dialects/try" { "Paste a tool" }
            }
        }
        @if let Some(matrix) = matrix { (matrix) }
        @if is_demo {
            p.note {
                code { "demo" } " matches words and is not a language model. For a language model, set a key in the environment, such as "
                code #model-variable { "ANTHROPIC_API_KEY" } " or " code { "OPENAI_API_KEY" } ", and start " code { "toolwire serve" } " again. "
                button.button.quiet type="button" data-copy="#model-variable" { "copy ANTHROPIC_API_KEY" } " "
                a href="/servers/new" { "Add a server" }
            }
        }
    }
}
