//! Every API of a client with every API of a provider. The fake providers reject what the real ones reject,
//! and the types of the official SDKs accept every response.

#![allow(clippy::unwrap_used)]

#[path = "../../../gateway/tests/client/mod.rs"]
mod client;
mod endings;
mod errors;
mod forwarded;
mod official_types;
#[path = "../served_gateway/mod.rs"]
mod served_gateway;
mod structured;
mod thinking;
mod tools;

use client::{CHAT, Client, MESSAGES, RESPONSES, Reply};
use serde_json::json;
use served_gateway::{Served, answer, call, serve_with};
use toolwire_gateway::GatewaySettings;
use toolwire_testkit::provider::{Api, ModelOutput, Script, ScriptedResponse, render};

/// A kind of response that an API cannot send. All other kinds are tested with every API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    /// Arguments are objects, so a call that is cut off has none or all of them.
    PartialArguments,
    /// The reasoning is not shown.
    Reasoning,
}

impl Missing {
    const ALL: [Missing; 2] = [Missing::PartialArguments, Missing::Reasoning];

    fn is_missing(self, api: Api) -> bool {
        match self {
            Missing::PartialArguments => matches!(api, Api::Gemini | Api::Ollama),
            Missing::Reasoning => matches!(api, Api::OpenAiChat | Api::Azure | Api::Dial),
        }
    }
}

/// What an API cannot send is missing in what its provider sends, and only there.
#[test]
fn responses_that_an_api_cannot_send() {
    for api in Api::ALL {
        let rendered =
            |output: &ModelOutput| String::from_utf8_lossy(&render(api, output, true).concat()).into_owned();
        for missing in Missing::ALL {
            let is_missing = match missing {
                Missing::PartialArguments => {
                    let text = rendered(&call("lookup"));
                    text.contains("\"arguments\":{") || text.contains("\"args\":{")
                }
                Missing::Reasoning => rendered(&answer("a").thinking("b")) == rendered(&answer("a")),
            };
            assert_eq!(is_missing, missing.is_missing(api), "{api:?} {missing:?}");
        }
    }
}

/// A conversation that a client of every API has with one provider, complete and streamed.
struct Conversation {
    api: Api,
    script: Box<dyn Fn() -> Script>,
    shows_thinking: bool,
}

impl Conversation {
    fn new(api: Api, outputs: &[ModelOutput]) -> Conversation {
        let responses: Vec<_> = outputs.iter().cloned().map(ScriptedResponse::Output).collect();
        Conversation::with_script(api, move || Script::new(responses.clone()))
    }

    fn with_script(api: Api, script: impl Fn() -> Script + 'static) -> Conversation {
        Conversation { api, script: Box::new(script), shows_thinking: false }
    }

    /// Lets the client see the reasoning.
    fn showing_thinking(self) -> Conversation {
        Conversation { shows_thinking: true, ..self }
    }

    /// Runs the test with each client. The provider must accept all requests, and the test must use all of
    /// its responses.
    async fn with_every_client(&self, test: impl AsyncFn(&mut Client, &str)) {
        for path in [CHAT, RESPONSES, MESSAGES] {
            self.with_clients_of(path, &test).await;
        }
    }

    async fn with_clients_of(&self, path: &'static str, test: &impl AsyncFn(&mut Client, &str)) {
        for stream in [false, true] {
            let mut settings = GatewaySettings::default();
            settings.show_reasoning = self.shows_thinking;
            let served = serve_with(self.api, (self.script)(), json!({}), settings).await;
            let label = format!("{} behind {path}, stream: {stream}", self.api.provider_name());
            let mut client = client(&served, path, stream, &label);
            if self.shows_thinking {
                client.extra = match path {
                    CHAT => json!({"reasoning_effort": "low"}),
                    RESPONSES => json!({"reasoning": {"effort": "low", "summary": "auto"}}),
                    _ => {
                        let thinking = json!({"type": "enabled", "budget_tokens": 1024});
                        json!({"max_tokens": 4096, "thinking": thinking})
                    }
                };
            }
            test(&mut client, &label).await;
            assert_eq!(served.provider.rejections(), [], "{label}");
            assert_eq!(served.provider.responses_left(), 0, "{label}");
        }
    }
}

/// A client whose responses are checked against the types of the SDK.
fn client(served: &Served, path: &'static str, stream: bool, label: &str) -> Client {
    let mut client = Client::new(format!("{}{path}", served.url), path);
    client.stream = stream;
    let label = label.to_owned();
    client.on_response = Some(Box::new(move |received| official_types::check(received, &label)));
    client
}

/// Checks a response that ends with this text and has no calls.
fn check(reply: &Reply, text: &str, label: &str) {
    assert!(reply.text.ends_with(text), "{label}: {reply:?}");
    assert_eq!(reply.calls, [], "{label}");
}

/// Sends another message, to which the provider responds with `Again.`.
async fn check_second_turn(client: &mut Client, label: &str) {
    check(&client.say("and again").await, "Again.", label);
}

/// Checks a response with one call of the client's, and returns its result.
fn return_result(client: &mut Client, reply: &Reply, label: &str) {
    assert_eq!(reply.calls.len(), 1, "{label}: {reply:?}");
    client.return_results(&[(&reply.calls[0].0, "sunny")]);
}

#[tokio::test]
async fn texts() {
    for api in Api::ALL {
        let conversation = Conversation::new(api, &[answer("Hello."), answer("Again.")]);
        conversation
            .with_every_client(async |client, label| {
                check(&client.say("hi").await, "Hello.", label);
                check_second_turn(client, label).await;
            })
            .await;
    }
}
