//! The view of the traffic.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use serde_json::json;
use toolwire_page::shell::View;
use toolwire_page::traffic::{self, Filter, FilterOptions, Request};

use super::super::events::Event;
use super::super::failure::PageFailure;
use super::super::reply::Reply;
use super::super::request::{Format, PageRequest};
use super::super::{Content, Context, Page};

/// The interval in which changes are published.
const INTERVAL: Duration = Duration::from_secs(1);

const TOPIC: &str = "traffic";

/// Responds to the paths below `/traffic`.
pub(super) fn respond(context: &Context<'_>, request: &PageRequest) -> Result<Reply, PageFailure> {
    match request.path().as_slice() {
        ["traffic"] => Ok(overview(context, request)),
        ["traffic", id] => one(context, request, id),
        _ => Err(PageFailure::not_found("there is no such page below `/traffic`")),
    }
}

/// Returns the requests that the visitor may see, the newest first.
fn visible(context: &Context<'_>) -> Vec<Arc<Request>> {
    let owner = (!context.sees_all_requests()).then_some(&context.principal);
    context.page.traffic.requests(owner)
}

fn overview(context: &Context<'_>, request: &PageRequest) -> Reply {
    let (filter, now) = (Filter::new(|name| request.query(name)), SystemTime::now());
    let all = visible(context);
    let selected: Vec<Arc<Request>> =
        all.iter().filter(|request| filter.selects(request, now)).cloned().collect();
    if request.format != Format::Html {
        return Reply::json(
            json!({"requests": selected.iter().map(|request| &**request).collect::<Vec<_>>()}),
        );
    }
    // The published view contains all requests, so a filtered or restricted view is not updated.
    let is_live = context.sees_all_requests() && filter == Filter::new(|_| None);
    let topics = if is_live { vec![TOPIC.to_owned()] } else { Vec::new() };
    context.page(Content {
        view: View::Traffic,
        title: "Traffic",
        topics: &topics,
        has_item: true,
        list: Some(traffic::filters(&filter, &FilterOptions::of(&all))),
        main: traffic::overview(&selected, &filter, all.len(), is_live, now),
    })
}

fn one(context: &Context<'_>, request: &PageRequest, id: &str) -> Result<Reply, PageFailure> {
    let all = visible(context);
    let found = all.iter().find(|request| request.id == id).ok_or_else(|| {
        PageFailure::not_found("this request is no longer recorded")
            .with_hint("the gateway records the last 1,000 requests")
    })?;
    if request.format != Format::Html {
        return Ok(Reply::json(serde_json::to_value(&**found).unwrap_or_default()));
    }
    let filter = Filter::new(|_| None);
    Ok(context.page(Content {
        view: View::Traffic,
        title: "Request",
        topics: &[],
        has_item: true,
        list: Some(traffic::filters(&filter, &FilterOptions::of(&all))),
        main: traffic::timeline(found, SystemTime::now()),
    }))
}

/// Publishes changes while browsers display the view.
pub(super) fn subscribe(context: &Context<'_>) -> Result<(), PageFailure> {
    if !context.sees_all_requests() {
        return Err(PageFailure::forbidden(
            "only an administrator may follow the requests of all keys",
            "sign in with a key that has `admin: true`",
        ));
    }
    let page = context.page;
    if !page.is_publishing.swap(true, Ordering::SeqCst) {
        tokio::spawn(publish(Arc::downgrade(page)));
    }
    Ok(())
}

/// Publishes the view once per interval if it has changed, until no browser is connected.
async fn publish(page: std::sync::Weak<Page>) {
    let mut published = None;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(page) = page.upgrade() else { return };
        if !page.events.has_readers(TOPIC) {
            page.is_publishing.store(false, Ordering::SeqCst);
            // A browser may have connected in the meantime.
            if !page.events.has_readers(TOPIC) || page.is_publishing.swap(true, Ordering::SeqCst) {
                return;
            }
        }
        let version = page.traffic.version();
        if published == Some(version) {
            continue;
        }
        published = Some(version);
        let (filter, now) = (Filter::new(|_| None), SystemTime::now());
        let all = page.traffic.requests(None);
        let selected: Vec<Arc<Request>> =
            all.iter().filter(|request| filter.selects(request, now)).cloned().collect();
        let view = traffic::overview(&selected, &filter, all.len(), true, now);
        page.events.publish(TOPIC, &[Event::put("traffic-overview", view)]);
    }
}
