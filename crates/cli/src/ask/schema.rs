//! The schema of the response.

use std::path::Path;

use serde_json::Value;
use toolwire_agent::AgentSettings;
use toolwire_contract::model::OutputFormat;

use crate::command_error::CommandError;
use crate::source::Source;

/// Reads the file and checks that it contains a JSON Schema.
pub(super) fn read(path: &Path) -> Result<OutputFormat, CommandError> {
    let input = Source::File(path.to_owned()).read("a JSON Schema")?;
    let schema: Value = serde_json::from_str(&input.text).map_err(|error| {
        CommandError::usage(format!("{} is not JSON: {error}", input.label)).with_hint("correct the file")
    })?;
    let mut settings = AgentSettings::default();
    settings.output = OutputFormat::schema(schema);
    settings
        .check()
        .map_err(|error| CommandError::usage(format!("{}: {error}", input.label)).with_hint(error.hint()))?;
    Ok(settings.output)
}
