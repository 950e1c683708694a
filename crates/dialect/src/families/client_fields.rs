//! The fields of a client's request that no type represents. APIs of the same family get them unchanged;
//! other APIs get those that they have too.

use serde_json::{Map, Value, json};
use toolwire_contract::model::{FamilyFields, Generation};

use crate::request::ApiSupport;
use crate::{Dialect, Family};

/// Fields with the same name and meaning in OpenAI's two APIs.
const SHARED_BY_OPENAI: [&str; 7] = [
    "metadata",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
];

/// Fields about what OpenAI stores. Servers that only follow its APIs store nothing, and may reject them.
const ABOUT_STORED_DATA: [&str; 2] = ["metadata", "store"];

/// The fields of a client's request, for one API.
#[derive(Debug, Default)]
pub(crate) struct ClientFields {
    /// The fields to send.
    pub(crate) sent: Map<String, Value>,
    /// The names of the fields that the API does not have, as the client wrote them.
    pub(crate) dropped: Vec<String>,
}

impl ClientFields {
    pub(crate) fn new(dialect: Dialect, api_support: ApiSupport, generation: &Generation) -> ClientFields {
        let mut converted = ClientFields::default();
        let Some(client) = &generation.family_fields else { return converted };
        let family = dialect.family();
        let openai = [Family::OpenAiChat, Family::OpenAiResponses];
        let is_openai_client = openai.iter().any(|family| family.meta_key() == client.family);
        let is_complete = api_support == ApiSupport::Complete && dialect.has_api_of(family);
        let may_reject =
            |name: &str| openai.contains(&family) && !is_complete && ABOUT_STORED_DATA.contains(&name);
        let is_same_family = client.family == family.meta_key();
        let is_other_openai_api = is_openai_client && openai.contains(&family) && is_complete;
        let mut user = generation.user.as_deref();
        for (name, value) in client.fields.iter().filter(|(name, value)| has_effect(name, value)) {
            let is_sent = match (family, name.as_str()) {
                (Family::OpenAiChat, "metadata") if !is_stored(client) => false,
                (Family::Anthropic, "metadata") => {
                    converted.set_user(&mut user, value.get("user_id")) && has_one_field(value)
                }
                (Family::Anthropic, "safety_identifier") if is_openai_client => {
                    converted.set_user(&mut user, Some(value))
                }
                (_, name) if is_same_family => !may_reject(name) && converted.set(name, value.clone()),
                (Family::OpenAiResponses, "verbosity") if is_other_openai_api => {
                    converted.set("text", json!({"verbosity": value}))
                }
                (Family::OpenAiChat, "text") if is_other_openai_api => {
                    let verbosity = value.get("verbosity").filter(|level| !level.is_null());
                    let is_set = verbosity.is_some_and(|level| converted.set("verbosity", level.clone()));
                    is_set && has_one_field(value)
                }
                (_, name) => {
                    let is_shared = is_other_openai_api && SHARED_BY_OPENAI.contains(&name);
                    is_shared && converted.set(name, value.clone())
                }
            };
            if !is_sent {
                converted.dropped.push(name.clone());
            }
        }
        converted
    }

    fn set(&mut self, name: &str, value: Value) -> bool {
        self.sent.insert(name.to_owned(), value);
        true
    }

    /// Sends the id of the end user to Anthropic, which has one such field, and returns whether it is the id
    /// that is sent.
    fn set_user<'v>(&mut self, user: &mut Option<&'v str>, id: Option<&'v Value>) -> bool {
        let Some(id) = id.and_then(Value::as_str) else { return false };
        match user {
            Some(user) => *user == id,
            None => {
                *user = Some(id);
                self.set("metadata", json!({"user_id": id}))
            }
        }
    }
}

/// Whether a field has an effect. Without its entries, `metadata` has none.
fn has_effect(name: &str, value: &Value) -> bool {
    !(value.is_null() || name == "metadata" && value.as_object().is_some_and(Map::is_empty))
}

/// Whether OpenAI stores the response. Chat Completions accepts `metadata` only then.
fn is_stored(client: &FamilyFields) -> bool {
    client.fields.get("store") == Some(&json!(true))
}

fn has_one_field(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| fields.len() == 1)
}
