//! Checks whether the configured model responds.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use toolwire_contract::Message;
use toolwire_contract::model::ModelRequest;
use toolwire_llm::collect;

use super::{ERROR, NAME, QUIET, SUCCESS};
use crate::assembly;
use crate::command_error::CommandError;
use crate::settings::Settings;
use crate::terminal_text::sanitize;

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a short request to the configured model, reports the outcome, and returns the number of problems.
pub(super) async fn report_model(text: &mut String, settings: &Settings) -> Result<usize, CommandError> {
    let Some(name) = &settings.model else {
        let _ = writeln!(
            text,
            "{SUCCESS}✓{SUCCESS:#} model  {QUIET}none is configured; using `demo`, \
             which is not a language model{QUIET:#}"
        );
        return Ok(0);
    };
    let model = assembly::model(&assembly::models(settings)?, name)?;
    let request = ModelRequest {
        messages: vec![Message::user("Answer with the word OK.").into()],
        max_output_tokens: Some(64),
        ..ModelRequest::default()
    };
    let started = Instant::now();
    let name = sanitize(name);
    let (problem, hint) = match tokio::time::timeout(RESPONSE_TIMEOUT, collect(model.ask(request))).await {
        Ok(Ok(_)) => {
            let seconds = started.elapsed().as_secs_f64();
            let _ = writeln!(
                text,
                "{SUCCESS}✓{SUCCESS:#} model  {QUIET}{name} responds ({seconds:.1} s){QUIET:#}"
            );
            return Ok(0);
        }
        Ok(Err(error)) => (error.to_string(), error.hint().map(str::to_owned)),
        Err(_) => (format!("`{name}` did not respond within {RESPONSE_TIMEOUT:?}"), None),
    };
    let _ = writeln!(text, "{ERROR}✗{ERROR:#} model {NAME}{name}{NAME:#}  {}", sanitize(&problem));
    if let Some(hint) = hint {
        let _ = writeln!(text, "    {}", sanitize(&hint));
    }
    Ok(1)
}
