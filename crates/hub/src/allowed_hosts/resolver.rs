//! Resolves names to allowed addresses.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::AllowedHosts;

type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// Resolves names, and fails if one of the addresses is not allowed: the name belongs to a network that is
/// not public, or it is used to reach one. The HTTP client connects to the returned addresses and does not
/// resolve the name again.
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
    #[cfg(target_os = "linux")]
    use {
        crate::transport::install_tls_provider,
        futures::FutureExt,
        std::net::Ipv4Addr,
        std::sync::atomic::{AtomicUsize, Ordering},
        tokio::io::{AsyncReadExt, AsyncWriteExt},
        tokio::net::TcpListener,
    };

    use super::*;

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

    /// Security test 11 (docs/security-tests.md): a name that has another address at the next lookup. The
    /// connection goes to the address that was checked, and a connection whose own lookup finds an address
    /// that is not allowed fails.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_checked_address_is_the_one_that_is_connected_to() {
        // Two addresses of this machine with the same port; only the first one is allowed.
        let (allowed, inside, port) = listeners().await;
        let lookups = Arc::new(AtomicUsize::new(0));
        let count = lookups.clone();
        let lookup = move |_: String| -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
            let ip = if count.fetch_add(1, Ordering::SeqCst) == 0 { ALLOWED } else { INSIDE };
            Box::pin(std::future::ready(Ok(vec![SocketAddr::from((ip, 0))])))
        };
        let hosts = AllowedHosts::new(&["mcp.example.com:*"], &["127.0.0.2"]).expect("valid patterns");
        let resolver = CheckedResolver { hosts: Arc::new(hosts), is_local: false, lookup: Arc::new(lookup) };
        install_tls_provider();
        let client =
            reqwest::Client::builder().no_proxy().dns_resolver(Arc::new(resolver)).build().expect("a client");
        let url = format!("http://mcp.example.com:{port}/");
        let respond = async {
            let (mut connection, _) = allowed.accept().await.expect("a connection");
            // One read is enough, because the request is short.
            let _ = connection.read(&mut [0; 4096]).await;
            let response = b"HTTP/1.1 204 x\r\nconnection: close\r\n\r\n";
            connection.write_all(response).await.expect("a reader");
        };
        let (response, ()) = tokio::join!(client.get(&url).send(), respond);
        assert_eq!(response.expect("a response").status(), 204);
        assert_eq!(lookups.load(Ordering::SeqCst), 1, "the name is resolved once for a connection");
        // The second connection: the name has the other address now.
        let failed = client.get(&url).send().await;
        assert!(failed.is_err_and(|error| error.is_connect()));
        assert_eq!(lookups.load(Ordering::SeqCst), 2);
        assert!(inside.accept().now_or_never().is_none(), "no connection arrived");
    }

    #[cfg(target_os = "linux")]
    const ALLOWED: [u8; 4] = [127, 0, 0, 2];
    #[cfg(target_os = "linux")]
    const INSIDE: [u8; 4] = [127, 0, 0, 1];

    /// Listens at both addresses with the same port.
    #[cfg(target_os = "linux")]
    async fn listeners() -> (TcpListener, TcpListener, u16) {
        loop {
            let allowed = TcpListener::bind((Ipv4Addr::from(ALLOWED), 0)).await.expect("a listener");
            let port = allowed.local_addr().expect("an address").port();
            // The port may be in use at the other address.
            if let Ok(inside) = TcpListener::bind((Ipv4Addr::from(INSIDE), port)).await {
                return (allowed, inside, port);
            }
        }
    }

    /// Another spelling of `localhost`, which is not checked as an address of this machine before it is
    /// resolved.
    #[tokio::test]
    async fn a_name_of_this_machine_with_a_final_dot_is_checked_too() {
        let localhost = "localhost.".parse().expect("a name");
        assert!(resolver(&["127.0.0.1"], &[], false).resolve(localhost).await.is_err());
    }
}
