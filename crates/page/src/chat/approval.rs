//! Calls that need a decision.

use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::form::{self, Filling, Problem, Shape};
use crate::text::{UntrustedText, WithCode};

/// A call that waits for a decision.
pub struct PendingApproval<'a> {
    pub conversation: &'a str,
    /// The position of the message with the call, and the position of the call in it.
    pub message: u64,
    pub position: usize,
    pub name: &'a str,
    /// The reason why a decision is needed, as a clause.
    pub why: &'a str,
    pub arguments: &'a Map<String, Value>,
    /// The schema of the tool's arguments, if the tool is known.
    pub schema: Option<&'a Value>,
}

/// Returns the form of a decision. The arguments can be changed; without a filling, they are those of the
/// model.
pub fn form(approval: &PendingApproval<'_>, filling: Option<&Filling>) -> Markup {
    let PendingApproval { conversation, message, position, name, .. } = approval;
    let id = format!("call-{message}-{position}");
    html! {
        form.call-question id={ (id) "-question" } method="post" action=(super::action(conversation, "decide")) data-live {
            // The first button of a form is its default: Enter in a field must not run the call.
            button type="submit" disabled hidden {}
            input type="hidden" name="call" value={ (message) "-" (position) };
            p.muted { (WithCode(approval.why)) }
            (arguments(approval, filling, &id))
            div.error role="alert" hidden {}
            div.actions {
                button.button.primary name="decision" value="once" data-key="y" data-guard {
                    span data-changed="Run with your changes" { "Run once" } " " kbd { "y" }
                }
                button.button name="decision" value="always" data-key="a" data-guard {
                    span { "Always " bdi { (UntrustedText(name)) } " in this chat" } " " kbd { "a" }
                }
                button.button name="decision" value="no" data-key="n" data-guard { span { "Do not run" } " " kbd { "n" } }
                details id={ (id) "-reason" } {
                    summary data-key="Shift+n" { "why " kbd { "N" } }
                    div.row {
                        input name="because" aria-label="Why the call must not run" placeholder="A reason, for the model" autocomplete="off";
                        button.button name="decision" value="no" { "Do not run, for this reason" }
                    }
                }
            }
        }
    }
}

/// Returns the fields of the arguments: a form of the tool's schema, or the JSON of an unknown tool.
fn arguments(approval: &PendingApproval<'_>, filling: Option<&Filling>, id: &str) -> Markup {
    let value = Value::Object(approval.arguments.clone());
    let none: [Problem; 0] = [];
    html! {
        div.arguments {
            @match approval.schema {
                Some(schema) => {
                    @let shape = Shape::of(schema);
                    @let filling = filling.cloned().unwrap_or_else(|| Filling::new(&shape, Some(&value)));
                    (form::draw(&shape, &filling, &none, id))
                }
                None => {
                    label.field {
                        span { "Arguments, as JSON" }
                        textarea.mono name="arguments" rows="4" spellcheck="false" {
                            // Browsers remove the first line break.
                            "\n" (serde_json::to_string_pretty(&value).unwrap_or_default())
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_arguments_of_an_unknown_tool_are_json() {
        let Value::Object(arguments) = json!({"path": "</textarea><script>"}) else { panic!("an object") };
        let approval = PendingApproval {
            conversation: "c",
            message: 4,
            position: 1,
            name: "delete",
            why: "it may change data",
            arguments: &arguments,
            schema: None,
        };
        let html = form(&approval, None).into_string();
        assert!(html.contains("&lt;/textarea&gt;&lt;script&gt;") && !html.contains("<script>"), "{html}");
        assert!(html.contains("value=\"4-1\"") && html.contains("action=\"/-/chat/c/decide\""), "{html}");
        let first = html.find("<button").expect("a button");
        assert!(html[first..].starts_with("<button type=\"submit\" disabled hidden>"), "{html}");
    }
}
