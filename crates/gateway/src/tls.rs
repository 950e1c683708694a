//! TLS with a certificate and a key of the configuration.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

mod validity;

/// The maximum duration of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A certificate with its key. Cheap to clone.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    expires: Option<SystemTime>,
}

/// The reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    #[error("the certificate file contains no certificate in PEM format")]
    NoCertificate,
    #[error("the key file contains no private key in PEM format")]
    NoKey,
    #[error("the certificate and the key cannot be used: {0}")]
    Unusable(String),
}

impl TlsError {
    /// Returns what to change.
    pub const fn hint(&self) -> &'static str {
        match self {
            TlsError::NoCertificate => {
                "the file begins with `-----BEGIN CERTIFICATE-----`: the certificate of the gateway first, then those of its issuers"
            }
            TlsError::NoKey => "the file contains `-----BEGIN PRIVATE KEY-----`, without a password",
            TlsError::Unusable(_) => "check that the key belongs to the first certificate of the file",
        }
    }
}

impl Tls {
    /// Reads a chain of certificates and a key, both in PEM format.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Tls, TlsError> {
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(certificates).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or(TlsError::NoCertificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey)?;
        let expires = chain.iter().filter_map(|certificate| validity::not_after(certificate)).min();
        let unusable = |error: rustls::Error| TlsError::Unusable(error.to_string());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().map_err(unusable)?;
        let mut config = config.with_no_client_auth().with_single_cert(chain, key).map_err(unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Tickets are encrypted with keys that change.
        config.ticketer = ring::Ticketer::new().map_err(unusable)?;
        Ok(Tls { config: Arc::new(config), expires })
    }

    /// Returns the earliest expiry in the chain of certificates, if it can be read.
    pub fn expires(&self) -> Option<SystemTime> {
        self.expires
    }

    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let accepted = TlsAcceptor::from(self.config.clone()).accept(stream);
        tokio::time::timeout(HANDSHAKE_TIMEOUT, accepted)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tls").field("expires", &self.expires).finish_non_exhaustive()
    }
}
