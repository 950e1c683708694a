//! Questions of servers during calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwire_agent::approval::ApprovalPolicy;
use toolwire_agent::elicitation::{ElicitationHandler, ServerQuestion};
use toolwire_agent::{Agent, AgentBuilder};
use toolwire_contract::elicitation::{ElicitKind, ElicitReply, ElicitRequest};
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox};
use toolwire_contract::{Tool, ToolResult};
use toolwire_testkit::ScriptedTurn;

use crate::support::{model, results, store, tool};

/// A toolbox with a tool that returns what the user replied.
struct Asking;

impl Toolbox for Asking {
    fn tools(&self) -> Arc<[Tool]> {
        [tool("ask", json!({}))].into()
    }

    fn call<'a>(
        &'a self,
        _: &'a str,
        _: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        async move {
            let Some(elicitation) = options.elicitation else {
                return Ok(ToolResult::text("no user to ask"));
            };
            let request =
                ElicitRequest::new("Which?", ElicitKind::Form { schema: json!({"type": "object"}) });
            let reply = elicitation("files", request).await;
            Ok(ToolResult::text(format!("{reply:?}")))
        }
        .boxed()
    }
}

/// Replies after a time.
#[derive(Default)]
struct Slow {
    after: Duration,
    asked: Mutex<Vec<ServerQuestion>>,
}

impl ElicitationHandler for Slow {
    fn elicit(&self, question: ServerQuestion) -> BoxFuture<'static, ElicitReply> {
        self.asked.lock().unwrap().push(question);
        let after = self.after;
        async move {
            tokio::time::sleep(after).await;
            ElicitReply::Decline
        }
        .boxed()
    }
}

fn builder() -> AgentBuilder {
    let model = model([ScriptedTurn::calls([("1", "ask", json!({}))]), ScriptedTurn::text("Done.")]);
    Agent::builder().model(model).tools(Arc::new(Asking)).approvals(ApprovalPolicy::allow_all())
}

#[tokio::test]
async fn the_user_is_asked_what_a_server_asks() {
    let (_folder, store) = store().await;
    let handler = Arc::new(Slow::default());
    let agent = builder().conversations(store).elicitation(handler.clone()).build().unwrap();
    let finished = agent.run("Go").await;
    assert_eq!(results(&finished.run.messages()[2])[0].1, "Decline");
    let asked = handler.asked.lock().unwrap().pop().expect("a question");
    assert_eq!(asked.conversation.as_ref(), finished.run.stored_in().map(|(conversation, _)| conversation));
    assert_eq!(
        [asked.call.as_str(), &asked.tool, &asked.server, &asked.request.message],
        ["1", "ask", "files", "Which?"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_time_of_the_user_is_not_that_of_the_call() {
    let handler = Arc::new(Slow { after: Duration::from_secs(3600), ..Slow::default() });
    let agent = builder().call_timeout(Duration::from_secs(5)).elicitation(handler).build().unwrap();
    let finished = agent.run("Go").await;
    assert_eq!(results(&finished.run.messages()[2])[0].1, "Decline");
}

#[tokio::test]
async fn without_a_handler_the_toolbox_decides() {
    let finished = builder().build().unwrap().run("Go").await;
    assert_eq!(results(&finished.run.messages()[2])[0].1, "no user to ask");
}
