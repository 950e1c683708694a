//! Requests with many tools, and requests of long conversations.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwire_agent::{Agent, ContextSettings, Functions, SearchSettings};
use toolwire_contract::model::{ModelLimits, ModelRequest, ToolChoice};
use toolwire_contract::toolbox::{CallError, CallOptions, MissingServer, ToolServer, Toolbox};
use toolwire_contract::{Tool, ToolResult};
use toolwire_testkit::{ScriptedModel, ScriptedTurn};

use crate::support::{PartialToolbox, functions, model, results, tool};

fn many_tools() -> Functions {
    let numbered = (0..100).map(|number| format!("number_{number}_of_the_row"));
    let named = ["send_mail", "read_mail", "paint_picture"].map(str::to_owned);
    let mut tools = Functions::new();
    for name in numbered.chain(named) {
        tools = tools.with(tool(&name, json!({"readOnlyHint": true})), |_| async { "done" });
    }
    tools
}

fn offered(request: &ModelRequest) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[tokio::test]
async fn a_model_with_many_tools_gets_those_that_it_searches_for() {
    let model = Arc::new(
        ScriptedModel::new([
            ScriptedTurn::calls([("1", "search_tools", json!({"query": "write an email"}))]),
            // The second call is of a tool that was not in the request.
            ScriptedTurn::calls([("2", "send_mail", json!({})), ("3", "paint_picture", json!({}))]),
            ScriptedTurn::calls([("4", "search_tools", json!({}))]),
            ScriptedTurn::text("Done."),
        ])
        .with_limits(ModelLimits { context_tokens: None, tools: Some(8), ..ModelLimits::default() }),
    );
    let mut search = SearchSettings::default();
    search.hits = 2;
    let agent =
        Agent::builder().model(model.clone()).tools(Arc::new(many_tools())).search(search).build().unwrap();
    let finished = agent.run("Write to Anna").await;
    assert_eq!(finished.outcome.text, "Done.");
    let requests = model.requests();
    assert_eq!(offered(&requests[0]), ["search_tools"]);
    assert_eq!(offered(&requests[1]), ["search_tools", "send_mail", "read_mail"]);
    assert_eq!(offered(&requests[2]), ["search_tools", "send_mail", "read_mail", "paint_picture"]);
    assert!(Arc::ptr_eq(&requests[2].tools, &requests[3].tools), "an unchanged list is shared");
    assert!(requests[0].recent_tools.is_empty());
    assert_eq!(*requests[1].recent_tools, ["send_mail", "read_mail"]);
    assert_eq!(*requests[2].recent_tools, ["paint_picture", "send_mail", "read_mail"]);
    let results = finished.run.messages().iter().flat_map(|message| results(message)).collect::<Vec<_>>();
    assert!(
        results[0].1.starts_with("You can call these tools now:\n- send_mail: the tool send_mail\n"),
        "{}",
        results[0].1
    );
    assert_eq!([&*results[1].1, &*results[2].1], ["done", "done"]);
    assert!(results[3].1.contains("`query` is missing"), "{}", results[3].1);
}

/// Tools of two issue trackers, which only the names of their servers distinguish.
struct Trackers(Functions);

impl Toolbox for Trackers {
    fn tools(&self) -> Arc<[Tool]> {
        self.0.tools()
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        let (name, title) = if tool.ends_with('2') { ("tracker", Some("Backlog")) } else { ("git", None) };
        Some(ToolServer { name: name.to_owned(), title: title.map(str::to_owned) })
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        self.0.call(tool, arguments, options)
    }
}

#[tokio::test]
async fn a_search_finds_tools_by_their_server_and_names_it() {
    let mut tools = many_tools();
    for name in ["create_issue1", "create_issue2"] {
        tools = tools.with(tool(name, json!({})), |_| async { "done" });
    }
    let model = Arc::new(ScriptedModel::new([
        ScriptedTurn::calls([("1", "search_tools", json!({"query": "create issue in Backlog"}))]),
        ScriptedTurn::text("Done."),
    ]));
    // The agent combines the toolboxes, which must not hide the servers.
    let more = Functions::new().with(tool("other", json!({})), |_| async { "done" });
    let builder = Agent::builder().model(model.clone()).tools(Arc::new(Trackers(tools)));
    let finished = builder.tools(Arc::new(more)).build().unwrap().run("Go").await;
    let results = finished.run.messages().iter().flat_map(|message| results(message)).collect::<Vec<_>>();
    let expected = "You can call these tools now:\n\
        - create_issue2 (server `tracker`): the tool create_issue2\n\
        - create_issue1 (server `git`): the tool create_issue1\n";
    assert!(results[0].1.starts_with(expected), "{}", results[0].1);
}

#[tokio::test]
async fn a_request_never_has_more_tools_than_the_provider_accepts() {
    let queries = (0..30).map(|number| format!("number {number}"));
    let searches = queries.map(|query| ScriptedTurn::calls([("1", "search_tools", json!({"query": query}))]));
    let model = Arc::new(
        ScriptedModel::new(searches.chain([ScriptedTurn::text("Done.")])).with_limits(ModelLimits {
            context_tokens: None,
            tools: Some(9),
            ..ModelLimits::default()
        }),
    );
    let agent = Agent::builder().model(model.clone()).tools(Arc::new(many_tools())).build().unwrap();
    // The strict model rejects a request with more tools.
    assert_eq!(agent.run("Go").await.outcome.text, "Done.");
    let last = model.requests().pop().unwrap();
    assert!(last.tools.len() > 1, "{:?}", offered(&last));
}

#[tokio::test]
async fn a_provider_that_accepts_one_tool_gets_one() {
    let model = Arc::new(
        ScriptedModel::new([
            ScriptedTurn::calls([("1", "search_tools", json!({"query": "paint a picture"}))]),
            ScriptedTurn::calls([("2", "paint_picture", json!({}))]),
            ScriptedTurn::text("Done."),
        ])
        .with_limits(ModelLimits { context_tokens: None, tools: Some(1), ..ModelLimits::default() }),
    );
    let agent = Agent::builder().model(model.clone()).tools(Arc::new(many_tools())).build().unwrap();
    // The strict model rejects a request with more tools.
    assert_eq!(agent.run("Go").await.outcome.text, "Done.");
}

#[tokio::test]
async fn a_tool_that_must_be_called_is_in_the_request() {
    let model = model([ScriptedTurn::calls([("1", "read_mail", json!({}))]), ScriptedTurn::text("Done.")]);
    let choice = ToolChoice::Tool("read_mail".into());
    let agent =
        Agent::builder().model(model.clone()).tools(Arc::new(many_tools())).tool_choice(choice.clone());
    agent.build().unwrap().run("Go").await;
    let requests = model.requests();
    assert_eq!(offered(&requests[0]), ["search_tools", "read_mail"]);
    assert_eq!([&requests[0].tool_choice, &requests[1].tool_choice], [&choice, &ToolChoice::Auto]);
}

#[tokio::test]
async fn a_few_tools_are_all_in_the_request() {
    let model = model([ScriptedTurn::text("One."), ScriptedTurn::text("Two.")]);
    let agent = crate::support::agent(&model);
    let mut run = agent.run("Go").await.run;
    run.say("Go on");
    agent.drive(run).finish().await;
    let requests = model.requests();
    assert_eq!(offered(&requests[0]), ["read", "delete", "fail", "panic", "hang"]);
    assert!(Arc::ptr_eq(&requests[0].tools, &requests[1].tools));
}

/// A search would not be smaller than the tools themselves, however small the window is.
#[tokio::test]
async fn few_tools_are_offered_in_a_small_window_too() {
    let mut tools = Functions::new();
    for name in ["get_weather", "calculate"] {
        let long =
            Tool { description: Some("What it does, in many words. ".repeat(20)), ..tool(name, json!({})) };
        tools = tools.with(long, |_| async { "done" });
    }
    let model = Arc::new(ScriptedModel::new([ScriptedTurn::text("Done.")]).with_limits(ModelLimits {
        context_tokens: Some(2_048),
        tools: None,
        ..ModelLimits::default()
    }));
    let agent = Agent::builder().model(model.clone()).tools(Arc::new(tools)).build().unwrap();
    agent.run("Go").await;
    assert_eq!(offered(&model.requests()[0]), ["get_weather", "calculate"]);
}

/// Many tools that fill a small window are searched.
#[tokio::test]
async fn tools_that_do_not_fit_are_searched() {
    let mut tools = Functions::new();
    for number in 0..30 {
        let name = format!("tool_{number}");
        let long =
            Tool { description: Some("What it does, in many words. ".repeat(10)), ..tool(&name, json!({})) };
        tools = tools.with(long, |_| async { "done" });
    }
    let model = Arc::new(ScriptedModel::new([ScriptedTurn::text("Done.")]).with_limits(ModelLimits {
        context_tokens: Some(8_192),
        tools: None,
        ..ModelLimits::default()
    }));
    let agent = Agent::builder().model(model.clone()).tools(Arc::new(tools)).build().unwrap();
    agent.run("Go").await;
    assert_eq!(offered(&model.requests()[0]), ["search_tools"]);
}

/// The requests of a long conversation stay below the window, and most of them start with the previous
/// request.
#[tokio::test]
async fn a_long_conversation_is_rarely_reduced_and_its_history_stays_complete() {
    let long = "A long line of a long result. ".repeat(40);
    let tools = Functions::new().with(tool("read", json!({"readOnlyHint": true})), move |_| {
        let long = long.clone();
        async move { long }
    });
    let steps = (0..60).flat_map(|number| {
        let id = format!("c{number}");
        [
            ScriptedTurn::calls([(id.as_str(), "read", json!({"number": number}))]),
            ScriptedTurn::text("I have read it."),
        ]
    });
    let without_usage = steps.map(|mut turn| {
        if let Some(Ok(response)) = &mut turn.end {
            response.usage = None;
        }
        turn
    });
    let model = Arc::new(ScriptedModel::new(without_usage).with_limits(ModelLimits {
        context_tokens: Some(4_000),
        tools: None,
        ..ModelLimits::default()
    }));
    let mut context = ContextSettings::default();
    context.result_characters = 300;
    let agent =
        Agent::builder().model(model.clone()).tools(Arc::new(tools)).context(context).build().unwrap();
    let mut run = agent.new_run();
    for number in 0..60 {
        run.say(format!("Read number {number}"));
        run = agent.drive(run).finish().await.run;
        assert!(run.context().used <= 4_000 * 8 / 10, "{:?}", run.context());
    }
    assert_eq!(run.messages().len(), 240);
    let requests = model.requests();
    let prefix_changes =
        requests.windows(2).filter(|pair| !pair[1].messages.starts_with(&pair[0].messages)).count();
    assert!(prefix_changes > 0, "the conversation was never reduced");
    assert!(
        prefix_changes * 5 < requests.len(),
        "{prefix_changes} of {} requests have a new prefix",
        requests.len()
    );
    let last = requests.last().unwrap();
    let text = json!(last.messages).to_string();
    assert!(text.contains("Earlier parts of this conversation are omitted"), "{text}");
    assert!(text.contains("characters omitted to save space"), "{text}");
    assert!(text.contains("Read number 59"));
}

/// If every run is stopped, each user message is merged with the results of the calls before it.
#[tokio::test]
async fn a_conversation_of_stopped_steps_is_reduced_too() {
    let long = "A long line of a long result. ".repeat(40);
    let tools = Functions::new().with(tool("read", json!({"readOnlyHint": true})), move |_| {
        let long = long.clone();
        async move { long }
    });
    let steps = (0..40).map(|number| {
        let mut turn = ScriptedTurn::calls([(format!("c{number}").as_str(), "read", json!({}))]);
        if let Some(Ok(response)) = &mut turn.end {
            response.usage = None;
        }
        turn
    });
    let model = Arc::new(ScriptedModel::new(steps).with_limits(ModelLimits {
        context_tokens: Some(2_000),
        tools: None,
        ..ModelLimits::default()
    }));
    let agent = Agent::builder().model(model.clone()).tools(Arc::new(tools)).max_steps(1).build().unwrap();
    let mut run = agent.new_run();
    for number in 0..40 {
        run.say(format!("Read number {number}. {}", "And be quick about it. ".repeat(10)));
        run = agent.drive(run).finish().await.run;
        // The strict model accepted each request, so every result has its call.
        assert!(run.context().used <= 2_000 * 8 / 10, "{number}: {:?}", run.context());
    }
    assert_eq!(run.messages().len(), 81);
    let last = json!(model.requests().last().unwrap().messages).to_string();
    assert!(last.contains("Read number 39") && !last.contains("Read number 0."), "{last}");
}

#[tokio::test]
async fn the_instructions_name_unavailable_servers() {
    let model = model([ScriptedTurn::text("I cannot see files.")]);
    let unavailable = |server: &str| MissingServer {
        server: server.to_owned(),
        reason: "it exited".to_owned(),
        is_starting: false,
    };
    let (tools, missing) = (functions(), vec![unavailable("files"), unavailable("git")]);
    let agent = Agent::builder()
        .model(model.clone())
        .tools(Arc::new(PartialToolbox { listed: tools.tools(), missing, tools }))
        .instructions("Be brief.")
        .build()
        .unwrap();
    agent.run("Which files are there?").await;
    assert_eq!(
        model.requests()[0].instructions.as_deref(),
        Some(
            "Be brief.\n\nThe tools of `files`, `git` are currently unavailable. If you need them, say so instead of \
             guessing."
        )
    );
}
