//! A client of one of the gateway's APIs, complete or streamed, that keeps the history of its conversation.

#![allow(dead_code, clippy::unwrap_used)]

use serde_json::{Value, json};
use toolwire_testkit::http_client;

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const RESPONSES: &str = "/v1/responses";
pub(crate) const MESSAGES: &str = "/v1/messages";

/// A conversation of a client with one of the APIs.
pub(crate) struct Client {
    url: String,
    pub(crate) path: &'static str,
    pub(crate) model: &'static str,
    pub(crate) stream: bool,
    /// The history, in the format of the API.
    pub(crate) history: Vec<Value>,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) tools: Vec<&'static str>,
    /// Further fields of every request.
    pub(crate) extra: Value,
    /// Called with each response.
    pub(crate) on_response: Option<OnResponse>,
}

/// Checks a response.
pub(crate) type OnResponse = Box<dyn Fn(&Received<'_>) + Send + Sync>;

/// A response as the client received it.
pub(crate) struct Received<'r> {
    pub(crate) path: &'static str,
    pub(crate) status: u16,
    pub(crate) is_stream: bool,
    pub(crate) body: &'r str,
}

/// The visible part of a response: its text, its reasoning, and the ids and names of its calls.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) thinking: String,
    pub(crate) calls: Vec<(String, String)>,
    /// The types of the parts that only the client's API has.
    pub(crate) parts: Vec<String>,
    pub(crate) stop: String,
    pub(crate) input_tokens: u64,
    /// The number of the provider's own web searches, with Anthropic's API.
    pub(crate) searches: u64,
    /// The id of the container, with Anthropic's API.
    pub(crate) container: Option<String>,
}

impl Client {
    /// Creates a client of the API with this path, at a URL.
    pub(crate) fn new(url: String, path: &'static str) -> Client {
        let tools = vec!["get_weather", "get_time"];
        Client {
            url,
            path,
            model: "scripted",
            stream: false,
            history: Vec::new(),
            headers: Vec::new(),
            tools,
            extra: json!({}),
            on_response: None,
        }
    }

    pub(crate) fn body(&self) -> Value {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let tools: Vec<Value> = self.tools.iter().map(|name| match self.path {
            CHAT => json!({"type": "function", "function": {"name": name, "description": "d", "parameters": schema}}),
            RESPONSES => json!({
                "type": "function", "name": name, "description": "d", "parameters": schema, "strict": false,
            }),
            _ => json!({"name": name, "description": "d", "input_schema": schema}),
        }).collect();
        let mut body = match self.path {
            CHAT => json!({"model": self.model, "messages": self.history}),
            RESPONSES => json!({"model": self.model, "input": self.history}),
            _ => json!({"model": self.model, "max_tokens": 100, "messages": self.history}),
        };
        if self.stream {
            body["stream"] = json!(true);
        }
        if self.stream && self.path == CHAT {
            body["stream_options"] = json!({"include_usage": true});
        }
        if !tools.is_empty() {
            body["tools"] = json!(tools);
        }
        for (name, value) in self.extra.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    }

    /// Sends the history, and returns the status and the response.
    pub(crate) async fn post(&self, body: &Value) -> (u16, Value) {
        let request = http_client().post(&self.url).json(body);
        let request =
            self.headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let is_stream = response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream");
        let text = response.text().await.unwrap();
        if let Some(on_response) = &self.on_response {
            on_response(&Received { path: self.path, status, is_stream, body: &text });
        }
        match is_stream {
            true => (status, self.assemble(&text)),
            false => (status, serde_json::from_str(&text).unwrap()),
        }
    }

    pub(crate) async fn say(&mut self, text: &str) -> Reply {
        self.history.push(json!({"role": "user", "content": text}));
        self.send().await
    }

    /// Sends the history, and adds the response to it.
    pub(crate) async fn send(&mut self) -> Reply {
        let (status, response) = self.post(&self.body()).await;
        assert_eq!(status, 200, "{response}");
        let mut reply = Reply::default();
        match self.path {
            CHAT => {
                let choice = &response["choices"][0];
                reply.text = text(&choice["message"]["content"]) + &text(&choice["message"]["refusal"]);
                reply.thinking = text(&choice["message"]["reasoning_content"]);
                for call in choice["message"]["tool_calls"].as_array().into_iter().flatten() {
                    reply.calls.push((text(&call["id"]), text(&call["function"]["name"])));
                }
                reply.stop = text(&choice["finish_reason"]);
                reply.input_tokens = response["usage"]["prompt_tokens"].as_u64().unwrap_or_default();
                self.history.push(choice["message"].clone());
            }
            RESPONSES => {
                for item in response["output"].as_array().unwrap() {
                    match item["type"].as_str().unwrap() {
                        "message" => {
                            let part = &item["content"][0];
                            reply.text.push_str(part["text"].as_str().or(part["refusal"].as_str()).unwrap());
                        }
                        "reasoning" => item["summary"]
                            .as_array()
                            .unwrap()
                            .iter()
                            .for_each(|part| reply.thinking.push_str(part["text"].as_str().unwrap())),
                        "function_call" => reply.calls.push((text(&item["call_id"]), text(&item["name"]))),
                        kind if kind.ends_with("_search_call") => reply.parts.push(kind.to_owned()),
                        other => panic!("unexpected item {other}"),
                    }
                    self.history.push(item.clone());
                }
                reply.stop = text(&response["status"]);
                reply.input_tokens = response["usage"]["input_tokens"].as_u64().unwrap_or_default();
            }
            _ => {
                for block in response["content"].as_array().unwrap() {
                    match block["type"].as_str().unwrap() {
                        "text" => reply.text.push_str(block["text"].as_str().unwrap()),
                        "thinking" => reply.thinking.push_str(block["thinking"].as_str().unwrap()),
                        "tool_use" => reply.calls.push((text(&block["id"]), text(&block["name"]))),
                        kind @ ("server_tool_use" | "web_search_tool_result") => {
                            reply.parts.push(kind.to_owned())
                        }
                        other => panic!("unexpected block {other}"),
                    }
                }
                reply.stop = text(&response["stop_reason"]);
                reply.input_tokens = response["usage"]["input_tokens"].as_u64().unwrap_or_default();
                let searches = response.pointer("/usage/server_tool_use/web_search_requests");
                reply.searches = searches.and_then(Value::as_u64).unwrap_or_default();
                reply.container = response["container"]["id"].as_str().map(str::to_owned);
                self.history.push(json!({"role": "assistant", "content": response["content"]}));
            }
        }
        reply
    }

    /// Assembles the complete response from the events of a stream. An error in the stream is the response.
    fn assemble(&self, text: &str) -> Value {
        let data =
            text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
        let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
        if let Some(error) = events.iter().find(|event| event["error"].is_object()) {
            return error.clone();
        }
        match self.path {
            CHAT => assemble_chat(&events),
            RESPONSES => events.last().unwrap()["response"].clone(),
            _ => assemble_message(&events),
        }
    }

    /// Adds results of the client's calls.
    pub(crate) fn return_results(&mut self, results: &[(&str, &str)]) {
        match self.path {
            CHAT => self.history.extend(
                results.iter().map(|(id, text)| json!({"role": "tool", "tool_call_id": id, "content": text})),
            ),
            RESPONSES => self.history.extend(
                results
                    .iter()
                    .map(|(id, text)| json!({"type": "function_call_output", "call_id": id, "output": text})),
            ),
            _ => {
                let blocks: Vec<Value> = results
                    .iter()
                    .map(|(id, text)| json!({"type": "tool_result", "tool_use_id": id, "content": text}))
                    .collect();
                self.history.push(json!({"role": "user", "content": blocks}));
            }
        }
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn assemble_chat(events: &[Value]) -> Value {
    let mut message = json!({"role": "assistant", "content": null});
    let (mut content, mut refusal, mut reasoning) = (String::new(), String::new(), String::new());
    let mut calls: Vec<Value> = Vec::new();
    let mut response = json!({"choices": [{"index": 0}]});
    for event in events {
        if event["usage"].is_object() {
            response["usage"] = event["usage"].clone();
        }
        let Some(choice) = event["choices"].get(0) else { continue };
        content.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        refusal.push_str(choice["delta"]["refusal"].as_str().unwrap_or_default());
        reasoning.push_str(choice["delta"]["reasoning_content"].as_str().unwrap_or_default());
        for delta in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            match calls.iter_mut().find(|call| call["index"] == delta["index"]) {
                Some(call) => {
                    let arguments = text(&call["function"]["arguments"]);
                    let fragment = text(&delta["function"]["arguments"]);
                    call["function"]["arguments"] = json!(arguments + &fragment);
                }
                None => calls.push(delta.clone()),
            }
        }
        if choice["finish_reason"].is_string() {
            response["choices"][0]["finish_reason"] = choice["finish_reason"].clone();
        }
    }
    if !content.is_empty() {
        message["content"] = json!(content);
    }
    if !refusal.is_empty() {
        message["refusal"] = json!(refusal);
    }
    if !reasoning.is_empty() {
        message["reasoning_content"] = json!(reasoning);
    }
    if !calls.is_empty() {
        calls.iter_mut().for_each(|call| drop(call.as_object_mut().unwrap().remove("index")));
        message["tool_calls"] = json!(calls);
    }
    response["choices"][0]["message"] = message;
    response
}

fn assemble_message(events: &[Value]) -> Value {
    let mut message = events[0]["message"].clone();
    let mut blocks: Vec<Value> = Vec::new();
    let mut input = String::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                blocks.push(event["content_block"].clone());
                input.clear();
            }
            "content_block_delta" => {
                let (block, delta) = (blocks.last_mut().unwrap(), &event["delta"]);
                for key in ["text", "thinking", "signature"] {
                    if let Some(fragment) = delta[key].as_str() {
                        block[key] = json!(format!("{}{fragment}", block[key].as_str().unwrap()));
                    }
                }
                if delta["signature"].is_string() {
                    block["signature"] = delta["signature"].clone();
                }
                if delta["citation"].is_object() {
                    let mut citations = block["citations"].as_array().cloned().unwrap_or_default();
                    citations.push(delta["citation"].clone());
                    block["citations"] = json!(citations);
                }
                input.push_str(delta["partial_json"].as_str().unwrap_or_default());
            }
            "content_block_stop" if !input.is_empty() => {
                blocks.last_mut().unwrap()["input"] = serde_json::from_str(&input).unwrap();
            }
            "message_delta" => {
                message["stop_reason"] = event["delta"]["stop_reason"].clone();
                message["container"] = event["delta"]["container"].clone();
                message["usage"] = event["usage"].clone();
            }
            _ => {}
        }
    }
    message["content"] = json!(blocks);
    message
}
