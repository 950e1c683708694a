//! The form in which a message is written.

use maud::{Markup, html};

use super::action;
use crate::icons::{Icon, icon};
use crate::link::Link;
use crate::text::{UntrustedText, WithCode};

/// The composer of a conversation, or of a new one.
pub struct Composer<'a> {
    /// `None` for a new conversation.
    pub conversation: Option<&'a str>,
    pub models: &'a [String],
    pub model: &'a str,
    pub is_running: bool,
    /// The message that is edited: its position and text.
    pub edited: Option<(u64, &'a str)>,
    /// The maximum size of an attached file, in bytes.
    pub max_bytes: usize,
}

/// A file that was uploaded and not sent yet.
pub struct Attachment<'a> {
    pub id: &'a str,
    pub name: &'a str,
    /// The type and the size: `image/png, 12 kB`.
    pub description: &'a str,
    /// The reason why the model cannot read it.
    pub problem: Option<&'a str>,
}

/// Returns the composer.
pub fn composer(composer: &Composer<'_>) -> Markup {
    let target = match (composer.conversation, composer.edited) {
        (Some(conversation), Some(_)) => action(conversation, "edit"),
        (Some(conversation), None) => action(conversation, "send"),
        (None, _) => Link::to(&["-", "chat", "send"]),
    };
    html! {
        form.composer #composer method="post" action=(target) enctype="multipart/form-data" data-live data-reset {
            div.composer-box {
                div.error role="alert" hidden {}
                @if let (Some((position, _)), Some(conversation)) = (composer.edited, composer.conversation) {
                    div.row.small {
                        input type="hidden" name="position" value=(position);
                        span.grow.muted { "edits message " (position) " in a new branch" }
                        a.button.quiet href=(super::address(conversation)) { "cancel" }
                    }
                }
                div.attachments #attachments {}
                label {
                    span.unseen { "Message" }
                    textarea name="text" rows="1" autofocus placeholder="Message" enterkeyhint="send" {
                        @if let Some((_, text)) = composer.edited { "\n" (text) }
                    }
                }
                div.row {
                    button.button.quiet.icon-only type="button" data-pick aria-label="Attach a file" { (icon(Icon::Attach)) }
                    input.unseen type="file" name="file" multiple tabindex="-1" aria-hidden="true"
                        data-attach="/-/attachments" data-limit=(composer.max_bytes);
                    span.grow {}
                    (model_select(composer.models, composer.model))
                    (buttons(composer.conversation, composer.is_running))
                }
            }
        }
    }
}

/// Returns the field that chooses a model.
pub fn model_select(models: &[String], chosen: &str) -> Markup {
    html! {
        select #composer-model name="model" aria-label="Model" {
            @if !models.iter().any(|model| model == chosen) {
                option value=(chosen) selected { (UntrustedText(chosen)) }
            }
            @for model in models {
                option value=(model) selected[model == chosen] { (UntrustedText(model)) }
            }
        }
    }
}

/// Returns the button that sends, or that stops the response.
pub fn buttons(conversation: Option<&str>, is_running: bool) -> Markup {
    html! {
        span #composer-buttons {
            @match conversation {
                Some(conversation) if is_running => {
                    button.button #stop formnovalidate formaction=(action(conversation, "stop")) {
                        (icon(Icon::Stop)) "Stop " kbd { "Esc" }
                    }
                }
                _ => button.button.primary { "Send" },
            }
        }
    }
}

/// Returns an uploaded file, with the field that adds it to the message.
pub fn attachment(attachment: &Attachment<'_>) -> Markup {
    html! {
        span.chip id={ "attachment-" (attachment.id) } {
            input type="hidden" name="attachment" value=(attachment.id);
            bdi.cut { (UntrustedText(attachment.name)) }
            span.muted { (UntrustedText(attachment.description)) }
            @if let Some(problem) = attachment.problem { span.violation { (WithCode(problem)) } }
            button.button.quiet type="button" data-removes=".chip" aria-label={ "remove " (UntrustedText(attachment.name)) } { "✗" }
        }
    }
}
