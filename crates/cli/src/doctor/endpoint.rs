//! Checks whether the configured model responds.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use toolwire_contract::Message;
use toolwire_contract::model::ModelRequest;
use toolwire_llm::collect;

use super::{ERROR, NAME, QUIET, SUCCESS};
use crate::assembly;
use crate::settings::Settings;
use crate::terminal_text::sanitize;

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a short request to the model that `ask` and `chat` use, reports the outcome, and returns the number
/// of problems.
pub(super) async fn report_model(text: &mut String, settings: &Settings) -> usize {
    let chosen =
        assembly::models(settings).and_then(|models| assembly::choose_model(None, settings, &models));
    let (model, reason) = match chosen {
        Ok(chosen) => chosen,
        Err(error) => {
            let (problem, hint) = error.into_parts();
            return report_problem(text, "", &problem, hint.as_deref());
        }
    };
    let name = sanitize(model.name());
    if settings.model.is_none() && reason.is_none() {
        let _ = writeln!(
            text,
            "{SUCCESS}✓{SUCCESS:#} model  {QUIET}none is configured; using `{name}`, \
             which is not a language model{QUIET:#}"
        );
        return 0;
    }
    let request = ModelRequest {
        messages: vec![Message::user("Answer with the word OK.").into()],
        max_output_tokens: Some(64),
        ..ModelRequest::default()
    };
    let started = Instant::now();
    let (problem, hint) = match tokio::time::timeout(RESPONSE_TIMEOUT, collect(model.ask(request))).await {
        Ok(Ok(_)) => {
            let seconds = started.elapsed().as_secs_f64();
            let reason = reason.map(|reason| format!("; {}", sanitize(&reason))).unwrap_or_default();
            let _ = writeln!(
                text,
                "{SUCCESS}✓{SUCCESS:#} model  {QUIET}{name} responds ({seconds:.1} s){reason}{QUIET:#}"
            );
            return 0;
        }
        Ok(Err(error)) => (error.to_string(), error.hint().map(str::to_owned)),
        Err(_) => (format!("`{name}` did not respond within {RESPONSE_TIMEOUT:?}"), None),
    };
    report_problem(text, &name, &problem, hint.as_deref())
}

/// Writes a problem with the model, and returns the number of problems.
fn report_problem(text: &mut String, name: &str, problem: &str, hint: Option<&str>) -> usize {
    let name = if name.is_empty() { String::new() } else { format!(" {NAME}{name}{NAME:#}") };
    let _ = writeln!(text, "{ERROR}✗{ERROR:#} model{name}  {}", sanitize(problem));
    if let Some(hint) = hint {
        let _ = writeln!(text, "    {}", sanitize(hint));
    }
    1
}
