//! The paths that report the state of the gateway.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde_json::json as object;
use toolwire_dialect::client::ErrorKind;

use super::Inner;
use crate::metrics::MEDIA_TYPE;
use crate::origin::is_from_this_machine;
use crate::response::{Failure, HttpResponse, ResponseBody, json};
use crate::routes::Route;

impl Inner {
    /// Responds to a path that reports the state of the gateway.
    pub(super) async fn status(
        &self,
        route: &Route,
        headers: &HeaderMap,
        local: SocketAddr,
        client: IpAddr,
    ) -> Result<HttpResponse, Failure> {
        match route {
            Route::Ready => {
                let may_see_reasons = self.check_operator(headers, local, client).await.is_ok();
                let (tools, checks) = (&*self.all_tools, &self.settings.readiness);
                let (status, body) = self.lifecycle.readiness(tools, checks, may_see_reasons).await;
                Ok(json(status, &body))
            }
            Route::Metrics => {
                self.check_operator(headers, local, client).await?;
                let text = Bytes::from(self.settings.metrics.to_prometheus());
                let mut response = http::Response::new(ResponseBody::Whole(text));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
                Ok(response)
            }
            _ => Ok(json(StatusCode::OK, &object!({"status": "ok"}))),
        }
    }

    /// Checks that a client may see the metrics and the state of the servers: it is on this machine, or has
    /// the key of an administrator. If there is only one key, that key is sufficient.
    async fn check_operator(
        &self,
        headers: &HeaderMap,
        local: SocketAddr,
        client: IpAddr,
    ) -> Result<(), Failure> {
        let has_key = ["authorization", "x-api-key"].iter().any(|name| headers.contains_key(*name));
        if !has_key && is_from_this_machine(headers, local, client) {
            return Ok(());
        }
        let keys = &self.settings.keys;
        if !is_from_this_machine(headers, local, client) && !keys.is_needed().await {
            let message = "without keys, this path is only for clients on the machine of the gateway";
            return Err(Failure::new(ErrorKind::Forbidden, message));
        }
        let principal = self.authenticate(headers, client).await?;
        if !keys.may_be_several() || principal.is_admin() {
            return Ok(());
        }
        let message = "this path needs the key of an administrator: set `admin` of the key";
        Err(Failure::new(ErrorKind::Forbidden, message))
    }
}
