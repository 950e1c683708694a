//! Serves the scenarios of the tests, to try clients by hand: `cargo run -p toolwire-gateway --example
//! scenarios -- 127.0.0.1:8787`.

#[path = "../tests/support/mod.rs"]
mod support;

use support::TestGateway;
use tokio::net::TcpListener;
use toolwire_gateway::GatewaySettings;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8787".to_owned());
    let gateway = TestGateway::on(TcpListener::bind(address).await?, GatewaySettings::default()).await;
    println!("listening on http://{}", gateway.address);
    std::future::pending().await
}
