//! The table of tools and dialects.
//!
//! Names of dialects stand above their columns when there is room. When there is not, each has a step of a
//! staircase, which needs two columns a dialect; and where even that is too wide, the dialects go into
//! several tables.

use std::fmt::Write as _;

use toolwire_dialect::{Dialect, Report};

use super::survey::Survey;
use super::{BOLD, DIM, STATUSES, style, symbol};
use crate::terminal_text::{padded, sanitize, truncate, width};

const WIDEST_TOOL: usize = 40;
const NARROWEST_TOOL: usize = 12;

pub(super) fn render(survey: &Survey, columns: usize) -> String {
    let rows: Vec<Vec<&Report>> = survey.by_tool().collect();
    let names: Vec<String> = rows.iter().map(|row| tool_name(row)).collect();
    let widest = names.iter().map(|name| width(name)).max().unwrap_or(0).min(WIDEST_TOOL);

    let mut text = headline(survey, columns);
    let by_name = widest + survey.dialects.iter().map(|dialect| 2 + dialect.name().len()).sum::<usize>();
    if by_name <= columns {
        let widths: Vec<usize> = survey.dialects.iter().map(|dialect| dialect.name().len()).collect();
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
        let (count, tool_width) = steps(&survey.dialects[start..], widest, columns);
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

/// How many dialects fit side by side as a staircase, and how wide the tools' column is then. Cutting names a
/// little is better than a second table; cutting them to stumps is not.
fn steps(dialects: &[Dialect], widest: usize, columns: usize) -> (usize, usize) {
    let room_right = |count: usize| {
        let ends =
            dialects[..count].iter().enumerate().map(|(index, dialect)| 2 * index + 4 + dialect.name().len());
        ends.max().unwrap_or(0)
    };
    let least = widest.min(NARROWEST_TOOL);
    let count = (1..=dialects.len()).rev().find(|count| least + room_right(*count) <= columns).unwrap_or(1);
    (count, widest.min(columns.saturating_sub(room_right(count))).max(least))
}

fn staircase(text: &mut String, dialects: &[Dialect], tool_width: usize) {
    for (step, dialect) in dialects.iter().enumerate() {
        let posts = " │".repeat(step);
        let _ = writeln!(text, "{}{DIM}{posts} ┌{DIM:#} {BOLD}{dialect}{BOLD:#}", " ".repeat(tool_width),);
    }
}

/// One line per tool: its name, and a symbol in the middle of each column.
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

/// How many there are, and what the symbols mean.
fn headline(survey: &Survey, columns: usize) -> String {
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let title = format!("{} in {}", plural(survey.tools(), "tool"), plural(survey.dialects.len(), "dialect"));
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
    text.push_str("\n\n");
    text
}

/// What a tool is called in the table; one without a name still has a row.
pub(super) fn tool_name(row: &[&Report]) -> String {
    match row.first().map(|report| report.tool.as_str()) {
        None | Some("") => "(no name)".to_owned(),
        Some(name) => sanitize(name),
    }
}
