//! The API for programs of administrators: changed definitions of tools. It accepts only keys in headers, so
//! no other web page can use it, and sessions of the page cannot either.
//!
//! | path | does |
//! |---|---|
//! | `GET /-/admin/pins` | lists the tools whose definition changed |
//! | `POST /-/admin/pins/accept` | accepts the definition with a fingerprint |
//! | `POST /-/admin/pins/keep-off` | blocks a tool until its definition is accepted |

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use http_body::Body;
use serde::Deserialize;
use serde_json::{Value, json};
use toolwire_page::servers::{Server, data};

use super::failure::PageFailure;
use super::reply::Reply;
use super::request::PageRequest;
use super::servers::PageServers;
use super::{Page, paths};
use crate::body::check_type;
use crate::gateway::Inner;

/// The tool of a decision, with the fingerprint of the definition that was displayed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReviewedTool {
    server: String,
    tool: String,
    fingerprint: String,
}

/// Responds to a request below `/-/admin`.
pub(super) async fn respond<B>(
    page: &Arc<Page>,
    inner: &Inner,
    head: Parts,
    body: B,
    client: IpAddr,
    has_unread_body: &mut bool,
) -> Result<Reply, PageFailure>
where
    B: Body<Data = Bytes> + Unpin,
{
    let principal = inner.authenticate(&head.headers, client).await?;
    if !principal.is_admin() {
        return Err(PageFailure::forbidden(
            "this path needs the key of an administrator",
            "`toolwire keys create NAME --admin` creates one",
        ));
    }
    let request = PageRequest::read(inner, head, body, &principal, client).await?;
    *has_unread_body = false;
    let servers = page.parts.servers.as_deref();
    let servers = servers
        .ok_or_else(|| PageFailure::not_found("this gateway was started without a list of servers"))?;
    let is_read = request.head.method == Method::GET;
    let unknown = || {
        PageFailure::not_found("there is no such path below `/-/admin`")
            .with_hint("`GET /-/admin/pins` lists changed tools")
    };
    match request.path().as_slice() {
        path if !paths::is_known(path) => Err(unknown()),
        ["-", "admin", "pins"] if is_read => Ok(Reply::json(json!({"pins": pins(&servers.servers())}))),
        ["-", "admin", "pins"] => Err(PageFailure::method("GET")),
        ["-", "admin", "pins", action @ ("accept" | "keep-off")] => {
            request.require_post()?;
            check_type(&request.head.headers, "application/json")?;
            decide(servers, &request.body, *action == "accept").await?;
            page.servers.refresh(page, servers);
            Ok(Reply::json(json!({"pins": pins(&servers.servers())})))
        }
        _ => Err(unknown()),
    }
}

/// Returns the tools whose definition changed, with the accepted and the current texts.
fn pins(servers: &[Server]) -> Vec<Value> {
    let of_server = |server: &Server| {
        let changed = data(server).get_mut("changed").map(Value::take).unwrap_or_default();
        let Value::Array(changed) = changed else { return Vec::new() };
        let with_names = changed.into_iter().zip(&server.changed).map(|(mut pin, tool)| {
            pin["server"] = server.name.as_str().into();
            pin["fingerprint"] = tool.fingerprint.as_str().into();
            pin
        });
        with_names.collect::<Vec<_>>()
    };
    servers.iter().flat_map(of_server).collect()
}

async fn decide(servers: &dyn PageServers, body: &[u8], accepts: bool) -> Result<(), PageFailure> {
    let reviewed: ReviewedTool = serde_json::from_slice(body).map_err(|error| {
        PageFailure::invalid(format!("the body is not valid: {error}")).with_hint(
            "send `{\"server\": …, \"tool\": …, \"fingerprint\": …}` as `GET /-/admin/pins` lists them",
        )
    })?;
    let ReviewedTool { server, tool, fingerprint } = &reviewed;
    match accepts {
        true => servers.accept(server, tool, fingerprint).await?,
        false => servers.block(server, tool, fingerprint).await?,
    }
    Ok(())
}
