//! Questions of servers, during a call.

use maud::{Markup, html};
use serde_json::Value;

use crate::form::{self, Filling, Problem, Shape};
use crate::link::Link;
use crate::text::UntrustedText;

/// A question of a server.
pub struct ServerQuestion<'a> {
    pub conversation: &'a str,
    /// The number of the question in the conversation.
    pub number: u64,
    pub server: &'a str,
    pub message: &'a str,
    pub kind: QuestionKind<'a>,
}

/// The kind of a question.
pub enum QuestionKind<'a> {
    /// Values that match this schema.
    Form { schema: &'a Value },
    /// A visit to a page.
    Page { url: &'a str },
}

/// Returns the id of the form of a question.
pub fn question_id(number: u64) -> String {
    format!("question-{number}")
}

/// Returns the form of a question. Without a filling, the fields have the defaults of the schema.
pub fn server_question(question: &ServerQuestion<'_>, filling: Option<&Filling>) -> Markup {
    let id = question_id(question.number);
    let target = super::action(question.conversation, "answer");
    html! {
        form.call-question id=(id) method="post" action=(target) data-live {
            // The first button of a form is its default: Enter in a field must not send it.
            button type="submit" disabled hidden {}
            input type="hidden" name="question" value=(question.number);
            p { "Server " bdi { b { (UntrustedText(question.server)) } } " asks:" }
            @if !question.message.is_empty() { p.plain dir="auto" { (UntrustedText(question.message)) } }
            @match question.kind {
                QuestionKind::Form { schema } => (fields(schema, filling, &id)),
                QuestionKind::Page { url } => (page(url)),
            }
            div.error role="alert" hidden {}
            div.actions {
                button.button.primary name="reply" value="accept" {
                    @match question.kind {
                        QuestionKind::Form { .. } => span { "Send to the server" },
                        QuestionKind::Page { .. } => span { "I opened it" },
                    }
                }
                button.button name="reply" value="decline" data-key="n" data-guard { span { "Decline" } " " kbd { "n" } }
                button.button name="reply" value="cancel" { span { "Cancel" } }
            }
        }
    }
}

fn fields(schema: &Value, filling: Option<&Filling>, id: &str) -> Markup {
    let shape = Shape::of(schema);
    let none: [Problem; 0] = [];
    let defaults;
    let filling = match filling {
        Some(filling) => filling,
        None => {
            defaults = Filling::with_defaults(&shape);
            &defaults
        }
    };
    html! { div.arguments { (form::draw(&shape, filling, &none, id)) } }
}

/// Returns a link to a page. The visitor sees its host and its complete address before opening it.
fn page(url: &str) -> Markup {
    let link = Link::external(url);
    html! {
        @if let Some((link, host)) = link.as_ref().and_then(|link| Some((link, link.host()?))) {
            p { "The server asks you to open a page of " bdi { b { (UntrustedText(host)) } } ":" }
            p { a.button.wraps href=(link) target="_blank" rel="noopener noreferrer" { code { (UntrustedText(url)) } " ↗" } }
        } @else {
            p { "The server asks you to open this address, which is not the address of a web page:" }
            p { code dir="auto" { (UntrustedText(url)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drawn(kind: QuestionKind<'_>) -> String {
        let (server, message) = ("<b>files</b>", "Which <i>one</i>\u{202e}?");
        server_question(&ServerQuestion { conversation: "c", number: 3, server, message, kind }, None)
            .into_string()
    }

    #[test]
    fn a_form_has_the_fields_and_defaults_of_its_schema() {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"},
            "color": {"type": "string", "default": "#0f0", "oneOf": [
                {"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "<Green>"},
            ]},
            "old": {"type": "string", "enum": ["a", "b"], "enumNames": ["The A", "The B"]},
        }});
        let html = drawn(QuestionKind::Form { schema: &schema });
        for part in
            ["name=\"v/name\"", ">Red<", "selected>&lt;Green&gt;<", ">The B<", "action=\"/-/chat/c/answer\""]
        {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(
            html.contains("&lt;b&gt;files") && html.contains("Which &lt;i&gt;one&lt;/i&gt;⟨U+202E⟩?"),
            "{html}"
        );
    }

    #[test]
    fn a_page_is_a_link_with_its_host_if_it_is_one() {
        let html = drawn(QuestionKind::Page { url: "https://example.com/login?a=1" });
        assert!(html.contains("<b>example.com</b>"), "{html}");
        assert!(
            html.contains(
                "href=\"https://example.com/login?a=1\" target=\"_blank\" rel=\"noopener noreferrer\""
            ),
            "{html}"
        );
        for url in ["javascript:alert(1)", "https://a b", "data:text/html,x"] {
            let html = drawn(QuestionKind::Page { url });
            assert!(!html.contains("href") && html.contains("not the address of a web page"), "{html}");
        }
    }
}
