//! The limits of a model: from the configuration, from the table of models, and as its provider states them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::OnceCell;
use tokio::time::{Duration, Instant};
use toolwire_contract::model::{ModelLimits, ModelRequest};
use toolwire_dialect::request::RequestOptions;
use toolwire_dialect::{Dialect, Family};

use crate::settings::EndpointSettings;

/// The minimum context window that is requested from Ollama, in tokens.
const MIN_OLLAMA_WINDOW: u64 = 8_192;
/// The room for a response in Ollama's window, if the request has no output limit.
const OLLAMA_RESPONSE_TOKENS: u64 = 2_048;
/// A request has at most this many times its estimated size. If Ollama still refuses it with a window of this
/// size, a larger one does not help.
const MAX_ESTIMATE_ERROR: u64 = 4;
/// The output limit of a model that is not in the table, where the API requires one.
const DEFAULT_OUTPUT_TOKENS: u64 = 8_192;
/// The output limit of a response that is not streamed: a longer one can take more than ten minutes.
const MAX_UNSTREAMED_TOKENS: u64 = 21_333;
/// The smallest output limit in a window that is nearly full.
const MIN_OUTPUT_TOKENS: u64 = 1_024;

/// The assumed size of the window after a request was refused as too long, if the window is unknown: a share
/// of the request, in percent.
const ASSUMED_WINDOW_PERCENT: u64 = 70;
/// The time for which an assumed window is used. It is derived from an estimate, which one unusual request
/// can distort for all others.
const ASSUMED_WINDOW_LIFETIME: Duration = Duration::from_secs(600);

/// The limits of a model that were discovered at run time. Zero means unknown.
#[derive(Debug, Default)]
pub(crate) struct LearnedLimits {
    /// The window that the provider states.
    context_tokens: AtomicU64,
    /// The output limit that the provider states.
    output_tokens: AtomicU64,
    /// The smallest window in an error for a request that was too long.
    exceeded_window: AtomicU64,
    /// The window that is assumed after a refusal which does not state it, and the end of this assumption.
    assumed_window: Mutex<Option<(u64, Instant)>>,
    /// The estimated size of the largest request that was accepted.
    accepted: AtomicU64,
    /// The largest window that was requested from Ollama.
    ollama_window: AtomicU64,
    /// Whether the provider was queried.
    pub(crate) asked: OnceCell<()>,
}

impl LearnedLimits {
    /// Records the limits that the provider states.
    pub(crate) fn record(&self, context_tokens: Option<u64>, output_tokens: Option<u64>) {
        self.context_tokens.store(context_tokens.unwrap_or(0), Ordering::Relaxed);
        self.output_tokens.store(output_tokens.unwrap_or(0), Ordering::Relaxed);
    }

    /// Records the window in the error for a request that was too long. It may be smaller than documented.
    pub(crate) fn record_window(&self, tokens: u64) {
        let smaller = |known: u64| (known == 0 || tokens < known).then_some(tokens);
        let _ = self.exceeded_window.fetch_update(Ordering::Relaxed, Ordering::Relaxed, smaller);
    }

    /// Records that a request of this estimated size was refused as too long, and the provider did not state
    /// the window. Later requests then fit without being refused first.
    pub(crate) fn record_refusal(&self, estimated: u64) {
        let accepted = known(&self.accepted).filter(|accepted| *accepted < estimated);
        let assumed = (estimated * ASSUMED_WINDOW_PERCENT / 100).max(accepted.unwrap_or(1));
        let mut window = self.assumed_window.lock().unwrap_or_else(PoisonError::into_inner);
        let known = window.filter(|(_, end)| *end > Instant::now()).map(|(tokens, _)| tokens);
        let tokens = known.map_or(assumed, |known| known.min(assumed));
        *window = Some((tokens, Instant::now() + ASSUMED_WINDOW_LIFETIME));
    }

    /// Records that a request of this estimated size was accepted.
    pub(crate) fn record_accepted(&self, estimated: u64) {
        self.accepted.fetch_max(estimated, Ordering::Relaxed);
    }

    /// Returns the limits: as configured, else as the provider states them, else as in the table. No window
    /// is larger than the one in an error. If none is known, it is assumed from refused requests.
    pub(crate) fn limits(&self, settings: &EndpointSettings) -> ModelLimits {
        let assumed = || {
            let assumed = self.assumed_window.lock().unwrap_or_else(PoisonError::into_inner);
            assumed.filter(|(_, end)| *end > Instant::now()).map(|(tokens, _)| tokens)
        };
        ModelLimits { context_tokens: self.known_window(settings).or_else(assumed), ..settings.limits }
    }

    /// Returns the window, without an assumed one.
    pub(crate) fn known_window(&self, settings: &EndpointSettings) -> Option<u64> {
        let stated = known(&self.context_tokens).filter(|_| !settings.is_window_configured);
        let window = stated.or(settings.limits.context_tokens);
        window.into_iter().chain(known(&self.exceeded_window)).min()
    }

    /// Returns the options of a request: the window to allocate, and the output limit where the API requires
    /// one.
    pub(crate) fn request_options(
        &self,
        settings: &EndpointSettings,
        request: &ModelRequest,
    ) -> RequestOptions {
        let mut options = settings.options.clone();
        let window = self.known_window(settings);
        match settings.dialect.family() {
            Family::Ollama => {
                options.context_tokens = Some(self.ollama_window(settings, request, window));
            }
            Family::Anthropic => {
                let output = known(&self.output_tokens).or(settings.model_output_tokens);
                let mut output = output.unwrap_or(DEFAULT_OUTPUT_TOKENS);
                if !options.stream {
                    output = output.min(MAX_UNSTREAMED_TOKENS);
                }
                // The API rejects a request whose input and output limit together exceed the window. The
                // input may be larger than estimated.
                let input = request.estimated_tokens();
                let room =
                    window.map(|window| window.saturating_sub(input + input / 3).max(MIN_OUTPUT_TOKENS));
                options.default_output_tokens = room.map_or(output, |room| output.min(room));
            }
            _ => {}
        }
        options
    }

    /// Returns the window that Ollama allocates for a request. Another size makes Ollama load the model
    /// again, so it grows in powers of two and never shrinks. A configured size is used as it is. If the
    /// window of the model is unknown, Ollama reduces a larger size to it.
    fn ollama_window(&self, settings: &EndpointSettings, request: &ModelRequest, known: Option<u64>) -> u64 {
        let max = known.unwrap_or(u64::MAX);
        if settings.is_window_configured {
            return max;
        }
        let response = request.max_output_tokens.unwrap_or(OLLAMA_RESPONSE_TOKENS);
        let needed = request.estimated_tokens().saturating_add(response);
        let size = needed.checked_next_power_of_two().unwrap_or(max).max(MIN_OLLAMA_WINDOW).min(max);
        self.ollama_window.fetch_max(size, Ordering::Relaxed).max(size).min(max)
    }

    /// Doubles the window that Ollama allocates, after a request of this estimated size was refused. `stated`
    /// is the window in the error. Returns `false` if it is the window of the model that is too small, and
    /// not the one that was requested.
    pub(crate) fn enlarge_ollama_window(
        &self,
        settings: &EndpointSettings,
        requested: u64,
        stated: Option<u64>,
        estimated: u64,
    ) -> bool {
        let max = self.known_window(settings).unwrap_or(u64::MAX);
        let is_reduced = stated.is_some_and(|stated| stated < requested);
        let is_enough = requested / MAX_ESTIMATE_ERROR > estimated.max(MIN_OLLAMA_WINDOW);
        if settings.is_window_configured || requested >= max || is_reduced || is_enough {
            return false;
        }
        self.ollama_window.fetch_max(requested.saturating_mul(2).min(max), Ordering::Relaxed);
        true
    }
}

/// Whether prompts are cached: always with Anthropic's own API, and with its current models on Bedrock.
pub(crate) fn supports_prompt_cache(dialect: Dialect, model: &str, is_known_model: bool) -> bool {
    match dialect.family() {
        Family::Anthropic => true,
        Family::Bedrock => is_known_model && model.contains("anthropic.claude-"),
        _ => false,
    }
}

fn known(tokens: &AtomicU64) -> Option<u64> {
    Some(tokens.load(Ordering::Relaxed)).filter(|tokens| *tokens > 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use toolwire_contract::Message;

    use super::*;

    fn settings(name: &str, config: Value) -> EndpointSettings {
        let config = serde_json::from_value(config).expect("a configuration");
        EndpointSettings::new(name, &config, &|name| name.contains("KEY").then(|| "key".to_owned()))
            .expect("an endpoint")
    }

    /// Returns a request of about this many tokens.
    fn request(tokens: usize) -> ModelRequest {
        let messages = vec![Arc::new(Message::user("abc".repeat(tokens)))];
        ModelRequest { messages, ..ModelRequest::default() }
    }

    #[test]
    fn the_window_of_ollama_grows_in_steps_and_never_shrinks() {
        let (settings, learned) =
            (settings("ollama/m", json!({"baseUrl": "http://a"})), LearnedLimits::default());
        let window = |tokens| learned.request_options(&settings, &request(tokens)).context_tokens;
        // The window of the model is unknown.
        assert_eq!([100, 7_000].map(window), [8_192, 16_384].map(Some));
        learned.record(Some(100_000), None);
        let windows = [100, 9_000, 100, 40_000, 90_000, 100].map(window);
        assert_eq!(windows, [16_384, 16_384, 16_384, 65_536, 100_000, 100_000].map(Some));
    }

    #[test]
    fn the_window_of_ollama_is_enlarged_unless_it_is_that_of_the_model() {
        let ollama = |config: Value| settings("ollama/m", config);
        let (plain, learned) = (ollama(json!({"baseUrl": "http://a"})), LearnedLimits::default());
        let window = || learned.request_options(&plain, &request(100)).context_tokens;
        // Ollama has reduced the requested size.
        assert!(!learned.enlarge_ollama_window(&plain, 8_192, Some(2_048), 8_000));
        assert_eq!(window(), Some(8_192));
        assert!(learned.enlarge_ollama_window(&plain, 8_192, Some(8_192), 8_000));
        assert_eq!(window(), Some(16_384));
        assert!(learned.enlarge_ollama_window(&plain, 16_384, None, 8_000));
        assert_eq!(window(), Some(32_768));
        // The request cannot be this large.
        assert!(!learned.enlarge_ollama_window(&plain, 65_536, None, 8_000));
        learned.record(Some(40_000), None);
        assert!(learned.enlarge_ollama_window(&plain, 32_768, Some(32_768), 20_000));
        assert_eq!(window(), Some(40_000));
        assert!(!learned.enlarge_ollama_window(&plain, 40_000, Some(40_000), 39_000));
        let configured = ollama(json!({"contextTokens": 8_192}));
        assert!(!LearnedLimits::default().enlarge_ollama_window(&configured, 8_192, Some(8_192), 8_000));
    }

    #[test]
    fn a_configured_window_of_ollama_is_used_as_it_is() {
        for config in [json!({"contextTokens": 5_000}), json!({"request": {"options": {"num_ctx": 5_000}}})] {
            let settings = settings("ollama/m", config);
            let options = LearnedLimits::default().request_options(&settings, &request(9_000));
            assert_eq!(options.context_tokens, Some(5_000));
        }
    }

    #[track_caller]
    fn check_output(config: Value, tokens: usize, expected: u64) {
        let name = config["name"].as_str().unwrap_or("anthropic/claude-sonnet-4-5").to_owned();
        let options = LearnedLimits::default().request_options(&settings(&name, config), &request(tokens));
        assert_eq!(options.default_output_tokens, expected);
    }

    #[test]
    fn the_output_limit_is_that_of_the_model_as_far_as_the_window_has_room() {
        check_output(json!({}), 100, 64_000);
        check_output(json!({"stream": false}), 100, 21_333);
        check_output(json!({"name": "anthropic/unknown"}), 100, 8_192);
        check_output(json!({"contextTokens": 16_000}), 8_000, 16_000 - 8_008 - 8_008 / 3);
        check_output(json!({"contextTokens": 16_000}), 15_000, 1_024);
    }

    #[test]
    fn the_smallest_stated_window_counts() {
        let (settings, learned) = (settings("openai/gpt-4o", json!({})), LearnedLimits::default());
        let window = || learned.limits(&settings).context_tokens;
        assert_eq!(window(), Some(128_000));
        for (stated, expected) in [(200_000, 128_000), (32_000, 32_000), (64_000, 32_000)] {
            learned.record_window(stated);
            assert_eq!(window(), Some(expected));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_request_shows_where_an_unknown_window_ends() {
        let (settings, learned) =
            (settings("vllm/m", json!({"baseUrl": "http://a"})), LearnedLimits::default());
        let window = || learned.limits(&settings).context_tokens;
        learned.record_accepted(5_000);
        assert_eq!(window(), None);
        for (refused, expected) in [(20_000, 14_000), (30_000, 14_000), (10_000, 7_000), (6_000, 5_000)] {
            learned.record_refusal(refused);
            assert_eq!(window(), Some(expected), "{refused}");
        }
        // Requests are estimated differently: this one is shorter than one that was accepted.
        learned.record_refusal(4_000);
        assert_eq!(window(), Some(2_800));
        tokio::time::advance(ASSUMED_WINDOW_LIFETIME).await;
        assert_eq!(window(), None);
        learned.record_refusal(20_000);
        assert_eq!(window(), Some(14_000));
        learned.record_window(32_000);
        assert_eq!(window(), Some(32_000), "the stated window replaces the assumed one");
    }

    /// An assumed window is not requested from the provider.
    #[test]
    fn an_assumed_window_is_not_that_of_a_request() {
        let (settings, learned) =
            (settings("ollama/m", json!({"baseUrl": "http://a"})), LearnedLimits::default());
        learned.record_refusal(20_000);
        assert_eq!(learned.request_options(&settings, &request(100)).context_tokens, Some(MIN_OLLAMA_WINDOW));
    }

    #[test]
    fn a_stated_limit_replaces_that_of_the_table_and_not_a_configured_one() {
        for (config, expected) in [(json!({}), 1_000_000), (json!({"contextTokens": 50_000}), 50_000)] {
            let settings = settings("anthropic/claude-sonnet-4-5", config);
            let learned = LearnedLimits::default();
            learned.record(Some(1_000_000), Some(128_000));
            assert_eq!(learned.limits(&settings).context_tokens, Some(expected));
        }
        let (settings, learned) =
            (settings("anthropic/claude-sonnet-4-5", json!({})), LearnedLimits::default());
        learned.record_window(100_000);
        learned.record(Some(1_000_000), Some(60_000));
        assert_eq!(learned.limits(&settings).context_tokens, Some(100_000));
        assert_eq!(learned.request_options(&settings, &request(100)).default_output_tokens, 60_000);
        learned.record(None, None);
        assert_eq!(learned.request_options(&settings, &request(100)).default_output_tokens, 64_000);
    }

    #[test]
    fn only_models_that_are_known_to_cache_are_marked() {
        let caches = |name: &str| settings(name, json!({"region": "eu-west-1"})).options.prompt_cache;
        assert!(
            caches("anthropic/anything") && caches("bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0")
        );
        for name in [
            "bedrock/anthropic.claude-instant-v1",
            "bedrock/amazon.nova-pro-v1:0",
            "openai/gpt-4o",
            "gemini/x",
        ] {
            assert!(!caches(name), "{name}");
        }
        assert!(!settings("anthropic/x", json!({"promptCache": false})).options.prompt_cache);
    }
}
