//! Results in every dialect: each file contains a case and its expected messages.
//!
//! `TOOLWIRE_BLESS=1` rewrites the expected messages; review the diff.

use std::path::PathBuf;

use serde_json::{Value, json};
use toolwire_contract::{Content, ToolResult};
use toolwire_dialect::request::{RequestError, wire_id};
use toolwire_dialect::response::{CallId, CallKind, ReceivedCall};
use toolwire_dialect::result::{CallOutcome, ResultOptions, write_results};
use toolwire_dialect::{Dialect, Family};

/// The dialects with different results.
const DIALECTS: [Dialect; 12] = [
    Dialect::OpenAi,
    Dialect::Responses,
    Dialect::Anthropic,
    Dialect::Gemini,
    Dialect::Bedrock,
    Dialect::Mistral,
    Dialect::Cohere,
    Dialect::Ollama,
    Dialect::DeepSeek,
    Dialect::Xai,
    Dialect::Dial,
    Dialect::Mcp,
];

struct Case {
    path: PathBuf,
    value: Value,
    calls: Vec<ReceivedCall>,
    results: Vec<Option<ToolResult>>,
    options: ResultOptions,
}

impl Case {
    fn write(&self, dialect: Dialect) -> Result<Vec<Value>, RequestError> {
        let outcomes: Vec<CallOutcome<'_>> = self
            .calls
            .iter()
            .zip(&self.results)
            .map(|(call, result)| CallOutcome { call, result: result.as_ref() })
            .collect();
        write_results(dialect, &outcomes, &self.options)
    }
}

fn call(id: Option<&str>, name: &str) -> ReceivedCall {
    ReceivedCall {
        id: id.map_or_else(
            || CallId::Synthetic("call_synthetic".to_owned()),
            |id| CallId::Given(id.to_owned()),
        ),
        name: name.to_owned(),
        namespace: None,
        arguments: json!({}),
        kind: CallKind::Function,
        signature: None,
    }
}

fn cases() -> Vec<Case> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("messages/results");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(read_case).collect()
}

fn read_case(path: PathBuf) -> Case {
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let calls = value["calls"].as_array().unwrap().iter();
    let calls = calls.map(|entry| call(entry["id"].as_str(), entry["name"].as_str().unwrap())).collect();
    let results = value["results"].as_array().unwrap().iter();
    let results = results
        .map(|result| (!result.is_null()).then(|| ToolResult::try_from(result.clone()).unwrap()))
        .collect();
    let flag = |name: &str| value["options"][name].as_bool().unwrap_or(true);
    let mut options = ResultOptions::default();
    options.text_budget = value["options"]["text_budget"].as_u64().map(|budget| budget as usize);
    options.images = flag("images");
    options.files = flag("files");
    options.nested_media = flag("nested_media");
    options.error_flag = flag("error_flag");
    Case { path, value, calls, results, options }
}

#[test]
fn every_case_has_the_expected_messages() {
    let cases = cases();
    assert!(cases.len() >= 19);
    for mut case in cases {
        let outcomes: Value = DIALECTS
            .iter()
            .map(|&dialect| {
                let outcome = match case.write(dialect) {
                    Ok(messages) => Value::Array(messages),
                    Err(error) => json!({"error": error.to_string(), "hint": error.hint()}),
                };
                (dialect.name(), outcome)
            })
            .collect();
        if std::env::var_os("TOOLWIRE_BLESS").is_some() {
            case.value["expected"] = outcomes;
            let text = serde_json::to_string_pretty(&case.value).unwrap() + "\n";
            std::fs::write(&case.path, text).unwrap();
        } else {
            for dialect in DIALECTS {
                let name = dialect.name();
                assert_eq!(outcomes[name], case.value["expected"][name], "{name} in {}", case.path.display());
            }
        }
    }
}

/// Checks documented rules, independently of the expected messages.
#[test]
fn every_message_follows_the_rules_of_its_api() {
    for case in cases() {
        for dialect in Dialect::all() {
            let Ok(messages) = case.write(dialect) else { continue };
            let place = format!("{dialect} in {}", case.path.display());
            check_result_ids(dialect, &case.calls, &messages, &place);
            if dialect == Dialect::Mcp {
                continue;
            }
            for (key, text) in messages.iter().flat_map(|message| strings(message, "")) {
                assert!(!text.contains('\0'), "{place}: NUL");
                let is_prose = matches!(key.as_str(), "text" | "output" | "error" | "content");
                // Gemini accepts an empty output.
                let may_be_empty = dialect.family() == Family::Gemini && key == "output";
                assert!(!is_prose || may_be_empty || !text.is_empty(), "{place}: empty {key}");
                for data in payloads(&case.results) {
                    assert!(!is_prose || !text.contains(&data), "{place}: base64 as {key}");
                }
            }
            match dialect.family() {
                Family::OpenAiChat | Family::Ollama => {
                    let roles: Vec<&str> =
                        messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
                    let (tools, rest) = roles.split_at(case.calls.len());
                    assert!(tools.iter().all(|role| *role == "tool"), "{place}: {roles:?}");
                    assert!(rest.is_empty() || rest == ["user"], "{place}: {roles:?}");
                    assert!(messages.iter().take(tools.len()).all(|message| message["content"].is_string()));
                }
                Family::Anthropic => {
                    let [message] = messages.as_slice() else { panic!("{place}: not one message") };
                    for block in message["content"].as_array().unwrap() {
                        if block["is_error"] == true {
                            let content = block["content"].as_array().unwrap();
                            assert!(content.iter().all(|block| block["type"] == "text"), "{place}: {block}");
                        }
                    }
                }
                Family::Gemini => {
                    let [message] = messages.as_slice() else { panic!("{place}: not one content") };
                    let parts = message["parts"].as_array().unwrap();
                    assert!(parts.len() >= case.calls.len());
                    for part in parts.iter().take(case.calls.len()) {
                        let response = &part["functionResponse"]["response"];
                        assert!(
                            response.is_object() && !keys(response).contains(&"$ref".to_owned()),
                            "{place}"
                        );
                    }
                }
                Family::Bedrock => {
                    let [message] = messages.as_slice() else { panic!("{place}: not one message") };
                    for block in message["content"].as_array().unwrap() {
                        let content = block["toolResult"]["content"].as_array().unwrap();
                        assert!(!content.is_empty(), "{place}");
                        for block in content {
                            assert!(block.get("json").is_none_or(Value::is_object), "{place}");
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

fn check_result_ids(dialect: Dialect, calls: &[ReceivedCall], messages: &[Value], place: &str) {
    let id_keys = ["tool_call_id", "call_id", "tool_use_id", "toolUseId"];
    let ids: Vec<String> = messages
        .iter()
        .flat_map(|message| strings(message, ""))
        .filter(|(key, _)| id_keys.contains(&key.as_str()))
        .map(|(_, id)| id)
        .collect();
    let expected: Vec<String> = match dialect.family() {
        Family::Gemini => return, // The key is `id`, which the case files cover.
        Family::Ollama => calls.iter().filter_map(|call| call.id.given().map(str::to_owned)).collect(),
        _ => calls.iter().map(|call| wire_id(dialect, call.id.as_str())).collect(),
    };
    assert_eq!(ids, expected, "{place}");
}

/// Returns every string in a value with the nearest key above it.
fn strings(value: &Value, key: &str) -> Vec<(String, String)> {
    match value {
        Value::String(text) => vec![(key.to_owned(), text.clone())],
        Value::Array(items) => items.iter().flat_map(|item| strings(item, key)).collect(),
        Value::Object(fields) => fields.iter().flat_map(|(key, value)| strings(value, key)).collect(),
        _ => Vec::new(),
    }
}

fn keys(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(keys).collect(),
        Value::Object(fields) => {
            fields.iter().flat_map(|(key, value)| [vec![key.clone()], keys(value)].concat()).collect()
        }
        _ => Vec::new(),
    }
}

fn payloads(results: &[Option<ToolResult>]) -> Vec<String> {
    let texts = results.iter().flatten().flat_map(|result| strings(&Value::from(result.clone()), ""));
    texts
        .filter(|(key, text)| matches!(key.as_str(), "data" | "blob") && text.len() > 8)
        .map(|(_, text)| text)
        .collect()
}

/// Returns a PNG header for an image of this size, padded to `bytes` bytes, in base64.
fn png(width: u32, height: u32, bytes: usize) -> String {
    use base64::Engine;
    let mut data = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    data.extend(width.to_be_bytes());
    data.extend(height.to_be_bytes());
    data.resize(bytes.max(data.len()), 0);
    base64::engine::general_purpose::STANDARD.encode(data)
}

#[track_caller]
fn check_image(dialect: Dialect, data: String, expected_note: Option<&str>) {
    let result = ToolResult {
        content: Some(vec![Content::image(data.clone(), "image/png")]),
        ..ToolResult::default()
    };
    let call = call(Some("a"), "f");
    let outcomes = [CallOutcome { call: &call, result: Some(&result) }];
    let messages = write_results(dialect, &outcomes, &ResultOptions::default()).unwrap();
    let texts: Vec<String> =
        messages.iter().flat_map(|message| strings(message, "")).map(|(_, text)| text).collect();
    let is_sent = texts.iter().any(|text| text.ends_with(&data));
    match expected_note {
        Some(note) => assert!(!is_sent && texts.iter().any(|text| text == note), "{dialect}: no {note}"),
        None => assert!(is_sent, "{dialect}: the image is missing"),
    }
}

#[test]
fn an_image_over_a_limit_becomes_a_note() {
    check_image(Dialect::Anthropic, png(10, 10, 5_242_880), None);
    let note = "[image/png, 5.2 MB, omitted: over the limit of 5.2 MB]";
    check_image(Dialect::Anthropic, png(10, 10, 5_242_881), Some(note));
    check_image(Dialect::OpenAi, png(10, 10, 5_242_881), None);
    check_image(
        Dialect::Bedrock,
        png(10, 10, 3_750_001),
        Some("[image/png, 3.7 MB, omitted: over the limit of 3.7 MB]"),
    );
    check_image(Dialect::Anthropic, png(8_000, 10, 100), None);
    check_image(
        Dialect::Anthropic,
        png(10, 8_001, 100),
        Some("[image/png, 100 bytes, omitted: longer than 8000 pixels]"),
    );
    check_image(Dialect::OpenAi, png(10, 8_001, 100), None);
}

#[test]
fn output_is_truncated_to_the_limit_of_the_api() {
    let result = ToolResult::text("ä".repeat(10_485_761));
    let call = call(Some("a"), "f");
    let outcomes = [CallOutcome { call: &call, result: Some(&result) }];
    let items = write_results(Dialect::Responses, &outcomes, &ResultOptions::default()).unwrap();
    let output = items[0]["output"].as_str().unwrap();
    assert!((9_999_900..=10_485_760).contains(&output.chars().count()));
    assert!(output.ends_with("characters truncated]"), "{}", &output[output.len() - 60..]);
}

#[test]
fn no_outcomes_produce_no_messages() {
    for dialect in Dialect::all() {
        assert_eq!(write_results(dialect, &[], &ResultOptions::default()), Ok(Vec::new()));
    }
}
