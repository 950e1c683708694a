//! A table, its columns as wide as they need to be and the terminal allows.

use std::ops::Range;

use anstyle::Style;
use pulldown_cmark::Alignment;

use super::layout::QUIET;
use crate::chat::line::{Line, Margin, Span, columns, wrap};

const GAP: &str = " │ ";
const LEAST_COLUMNS: usize = 3;

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

    pub(super) fn begin_row(&mut self, source: Range<usize>) {
        self.rows.push(Row { cells: Vec::new(), source });
    }

    pub(super) fn add(&mut self, cell: Vec<Span>) {
        if let Some(row) = self.rows.last_mut() {
            row.cells.push(cell);
        }
    }

    /// The rows that begin at `frozen` or later. The one that may still grow counts as not shown.
    pub(super) fn lines(&self, frozen: usize, margin: &Margin, room: usize) -> Vec<Line> {
        let count = self.alignments.len();
        if count * (LEAST_COLUMNS + columns(GAP)) > room + columns(GAP) {
            return self.in_a_row(frozen, margin, room);
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
            for spans in self.row(row, &widths, index == 0) {
                let spans = prefix(&lines).iter().cloned().chain(spans).collect();
                lines.push(Line { spans, end });
            }
            if index == 0 {
                let rule: Vec<String> = widths.iter().map(|wide| "─".repeat(*wide)).collect();
                let rule = Span::ours(rule.join("─┼─"), QUIET);
                let spans = prefix(&lines).iter().cloned().chain([rule]).collect();
                lines.push(Line { spans, end });
            }
        }
        lines
    }

    /// For a terminal too narrow for columns: the cells of a row one after the other.
    fn in_a_row(&self, frozen: usize, margin: &Margin, room: usize) -> Vec<Line> {
        let left: usize = margin.rest.iter().map(|span| columns(&span.text)).sum();
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate().filter(|(_, row)| row.source.start >= frozen) {
            let mut spans = Vec::new();
            for (column, cell) in row.cells.iter().enumerate() {
                if column > 0 {
                    spans.push(Span::ours(GAP, QUIET));
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

    /// How wide each column is, the widest ones narrowed until all fit.
    fn widths(&self, room: usize) -> Vec<usize> {
        let natural = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
            let wide = cells.map(|cell| cell.iter().map(|span| columns(&span.text)).sum()).max().unwrap_or(0);
            wide.max(LEAST_COLUMNS)
        };
        let mut widths: Vec<usize> = (0..self.alignments.len()).map(natural).collect();
        let gaps = columns(GAP) * widths.len().saturating_sub(1);
        let room = room.saturating_sub(gaps);
        while widths.iter().sum::<usize>() > room {
            let most = widths.iter().copied().max().unwrap_or(0);
            if most <= 1 {
                break;
            }
            // In one go down to the next widest, or as far as needed.
            let next = widths.iter().copied().filter(|wide| *wide < most).max().unwrap_or(1);
            let count = widths.iter().filter(|wide| **wide == most).count();
            let surplus = widths.iter().sum::<usize>() - room;
            let narrowed = next.max(most.saturating_sub(surplus.div_ceil(count))).max(1).min(most - 1);
            widths.iter_mut().filter(|wide| **wide == most).for_each(|wide| *wide = narrowed);
        }
        widths
    }

    /// One row; a cell that is too long for its column makes it several lines high.
    fn row(&self, row: &Row, widths: &[usize], is_head: bool) -> Vec<Vec<Span>> {
        let cells: Vec<Vec<Line>> = widths
            .iter()
            .enumerate()
            .map(|(column, wide)| {
                let mut cell = row.cells.get(column).cloned().unwrap_or_default();
                if is_head {
                    cell.iter_mut().for_each(|span| span.style = span.style.bold());
                }
                wrap(&cell, &Margin::default(), *wide)
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        (0..height).map(|level| self.level(&cells, widths, level)).collect()
    }

    fn level(&self, cells: &[Vec<Line>], widths: &[usize], level: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        for (column, wide) in widths.iter().enumerate() {
            let line = cells[column].get(level).cloned().unwrap_or_default();
            let free = wide.saturating_sub(line.width());
            let left = match self.alignments.get(column) {
                Some(Alignment::Right) => free,
                Some(Alignment::Center) => free / 2,
                _ => 0,
            };
            if column > 0 {
                spans.push(Span::ours(GAP, QUIET));
            }
            let is_last = column + 1 == widths.len();
            spans.push(Span::ours(" ".repeat(left), Style::new()));
            spans.extend(line.spans);
            spans.push(Span::ours(" ".repeat(if is_last { 0 } else { free - left }), Style::new()));
        }
        spans.retain(|span| !span.text.is_empty());
        spans
    }
}
