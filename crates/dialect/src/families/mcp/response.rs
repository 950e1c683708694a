//! Reads messages of MCP sampling. They are never split into smaller fragments.

use toolwire_contract::Content;
use toolwire_contract::model::StopReason;

use crate::response::{
    CallDraft, Ending, JsonCursor, PartialBlock, ReadResult, ResponseParts, ResponseReader,
};

#[derive(Debug, Default)]
pub(super) struct McpReader {
    blocks: Vec<PartialBlock>,
}

impl ResponseReader for McpReader {
    /// Reads an assistant message, or the parameters of one `tools/call`.
    fn event(&mut self, message: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        message.object()?;
        message.reject_error()?;
        match message.get("content") {
            Some(content) if content.value().is_array() => {
                for block in content.items()? {
                    self.read_block(&block, response)?;
                }
            }
            Some(block) => self.read_block(&block, response)?,
            None => return self.read_call(message, "arguments", response),
        }
        response.ending = Some(match message.string("stopReason")? {
            Some("endTurn" | "stopSequence") | None => Ending::Finished(StopReason::End),
            Some("toolUse") => Ending::Finished(StopReason::Calls),
            Some(reason @ "maxTokens") => Ending::cut_off(StopReason::Length, reason),
            Some(other) => Ending::other(other),
        });
        Ok(())
    }

    fn finish(self: Box<Self>, _: &mut ResponseParts) -> Vec<PartialBlock> {
        self.blocks
    }
}

impl McpReader {
    fn read_block(&mut self, block: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        if block.value().get("type").is_some_and(|name| name == "tool_use") {
            return self.read_call(block, "input", response);
        }
        let content = Content::from(block.value().clone());
        if let Content::Text { text, .. } = &content {
            response.emit_text(text);
        }
        self.blocks.push(PartialBlock::Media { content, provider_data: None });
        Ok(())
    }

    fn read_call(
        &mut self,
        call: &JsonCursor<'_>,
        arguments_key: &str,
        response: &mut ResponseParts,
    ) -> ReadResult {
        let (name, id) = (call.required_string("name")?, call.string("id")?);
        let draft = CallDraft::new(name, id, call.value().get(arguments_key));
        self.blocks.push(PartialBlock::Call(response.begin_call(draft)));
        Ok(())
    }
}
