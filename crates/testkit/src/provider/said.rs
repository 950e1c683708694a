//! What a scripted model says, in no API's words.

/// One answer of a scripted model.
///
/// ```
/// # use toolwire_testkit::provider::Said;
/// let said = Said::text("Let me see. ").call("call_1", "get_weather", r#"{"city":"Paris"}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// What is shown of its thinking; signed by APIs that sign it.
    pub thinking: Option<String>,
    /// Thinking that is not shown, only handed on in sealed form: Anthropic, Bedrock and Responses.
    pub hidden_thinking: bool,
    pub text: Option<String>,
    pub refusal: Option<String>,
    pub calls: Vec<Call>,
    /// [`Stop::Calls`] when there are calls and [`Stop::End`] when there are none, unless it is said here.
    pub stop: Option<Stop>,
    pub usage: Tokens,
    /// In a stream of the chat family: a piece of each call in turn, instead of one call after the other.
    pub interleaved: bool,
    /// The answer breaks off with this error where its end would be; in a stream only.
    pub fault: Option<Fault>,
}

/// A call as the model writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Empty for none, where the API allows that: Gemini and Ollama.
    pub id: String,
    pub name: String,
    /// The text of the arguments, which need not be JSON where the API carries them as text.
    pub arguments: String,
}

/// Why the answer ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    End,
    Calls,
    Length,
    /// A filter of the provider's stepped in, or the model would not answer.
    Refusal,
    /// The provider's own word.
    Other(String),
}

/// What an answer cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// All of the request, what was cached included.
    pub input: u64,
    /// What of the request came from the cache.
    pub cached: u64,
    /// All of the answer, thinking included.
    pub output: u64,
    /// What of the answer was thinking.
    pub thinking: u64,
}

impl Default for Tokens {
    fn default() -> Self {
        Tokens { input: 12, cached: 0, output: 5, thinking: 0 }
    }
}

/// An error in the middle of a stream, in the API's own words: `overloaded_error`, `server_error`, `UNAVAILABLE`,
/// `throttlingException`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: String,
    pub message: String,
}

impl Said {
    pub fn text(text: &str) -> Said {
        Said { text: Some(text.to_owned()), ..Said::default() }
    }

    /// With one more call.
    pub fn call(mut self, id: &str, name: &str, arguments: &str) -> Said {
        self.calls.push(Call { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() });
        self
    }

    pub fn thinking(mut self, thinking: &str) -> Said {
        self.thinking = Some(thinking.to_owned());
        self
    }

    pub fn refusal(mut self, refusal: &str) -> Said {
        self.refusal = Some(refusal.to_owned());
        self
    }

    pub fn stop(mut self, stop: Stop) -> Said {
        self.stop = Some(stop);
        self
    }

    pub fn usage(mut self, usage: Tokens) -> Said {
        self.usage = usage;
        self
    }

    pub fn fault(mut self, kind: &str, message: &str) -> Said {
        self.fault = Some(Fault { kind: kind.to_owned(), message: message.to_owned() });
        self
    }

    pub(super) fn why(&self) -> Stop {
        match (&self.stop, self.calls.is_empty()) {
            (Some(stop), _) => stop.clone(),
            (None, true) => Stop::End,
            (None, false) => Stop::Calls,
        }
    }
}

impl Call {
    /// The arguments for an API that carries them as an object.
    ///
    /// # Panics
    ///
    /// When they are no JSON object, which such an API cannot say.
    pub(super) fn object(&self) -> serde_json::Value {
        let parsed = serde_json::from_str(&self.arguments).ok().filter(serde_json::Value::is_object);
        parsed.unwrap_or_else(|| {
            panic!("this API says arguments as an object, and `{}` is none", self.arguments)
        })
    }
}

/// A text in the pieces a stream carries: small enough that words, escapes and JSON are torn.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    const CHARACTERS: usize = 5;
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).step_by(CHARACTERS).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &text[start..end]).collect()
}
