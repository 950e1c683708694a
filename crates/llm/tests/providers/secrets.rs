//! Keys show nowhere.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use serde_json::json;
use toolwire_testkit::provider::{API_KEY, Api, ModelOutput, ScriptedResponse};
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use crate::setting::{Setting, question};

/// Keeps every word that is logged, by whichever crate.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl<S: tracing::Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        event.record(&mut Words(&mut self.0.lock().expect("nobody panicked")));
    }

    fn on_new_span(&self, attributes: &tracing::span::Attributes<'_>, _: &tracing::Id, _: Context<'_, S>) {
        attributes.record(&mut Words(&mut self.0.lock().expect("nobody panicked")));
    }
}

struct Words<'w>(&'w mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = writeln!(self.0, "{field}={value:?}");
    }
}

#[test]
fn no_key_is_in_a_log_an_error_or_a_debug_text() {
    let log = Log::default();
    let subscriber = tracing_subscriber::registry().with(log.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tracing::subscriber::with_default(subscriber, || {
        runtime.block_on(async {
            for api in Api::ALL {
                let echo = json!({"error": {"message": format!("the key {API_KEY} has no credit"), "code": API_KEY}});
                let replies = [
                    ScriptedResponse::error(500, echo.clone()),
                    ScriptedResponse::error(402, echo),
                    ScriptedResponse::Output(ModelOutput::text("hi")),
                ];
                let script = toolwire_testkit::provider::Script::new(replies);
                let config = json!({"headers": {"x-team-key": "team-key-of-us"}});
                let setting = Setting::new(api, script, config).await;
                let (_, refused) = setting.ask(question("hi")).await;
                let refused = refused.expect_err("the account is empty");
                let (_, answer) = setting.ask(question("hi")).await;
                answer.expect("an answer");
                let request = &setting.provider.requests()[0];
                let sent = format!("{:?}", request.headers);
                assert!(sent.contains("team-key-of-us"), "{api:?}: {sent}");
                let shown = format!("{refused} {refused:?} {:?} {:?}", setting.endpoint, refused.hint());
                assert!(!shown.contains(API_KEY) && !shown.contains("team-key-of-us"), "{api:?}: {shown}");
                assert!(shown.contains("the key … has no credit"), "{api:?}: {shown}");
            }
        });
    });
    let log = log.0.lock().expect("nobody panicked");
    assert!(log.contains("asking again"), "the log was kept: {log}");
    assert!(!log.contains(API_KEY) && !log.contains("team-key-of-us"), "{log}");
}
