//! What the model is asked.

use toolwire_contract::{ModelRequest, ToolChoice};

use super::Run;

impl Run {
    pub(super) fn request(&mut self) -> ModelRequest {
        let is_first = self.turn.steps == 0;
        if let (true, ToolChoice::Tool(name)) = (is_first, &self.settings.tool_choice) {
            // What it must call, it must be shown.
            self.offer.use_tool(&self.catalog, name);
        }
        let tools = self.offer.tools(&self.catalog, &self.settings);
        let instructions = self.instructions();
        let fixed = self.offer.tokens() + instructions.as_deref().map_or(0, crate::estimate_tokens);
        let size = self.settings.context.tokens.or(self.catalog.limits().context_tokens);
        let messages = self.memory.view(&self.history, fixed, size, &self.settings);
        ModelRequest {
            instructions,
            messages,
            tool_choice: match &self.settings.tool_choice {
                _ if tools.is_empty() => ToolChoice::Auto,
                choice if is_first => choice.clone(),
                ToolChoice::None => ToolChoice::None,
                _ => ToolChoice::Auto,
            },
            tools,
            max_output_tokens: self.settings.max_output_tokens,
            temperature: self.settings.temperature,
        }
    }

    /// What the model is told before the conversation: the settings' own words, and which servers are away.
    pub(super) fn instructions(&self) -> Option<String> {
        let own = self.settings.instructions.clone();
        if self.away.is_empty() {
            return own;
        }
        let names: Vec<String> = self.away.iter().map(|name| format!("`{name}`")).collect();
        let note = format!(
            "The tools of {} are not there at the moment. Where they are needed, say so instead of guessing.",
            names.join(", ")
        );
        Some(own.map_or(note.clone(), |own| format!("{own}\n\n{note}")))
    }
}
