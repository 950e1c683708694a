//! The number of tools per status in each dialect.

use std::fmt::Write as _;

use toolwire_dialect::Status;

use super::survey::Survey;
use super::{BOLD, DIM, STATUSES, style, symbol};
use crate::terminal_text::padded;

const MAX_BAR_COLUMNS: usize = 24;
const COUNT_COLUMNS: usize = 10;

pub(super) fn render(survey: &Survey, columns: usize) -> String {
    let name_width = survey.dialects.iter().map(|dialect| dialect.name().len()).max().unwrap_or(0);
    let table_width = name_width + STATUSES.len() * COUNT_COLUMNS;
    // The summary repeats the table above, so it is omitted if it does not fit.
    if table_width > columns {
        return String::new();
    }
    let bar_width = (columns - table_width).saturating_sub(3).min(MAX_BAR_COLUMNS).min(survey.tool_count());

    let mut text = format!("\n{}", " ".repeat(name_width));
    for status in STATUSES {
        let style = style(status);
        let _ = write!(text, "{style}{:>COUNT_COLUMNS$}{style:#}", status.name());
    }
    text.push('\n');
    for (dialect, reports) in survey.by_dialect() {
        let counts = STATUSES.map(|status| reports.iter().filter(|report| report.status == status).count());
        let _ = write!(text, "{BOLD}{}{BOLD:#}", padded(dialect.name(), name_width));
        for count in counts {
            let _ = match count {
                0 => write!(text, "{DIM}{:>COUNT_COLUMNS$}{DIM:#}", "·"),
                _ => write!(text, "{count:>COUNT_COLUMNS$}"),
            };
        }
        if bar_width >= 4 {
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
