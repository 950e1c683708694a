//! Checks in the end that everything that was acknowledged exists, and that nothing has happened twice.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::take;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use serde_json::Value;

use crate::client::{Client, Dialect, Outcome, text};
use crate::effects::Effects;
use crate::ledger::{BackgroundResponse, Conversation, Fate, StoredResponse};
use crate::model::{MARK, words};
use crate::world::World;

/// The number of requests at the same time.
const CONCURRENT: usize = 8;

/// The maximum wait for gateways that cannot read from Redis.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum wait for the end of responses in the background.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The numbers of checked items.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) responses: usize,
    pub(crate) removed: usize,
    pub(crate) conversations: usize,
    pub(crate) items: usize,
    pub(crate) effects: usize,
    pub(crate) acknowledged_effects: usize,
    /// Responses in the background by their status.
    pub(crate) backgrounds: BTreeMap<String, usize>,
}

/// Checks everything in the ledger, and adds what is wrong to its violations.
pub(crate) async fn verify(world: &World, effects: &Effects) -> Counts {
    let mut counts = Counts::default();
    let (responses, backgrounds, conversations) = {
        let mut ledger = world.ledger();
        (take(&mut ledger.responses), take(&mut ledger.backgrounds), take(&mut ledger.conversations))
    };
    let ends = stream::iter(backgrounds).map(verify_background).buffer_unordered(CONCURRENT);
    for (status, effects) in ends.collect::<Vec<_>>().await {
        *counts.backgrounds.entry(status).or_default() += 1;
        world.ledger().effects.extend(effects);
    }
    counts.removed = responses.iter().filter(|stored| stored.is_removed).count();
    counts.responses = responses.len() - counts.removed;
    stream::iter(responses).for_each_concurrent(CONCURRENT, verify_response).await;
    counts.conversations = conversations.len();
    let items = stream::iter(conversations).map(verify_conversation).buffer_unordered(CONCURRENT);
    counts.items = items.collect::<Vec<usize>>().await.into_iter().sum();
    let mut happened: BTreeMap<String, usize> = BTreeMap::new();
    for id in effects.all() {
        *happened.entry(id).or_default() += 1;
    }
    counts.effects = happened.len();
    let mut ledger = world.ledger();
    for (id, count) in happened.iter().filter(|(_, count)| **count > 1) {
        ledger.violation(format!("the effect `{id}` has happened {count} times"));
    }
    let mut acknowledged = take(&mut ledger.effects);
    acknowledged.sort();
    acknowledged.dedup();
    counts.acknowledged_effects = acknowledged.len();
    for id in acknowledged.iter().filter(|id| !happened.contains_key(*id)) {
        ledger.violation(format!("the effect `{id}` was acknowledged, but has not happened"));
    }
    counts
}

/// Reads from the store. Gateways may need some time to connect to Redis again.
async fn get(client: &Client, path: &str, expected: &[u16]) -> Outcome {
    let since = Instant::now();
    loop {
        let outcome = client.get(Dialect::Responses, path, expected).await;
        let is_unavailable = matches!(outcome, Outcome::Refused(500..) | Outcome::Lost(_));
        if !is_unavailable || since.elapsed() > RECOVERY_TIMEOUT {
            return outcome;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Checks that a response has the content that the client got.
async fn verify_response(stored: StoredResponse) {
    let StoredResponse { client, body, is_removed } = stored;
    let client = client.uncounted();
    let id = body["id"].as_str().unwrap_or_default();
    let expected: &[u16] = if is_removed { &[404] } else { &[] };
    let found = get(&client, &format!("/v1/responses/{id}"), expected).await;
    let problem = match (&found, is_removed) {
        (Outcome::Done(answer), false) if answer.body == body => return,
        (Outcome::Refused(404), true) => return,
        (Outcome::Done(answer), true) => format!("was removed, but it exists: {}", answer.body),
        (Outcome::Done(answer), false) => format!("was {body}, and is {}", answer.body),
        (other, _) => format!("cannot be read: {other:?}"),
    };
    client.world.ledger().violation(format!("the response {id} {problem}"));
}

/// Checks that a response in the background ends. Returns its status, and the effects that it reports.
async fn verify_background(response: BackgroundResponse) -> (String, Vec<String>) {
    let BackgroundResponse { client, id, expected, is_cancelled } = response;
    let client = client.uncounted();
    let violation = |problem: String| {
        client.world.ledger().violation(format!("the response {id} in the background {problem}"));
    };
    let since = Instant::now();
    loop {
        match get(&client, &format!("/v1/responses/{id}"), &[]).await {
            Outcome::Done(answer) => {
                let status = answer.body["status"].as_str().unwrap_or_default().to_owned();
                if !matches!(status.as_str(), "queued" | "in_progress") {
                    if is_cancelled && status != "cancelled" {
                        violation(format!("was cancelled, and is {status}"));
                    }
                    let text = text(Dialect::Responses, &answer.body);
                    if status == "completed" && !text.starts_with(&expected) {
                        violation(format!("should be `{expected}`, and is {}", answer.body));
                    }
                    return (status, effects(&text));
                }
            }
            // It has the status `failed`.
            Outcome::Refused(200) => return ("failed".to_owned(), Vec::new()),
            other => {
                violation(format!("cannot be read: {other:?}"));
                return ("unknown".to_owned(), Vec::new());
            }
        }
        if since.elapsed() > TIMEOUT {
            violation("does not end".to_owned());
            return ("running".to_owned(), Vec::new());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn effects(text: &str) -> Vec<String> {
    let start = crate::model::APPENDED;
    words(text, start).into_iter().map(|word| word[start.len()..].to_owned()).collect()
}

/// Checks that a conversation has each acknowledged message once, in order. Returns the number of
/// acknowledged messages.
async fn verify_conversation(conversation: Conversation) -> usize {
    let client = conversation.client.uncounted();
    let path = format!("/v1/conversations/{}/items?order=asc&limit=100", conversation.id);
    let problem = match get(&client, &path, &[]).await {
        Outcome::Done(answer) => {
            let items = answer.body["data"].as_array().cloned().unwrap_or_default();
            let marks: Vec<String> =
                items.iter().filter(|item| item["role"] == "user").flat_map(marks).collect();
            conversation.check(&marks).err().map(|problem| format!("{problem}: {marks:?}"))
        }
        other => Some(format!("it cannot be read: {other:?}")),
    };
    if let Some(problem) = problem {
        let problem = format!("conversation {}: {problem}; sent: {:?}", conversation.id, conversation.turns);
        client.world.ledger().violation(problem);
    }
    conversation.turns.iter().filter(|turn| turn.fate == Fate::Acknowledged).count()
}

/// Returns the marks in an item of the user.
fn marks(item: &Value) -> Vec<String> {
    let content = match &item["content"] {
        Value::String(text) => text.clone(),
        parts => parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect(),
    };
    words(&content, &MARK.to_string()).into_iter().map(str::to_owned).collect()
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { responses, removed, conversations, items, effects, acknowledged_effects, backgrounds } =
            self;
        writeln!(formatter, "{responses} stored responses were read again, {removed} were removed")?;
        writeln!(formatter, "{items} acknowledged messages are in {conversations} conversations")?;
        writeln!(formatter, "{effects} effects, {acknowledged_effects} of them acknowledged")?;
        write!(formatter, "responses in the background: {backgrounds:?}")
    }
}
