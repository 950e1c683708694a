//! Where the APIs of the chat family differ: keys, paths, errors, limits.

use serde_json::{Value, json};

use crate::provider::Api;
use crate::provider::judge::{Refusal, Request};

/// What is particular to one API.
pub(super) struct Flavour {
    pub(super) api: Api,
    pub(super) door: Door,
    /// Unknown parameters are refused; vLLM and llama.cpp read over them.
    pub(super) is_closed: bool,
    /// Parameters of its own.
    pub(super) request_keys: &'static [&'static str],
    /// Fields of its own in an assistant's message.
    pub(super) assistant_keys: &'static [&'static str],
    /// Fields of its own in a tool's message.
    pub(super) tool_keys: &'static [&'static str],
    pub(super) most_tools: Option<usize>,
    pub(super) ids: Ids,
}

/// How a client shows who it is.
pub(super) enum Door {
    Bearer,
    AzureKey,
    DialKey,
    /// A local server without a key.
    Open,
}

/// What the id of a call may be.
pub(super) enum Ids {
    /// At most 64 characters (3.1: 40 in 2025, 64 in 2026).
    Long,
    /// Nine letters and digits (3.7).
    Nine,
    /// No rule is known.
    Any,
}

/// | flavour | differs in | source |
/// |---|---|---|
/// | Azure | `api-key`, deployment in the path with `api-version` | 3.15 |
/// | DIAL | `Api-Key`, `custom_content`, `static_function` | 3.16 |
/// | Mistral | ids of nine, `any`, arguments may be an object, its own errors | 3.7 |
/// | Groq | 128 tools, `disable_tool_validation` | 3.12 |
/// | DeepSeek | `reasoning_content` comes back with calls, thinking takes no forced choice | 3.10 |
/// | xAI | 350 tools, empty arguments are refused | 3.11 |
/// | vLLM, llama.cpp | no rule for names, ids and counts; an empty `tools` is refused by vLLM | 3.13, 3.14 |
pub(super) fn flavour(api: Api) -> Flavour {
    let openai = Flavour {
        api,
        door: Door::Bearer,
        is_closed: true,
        request_keys: &[],
        assistant_keys: &[],
        tool_keys: &[],
        most_tools: Some(128),
        ids: Ids::Long,
    };
    match api {
        Api::Azure => Flavour { door: Door::AzureKey, request_keys: &["data_sources"], ..openai },
        Api::Dial => Flavour {
            door: Door::DialKey,
            request_keys: &["custom_fields", "max_prompt_tokens", "addons"],
            assistant_keys: &["custom_content", "custom_fields"],
            tool_keys: &["custom_content", "custom_fields"],
            ..openai
        },
        Api::Mistral => Flavour {
            request_keys: &["random_seed", "safe_prompt", "prompt_mode", "guardrails"],
            assistant_keys: &["prefix"],
            tool_keys: &["name"],
            most_tools: None,
            ids: Ids::Nine,
            ..openai
        },
        Api::Groq => Flavour {
            request_keys: &[
                "disable_tool_validation",
                "reasoning_format",
                "include_reasoning",
                "citation_options",
                "compound_custom",
                "documents",
                "search_settings",
            ],
            assistant_keys: &["reasoning"],
            ..openai
        },
        Api::DeepSeek => Flavour {
            request_keys: &["thinking"],
            assistant_keys: &["reasoning_content", "prefix"],
            ids: Ids::Any,
            ..openai
        },
        Api::Xai => Flavour {
            request_keys: &["search_parameters", "deferred"],
            assistant_keys: &["reasoning_content"],
            most_tools: Some(350),
            ids: Ids::Any,
            ..openai
        },
        Api::Vllm | Api::LlamaCpp => Flavour {
            door: Door::Open,
            is_closed: false,
            assistant_keys: &["reasoning_content", "reasoning"],
            most_tools: None,
            ids: Ids::Any,
            ..openai
        },
        _ => openai,
    }
}

impl Flavour {
    pub(super) fn is_path(&self, request: &Request<'_>) -> bool {
        let path = request.target.path;
        let deployment = path
            .strip_prefix("/openai/deployments/")
            .and_then(|path| path.strip_suffix("/chat/completions"))
            .is_some_and(|deployment| !deployment.is_empty() && !deployment.contains('/'));
        match self.api {
            Api::Azure => {
                path == "/openai/v1/chat/completions"
                    || deployment
                        && request.target.query("api-version").is_some_and(|version| !version.is_empty())
            }
            Api::Dial => deployment,
            Api::Groq => path == "/openai/v1/chat/completions",
            Api::DeepSeek => {
                ["/chat/completions", "/v1/chat/completions", "/beta/chat/completions"].contains(&path)
            }
            _ => path == "/v1/chat/completions",
        }
    }

    pub(super) fn model_in_path(&self, request: &Request<'_>) -> bool {
        request.target.path.starts_with("/openai/deployments/")
    }

    /// An error about the request, with the parameter and the code where OpenAI gives them.
    pub(super) fn refuse(&self, message: &str, parameter: Option<&str>, code: Option<&str>) -> Refusal {
        let body = match self.api {
            Api::Mistral => json!({
                "object": "error", "message": message, "type": "invalid_request_error", "param": parameter, "code": code,
            }),
            Api::Dial => {
                json!({"error": {"message": message, "type": "invalid_request_error", "code": "400"}})
            }
            Api::Vllm | Api::LlamaCpp => {
                json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": 400}})
            }
            _ => json!({
                "error": {"message": message, "type": "invalid_request_error", "param": parameter, "code": code},
            }),
        };
        Refusal::new(400, body)
    }

    /// Mistral's errors about the order of messages and about calls have numbers (mistral-common).
    pub(super) fn mistral(&self, message: &str, kind: &str, code: &str) -> Refusal {
        let body = json!({"object": "error", "message": message, "type": kind, "param": null, "code": code});
        Refusal::new(400, body)
    }

    /// A parameter nobody knows, at the top or in `place`, which is written as OpenAI does: `messages[0]`.
    pub(super) fn unknown(&self, key: &str, place: Option<&str>) -> Refusal {
        match self.api {
            Api::Mistral => {
                let mut way: Vec<Value> = vec!["body".into()];
                way.extend(steps(place.unwrap_or_default()));
                way.push(key.into());
                let detail =
                    json!([{"type": "extra_forbidden", "loc": way, "msg": "Extra inputs are not permitted"}]);
                let body = json!({"object": "error", "message": {"detail": detail}, "type": "invalid_request_error"});
                Refusal::new(422, body)
            }
            Api::Dial => {
                let mut way: Vec<String> = steps(place.unwrap_or_default())
                    .iter()
                    .map(|step| step.as_str().map_or_else(|| step.to_string(), str::to_owned))
                    .collect();
                way.push(key.to_owned());
                let path = way.join(".");
                let message = format!(
                    "Your request contained invalid structure on path {path}. extra fields not permitted"
                );
                self.refuse(&message, None, None)
            }
            Api::Groq => match place {
                None => self.refuse(&format!("property '{key}' is unsupported"), None, None),
                Some(place) => {
                    let place = place.replace('[', ".").replace(']', "");
                    self.refuse(&format!("'{place}' : property '{key}' is unsupported"), None, None)
                }
            },
            _ => match place {
                None => {
                    let message = format!("Unrecognized request argument supplied: {key}");
                    self.refuse(&message, None, None)
                }
                Some(place) => {
                    let way = format!("{place}.{key}");
                    let message = format!("Unknown parameter: '{way}'.");
                    self.refuse(&message, Some(&way), Some("unknown_parameter"))
                }
            },
        }
    }

    pub(super) fn missing(&self, way: &str) -> Refusal {
        let message = format!("Missing required parameter: '{way}'.");
        self.refuse(&message, Some(way), Some("missing_required_parameter"))
    }

    pub(super) fn empty(&self, way: &str) -> Refusal {
        let message = format!(
            "Invalid '{way}': empty array. Expected an array with minimum length 1, but got an empty array instead."
        );
        self.refuse(&message, Some(way), Some("empty_array"))
    }

    pub(super) fn wrong_type(&self, way: &str, expected: &str, got: &Value) -> Refusal {
        let got = crate::provider::json::kind(got);
        let article = |word: &str| if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let message = format!(
            "Invalid type for '{way}': expected {} {expected}, but got {} {got} instead.",
            article(expected),
            article(got)
        );
        self.refuse(&message, Some(way), Some("invalid_type"))
    }

    pub(super) fn wrong_value(&self, way: &str, got: &str, supported: &[&str]) -> Refusal {
        let quoted: Vec<String> = supported.iter().map(|value| format!("'{value}'")).collect();
        let supported = match quoted.as_slice() {
            [first, second] => format!("{first} and {second}"),
            [rest @ .., last] if !rest.is_empty() => format!("{}, and {last}", rest.join(", ")),
            alone => alone.join(""),
        };
        let message = format!("Invalid value: '{got}'. Supported values are: {supported}.");
        self.refuse(&message, Some(way), Some("invalid_value"))
    }

    pub(super) fn locked(&self, key: Option<&str>) -> Refusal {
        let body = match (self.api, key) {
            (Api::Azure, _) => json!({"error": {
                "code": "401",
                "message": "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid \
                            key for an active subscription and use a correct regional API endpoint for your resource.",
            }}),
            (Api::Dial, None) => json!({"error": {
                "message": "At least API-KEY or Authorization header must be provided", "code": "401",
            }}),
            (Api::Dial, Some(_)) => json!({"error": {"message": "Unknown api key", "code": "401"}}),
            (Api::Mistral, _) => json!({"detail": "Unauthorized"}),
            (Api::Groq, _) => json!({"error": {
                "message": "Invalid API Key", "type": "invalid_request_error", "code": "invalid_api_key",
            }}),
            (Api::DeepSeek, _) => json!({"error": {
                "message": "Authentication Fails (governor)", "type": "authentication_error", "param": null,
                "code": "invalid_request_error",
            }}),
            (_, None) => json!({"error": {
                "message": "You didn't provide an API key. You need to provide your API key in an Authorization header using \
                            Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
                "type": "invalid_request_error", "param": null, "code": null,
            }}),
            (_, Some(key)) => json!({"error": {
                "message": format!("Incorrect API key provided: {key}. You can find your API key at \
                                    https://platform.openai.com/account/api-keys."),
                "type": "invalid_request_error", "param": null, "code": "invalid_api_key",
            }}),
        };
        Refusal::new(401, body)
    }

    pub(super) fn nowhere(&self, path: &str) -> Refusal {
        let body = match self.api {
            Api::Azure => json!({"error": {"code": "404", "message": "Resource not found"}}),
            Api::Mistral => json!({"detail": "Not Found"}),
            _ => json!({"error": {
                "message": format!("Invalid URL (POST {path})"),
                "type": "invalid_request_error", "param": null, "code": null,
            }}),
        };
        Refusal::new(404, body)
    }
}

/// `messages[0].tool_calls[1]` as its steps.
fn steps(place: &str) -> Vec<Value> {
    let words = place.split(['.', '[', ']']).filter(|word| !word.is_empty());
    words.map(|word| word.parse::<u64>().map_or_else(|_| word.into(), Value::from)).collect()
}
