//! Tools whose results are screened: characters that can deceive a terminal, a person or a model are
//! replaced.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use toolwire_contract::ToolResult;
use toolwire_contract::log::{LogMessage, LogReceiver};
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox, ToolboxDecorator};

/// The character that replaces deceptive characters.
const REPLACEMENT: char = '\u{fffd}';

pub(crate) struct ScreenedTools(pub(crate) Arc<dyn Toolbox>);

/// Whether a character is replaced: control characters except tabs and line breaks, marks that change the
/// direction of writing, and tag characters, which are invisible and which models read as text.
fn is_replaced(character: char) -> bool {
    let is_control = character.is_control() && !matches!(character, '\t' | '\n' | '\r');
    is_control
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

/// Replaces these characters in all texts. Returns whether there were any.
pub(crate) fn screen(value: &mut Value) -> bool {
    match value {
        Value::String(text) if text.contains(is_replaced) => {
            *text = text.replace(is_replaced, &REPLACEMENT.to_string());
            true
        }
        // `any` would stop at the first changed value.
        Value::Array(values) => values.iter_mut().fold(false, |changed, value| screen(value) | changed),
        Value::Object(fields) => fields.values_mut().fold(false, |changed, value| screen(value) | changed),
        _ => false,
    }
}

/// Returns a result without these characters, in texts and in structured content.
fn screened(result: ToolResult) -> ToolResult {
    let mut value = Value::from(result.clone());
    match screen(&mut value) {
        true => ToolResult::try_from(value).unwrap_or(result),
        false => result,
    }
}

/// Returns a receiver of log messages without these characters.
fn screened_log(log: LogReceiver) -> LogReceiver {
    let LogReceiver { level, receive } = log;
    let receive = move |mut message: LogMessage| {
        screen(&mut message.data);
        let logger = message.logger.take();
        message.logger = logger.map(|name| name.replace(is_replaced, &REPLACEMENT.to_string()));
        receive(message);
    };
    LogReceiver { level, receive: Arc::new(receive) }
}

impl ToolboxDecorator for ScreenedTools {
    fn inner(&self) -> &dyn Toolbox {
        &*self.0
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        mut options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        options.log = options.log.map(screened_log);
        Box::pin(async move { self.0.call(tool, arguments, options).await.map(screened) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwire_contract::log::Level;

    use super::*;

    #[test]
    fn deceptive_characters_are_replaced_everywhere() {
        let evil = "a\tb\r\n\u{1b}[2J\0\u{202e}c\u{2066}\u{e0041}\u{9b}é👩‍🚀";
        let clean = "a\tb\r\n\u{fffd}[2J\u{fffd}\u{fffd}c\u{fffd}\u{fffd}\u{fffd}é👩‍🚀";
        let result = |text: &str| {
            let content = json!([
                {"type": "text", "text": text, "_meta": {"deep": [text]}},
                {"type": "resource", "resource": {"uri": "file:///a", "text": text}},
                {"type": "image", "data": "iVBORw0K", "mimeType": "image/png"},
            ]);
            let value =
                json!({"content": content, "structuredContent": {"x": [1.50, text]}, "isError": true});
            ToolResult::try_from(value).expect("a result")
        };
        assert_eq!(screened(result(evil)), result(clean));
        assert_eq!(screened(result(clean)), result(clean));
        let received = Arc::new(std::sync::Mutex::new(Vec::new()));
        let receiver = received.clone();
        let receive = Arc::new(move |message| receiver.lock().expect("no other thread").push(message));
        let log = screened_log(LogReceiver { level: Level::Debug, receive });
        let message = |text: &str| LogMessage {
            level: Level::Info,
            logger: Some(text.to_owned()),
            data: json!({"x": [text]}),
        };
        (log.receive)(message(evil));
        assert_eq!(*received.lock().expect("no other thread"), [message(clean)]);
    }
}
