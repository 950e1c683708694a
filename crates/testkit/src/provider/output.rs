//! The output of a scripted model, independent of any API.

/// One response of a scripted model.
///
/// ```
/// # use toolwire_testkit::provider::ModelOutput;
/// let output = ModelOutput::text("Let me see. ").call("call_1", "get_weather", r#"{"city":"Paris"}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelOutput {
    /// The visible thinking; APIs that sign thinking sign it.
    pub thinking: Option<String>,
    /// Adds thinking that is sent in opaque form only: Anthropic, Bedrock and Responses.
    pub hidden_thinking: bool,
    pub text: Option<String>,
    pub refusal: Option<String>,
    /// The queries of web searches that the provider makes itself, before the text, which then cites the last
    /// result: Anthropic and Responses.
    pub searches: Vec<String>,
    /// The id of a container that the provider reports; only Anthropic.
    pub container: Option<String>,
    pub calls: Vec<OutputCall>,
    /// `None` means [`FinishReason::Calls`] when there are calls, and [`FinishReason::End`] when there are
    /// none.
    pub finish: Option<FinishReason>,
    pub usage: TokenCounts,
    /// Streams one piece of each call in turn instead of one call after the other; Chat Completions only.
    pub interleaved: bool,
    /// Ends the stream with this error; responses that are not streamed ignore it.
    pub stream_error: Option<StreamError>,
}

/// A tool call as the model writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputCall {
    /// Empty for no id, where the API allows that: Gemini and Ollama.
    pub id: String,
    pub name: String,
    /// The text of the arguments; it may be invalid JSON where the API carries arguments as text.
    pub arguments: String,
}

/// The reason why a response ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    End,
    Calls,
    Length,
    /// A content filter of the provider intervened, or the model refused.
    Refusal,
    /// A value specific to the provider.
    Other(String),
}

/// The usage that a response reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenCounts {
    /// All tokens of the request, including cached ones.
    pub input: u64,
    /// The tokens of the request that came from the cache.
    pub cached: u64,
    /// The tokens of the request that were written to the cache; only Anthropic, Bedrock and OpenAI report
    /// them.
    pub written: u64,
    /// All tokens of the response, including thinking.
    pub output: u64,
    /// The tokens of the response that were thinking.
    pub thinking: u64,
}

impl Default for TokenCounts {
    fn default() -> Self {
        TokenCounts { input: 12, cached: 0, written: 0, output: 5, thinking: 0 }
    }
}

/// An error in the middle of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError {
    /// The error type of the API: `overloaded_error`, `server_error`, `UNAVAILABLE`, `throttlingException`.
    pub kind: String,
    pub message: String,
}

impl ModelOutput {
    pub fn text(text: &str) -> ModelOutput {
        ModelOutput { text: Some(text.to_owned()), ..ModelOutput::default() }
    }

    /// Adds a call.
    pub fn call(mut self, id: &str, name: &str, arguments: &str) -> ModelOutput {
        let call = OutputCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
        self.calls.push(call);
        self
    }

    /// Adds a web search of the provider.
    pub fn search(mut self, query: &str) -> ModelOutput {
        self.searches.push(query.to_owned());
        self
    }

    /// Reports a container in which the provider has run code.
    pub fn container(mut self, id: &str) -> ModelOutput {
        self.container = Some(id.to_owned());
        self
    }

    pub fn thinking(mut self, thinking: &str) -> ModelOutput {
        self.thinking = Some(thinking.to_owned());
        self
    }

    pub fn refusal(mut self, refusal: &str) -> ModelOutput {
        self.refusal = Some(refusal.to_owned());
        self
    }

    pub fn finish(mut self, reason: FinishReason) -> ModelOutput {
        self.finish = Some(reason);
        self
    }

    pub fn usage(mut self, usage: TokenCounts) -> ModelOutput {
        self.usage = usage;
        self
    }

    pub fn stream_error(mut self, kind: &str, message: &str) -> ModelOutput {
        self.stream_error = Some(StreamError { kind: kind.to_owned(), message: message.to_owned() });
        self
    }

    pub(super) fn finish_reason(&self) -> FinishReason {
        match (&self.finish, self.calls.is_empty()) {
            (Some(reason), _) => reason.clone(),
            (None, true) => FinishReason::End,
            (None, false) => FinishReason::Calls,
        }
    }

    /// The text and the refusal, for APIs that send a refusal as text.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.text.iter().chain(&self.refusal).map(String::as_str)
    }
}

impl OutputCall {
    /// Returns the arguments for an API that carries them as an object.
    ///
    /// # Panics
    ///
    /// When they are not a JSON object.
    pub(super) fn object(&self) -> serde_json::Value {
        let parsed = serde_json::from_str(&self.arguments).ok().filter(serde_json::Value::is_object);
        parsed.unwrap_or_else(|| {
            panic!("this API carries arguments as an object, but `{}` is not an object", self.arguments)
        })
    }
}

/// Splits a text as a stream would, into pieces so small that they split tokens, escapes and JSON values.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    const PIECE_CHARS: usize = 5;
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).step_by(PIECE_CHARS).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &text[start..end]).collect()
}
