//! Responses of a required format.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use toolwire_agent::run::{Run, Step};
use toolwire_agent::{AgentBuilder, AgentEvent, AgentSettings, BuildError, Ending};
use toolwire_contract::model::{Model, ModelEvent, ModelLimits, OutputFormat, StopReason, ToolChoice};
use toolwire_contract::{Block, Content, Message};
use toolwire_testkit::{ScriptedModel, ScriptedTurn};

use crate::support::{builder, events, model};

fn weather() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        "additionalProperties": false})
}

fn without_tools(model: &Arc<ScriptedModel>) -> AgentBuilder {
    toolwire_agent::Agent::builder().model(model.clone()).output_schema(weather())
}

fn texts(events: &[AgentEvent]) -> Vec<&str> {
    events.iter().filter_map(shown_text).collect()
}

fn shown_text(event: &AgentEvent) -> Option<&str> {
    match event {
        AgentEvent::Text(text) => Some(text),
        _ => None,
    }
}

fn text(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|block| match block {
        Block::Content(Content::Text { text, .. }) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn only_the_final_response_is_shown() {
    let model = model([
        ScriptedTurn::calls([("a", "read", json!({"path": "x"}))]),
        ScriptedTurn::text("```json\n{\"city\": \"Paris\"}\n```"),
    ]);
    let agent = builder(&model).output_schema(weather()).build().unwrap();
    let (events, finished) = events(agent.stream("Where?")).await;
    assert_eq!(texts(&events), [r#"{"city":"Paris"}"#]);
    let outcome = &finished.outcome;
    assert_eq!((&outcome.ending, &outcome.output), (&Ending::Finished, &Some(json!({"city": "Paris"}))));
    assert_eq!(text(finished.run.messages().last().unwrap()), r#"{"city":"Paris"}"#);
    // Both requests require the format, and the second one still has the tools.
    for request in model.requests() {
        assert_eq!(request.output, OutputFormat::schema(weather()));
        assert_eq!(request.tool_choice, ToolChoice::Auto);
    }
}

#[tokio::test]
async fn a_response_in_another_format_is_corrected_once() {
    let model = model([ScriptedTurn::text(r#"{"town":"Paris"}"#), ScriptedTurn::text(r#"{"city":"Paris"}"#)]);
    let agent = builder(&model).output_schema(weather()).build().unwrap();
    let (events, finished) = events(agent.stream("Where?")).await;
    assert_eq!(texts(&events), [r#"{"city":"Paris"}"#]);
    assert_eq!(finished.outcome.output, Some(json!({"city": "Paris"})));
    assert_eq!((finished.outcome.steps, finished.outcome.usage.input_tokens), (2, 20));
    let request = &model.requests()[1];
    assert_eq!(request.tool_choice, ToolChoice::None);
    let [.., rejected, reason] = request.messages.as_slice() else { panic!() };
    assert_eq!(text(rejected), r#"{"town":"Paris"}"#);
    let expected = "The response does not have the required format: missing required property \"city\"; \
                    unknown property \"town\"; known properties are \"city\". Respond again, with the corrected JSON only.";
    assert_eq!(text(reason), expected);
    // The rejected response is not part of the conversation.
    assert_eq!(finished.run.messages().len(), 2);
}

#[tokio::test]
async fn a_response_that_is_not_corrected_fails_the_run() {
    let model = model([ScriptedTurn::text("Paris"), ScriptedTurn::text("In Paris, I think.")]);
    let agent = without_tools(&model).build().unwrap();
    let (events, finished) = events(agent.stream("Where?")).await;
    assert_eq!(texts(&events), [""; 0]);
    let Ending::Failed(failure) = &finished.outcome.ending else { panic!("{:?}", finished.outcome) };
    assert_eq!(failure.code, "invalid_output");
    assert!(failure.message.starts_with("the response does not have the required format: it is not JSON"));
    assert_eq!((&*finished.outcome.text, &finished.outcome.output), ("In Paris, I think.", &None));
    // The conversation can continue.
    assert_eq!(text(finished.run.messages().last().unwrap()), "In Paris, I think.");
    let error = finished.output_as::<Value>().unwrap_err();
    assert!(error.to_string().contains("it is not JSON"));
}

/// Some APIs cannot have tools and a schema in one request.
#[tokio::test]
async fn the_format_is_required_when_the_model_stops_calling_tools() {
    let limits = ModelLimits { separate_output: true, ..ModelLimits::default() };
    let script = [
        ScriptedTurn::calls([("a", "read", json!({}))]),
        ScriptedTurn::text("It is Paris."),
        ScriptedTurn::text(r#"{"city":1}"#),
        ScriptedTurn::text(r#"{"city":"Paris"}"#),
    ];
    let model = Arc::new(ScriptedModel::new(script).with_limits(limits));
    let agent = builder(&model).output_schema(weather()).build().unwrap();
    let finished = agent.run("Where?").await;
    assert_eq!(finished.outcome.output, Some(json!({"city": "Paris"})));
    let requests = model.requests();
    let forms: Vec<(bool, &ToolChoice)> =
        requests.iter().map(|request| (request.output.is_text(), &request.tool_choice)).collect();
    assert_eq!(
        forms,
        [
            (true, &ToolChoice::Auto),
            (true, &ToolChoice::Auto),
            (false, &ToolChoice::None),
            (false, &ToolChoice::None)
        ]
    );
    assert_eq!(
        text(requests[2].messages.last().unwrap()),
        "Give the final response now, in the required JSON format."
    );
    assert!(text(requests[3].messages.last().unwrap()).contains("city"));
    // A response that already has the format needs no further request.
    let model = Arc::new(ScriptedModel::new([ScriptedTurn::text(r#"{"city":"Rome"}"#)]).with_limits(limits));
    let finished = builder(&model).output_schema(weather()).build().unwrap().run("Where?").await;
    assert_eq!((finished.outcome.steps, finished.outcome.output), (1, Some(json!({"city": "Rome"}))));
    // Without tools, the first request requires the format.
    let model = Arc::new(ScriptedModel::new([ScriptedTurn::text(r#"{"city":"Rome"}"#)]).with_limits(limits));
    without_tools(&model).build().unwrap().run("Where?").await;
    assert!(!model.requests()[0].output.is_text());
}

/// Responds to the next request of a run, which is saved and read before.
async fn respond(run: Run, model: &ScriptedModel) -> Run {
    let mut run = Run::from_json(&run.to_json()).unwrap();
    let Step::AskModel(request) = run.step() else { panic!("{run:?}") };
    let mut stream = model.ask(request);
    while let Some(event) = futures::StreamExt::next(&mut stream).await {
        if let ModelEvent::Response(response) = event.unwrap() {
            run.model_responded(response);
        }
    }
    Run::from_json(&run.to_json()).unwrap()
}

#[tokio::test]
async fn the_state_is_saved_with_the_run() {
    let model = model([
        ScriptedTurn::text("Paris"),
        ScriptedTurn::text(r#"{"city":"Paris"}"#),
        ScriptedTurn::text("Bonn"),
        ScriptedTurn::text("Bonn"),
    ]);
    let mut settings = AgentSettings::default();
    settings.output = OutputFormat::schema(weather());
    let mut run = Run::new(settings);
    run.say("Where?");
    run = respond(run, &model).await;
    assert!(!run.is_done());
    run = respond(run, &model).await;
    let Step::Done(outcome) = run.step() else { panic!("{run:?}") };
    assert_eq!(outcome.output, Some(json!({"city": "Paris"})));
    // The next message starts again.
    run.say("And now?");
    run = respond(run, &model).await;
    assert!(!run.is_done());
    run = respond(run, &model).await;
    let Step::Done(outcome) = run.step() else { panic!("{run:?}") };
    assert_eq!((matches!(outcome.ending, Ending::Failed(_)), outcome.output), (true, None));
}

#[tokio::test]
async fn refusals_limits_and_other_endings_stay() {
    let refusal = || {
        let mut turn = ScriptedTurn::text("I must not say.");
        if let Some(Ok(response)) = &mut turn.end {
            response.stop = StopReason::Refusal;
        }
        turn
    };
    let model = model([refusal()]);
    let (events, finished) = events(without_tools(&model).build().unwrap().stream("Where?")).await;
    assert_eq!((&finished.outcome.ending, texts(&events)), (&Ending::Finished, vec!["I must not say."]));
    assert_eq!(finished.outcome.output, None);
    let model = crate::support::model([ScriptedTurn::text("Paris")]);
    let finished = without_tools(&model).token_budget(1).build().unwrap().run("Where?").await;
    assert!(matches!(finished.outcome.ending, Ending::Stopped(_)));
    assert_eq!(finished.outcome.text, "Paris");
}

/// A response that was rejected stays if nothing replaces it.
#[tokio::test]
async fn a_rejected_response_stays_if_the_correction_fails() {
    let error =
        toolwire_contract::model::ModelError::Broken { model: "m".to_owned(), problem: "cut".to_owned() };
    let model = model([ScriptedTurn::text("Paris"), ScriptedTurn::error(error)]);
    let finished = without_tools(&model).build().unwrap().run("Where?").await;
    let Ending::Failed(failure) = &finished.outcome.ending else { panic!("{:?}", finished.outcome) };
    assert_eq!(failure.code, "broken");
    assert_eq!(text(finished.run.messages().last().unwrap()), "Paris");
}

#[derive(Debug, Deserialize, PartialEq, schemars::JsonSchema)]
struct Weather {
    city: String,
    degrees: Option<f64>,
}

#[tokio::test]
async fn a_run_returns_a_value_of_a_type() {
    let model = model([ScriptedTurn::text(r#"{"city":"Paris","degrees":12.5}"#)]);
    let agent = toolwire_agent::Agent::builder().model(model.clone()).build().unwrap();
    let weather: Weather = agent.run_as("What is the weather?").await.unwrap();
    assert_eq!(weather, Weather { city: "Paris".to_owned(), degrees: Some(12.5) });
    let output = &model.requests()[0].output;
    assert!(
        matches!(output, OutputFormat::Schema { name, strict: true, .. } if name == "Weather"),
        "{output:?}"
    );
}

#[tokio::test]
async fn any_json_object_can_be_required() {
    let model = model([ScriptedTurn::text("[1]"), ScriptedTurn::text(r#"{"a":[1]}"#)]);
    let agent =
        toolwire_agent::Agent::builder().model(model.clone()).output(OutputFormat::Json).build().unwrap();
    let finished = agent.run("Where?").await;
    assert_eq!(finished.outcome.output, Some(json!({"a": [1]})));
    let reason = text(model.requests()[1].messages.last().unwrap());
    assert!(reason.contains("it must be an object, not an array"), "{reason}");
}

#[test]
fn an_invalid_schema_is_found_before_the_first_request() {
    for (schema, problem) in [
        (json!({"type": "strin"}), "strin"),
        (json!([]), "an array"),
        (json!({"$ref": "other.json"}), "other"),
    ] {
        let model: Arc<ScriptedModel> = model([]);
        let error = builder(&model).output_schema(schema).build().err().unwrap();
        assert!(matches!(&error, BuildError::InvalidSchema { .. }), "{error}");
        assert!(error.to_string().contains(problem), "{error}");
    }
}
