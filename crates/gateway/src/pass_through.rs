//! Paths of OpenAI's API that the gateway does not implement, such as `embeddings` and
//! `audio/transcriptions`. The provider gets the client's bytes unchanged except for the name of the model.

use std::sync::Arc;

use bytes::Bytes;
use toolwire_dialect::Family;
use toolwire_dialect::client::ErrorKind;
use toolwire_dialect::request::ApiSupport;

use crate::catalog::{ForwardedRequest, ServedModel, Upstream};
use crate::form::{Boundary, Form, InvalidForm};
use crate::forward::{Forward, shared_state_error};
use crate::gateway::{Caller, Inner};
use crate::large_bodies::is_large;
use crate::principal::Principal;
use crate::request_body::RequestBody;
use crate::response::{Failure, HttpResponse};
use crate::spans::ForwardedSpan;
use crate::traffic::operation_of;

impl Inner {
    /// Sends a JSON body to a path.
    pub(crate) async fn pass_through(
        &self,
        path: &'static str,
        caller: &Caller,
        body: RequestBody,
    ) -> Result<HttpResponse, Failure> {
        let name = body.model().ok_or_else(|| Failure::invalid("model", "`model` is required"))?;
        let upstream = self.openai_upstream(&caller.principal, path, &name)?;
        let mut request = ForwardedRequest {
            path: Some(path),
            body: body.for_provider(upstream.model_id(), ApiSupport::Complete),
            retry_until: Some(caller.end()),
            ..ForwardedRequest::default()
        };
        let forward = forward(caller, path, name);
        request.headers.extend(forward.span.iter().flat_map(ForwardedSpan::headers));
        forward.send(upstream, request).await
    }

    /// Sends a form with files to a path. It is read completely before anything is sent, so that the provider
    /// gets only forms that have been checked, and another endpoint can get it if the first one fails.
    pub(crate) async fn pass_form_through(
        &self,
        path: &'static str,
        caller: &Caller,
        body: Bytes,
        boundary: Boundary,
    ) -> Result<HttpResponse, Failure> {
        let form = match is_large(body.len()) {
            true => self.large_bodies.run(|| Form::read(body, boundary)).await?,
            false => Form::read(body, boundary),
        }?;
        if let Some(field) = form.stored_reference()
            && !self.settings.allows_provider_state(&caller.principal)
        {
            return Err(shared_state_error(field));
        }
        let name = form.model().to_owned();
        if let Some(recorder) = &caller.recorder {
            recorder.set_model(Some(name.clone()), self.model_label(&name));
        }
        let upstream = self.openai_upstream(&caller.principal, path, &name)?;
        let mut request = ForwardedRequest {
            path: Some(path),
            headers: vec![("content-type", form.content_type())],
            body: match is_large(form.len()) {
                true => {
                    let upstream = upstream.clone();
                    self.large_bodies.run(move || form.with_model(upstream.model_id())).await?
                }
                false => form.with_model(upstream.model_id()),
            },
            retry_until: Some(caller.end()),
        };
        let forward = forward(caller, path, name);
        request.headers.extend(forward.span.iter().flat_map(ForwardedSpan::headers));
        forward.send(upstream, request).await
    }

    /// Returns the provider of a model, which must have the complete API of OpenAI.
    fn openai_upstream(
        &self,
        principal: &Principal,
        path: &str,
        name: &str,
    ) -> Result<Arc<dyn Upstream>, Failure> {
        let served = self.find_model(principal, name)?;
        served.upstream.clone().filter(|_| is_openai(&served)).ok_or_else(|| {
            Failure::new(ErrorKind::NotFound, format!("the API of `{name}` has no path `/v1/{path}`"))
        })
    }
}

fn forward(caller: &Caller, path: &'static str, model: String) -> Forward {
    let span = caller.span.as_ref().map(|span| ForwardedSpan::new(span, operation_of(path), &model));
    Forward {
        span,
        recorder: caller.recorder.clone(),
        choices: 1,
        family: Family::OpenAiChat,
        model,
        request_id: caller.request_id.clone(),
        deadline: caller.deadline,
    }
}

fn is_openai(served: &ServedModel) -> bool {
    matches!(served.family(), Some(Family::OpenAiChat | Family::OpenAiResponses))
}

impl From<InvalidForm> for Failure {
    fn from(error: InvalidForm) -> Failure {
        let mut failure = Failure::new(ErrorKind::InvalidRequest, error.to_string());
        failure.error.parameter = error.parameter().map(str::to_owned);
        failure
    }
}
