//! The reports of every tool in every selected dialect.

use toolwire_dialect::{Dialect, Options, ReadError, Report, Status, convert};

pub(super) struct Survey {
    pub(super) dialects: Vec<Dialect>,
    /// One list per dialect, each with one report per tool, in input order.
    reports: Vec<Vec<Report>>,
}

impl Survey {
    pub(super) fn new(text: &str, dialects: Vec<Dialect>, options: &Options) -> Result<Self, ReadError> {
        let reports = dialects
            .iter()
            .map(|dialect| Ok(convert(text, Dialect::Mcp, *dialect, options)?.reports))
            .collect::<Result<_, ReadError>>()?;
        Ok(Self { dialects, reports })
    }

    #[cfg(test)]
    pub(super) fn from_reports(dialects: Vec<Dialect>, reports: Vec<Vec<Report>>) -> Self {
        Self { dialects, reports }
    }

    pub(super) fn tool_count(&self) -> usize {
        self.reports.first().map_or(0, Vec::len)
    }

    /// The reports of each tool, one per dialect.
    pub(super) fn by_tool(&self) -> impl Iterator<Item = Vec<&Report>> {
        (0..self.tool_count())
            .map(|index| self.reports.iter().filter_map(|reports| reports.get(index)).collect())
    }

    /// The reports of each dialect, one per tool.
    pub(super) fn by_dialect(&self) -> impl Iterator<Item = (Dialect, &[Report])> {
        self.dialects.iter().copied().zip(self.reports.iter().map(Vec::as_slice))
    }

    /// The number of reports with this status.
    pub(super) fn count(&self, status: Status) -> usize {
        self.reports.iter().flatten().filter(|report| report.status == status).count()
    }
}
