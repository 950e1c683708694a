//! Collects a stream of events into the complete response.

use futures::{Stream, StreamExt};
use toolwire_contract::model::{ModelError, ModelEvent, ModelResponse};

/// Reads the stream of [`Model::ask`](toolwire_contract::model::Model::ask) to its end and returns the
/// complete response.
pub async fn collect(
    stream: impl Stream<Item = Result<ModelEvent, ModelError>>,
) -> Result<ModelResponse, ModelError> {
    let mut stream = std::pin::pin!(stream);
    let mut response = None;
    // Read to the end, so that the connection can be reused for the next request.
    while let Some(event) = stream.next().await {
        if let ModelEvent::Response(complete) = event? {
            response = Some(complete);
        }
    }
    response.ok_or_else(|| ModelError::Broken {
        model: "model".to_owned(),
        problem: "the stream ended without a response".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use toolwire_contract::Message;
    use toolwire_contract::model::StopReason;

    use super::*;

    #[tokio::test]
    async fn the_last_event_is_the_response() {
        let response = ModelResponse {
            message: Message::assistant("hi"),
            stop: StopReason::End,
            usage: None,
            unusable: vec![],
        };
        let events = [ModelEvent::Text("hi".to_owned()), ModelEvent::Response(response.clone())];
        assert_eq!(collect(stream::iter(events.map(Ok))).await, Ok(response));
        assert!(matches!(collect(stream::iter([])).await, Err(ModelError::Broken { .. })));
    }
}
