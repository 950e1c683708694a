//! The tools in all dialects, for the view without a conversation.

use toolwire_page::Markup;
use toolwire_page::dialects::{MatrixRow, MatrixTarget, address, matrix};

use super::super::Context;
use super::dialects::{reports, targets};

/// The maximum number of tools in the matrix. With more, it would be too large for the first page, and take
/// too long.
const MAX_TOOLS: usize = 6;

/// Returns the matrix if there are only a few tools.
pub(in crate::page) fn small_matrix(context: &Context<'_>) -> Option<Markup> {
    let toolbox = &*context.tools;
    let tools = toolbox.tools();
    if tools.is_empty() || tools.len() > MAX_TOOLS {
        return None;
    }
    let dialects = targets();
    let tool_reports: Vec<_> =
        tools.iter().map(|tool| (tool, toolbox.server_of(&tool.name), reports(tool))).collect();
    let rows: Vec<MatrixRow<'_>> = tool_reports
        .iter()
        .map(|(tool, server, reports)| MatrixRow {
            server: server.as_ref().map(|server| server.name.as_str()),
            tool: &tool.name,
            targets: dialects
                .iter()
                .map(|dialect| MatrixTarget::Link(address(&tool.name, *dialect)))
                .collect(),
            reports: reports.iter().collect(),
        })
        .collect();
    Some(matrix(&dialects, &rows))
}
