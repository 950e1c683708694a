//! Errors, as a page or as JSON.

use http::StatusCode;
use http::header::{ALLOW, HeaderValue};
use serde_json::json;
use toolwire_page::notice::notice;
use toolwire_page::shell::{Role, Shell, Theme, View, Visitor};

use super::reply::html;
use crate::response::{self, Failure, HttpResponse};

/// A request that cannot be handled.
#[derive(Debug)]
pub(super) struct PageFailure {
    pub(super) status: StatusCode,
    title: &'static str,
    pub(super) message: String,
    hint: Option<String>,
    /// The name of the form's field that is wrong.
    field: Option<String>,
    allow: Option<&'static str>,
}

impl PageFailure {
    pub(super) fn new(status: StatusCode, title: &'static str, message: impl Into<String>) -> PageFailure {
        PageFailure { status, title, message: message.into(), hint: None, field: None, allow: None }
    }

    pub(super) fn not_found(message: impl Into<String>) -> PageFailure {
        PageFailure::new(StatusCode::NOT_FOUND, "Not found", message)
    }

    pub(super) fn invalid(message: impl Into<String>) -> PageFailure {
        PageFailure::new(StatusCode::BAD_REQUEST, "Invalid request", message)
    }

    pub(super) fn forbidden(message: &str, hint: &str) -> PageFailure {
        PageFailure::new(StatusCode::FORBIDDEN, "Not allowed", message).with_hint(hint)
    }

    pub(super) fn needs_admin() -> PageFailure {
        PageFailure::forbidden(
            "only an administrator may do this",
            "open the link that `toolwire serve` prints, or sign in with a key that has `admin: true`",
        )
    }

    pub(super) fn method(allow: &'static str) -> PageFailure {
        let message = format!("this path supports only {allow}");
        let failure = PageFailure::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", message);
        PageFailure { allow: Some(allow), ..failure }
    }

    pub(super) fn with_hint(self, hint: impl Into<String>) -> PageFailure {
        PageFailure { hint: Some(hint.into()), ..self }
    }

    pub(super) fn with_field(self, field: impl Into<String>) -> PageFailure {
        PageFailure { field: Some(field.into()), ..self }
    }

    /// Creates the response: a page for a browser that navigates, else JSON for the script.
    pub(super) fn respond(&self, wants_html: bool, theme: Option<Theme>) -> HttpResponse {
        let mut response = match wants_html {
            true => {
                let visitor = Visitor { role: Role::User, theme, key: None, is_signed_in: false };
                let shell = Shell {
                    visitor: &visitor,
                    view: View::Chat,
                    title: self.title,
                    topics: &[],
                    event: "",
                    has_item: true,
                    list: None,
                    main: notice(self.title, &self.message, self.hint.as_deref()),
                };
                let mut response = html(shell.document());
                *response.status_mut() = self.status;
                response
            }
            false => {
                let error = json!({"message": self.message, "hint": self.hint, "field": self.field});
                response::json(self.status, &json!({"error": error}))
            }
        };
        if let Some(allow) = self.allow {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        }
        response
    }
}

impl From<Failure> for PageFailure {
    fn from(failure: Failure) -> PageFailure {
        let kind_status =
            StatusCode::from_u16(failure.error.kind.status(toolwire_dialect::Family::OpenAiChat)).ok();
        let status = failure.status.or(kind_status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        PageFailure::new(status, "Request failed", failure.error.message)
    }
}
