//! Resolves names to allowed addresses.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::AllowedHosts;

type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// Resolves names, and fails if one of the addresses is not allowed: the name belongs to a network that is not public, or it is
/// used to reach one. The HTTP client connects to the returned addresses and resolves the name no second time.
#[derive(Clone)]
pub(crate) struct CheckedResolver {
    hosts: Arc<AllowedHosts>,
    /// Whether only addresses of this machine are allowed, because the connection is not encrypted.
    is_local: bool,
    lookup: Lookup,
}

#[derive(Debug, thiserror::Error)]
#[error("the host `{host}` has an address that is not allowed")]
struct AddressRefused {
    host: String,
}

impl CheckedResolver {
    pub(crate) fn new(hosts: Arc<AllowedHosts>, is_local: bool) -> CheckedResolver {
        let lookup = |name: String| -> BoxFuture<'static, _> {
            Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
        };
        CheckedResolver { hosts, is_local, lookup: Arc::new(lookup) }
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = (resolver.lookup)(host.clone()).await?;
            let is_allowed = |address: &SocketAddr| {
                resolver.hosts.allows(address.ip())
                    && (!resolver.is_local || address.ip().to_canonical().is_loopback())
            };
            match found.iter().all(is_allowed) {
                true => Ok(Box::new(found.into_iter()) as Addrs),
                false => Err(AddressRefused { host }.into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::net::TcpListener;

    use super::*;
    use crate::transport::install_tls_provider;

    fn resolver(addresses: &[&str], allowed: &[&str], is_local: bool) -> CheckedResolver {
        let found: Vec<SocketAddr> =
            addresses.iter().map(|ip| SocketAddr::new(ip.parse().expect("an address"), 0)).collect();
        let lookup = move |_: String| -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
            Box::pin(std::future::ready(Ok(found.clone())))
        };
        let hosts = AllowedHosts::new(&["*:*"], allowed).expect("valid patterns");
        CheckedResolver { hosts: Arc::new(hosts), is_local, lookup: Arc::new(lookup) }
    }

    async fn resolve(resolver: &CheckedResolver) -> Option<Vec<String>> {
        let found = resolver.resolve("mcp.example.com".parse().expect("a name")).await.ok()?;
        Some(found.map(|address| address.ip().to_string()).collect())
    }

    #[tokio::test]
    async fn every_address_of_a_name_must_be_allowed() {
        for (addresses, allowed, is_local, expected) in [
            (&["8.8.8.8", "2606:4700::1111"][..], &[][..], false, true),
            (&["8.8.8.8", "10.0.0.1"], &[], false, false),
            (&["8.8.8.8", "::ffff:169.254.169.254"], &[], false, false),
            (&["8.8.8.8", "10.0.0.1"], &["10.0.0.0/8"], false, true),
            (&["127.0.0.1", "::1"], &["127.0.0.0/8", "::1"], true, true),
            (&["127.0.0.1"], &["::1"], true, false),
            (&["8.8.8.8"], &["127.0.0.0/8"], true, false),
        ] {
            let found = resolve(&resolver(addresses, allowed, is_local)).await;
            assert_eq!(found.is_some(), expected, "{addresses:?} {allowed:?}: {found:?}");
        }
    }

    /// 11: a name that has another address at the second lookup. The connection goes to the checked address of its own lookup,
    /// and a lookup that finds another address fails.
    #[tokio::test]
    async fn the_checked_address_is_the_one_that_is_connected_to() {
        let inside = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let port = inside.local_addr().expect("an address").port();
        let lookups = Arc::new(AtomicUsize::new(0));
        let count = lookups.clone();
        // First a public address where nothing listens for us, then this machine.
        let lookup = move |_: String| -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
            let ip: [u8; 4] = if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
                [192, 0, 2, 1]
            } else {
                [127, 0, 0, 1]
            };
            Box::pin(std::future::ready(Ok(vec![SocketAddr::from((ip, 0))])))
        };
        let hosts = AllowedHosts::new(&["mcp.example.com:*"], &["192.0.2.0/24"]).expect("valid patterns");
        let resolver = CheckedResolver { hosts: Arc::new(hosts), is_local: false, lookup: Arc::new(lookup) };
        assert_eq!(resolve(&resolver).await.as_deref(), Some(&["192.0.2.1".to_owned()][..]));
        install_tls_provider();
        let client =
            reqwest::Client::builder().no_proxy().dns_resolver(Arc::new(resolver)).build().expect("a client");
        let failed = client.get(format!("http://mcp.example.com:{port}/")).send().await;
        assert!(failed.is_err_and(|error| error.is_connect()));
        assert_eq!(lookups.load(Ordering::SeqCst), 2);
        assert!(futures::FutureExt::now_or_never(inside.accept()).is_none(), "no connection arrived");
    }
}
