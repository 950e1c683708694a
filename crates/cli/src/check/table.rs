//! The table of tools and dialects.
//!
//! The names of the dialects are above their columns if there is room. If not, they form a staircase, which
//! needs two columns per dialect. If that is too wide as well, there are several tables.

use std::fmt::Write as _;

use toolwire_contract::text::counted;
use toolwire_dialect::{Dialect, Report};

use super::survey::Survey;
use super::{BOLD, DIM, STATUSES, style, symbol};
use crate::terminal_text::{padded, sanitize, truncate, width};

const MAX_TOOL_COLUMNS: usize = 40;
const MIN_TOOL_COLUMNS: usize = 12;

pub(super) fn render(survey: &Survey, columns: usize) -> String {
    let rows: Vec<Vec<&Report>> = survey.by_tool().collect();
    let names: Vec<String> = rows.iter().map(|row| tool_name(row)).collect();
    let widest = names.iter().map(|name| width(name)).max().unwrap_or(0).min(MAX_TOOL_COLUMNS);

    let mut text = String::new();
    let widths: Vec<usize> = survey.dialects.iter().map(|dialect| dialect.name().len()).collect();
    if widest + widths.iter().map(|width| 2 + width).sum::<usize>() <= columns {
        let _ = write!(text, "{}", " ".repeat(widest));
        for dialect in &survey.dialects {
            let _ = write!(text, "  {BOLD}{dialect}{BOLD:#}");
        }
        text.push('\n');
        body(&mut text, &names, &rows, widest, 2, &widths);
        return text;
    }

    let mut start = 0;
    while start < survey.dialects.len() {
        let (count, tool_width) = staircase_layout(&survey.dialects[start..], widest, columns);
        if start > 0 {
            text.push('\n');
        }
        staircase(&mut text, &survey.dialects[start..start + count], tool_width);
        let rows: Vec<&[&Report]> = rows.iter().map(|row| &row[start..start + count]).collect();
        body(&mut text, &names, &rows, tool_width, 1, &vec![1; count]);
        start += count;
    }
    text
}

/// Returns how many dialects fit into one staircase, and the width of the tools' column. Names are truncated
/// down to a minimum before a second table is needed.
fn staircase_layout(dialects: &[Dialect], widest: usize, columns: usize) -> (usize, usize) {
    let staircase_width = |count: usize| {
        let ends =
            dialects[..count].iter().enumerate().map(|(index, dialect)| 2 * index + 4 + dialect.name().len());
        ends.max().unwrap_or(0)
    };
    let min = widest.min(MIN_TOOL_COLUMNS);
    let fits = |count: &usize| min + staircase_width(*count) <= columns;
    let count = (1..=dialects.len()).rev().find(fits).unwrap_or(1);
    (count, widest.min(columns.saturating_sub(staircase_width(count))).max(min))
}

fn staircase(text: &mut String, dialects: &[Dialect], tool_width: usize) {
    for (step, dialect) in dialects.iter().enumerate() {
        let posts = " │".repeat(step);
        let _ = writeln!(text, "{}{DIM}{posts} ┌{DIM:#} {BOLD}{dialect}{BOLD:#}", " ".repeat(tool_width));
    }
}

/// Writes one line per tool: its name, and a symbol in the middle of each column.
fn body<'a, Row: AsRef<[&'a Report]>>(
    text: &mut String,
    names: &[String],
    rows: &[Row],
    tool_width: usize,
    gap: usize,
    widths: &[usize],
) {
    for (name, row) in names.iter().zip(rows) {
        let mut line = padded(&truncate(name, tool_width), tool_width);
        let mut pending = 0;
        for (report, width) in row.as_ref().iter().zip(widths) {
            let left = (width - 1) / 2;
            let style = style(report.status);
            let blank = " ".repeat(pending + gap + left);
            let _ = write!(line, "{blank}{style}{}{style:#}", symbol(report.status));
            pending = width - 1 - left;
        }
        text.push_str(&line);
        text.push('\n');
    }
}

/// Returns the numbers of tools, servers and dialects, and the legend of the symbols.
pub(super) fn headline(survey: &Survey, columns: usize) -> String {
    let servers = match survey.servers.len() {
        0 => String::new(),
        count => format!(" of {}", counted(count, "server")),
    };
    let tools = counted(survey.tool_count(), "tool");
    let title = format!("{tools}{servers} in {}", counted(survey.dialects.len(), "dialect"));
    let legend: Vec<String> = STATUSES
        .iter()
        .map(|status| format!("{} {} {}", symbol(*status), survey.count(*status), status.name()))
        .collect();
    let legend_width = legend.iter().map(|entry| 3 + width(entry)).sum::<usize>();
    let (before, between) = match columns {
        _ if width(&title) + legend_width <= columns => ("   ", "   "),
        _ if legend_width <= columns => ("\n", "   "),
        _ => ("\n  ", "\n  "),
    };

    let mut text = format!("{BOLD}{title}{BOLD:#}");
    for (index, (status, entry)) in STATUSES.iter().zip(legend).enumerate() {
        let style = style(*status);
        let gap = if index == 0 { before } else { between };
        let _ = write!(text, "{gap}{style}{entry}{style:#}");
    }
    text.push('\n');
    text
}

/// Returns the name of a row's tool; a tool without a name has a row too.
pub(super) fn tool_name(row: &[&Report]) -> String {
    match row.first().map(|report| report.tool.as_str()) {
        None | Some("") => "(no name)".to_owned(),
        Some(name) => sanitize(name),
    }
}
