//! Records the last requests: their steps, calls, times and tokens, and the first line of errors. Other
//! texts, arguments and results are not recorded. The page displays the records, and the metrics are taken
//! from them.

mod run_recorder;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use http::StatusCode;
use tokio::time::Instant;
use toolwire_contract::model::Usage;
use toolwire_page::traffic::{Request, RequestOutcome};

use crate::metrics::{EndedRequest, Metrics, OTHER};
use crate::principal::Principal;
use crate::response::{Failure, HttpResponse, ResponseBody};
pub(crate) use run_recorder::RunRecorder;

/// The number of requests that are recorded.
const MAX_REQUESTS: usize = 1_000;

/// The maximum number of steps, calls and waits that are recorded of one request.
const MAX_SPANS: usize = 1_000;

/// The number of steps, calls and waits of all requests above which the oldest requests are removed. A span
/// has less than 500 bytes, so the record has less than 25 MB.
const MAX_ALL_SPANS: usize = 50_000;

/// The maximum number of requests that a new one removes, so that its time is bounded.
const MAX_REMOVED: usize = 8;

/// The maximum length of a recorded text: an error, or a name that a client or a model has chosen.
const MAX_TEXT: usize = 300;

/// The last requests, the newest at the end.
#[derive(Default)]
pub(crate) struct Traffic {
    requests: Mutex<VecDeque<RecordedRequest>>,
    /// Changes with each change of a request.
    version: AtomicU64,
    metrics: Metrics,
    /// The number of steps, calls and waits of all records.
    spans: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct RecordedRequest {
    owner: Principal,
    record: Arc<Record>,
}

struct Record {
    request: Mutex<Request>,
    spans: AtomicUsize,
    all_spans: Arc<AtomicUsize>,
}

impl Record {
    /// Counts another step, call or wait. Returns `false` if there is no room for it.
    fn try_count_span(&self) -> bool {
        let has_room = self.spans.load(Ordering::Relaxed) < MAX_SPANS;
        if has_room {
            self.spans.fetch_add(1, Ordering::Relaxed);
            self.all_spans.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.all_spans.fetch_sub(*self.spans.get_mut(), Ordering::Relaxed);
    }
}

/// Records one request. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RequestRecorder {
    traffic: Arc<Traffic>,
    record: Arc<Record>,
    start: Instant,
    /// The name of the operation in the conventions of OpenTelemetry.
    operation: &'static str,
    /// The name of the model in metrics.
    label: Arc<OnceLock<String>>,
}

/// Ends the record of a request when it is dropped: if the response is not complete then, the client has
/// disconnected.
pub(crate) struct RecordGuard(RequestRecorder);

impl Traffic {
    pub(crate) fn new(metrics: Metrics) -> Traffic {
        Traffic { metrics, ..Traffic::default() }
    }

    /// Begins the record of a request.
    pub(crate) fn begin(self: &Arc<Traffic>, id: &str, path: &str, owner: &Principal) -> RequestRecorder {
        let mut request = Request::default();
        id.clone_into(&mut request.id);
        path.clone_into(&mut request.path);
        request.at = Some(SystemTime::now());
        request.key = owner.name().map(str::to_owned);
        let record = Arc::new(Record {
            request: Mutex::new(request),
            spans: AtomicUsize::new(0),
            all_spans: self.spans.clone(),
        });
        let entry = RecordedRequest { owner: owner.clone(), record: record.clone() };
        let has_too_many_spans = self.spans.load(Ordering::Relaxed) > MAX_ALL_SPANS;
        let mut requests = self.lock();
        // They are dropped after the lock is released.
        let excess =
            if has_too_many_spans { MAX_REMOVED } else { (requests.len() + 1).saturating_sub(MAX_REQUESTS) };
        let end = excess.min(requests.len());
        let removed: Vec<RecordedRequest> = requests.drain(..end).collect();
        requests.push_back(entry);
        drop(requests);
        drop(removed);
        self.version.fetch_add(1, Ordering::Relaxed);
        let (operation, label) = (operation_of(path), Arc::default());
        RequestRecorder { traffic: self.clone(), record, start: Instant::now(), operation, label }
    }

    /// Returns the requests of a caller, or of all callers, the newest first.
    pub(crate) fn requests(&self, of: Option<&Principal>) -> Vec<Arc<Request>> {
        // New requests do not wait for the copies.
        let selected: Vec<RecordedRequest> = {
            let requests = self.lock();
            requests
                .iter()
                .rev()
                .filter(|entry| of.is_none_or(|owner| entry.owner == *owner))
                .cloned()
                .collect()
        };
        selected.iter().map(|entry| Arc::new(lock(&entry.record.request).clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<RecordedRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number that differs after each change.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }
}

impl RequestRecorder {
    /// Returns the guard that ends the record. It must be kept until the end of the response.
    pub(crate) fn guard(&self) -> RecordGuard {
        RecordGuard(self.clone())
    }

    /// Records the model that the request names, and its name in metrics.
    pub(crate) fn set_model(&self, model: Option<String>, label: String) {
        lock(&self.record.request).model = model.map(|name| shortened(&name));
        let _ = self.label.set(label);
    }

    /// Records the tokens that the response to a forwarded request reports.
    pub(crate) fn set_usage(&self, usage: Usage) {
        lock(&self.record.request).usage = Some(usage);
    }

    /// Records the head of the response, and the end of it unless it is a stream.
    pub(crate) fn respond(&self, response: &Result<HttpResponse, Failure>, status: StatusCode) {
        let mut request = lock(&self.record.request);
        request.status = Some(status.as_u16());
        match response {
            Ok(response) if matches!(response.body(), ResponseBody::Stream(_)) => {
                request.is_stream = true;
                return;
            }
            Ok(_) if status.is_success() => {}
            Ok(_) => request.error = request.error.take().or_else(|| Some(format!("status {status}"))),
            Err(failure) => request.error = Some(shortened(&failure.error.message)),
        }
        let outcome = match status {
            status if status.is_success() => RequestOutcome::Ok,
            status if status.is_client_error() => RequestOutcome::ClientError,
            _ => RequestOutcome::UpstreamError,
        };
        self.end(&mut request, outcome);
    }

    /// Records the status of a response that continues in the background.
    pub(crate) fn respond_later(&self, status: StatusCode) {
        lock(&self.record.request).status = Some(status.as_u16());
    }

    /// Records that a stream is complete.
    fn complete(&self) {
        let mut request = lock(&self.record.request);
        let outcome =
            if request.error.is_some() { RequestOutcome::UpstreamError } else { RequestOutcome::Ok };
        self.end(&mut request, outcome);
    }

    fn end(&self, request: &mut Request, outcome: RequestOutcome) {
        if request.outcome.is_some() {
            return;
        }
        let now = self.start.elapsed();
        request.outcome = Some(outcome);
        request.elapsed = Some(now);
        // A request that the gateway runs has at least one step.
        request.is_forwarded = request.steps.is_empty() && outcome == RequestOutcome::Ok;
        for step in &mut request.steps {
            step.end = step.end.or(Some(now));
        }
        for call in &mut request.calls {
            call.end = call.end.or(Some(now));
        }
        let model = self.label.get().map_or(OTHER, String::as_str);
        let ended = EndedRequest { operation: self.operation, model, request };
        self.traffic.metrics.record_request(&ended);
        self.traffic.version.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the name of a path's operation in the conventions of OpenTelemetry.
pub(crate) fn operation_of(path: &str) -> &'static str {
    match path.strip_prefix("/v1/").unwrap_or(path) {
        "embeddings" => "embeddings",
        "completions" => "text_completion",
        "moderations" => "moderation",
        path if path.starts_with("images/") || path.starts_with("audio/") => "generate_content",
        _ => "chat",
    }
}

impl RecordGuard {
    /// Records that a part of a stream is sent. The first output of a run is one of its events, because a
    /// stream may begin with something else.
    pub(crate) fn record_part(&self) {
        let mut request = lock(&self.0.record.request);
        if request.steps.is_empty() {
            request.first_output.get_or_insert_with(|| self.0.start.elapsed());
        }
    }

    /// Records that the response is complete.
    pub(crate) fn complete(&self) {
        self.0.complete();
    }
}

impl Drop for RecordGuard {
    fn drop(&mut self) {
        let mut request = lock(&self.0.record.request);
        self.0.end(&mut request, RequestOutcome::Stopped);
    }
}

fn lock(request: &Mutex<Request>) -> MutexGuard<'_, Request> {
    request.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shortened(text: &str) -> String {
    toolwire_page::text::shortened(text, MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use futures::StreamExt as _;
    use toolwire_agent::AgentEvent;
    use toolwire_contract::ToolResult;
    use toolwire_page::traffic::CallOutcome;

    use super::*;
    use crate::principal::tests::principals;

    fn begin() -> (Arc<Traffic>, RequestRecorder) {
        let traffic: Arc<Traffic> = Arc::default();
        let recorder = traffic.begin("req_1", "/v1/messages", &principals()[0]);
        (traffic, recorder)
    }

    fn only(traffic: &Traffic) -> Arc<Request> {
        let requests = traffic.requests(None);
        assert_eq!(requests.len(), 1);
        requests[0].clone()
    }

    fn streamed() -> Result<HttpResponse, Failure> {
        Ok(http::Response::new(ResponseBody::stream(futures::stream::iter([Ok(Bytes::from("x"))]))))
    }

    #[tokio::test(start_paused = true)]
    async fn steps_and_calls_have_times() {
        let (traffic, recorder) = begin();
        let mut run = RunRecorder::new(recorder.clone(), Arc::new(toolwire_agent::Functions::new()));
        let second = || tokio::time::advance(Duration::from_secs(1));
        run.observe(&AgentEvent::StepStarted { step: 1 });
        second().await;
        run.observe(&AgentEvent::Text("a".to_owned()));
        second().await;
        run.observe(&AgentEvent::Text("b".to_owned()));
        let (id, name) = ("1".to_owned(), "f".to_owned());
        let arguments = serde_json::Map::new();
        run.observe(&AgentEvent::CallStarted { id: id.clone(), name: name.clone(), arguments });
        second().await;
        let result = ToolResult::error("wrong");
        run.observe(&AgentEvent::CallFinished { id, name, result, elapsed: Some(Duration::from_secs(1)) });
        let denied = |id: &str| AgentEvent::CallFinished {
            id: id.to_owned(),
            name: "g".to_owned(),
            result: ToolResult::error("denied"),
            elapsed: None,
        };
        run.observe(&denied("2"));
        run.observe(&AgentEvent::StepStarted { step: 2 });
        let response = Ok(http::Response::new(ResponseBody::Whole(Bytes::from("x"))));
        recorder.respond(&response, StatusCode::OK);
        let request = only(&traffic);
        let seconds = |duration: Option<Duration>| duration.map(|duration| duration.as_secs());
        assert_eq!((request.outcome, seconds(request.elapsed)), (Some(RequestOutcome::Ok), Some(3)));
        assert_eq!((seconds(request.first_output), request.steps.len()), (Some(1), 2));
        assert_eq!(seconds(request.steps[0].end), Some(3));
        let calls: Vec<_> = request
            .calls
            .iter()
            .map(|call| (call.start.as_secs(), seconds(call.end), call.outcome))
            .collect();
        let expected = [(2, Some(3), Some(CallOutcome::Failed)), (3, Some(3), Some(CallOutcome::NotMade))];
        assert_eq!(calls, expected);
        assert!(!request.is_forwarded);
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_last_part() {
        let (traffic, recorder) = begin();
        let response = streamed();
        recorder.respond(&response, StatusCode::OK);
        let guard = recorder.guard();
        let body = response.expect("a response").into_body().recorded(guard);
        assert_eq!(only(&traffic).outcome, None);
        let ResponseBody::Stream(mut stream) = body else { panic!("a stream") };
        while stream.next().await.is_some() {}
        assert_eq!(only(&traffic).outcome, Some(RequestOutcome::Ok));
    }

    #[tokio::test]
    async fn a_client_that_disconnects_has_stopped_the_request() {
        let (traffic, recorder) = begin();
        let response = streamed();
        recorder.respond(&response, StatusCode::OK);
        drop(response.expect("a response").into_body().recorded(recorder.guard()));
        assert_eq!(only(&traffic).outcome, Some(RequestOutcome::Stopped));
        // The request ended before it had a response.
        let recorder = traffic.begin("req_2", "/v1/messages", &principals()[1]);
        drop(recorder.guard());
        assert_eq!(traffic.requests(Some(&principals()[1]))[0].outcome, Some(RequestOutcome::Stopped));
    }

    #[test]
    fn the_number_of_requests_is_bounded() {
        let (traffic, _) = begin();
        for number in 0..MAX_REQUESTS {
            traffic.begin(&number.to_string(), "/", &principals()[0]);
        }
        let requests = traffic.requests(None);
        assert_eq!((requests.len(), requests[0].id.as_str()), (MAX_REQUESTS, "999"));
    }

    /// A client chooses the name of the model, and a model those of the calls.
    #[test]
    fn the_size_of_names_is_bounded() {
        let (traffic, recorder) = begin();
        let long = |first: char| format!("{first}{}", "x".repeat(100_000));
        recorder.set_model(Some(long('m')), OTHER.to_owned());
        let mut run = RunRecorder::new(recorder.clone(), Arc::new(toolwire_agent::Functions::new()));
        let (id, name) = (long('1'), long('f'));
        let arguments = serde_json::Map::new();
        run.observe(&AgentEvent::CallStarted { id: id.clone(), name: name.clone(), arguments });
        let result = ToolResult::text("done");
        run.observe(&AgentEvent::CallFinished { id, name, result, elapsed: Some(Duration::ZERO) });
        let request = only(&traffic);
        let [call] = &request.calls[..] else { panic!("one call: {:?}", request.calls) };
        assert_eq!(call.outcome, Some(CallOutcome::Ok));
        for text in [request.model.as_deref().unwrap_or_default(), call.id.as_str(), call.tool.as_str()] {
            assert_eq!(text.chars().count(), MAX_TEXT + 1);
        }
    }

    #[test]
    fn the_memory_of_long_runs_is_bounded() {
        let traffic: Arc<Traffic> = Arc::default();
        for number in 0..200 {
            let recorder = traffic.begin(&number.to_string(), "/", &principals()[0]);
            let mut run = RunRecorder::new(recorder.clone(), Arc::new(toolwire_agent::Functions::new()));
            for step in 1..=1_500 {
                run.observe(&AgentEvent::StepStarted { step });
            }
            assert_eq!(lock(&recorder.record.request).steps.len(), MAX_SPANS);
        }
        let recorded: usize = traffic.requests(None).iter().map(|request| request.steps.len()).sum();
        assert_eq!(traffic.spans.load(Ordering::Relaxed), recorded);
        assert!(recorded <= MAX_ALL_SPANS + MAX_SPANS, "{recorded}");
        assert_eq!(traffic.requests(None)[0].id, "199", "the newest remain");
    }

    #[tokio::test]
    async fn a_removed_request_is_still_counted_until_it_ends() {
        let (traffic, recorder) = begin();
        RunRecorder::new(recorder.clone(), Arc::new(toolwire_agent::Functions::new()))
            .observe(&AgentEvent::StepStarted { step: 1 });
        for number in 0..MAX_REQUESTS {
            traffic.begin(&number.to_string(), "/", &principals()[0]);
        }
        assert_eq!(traffic.spans.load(Ordering::Relaxed), 1);
        drop(recorder);
        assert_eq!(traffic.spans.load(Ordering::Relaxed), 0);
    }
}
