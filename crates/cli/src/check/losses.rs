//! The tools with lossy or refused conversions, by server, each with the dialects concerned.

use std::fmt::Write as _;

use toolwire_dialect::{Dialect, Report, Status};

use super::reasons::dialect_list;
use super::survey::{ServerTools, Survey};
use super::table::tool_name;
use super::{BOLD, style, symbol};
use crate::terminal_text::{sanitize, truncate, wrapped};

pub(super) fn render(survey: &Survey, columns: usize) -> String {
    let mut text = String::new();
    let mut rows = survey.by_tool();
    for ServerTools { server, count, .. } in &survey.servers {
        let tools: Vec<String> =
            rows.by_ref().take(*count).filter_map(|row| render_tool(&row, survey, columns)).collect();
        if !tools.is_empty() {
            let server = truncate(&sanitize(server), columns);
            let _ = write!(text, "\n{BOLD}{server}{BOLD:#}\n{}", tools.concat());
        }
    }
    let lead = if text.is_empty() { "no tool is lossy or refused; " } else { "" };
    for line in wrapped(&format!("{lead}`--all` lists every tool with its changes"), columns) {
        let _ = write!(text, "\n{line}");
    }
    text.push('\n');
    text
}

/// Returns the lines of a tool, or `None` if it is exact or rewritten everywhere.
fn render_tool(row: &[&Report], survey: &Survey, columns: usize) -> Option<String> {
    let mut text = format!("  {}\n", truncate(&tool_name(row), columns - 2));
    let is_lossless = |report: &&Report| matches!(report.status, Status::Exact | Status::Rewritten);
    if row.iter().all(is_lossless) {
        return None;
    }
    for status in [Status::Refused, Status::Lossy] {
        let with_status = row.iter().filter(|report| report.status == status);
        let dialects: Vec<Dialect> = with_status.map(|report| report.dialect).collect();
        if dialects.is_empty() {
            continue;
        }
        let lines = wrapped(&dialect_list(&dialects, &survey.dialects), columns - 6);
        let (symbol, style) = (symbol(status), style(status));
        let _ = writeln!(text, "    {style}{symbol}{style:#} {}", lines.join("\n      "));
    }
    Some(text)
}
