//! A whole answer is its stream, collected.

use futures::{Stream, StreamExt};
use toolwire_contract::{ModelError, ModelEvent, ModelResponse};

/// Waits for the whole answer of a stream that [`Model::ask`](toolwire_contract::Model::ask) gave.
pub async fn collect(
    stream: impl Stream<Item = Result<ModelEvent, ModelError>>,
) -> Result<ModelResponse, ModelError> {
    let mut stream = std::pin::pin!(stream);
    let mut answer = None;
    // To its end, so that the connection below is free for the next request.
    while let Some(event) = stream.next().await {
        if let ModelEvent::Response(whole) = event? {
            answer = Some(whole);
        }
    }
    answer.ok_or_else(|| ModelError::Broken {
        model: "model".to_owned(),
        problem: "it ended without an answer".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use toolwire_contract::{Message, StopReason};

    use super::*;

    #[tokio::test]
    async fn the_answer_is_what_comes_last() {
        let answer = ModelResponse {
            message: Message::assistant("hi"),
            stop: StopReason::End,
            usage: None,
            unusable: vec![],
        };
        let events = [ModelEvent::Text("hi".to_owned()), ModelEvent::Response(answer.clone())];
        assert_eq!(collect(stream::iter(events.map(Ok))).await, Ok(answer));
        assert!(matches!(collect(stream::iter([])).await, Err(ModelError::Broken { .. })));
    }
}
