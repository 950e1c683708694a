//! Differences between the APIs that follow Chat Completions: keys, paths, errors, limits.
//!
//! Rules in `docs/providers.md`: `openai-chat/errors`, `azure/endpoint`, `dial/endpoint`, and the other rules
//! of each flavour.

use serde_json::{Value, json};

use crate::provider::Api;
use crate::provider::check::{ApiRequest, Rejection};
use crate::provider::json::unknown_key;
use crate::provider::openai_errors::{self, CodedMessage};

/// The rules of one API.
pub(super) struct ChatFlavour {
    pub(super) api: Api,
    pub(super) key_header: KeyHeader,
    /// vLLM and llama.cpp ignore unknown fields; the others reject them.
    pub(super) rejects_unknown_fields: bool,
    /// Additional parameters of the request.
    pub(super) request_keys: &'static [&'static str],
    /// Additional fields of an assistant message.
    pub(super) assistant_keys: &'static [&'static str],
    /// Additional fields of a tool message.
    pub(super) tool_keys: &'static [&'static str],
    /// Additional fields of a system or user message.
    pub(super) prompt_keys: &'static [&'static str],
    pub(super) max_tools: Option<usize>,
    pub(super) call_ids: CallIdRule,
}

/// The header that carries the key.
pub(super) enum KeyHeader {
    Bearer,
    ApiKeyOrBearer,
    ApiKey,
    /// A local server without a key.
    None,
}

/// The rule for the id of a call.
pub(super) enum CallIdRule {
    Max64Chars,
    NineAlphanumerics,
    Any,
}

const DIAL_MESSAGE_KEYS: &[&str] = &["custom_content", "custom_fields"];

impl ChatFlavour {
    pub(super) fn of(api: Api) -> ChatFlavour {
        let openai = ChatFlavour {
            api,
            key_header: KeyHeader::Bearer,
            rejects_unknown_fields: true,
            request_keys: &[],
            // OpenAI's SDKs send back the message of a response, with its annotations.
            assistant_keys: &["annotations"],
            tool_keys: &[],
            prompt_keys: &[],
            max_tools: Some(128),
            call_ids: CallIdRule::Max64Chars,
        };
        match api {
            Api::Azure => ChatFlavour {
                key_header: KeyHeader::ApiKeyOrBearer,
                request_keys: &["data_sources"],
                ..openai
            },
            Api::Dial => ChatFlavour {
                key_header: KeyHeader::ApiKey,
                request_keys: &["custom_fields", "max_prompt_tokens", "addons"],
                assistant_keys: DIAL_MESSAGE_KEYS,
                tool_keys: DIAL_MESSAGE_KEYS,
                prompt_keys: DIAL_MESSAGE_KEYS,
                ..openai
            },
            Api::Mistral => ChatFlavour {
                request_keys: &["random_seed", "safe_prompt", "prompt_mode", "guardrails"],
                assistant_keys: &["prefix"],
                tool_keys: &["name"],
                max_tools: None,
                call_ids: CallIdRule::NineAlphanumerics,
                ..openai
            },
            Api::Groq => ChatFlavour {
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
            Api::DeepSeek => ChatFlavour {
                request_keys: &["thinking"],
                assistant_keys: &["reasoning_content", "prefix"],
                call_ids: CallIdRule::Any,
                ..openai
            },
            Api::Xai => ChatFlavour {
                request_keys: &["search_parameters", "deferred"],
                assistant_keys: &["reasoning_content"],
                max_tools: Some(350),
                call_ids: CallIdRule::Any,
                ..openai
            },
            Api::Vllm | Api::LlamaCpp => ChatFlavour {
                key_header: KeyHeader::None,
                rejects_unknown_fields: false,
                max_tools: None,
                call_ids: CallIdRule::Any,
                ..openai
            },
            _ => openai,
        }
    }

    /// Whether OpenAI's own rules apply in full.
    pub(super) fn is_openai(&self) -> bool {
        matches!(self.api, Api::OpenAiChat | Api::Azure)
    }

    pub(super) fn accepts_path(&self, request: &ApiRequest<'_>) -> bool {
        let path = request.target.path;
        let is_deployment = path
            .strip_prefix("/openai/deployments/")
            .and_then(|path| path.strip_suffix("/chat/completions"))
            .is_some_and(|deployment| !deployment.is_empty() && !deployment.contains('/'));
        match self.api {
            Api::Azure => {
                path == "/openai/v1/chat/completions"
                    || is_deployment
                        && request.target.query("api-version").is_some_and(|version| !version.is_empty())
            }
            Api::Dial => is_deployment,
            Api::Groq => path == "/openai/v1/chat/completions",
            Api::DeepSeek => {
                ["/chat/completions", "/v1/chat/completions", "/beta/chat/completions"].contains(&path)
            }
            _ => path == "/v1/chat/completions",
        }
    }

    pub(super) fn has_model_in_path(request: &ApiRequest<'_>) -> bool {
        request.target.path.starts_with("/openai/deployments/")
    }

    /// Rejects keys that are in neither list. `path` is in OpenAI's notation, such as `messages[0]`; `None`
    /// means the request itself.
    pub(super) fn check_keys(
        &self,
        value: &Value,
        known: &[&str],
        additional: &[&str],
        path: Option<&str>,
    ) -> Result<(), Rejection> {
        match unknown_key(value, &[known, additional].concat()) {
            Some(key) if self.rejects_unknown_fields => Err(self.unknown_field(key, path)),
            _ => Ok(()),
        }
    }

    /// An error about the request, with the parameter and the code that OpenAI sends.
    pub(super) fn reject(&self, message: &str, parameter: Option<&str>, code: Option<&str>) -> Rejection {
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
        Rejection::new(400, body)
    }

    /// An error about the parameter at a path.
    pub(super) fn reject_at(&self, path: &str, (message, code): CodedMessage) -> Rejection {
        self.reject(&message, Some(path), Some(code))
    }

    /// A numbered error of Mistral.
    pub(super) fn mistral_error(&self, message: &str, kind: &str, code: &str) -> Rejection {
        let body = json!({"object": "error", "message": message, "type": kind, "param": null, "code": code});
        Rejection::new(400, body)
    }

    pub(super) fn unknown_field(&self, key: &str, path: Option<&str>) -> Rejection {
        match self.api {
            Api::Mistral => {
                let mut location: Vec<Value> = vec!["body".into()];
                location.extend(
                    path_segments(path)
                        .map(|segment| segment.parse::<u64>().map_or_else(|_| segment.into(), Value::from)),
                );
                location.push(key.into());
                let message = "Extra inputs are not permitted";
                let detail = json!([{"type": "extra_forbidden", "loc": location, "msg": message}]);
                let body = json!({"object": "error", "message": {"detail": detail}, "type": "invalid_request_error"});
                Rejection::new(422, body)
            }
            Api::Dial => {
                let path: Vec<&str> = path_segments(path).chain([key]).collect();
                let path = path.join(".");
                let message = format!(
                    "Your request contained invalid structure on path {path}. extra fields not permitted"
                );
                self.reject(&message, None, None)
            }
            Api::Groq => {
                let segments: Vec<&str> = path_segments(path).collect();
                let prefix =
                    if segments.is_empty() { String::new() } else { format!("'{}' : ", segments.join(".")) };
                self.reject(&format!("{prefix}property '{key}' is unsupported"), None, None)
            }
            _ => match path {
                None => {
                    let message = format!("Unrecognized request argument supplied: {key}");
                    self.reject(&message, None, None)
                }
                Some(path) => {
                    let path = format!("{path}.{key}");
                    self.reject_at(&path, openai_errors::unknown_parameter(&path))
                }
            },
        }
    }

    pub(super) fn missing(&self, path: &str) -> Rejection {
        self.reject_at(path, openai_errors::missing_parameter(path))
    }

    pub(super) fn empty_array(&self, path: &str) -> Rejection {
        let message = format!(
            "Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
        );
        self.reject(&message, Some(path), Some("empty_array"))
    }

    /// `expected` begins with its article.
    pub(super) fn wrong_type(&self, path: &str, expected: &str, got: &Value) -> Rejection {
        self.reject_at(path, openai_errors::wrong_type(path, expected, got))
    }

    pub(super) fn unsupported_value(&self, path: &str, got: &str, supported: &[&str]) -> Rejection {
        self.reject_at(path, openai_errors::unsupported_value(got, supported))
    }

    pub(super) fn unauthorized(&self, key: Option<&str>) -> Rejection {
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
        Rejection::new(401, body)
    }

    pub(super) fn not_found(&self, path: &str) -> Rejection {
        let body = match self.api {
            Api::Azure => json!({"error": {"code": "404", "message": "Resource not found"}}),
            Api::Mistral => json!({"detail": "Not Found"}),
            _ => json!({"error": {
                "message": format!("Invalid URL (POST {path})"),
                "type": "invalid_request_error", "param": null, "code": null,
            }}),
        };
        Rejection::new(404, body)
    }
}

/// Splits `messages[0].tool_calls[1]` into `messages`, `0`, `tool_calls`, `1`.
pub(super) fn path_segments(path: Option<&str>) -> impl Iterator<Item = &str> {
    path.unwrap_or_default().split(['.', '[', ']']).filter(|segment| !segment.is_empty())
}
