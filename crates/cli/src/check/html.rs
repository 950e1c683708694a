//! Writes the comparisons of all tools as one file for a browser.

use std::fs;
use std::path::Path;

use toolwire_dialect::comparison::{Comparison, compare};
use toolwire_dialect::{Dialect, Options, Report, Toolset};
use toolwire_page::dialects::{CheckedTool, standalone};

use super::survey::Survey;
use crate::command_error::CommandError;

/// Writes the file. `tools` is the JSON text that the survey was made from.
pub(super) fn write(
    file: &Path,
    survey: &Survey,
    tools: &str,
    options: &Options,
) -> Result<(), CommandError> {
    let checked = checked_tools(survey, tools, options)?;
    fs::write(file, standalone(&survey.dialects, &checked))
        .map_err(|error| CommandError::work(format!("cannot write `{}`: {error}", file.display())))
}

/// Compares the tools of the survey, in its order.
fn checked_tools(survey: &Survey, tools: &str, options: &Options) -> Result<Vec<CheckedTool>, CommandError> {
    let failed = |error| CommandError::work(format!("the tools cannot be parsed: {error}"));
    let mcp = Toolset::from_json(tools, Dialect::Mcp, options).map_err(failed)?;
    let mut compared = Vec::new();
    for dialect in &survey.dialects {
        let toolset = Toolset::from_json(tools, *dialect, options).map_err(failed)?;
        compared.push((compare(tools, *dialect, options).map_err(failed)?.into_iter(), toolset));
    }
    let mut checked = Vec::with_capacity(survey.tool_count());
    for (server, reports) in survey.by_owned_tool() {
        // A quarantined tool is not among the tools that were compared.
        let is_compared = reports.iter().zip(&compared).all(|(report, (comparisons, _))| {
            comparisons.as_slice().first().is_some_and(|next| next.report == **report)
        });
        let mut tool = CheckedTool { server: server.map(str::to_owned), ..CheckedTool::default() };
        if is_compared {
            for (comparisons, toolset) in &mut compared {
                comparisons.next().into_iter().for_each(|comparison| tool.add(comparison, &mcp, toolset));
            }
        } else {
            let without_schema = |report: &Report| Comparison::without_schema(report.clone());
            tool.comparisons = reports.into_iter().map(without_schema).collect();
        }
        checked.push(tool);
    }
    Ok(checked)
}
