use std::sync::LazyLock;

/// Installs `ring` as the cryptography provider of TLS in this process. HTTP clients cannot be created
/// without one.
pub fn install_tls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Returns a plain HTTP client. It is created once, which takes milliseconds, and keeps no connection,
/// because each test has a runtime of its own.
pub fn http_client() -> reqwest::Client {
    static CLIENT: LazyLock<reqwest::Client> = LazyLock::new(|| {
        install_tls_provider();
        reqwest::Client::builder().pool_max_idle_per_host(0).build().expect("TLS is available")
    });
    CLIENT.clone()
}
