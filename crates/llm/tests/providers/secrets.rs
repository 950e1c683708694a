//! Keys never appear in logs, errors or debug output.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use serde_json::json;
use toolwire_testkit::provider::{API_KEY, Api, ModelOutput, ScriptedResponse};
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use crate::harness::{TestEndpoint, question};

/// Records the log output of all crates.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl<S: tracing::Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        event.record(&mut LogFields(&mut self.0.lock().expect("no thread panicked")));
    }

    fn on_new_span(&self, attributes: &tracing::span::Attributes<'_>, _: &tracing::Id, _: Context<'_, S>) {
        attributes.record(&mut LogFields(&mut self.0.lock().expect("no thread panicked")));
    }
}

struct LogFields<'w>(&'w mut String);

impl Visit for LogFields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = writeln!(self.0, "{field}={value:?}");
    }
}

#[test]
fn keys_do_not_appear_in_logs_errors_or_debug_output() {
    let log = Log::default();
    let subscriber = tracing_subscriber::registry().with(log.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    toolwire_testkit::with_subscriber(subscriber, || {
        runtime.block_on(async {
            for api in Api::ALL {
                let echo = json!({"error": {"message": format!("the key {API_KEY} has no credit"), "code": API_KEY}});
                let responses = [
                    ScriptedResponse::error(500, echo.clone()),
                    ScriptedResponse::error(402, echo),
                    ScriptedResponse::Output(ModelOutput::text("hi")),
                ];
                let script = toolwire_testkit::provider::Script::new(responses);
                let config = json!({"headers": {"x-team-key": "secret-team-key"}});
                let endpoint = TestEndpoint::new(api, script, config).await;
                let (_, outcome) = endpoint.ask(question("hi")).await;
                let error = outcome.expect_err("the account has no credit");
                let (_, response) = endpoint.ask(question("hi")).await;
                response.expect("a response");
                let request = &endpoint.provider.requests()[0];
                let sent = format!("{:?}", request.headers);
                assert!(sent.contains("secret-team-key"), "{api:?}: {sent}");
                let output = format!("{error} {error:?} {:?} {:?}", endpoint.endpoint, error.hint());
                assert!(!output.contains(API_KEY) && !output.contains("secret-team-key"), "{api:?}: {output}");
                assert!(output.contains("the key … has no credit"), "{api:?}: {output}");
            }
        });
    });
    let log = log.0.lock().expect("no thread panicked");
    assert!(log.contains("retrying"), "no retry was logged: {log}");
    assert!(!log.contains(API_KEY) && !log.contains("secret-team-key"), "{log}");
}
