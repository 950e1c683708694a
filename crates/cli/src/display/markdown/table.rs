//! Lays out a table with columns as wide as their cells need and the terminal allows.

use std::ops::Range;

use anstyle::Style;
use toolwire_markdown::event::Alignment;

use super::layout::DIMMED;
use crate::display::line::{Line, Margin, Span, max_columns, wrap};

const GAP: &str = " │ ";
const MIN_COLUMN_WIDTH: usize = 3;

pub(super) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Row>,
}

struct Row {
    cells: Vec<Vec<Span>>,
    source: Range<usize>,
}

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Table {
        Table { alignments, rows: Vec::new() }
    }

    pub(super) fn start_row(&mut self, source: Range<usize>) {
        self.rows.push(Row { cells: Vec::new(), source });
    }

    pub(super) fn add(&mut self, cell: Vec<Span>) {
        if let Some(row) = self.rows.last_mut() {
            row.cells.push(cell);
        }
    }

    /// Lays out the rows that start at `frozen` or later; the source before it stays as it was displayed. The
    /// last row can still grow, so its lines do not count as final.
    pub(super) fn lines(&self, frozen: usize, margin: &Margin, room: usize) -> Vec<Line> {
        let count = self.alignments.len();
        if count * (MIN_COLUMN_WIDTH + max_columns(GAP)) > room + max_columns(GAP) {
            return self.lines_without_columns(frozen, margin, room);
        }
        let widths = self.widths(room);
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            if row.source.start < frozen {
                continue;
            }
            let is_last = index + 1 == self.rows.len();
            let end = if is_last { row.source.start } else { row.source.end };
            let prefix = |lines: &Vec<Line>| if lines.is_empty() { &margin.first } else { &margin.rest };
            for spans in self.row_lines(row, &widths, index == 0) {
                let spans = prefix(&lines).iter().cloned().chain(spans).collect();
                lines.push(Line { spans, end });
            }
            if index == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                let rule = Span::decoration(rule.join("─┼─"), DIMMED);
                let spans = prefix(&lines).iter().cloned().chain([rule]).collect();
                lines.push(Line { spans, end });
            }
        }
        lines
    }

    /// Lays out each row as running text, for a terminal that is too narrow for columns.
    fn lines_without_columns(&self, frozen: usize, margin: &Margin, room: usize) -> Vec<Line> {
        let left: usize = margin.rest.iter().map(|span| max_columns(&span.text)).sum();
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate().filter(|(_, row)| row.source.start >= frozen) {
            let mut spans = Vec::new();
            for (column, cell) in row.cells.iter().enumerate() {
                if column > 0 {
                    spans.push(Span::decoration(GAP, DIMMED));
                }
                spans.extend(cell.iter().cloned());
            }
            let is_last = index + 1 == self.rows.len();
            let end = if is_last { row.source.start } else { row.source.end };
            let first = if lines.is_empty() { margin.first.clone() } else { margin.rest.clone() };
            let margin = Margin { first, rest: margin.rest.clone() };
            lines.extend(wrap(&spans, &margin, left + room).into_iter().map(|line| Line { end, ..line }));
        }
        lines
    }

    /// Returns the width of each column. The widest ones are narrowed until all fit.
    fn widths(&self, room: usize) -> Vec<usize> {
        let natural = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
            let width =
                cells.map(|cell| cell.iter().map(|span| max_columns(&span.text)).sum()).max().unwrap_or(0);
            width.max(MIN_COLUMN_WIDTH)
        };
        let mut widths: Vec<usize> = (0..self.alignments.len()).map(natural).collect();
        let gaps = max_columns(GAP) * widths.len().saturating_sub(1);
        let room = room.saturating_sub(gaps);
        while widths.iter().sum::<usize>() > room {
            let widest = widths.iter().copied().max().unwrap_or(0);
            if widest <= 1 {
                break;
            }
            // Narrow the widest columns to the width of the next widest, or only as far as needed.
            let next = widths.iter().copied().filter(|width| *width < widest).max().unwrap_or(1);
            let count = widths.iter().filter(|width| **width == widest).count();
            let surplus = widths.iter().sum::<usize>() - room;
            let narrowed = next.max(widest.saturating_sub(surplus.div_ceil(count))).max(1).min(widest - 1);
            widths.iter_mut().filter(|width| **width == widest).for_each(|width| *width = narrowed);
        }
        widths
    }

    /// Lays out one row. Cells that are too long for their columns are wrapped.
    fn row_lines(&self, row: &Row, widths: &[usize], is_head: bool) -> Vec<Vec<Span>> {
        let cells: Vec<Vec<Line>> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| {
                let mut cell = row.cells.get(column).cloned().unwrap_or_default();
                if is_head {
                    cell.iter_mut().for_each(|span| span.style = span.style.bold());
                }
                wrap(&cell, &Margin::default(), *width)
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        (0..height).map(|index| self.row_line(&cells, widths, index)).collect()
    }

    fn row_line(&self, cells: &[Vec<Line>], widths: &[usize], index: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        for (column, width) in widths.iter().enumerate() {
            let line = cells[column].get(index).cloned().unwrap_or_default();
            let free = width.saturating_sub(line.width());
            let left = match self.alignments.get(column) {
                Some(Alignment::Right) => free,
                Some(Alignment::Center) => free / 2,
                _ => 0,
            };
            if column > 0 {
                spans.push(Span::decoration(GAP, DIMMED));
            }
            let is_last = column + 1 == widths.len();
            spans.push(Span::decoration(" ".repeat(left), Style::new()));
            spans.extend(line.spans);
            spans.push(Span::decoration(" ".repeat(if is_last { 0 } else { free - left }), Style::new()));
        }
        spans.retain(|span| !span.text.is_empty());
        spans
    }
}
