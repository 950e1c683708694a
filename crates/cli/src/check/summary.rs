//! The number of conversions per status, for each dialect or each server.

use std::fmt::Write as _;

use toolwire_contract::text::counted;
use toolwire_dialect::{Report, Status};

use super::survey::{ServerTools, Survey};
use super::{BOLD, DIM, STATUSES, style, symbol};
use crate::terminal_text::{padded, sanitize, truncate, width};

const MAX_BAR_COLUMNS: usize = 24;
const COUNT_COLUMNS: usize = 10;
const MIN_NAME_COLUMNS: usize = 16;

pub(super) fn render_dialects(survey: &Survey, columns: usize) -> String {
    let rows = survey.by_dialect();
    render(rows.map(|(dialect, reports)| (dialect.name().to_owned(), count(reports))).collect(), columns)
}

pub(super) fn render_servers(survey: &Survey, columns: usize) -> String {
    let label = |tools: &ServerTools| {
        let count = if tools.error.is_some() { "failed".to_owned() } else { counted(tools.count, "tool") };
        format!("{}, {count}", sanitize(&tools.server))
    };
    render(survey.by_server().map(|(tools, reports)| (label(tools), count(reports))).collect(), columns)
}

fn count<'a>(reports: impl IntoIterator<Item = &'a Report>) -> [usize; 4] {
    let mut counts = [0; 4];
    for report in reports {
        counts[report.status as usize] += 1;
    }
    counts
}

fn render(rows: Vec<(String, [usize; 4])>, columns: usize) -> String {
    let counts_width = STATUSES.len() * COUNT_COLUMNS;
    let longest_name = rows.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    let name_width = longest_name.min(columns.saturating_sub(counts_width));
    // The totals are in the headline, so the summary is omitted if it does not fit.
    if name_width < longest_name.min(MIN_NAME_COLUMNS) {
        return String::new();
    }
    let most = rows.iter().map(|(_, counts)| counts.iter().sum()).max().unwrap_or(0);
    let free = columns - name_width - counts_width;
    let bar_width = free.saturating_sub(3).min(MAX_BAR_COLUMNS).min(most);

    let mut text = format!("\n{}", " ".repeat(name_width));
    for status in STATUSES {
        let style = style(status);
        let _ = write!(text, "{style}{:>COUNT_COLUMNS$}{style:#}", status.name());
    }
    text.push('\n');
    for (name, counts) in rows {
        let _ = write!(text, "{BOLD}{}{BOLD:#}", padded(&truncate(&name, name_width), name_width));
        for count in counts {
            let _ = match count {
                0 => write!(text, "{DIM}{:>COUNT_COLUMNS$}{DIM:#}", "·"),
                _ => write!(text, "{count:>COUNT_COLUMNS$}"),
            };
        }
        if bar_width >= 4 && counts != [0; 4] {
            let _ = write!(text, "   {}", bar(counts, bar_width));
        }
        text.push('\n');
    }
    text
}

/// Returns a bar of the statuses' symbols. Each status that occurs has at least one.
fn bar(counts: [usize; 4], columns: usize) -> String {
    let mut text = String::new();
    for (status, cells) in STATUSES.into_iter().zip(shares(counts, columns)) {
        if cells > 0 {
            let style = style(status);
            let _ = write!(text, "{style}{}{style:#}", symbol(status).repeat(cells));
        }
    }
    text
}

fn shares(counts: [usize; 4], columns: usize) -> [usize; 4] {
    let total: usize = counts.iter().sum();
    let mut cells = counts.map(|count| if count == 0 { 0 } else { (count * columns / total.max(1)).max(1) });
    // Rounding leaves a few cells too many or too few; the largest share is adjusted.
    let largest = (0..cells.len()).max_by_key(|index| counts[*index]).unwrap_or(Status::Exact as usize);
    let others: usize = cells.iter().sum::<usize>() - cells[largest];
    cells[largest] = columns.saturating_sub(others);
    cells
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn shares_fill_the_bar_and_include_rare_statuses() {
        assert_eq!(shares([3, 1, 0, 0], 4), [3, 1, 0, 0]);
        assert_eq!(shares([998, 1, 0, 1], 20), [18, 1, 0, 1]);
        assert_eq!(shares([1, 1, 1, 0], 24), [8, 8, 8, 0]);
        assert_eq!(shares([1, 1, 1, 0], 20), [6, 6, 8, 0]);
    }
}
