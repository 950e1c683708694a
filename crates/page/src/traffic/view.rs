//! The overview: plots, tools, and the list of requests.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use maud::{Markup, html};
use toolwire_contract::text::counted;

use super::data::{Request, RequestOutcome};
use super::summary::{Filter, Period, buckets, tools};
use super::{plot, timeline};
use crate::link::Link;
use crate::shell::back;
use crate::text::UntrustedText;
use crate::time::{self, Format};

/// The maximum number of requests in the list.
const MAX_ROWS: usize = 200;

/// The values that the filters offer.
#[derive(Default)]
pub struct FilterOptions {
    models: BTreeSet<String>,
    keys: BTreeSet<String>,
    tools: BTreeSet<String>,
}

impl FilterOptions {
    pub fn of(requests: &[Arc<Request>]) -> FilterOptions {
        let mut options = FilterOptions::default();
        for request in requests {
            options.models.extend(request.model.clone());
            options.keys.extend(request.key.clone());
            options.tools.extend(request.calls.iter().map(|call| call.tool.clone()));
        }
        options
    }
}

/// Returns the filters, for the list column.
pub fn filters(filter: &Filter, options: &FilterOptions) -> Markup {
    html! {
        div.list-head {
            nav.chips aria-label="Period" {
                @for (period, name) in Period::ALL {
                    a.chip href=(Filter { period, ..filter.clone() }.address()) aria-current=[(period == filter.period).then_some("true")] { (name) }
                }
            }
            form.filters method="get" action="/traffic" {
                input type="hidden" name="since" value=(filter.period.name());
                (choice("model", "Model", filter.model.as_deref(), options.models.iter().map(|name| (name.as_str(), name.as_str()))))
                (choice("key", "Key", filter.key.as_deref(), options.keys.iter().map(|name| (name.as_str(), name.as_str()))))
                (choice("tool", "Tool", filter.tool.as_deref(), options.tools.iter().map(|name| (name.as_str(), name.as_str()))))
                @let outcome = filter.outcome.map(|outcome| outcome.names().1);
                (choice("outcome", "Outcome", outcome, RequestOutcome::ALL.into_iter().map(|outcome| (outcome.names().1, outcome.names().0))))
                button.button { "Apply" }
            }
        }
    }
}

fn choice<'a>(
    name: &str,
    label: &str,
    current: Option<&str>,
    values: impl Iterator<Item = (&'a str, &'a str)>,
) -> Markup {
    html! {
        label.field {
            span { (label) }
            select name=(name) {
                option value="" { "all" }
                @for (value, text) in values { option value=(value) selected[current == Some(value)] { (UntrustedText(text)) } }
            }
        }
    }
}

/// Returns the overview of the selected requests, the newest first.
pub fn overview(
    requests: &[Arc<Request>],
    filter: &Filter,
    recorded: usize,
    is_live: bool,
    now: SystemTime,
) -> Markup {
    let grouped = buckets(requests, filter.period, now);
    let by_tool = tools(requests);
    let prices = prices(requests);
    html! {
        div.contents #traffic-overview {
        header.head { (back()) h1 { "Traffic" } }
        @if requests.is_empty() {
            p.empty #no-requests {
                @if recorded == 0 { "no requests yet: this view shows chats, and requests of programs to " code { "/v1" } }
                @else { "no requests in this period" }
            }
        }
        div.plots {
            (plot::requests(&grouped))
            (plot::latency(&grouped))
            (plot::tokens(&grouped))
            (plot::cost(&grouped, &prices))
        }
        @if !by_tool.is_empty() {
            section.stack aria-labelledby="tools-title" {
                h2 #tools-title { "Tools" }
                div.table-wrap tabindex="0" role="group" aria-label="Calls by tool" { table {
                    thead { tr { @for name in ["tool", "calls", "ok", "p50", "p99", "last error"] { th scope="col" { (name) } } } }
                    tbody {
                        @for (name, summary) in &by_tool {
                            tr {
                                th scope="row" { a href=(crate::tools::address(name)) { bdi { (UntrustedText(name)) } } }
                                td.num { (summary.calls()) }
                                td.num { (format!("{:.0} %", 100.0 * f64::from(summary.ok) / f64::from(summary.calls().max(1)))) }
                                @for percent in [50.0, 99.0] {
                                    td.num { @if let Some(value) = summary.duration(percent) { (time::duration(std::time::Duration::from_secs_f64(value / 1e3))) } }
                                }
                                td dir="auto" { @if let Some(error) = &summary.last_error { (UntrustedText(&crate::text::shortened(error, 120))) } }
                            }
                        }
                    }
                } }
            }
        }
        section.stack aria-labelledby="requests-title" {
            h2 #requests-title { "Requests" }
            p.muted {
                (counted(requests.len(), "request")) " of the last " (recorded) " that the gateway recorded"
                @if !is_live { "; a filtered view is not updated automatically" }
            }
            div #requests {
                @for request in requests.iter().take(MAX_ROWS) { (row(request, now)) }
            }
        }
        }
    }
}

/// Whether the prices of the models are known.
pub(super) enum Prices {
    AllKnown,
    /// The number of models without a price; others have one.
    SomeUnknown(usize),
    NoneKnown,
}

fn prices(requests: &[Arc<Request>]) -> Prices {
    let with_usage =
        || requests.iter().filter_map(|request| Some((request.model.as_deref(), request.usage.as_ref()?)));
    let unpriced: BTreeSet<_> =
        with_usage().filter(|(_, usage)| usage.cost_nanodollars.is_none()).map(|(model, _)| model).collect();
    match (unpriced.len(), with_usage().any(|(_, usage)| usage.cost_nanodollars.is_some())) {
        (0, _) => Prices::AllKnown,
        (models, true) => Prices::SomeUnknown(models),
        (_, false) => Prices::NoneKnown,
    }
}

/// Returns a request of the list.
fn row(request: &Request, now: SystemTime) -> Markup {
    let (class, symbol) = timeline::glyph(request.outcome);
    let name = request.outcome.map_or("running", |outcome| outcome.names().0);
    html! {
        a.item.request #{ "request-" (request.id) } href=(Link::to(&["traffic", &request.id])) {
            span class={ "glyph " (class) } role="img" aria-label=(name) { (symbol) }
            @if let Some(at) = request.at { (time::time(at, Format::Time)) }
            code { (UntrustedText(&request.path)) }
            bdi.name.grow { @if let Some(model) = &request.model { (UntrustedText(model)) } }
            @if let Some(status) = request.status { span.num { (status) } }
            span.num { (time::duration(request.length(now))) }
            span.num.muted {
                (counted(request.steps.len(), "step")) ", " (counted(request.calls.len(), "call"))
                @if let Some(usage) = &request.usage { ", " (usage.input_tokens) " → " (usage.output_tokens) " tokens" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn texts_from_outside_are_escaped() {
        let evil = "<script>alert(1)</script>".to_owned();
        let request = Request {
            id: evil.clone(),
            model: Some(evil.clone()),
            path: evil.clone(),
            error: Some(evil.clone()),
            key: Some(evil.clone()),
            calls: vec![super::super::CallSpan {
                id: evil.clone(),
                tool: evil.clone(),
                start: Duration::ZERO,
                end: None,
                outcome: None,
                error: Some(evil),
            }],
            ..Request::default()
        };
        let (requests, now) = ([Arc::new(request)], SystemTime::UNIX_EPOCH);
        let filter = Filter::new(|_| None);
        let pages = [
            overview(&requests, &filter, 1, true, now),
            filters(&filter, &FilterOptions::of(&requests)),
            timeline::timeline(&requests[0], now),
        ];
        for page in pages {
            assert!(!page.into_string().contains("<script"));
        }
    }
}
