//! The next model request.

use toolwire_contract::model::{ModelRequest, ToolChoice};

use super::Run;

impl Run {
    pub(super) fn request(&mut self) -> ModelRequest {
        let is_first = self.turn.steps == 0;
        if let (true, ToolChoice::Tool(name)) = (is_first, &self.settings.tool_choice) {
            // A tool that must be called must also be in the request.
            self.offered_tools.mark_used(&self.catalog, name);
        }
        let tools = self.offered_tools.list(&self.catalog, &self.settings);
        let instructions = self.instructions();
        let fixed = self.fixed_tokens(instructions.as_deref());
        let window = self.settings.context.window(self.catalog.limits());
        let mut messages = self.context_window.select_messages(&self.history, fixed, window, &self.settings);
        messages.extend(self.turn.output.messages());
        ModelRequest {
            instructions,
            messages,
            tool_choice: match &self.settings.tool_choice {
                _ if tools.is_empty() && !self.has_provider_tools() => ToolChoice::Auto,
                _ if self.turn.output.forbids_calls() => ToolChoice::None,
                choice if is_first => choice.clone(),
                ToolChoice::None => ToolChoice::None,
                _ => ToolChoice::Auto,
            },
            output: self.request_output(!tools.is_empty()),
            tools,
            recent_tools: self.offered_tools.recent(),
            max_output_tokens: self.settings.max_output_tokens,
            temperature: self.settings.temperature,
            generation: self.settings.generation.clone(),
            verbatim: self.settings.verbatim.clone(),
            trace: None,
        }
    }

    /// Whether the client's request has tools that the provider runs.
    fn has_provider_tools(&self) -> bool {
        self.settings.verbatim.as_ref().is_some_and(|verbatim| !verbatim.provider_tools.is_empty())
    }

    /// Returns the size of the parts of a request that are not messages, after the tools were selected.
    fn fixed_tokens(&self, instructions: Option<&str>) -> u64 {
        let rejected = self.turn.output.messages();
        self.offered_tools.tokens()
            + instructions.map_or(0, toolwire_contract::text::estimate_tokens)
            + self.settings.output.estimated_tokens()
            + rejected.iter().map(|message| message.estimated_tokens()).sum::<u64>()
    }

    /// Whether the next request must be reduced to fit into the context window.
    pub(super) fn is_window_nearly_full(&mut self) -> bool {
        self.offered_tools.list(&self.catalog, &self.settings);
        let fixed = self.fixed_tokens(self.instructions().as_deref());
        let window = self.settings.context.window(self.catalog.limits());
        self.context_window.is_nearly_full(&self.history, fixed, window, &self.settings)
    }

    /// Returns the instructions of the settings and a note about unavailable servers.
    fn instructions(&self) -> Option<String> {
        let instructions = self.settings.instructions.clone();
        if self.unavailable_servers.is_empty() {
            return instructions;
        }
        let names: Vec<String> = self.unavailable_servers.iter().map(|name| format!("`{name}`")).collect();
        let note = format!(
            "The tools of {} are currently unavailable. If you need them, say so instead of guessing.",
            names.join(", ")
        );
        Some(match instructions {
            Some(instructions) => format!("{instructions}\n\n{note}"),
            None => note,
        })
    }
}
