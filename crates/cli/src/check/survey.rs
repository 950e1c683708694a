//! The reports of every tool in every selected dialect.

use std::iter::{repeat, repeat_n};

use serde::Serialize;
use toolwire_dialect::{Dialect, Options, ReadError, Refusal, Report, Status, convert};
use toolwire_hub::status::QuarantinedTool;

/// The tools of a server.
#[derive(Default)]
pub(super) struct ServerTools {
    pub(super) server: String,
    pub(super) count: usize,
    /// Tools that are offered in no dialect.
    pub(super) quarantined: Vec<QuarantinedTool>,
    /// The reason why the server has no tools.
    pub(super) error: Option<String>,
}

pub(super) struct Survey {
    /// The servers of the tools, in the order of the tools; empty for the tools of a file.
    pub(super) servers: Vec<ServerTools>,
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
        Ok(Self { servers: Vec::new(), dialects, reports })
    }

    #[cfg(test)]
    pub(super) fn from_reports(dialects: Vec<Dialect>, reports: Vec<Vec<Report>>) -> Self {
        Self { servers: Vec::new(), dialects, reports }
    }

    /// Assigns the tools to servers, and adds the quarantined tools of each as refused.
    pub(super) fn with_servers(mut self, mut servers: Vec<ServerTools>) -> Self {
        let mut end = 0;
        for server in &mut servers {
            end += server.count;
            for (dialect, reports) in self.dialects.iter().zip(&mut self.reports) {
                let refused = server.quarantined.iter().map(|tool| refused(tool, *dialect));
                reports.splice(end..end, refused);
            }
            server.count += server.quarantined.len();
            end += server.quarantined.len();
        }
        self.servers = servers;
        self
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

    /// The reports of each server, tool by tool.
    pub(super) fn by_server(&self) -> impl Iterator<Item = (&ServerTools, Vec<&Report>)> {
        let mut rows = self.by_tool();
        self.servers.iter().map(move |server| (server, rows.by_ref().take(server.count).flatten().collect()))
    }

    /// The reports of each tool, one per dialect, with the server of the tool.
    pub(super) fn by_owned_tool(&self) -> impl Iterator<Item = (Option<&str>, Vec<&Report>)> {
        let owners = self.servers.iter().flat_map(|tools| repeat_n(Some(tools.server.as_str()), tools.count));
        owners.chain(repeat(None)).zip(self.by_tool())
    }

    /// All reports, tool by tool, each with its server; then the servers that failed.
    pub(super) fn to_json(&self) -> Vec<CheckEntry<'_>> {
        let reports = self.by_owned_tool().flat_map(|(server, reports)| {
            reports.into_iter().map(move |report| CheckEntry::Report { server, report })
        });
        let failed = self.servers.iter().filter_map(|ServerTools { server, error, .. }| {
            Some(CheckEntry::FailedServer { server, error: error.as_deref()? })
        });
        reports.chain(failed).collect()
    }

    /// The number of reports with this status.
    pub(super) fn count(&self, status: Status) -> usize {
        self.reports.iter().flatten().filter(|report| report.status == status).count()
    }
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum CheckEntry<'a> {
    Report {
        #[serde(skip_serializing_if = "Option::is_none")]
        server: Option<&'a str>,
        #[serde(flatten)]
        report: &'a Report,
    },
    FailedServer {
        server: &'a str,
        error: &'a str,
    },
}

fn refused(tool: &QuarantinedTool, dialect: Dialect) -> Report {
    let reason = Refusal { code: "invalid_definition", pointer: String::new(), message: tool.reason.clone() };
    Report {
        tool: tool.name.clone(),
        name: tool.name.clone(),
        dialect,
        status: Status::Refused,
        reason: Some(reason),
        changes: Vec::new(),
    }
}
