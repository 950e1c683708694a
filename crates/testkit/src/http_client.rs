/// Makes `ring` the cryptography of TLS in this process. HTTP clients cannot be created without one.
pub fn install_tls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Returns a plain HTTP client.
pub fn http_client() -> reqwest::Client {
    install_tls_provider();
    reqwest::Client::new()
}
