use toolwire_toolkit::Server;

async fn forgotten() {}

fn main() {
    let _ = Server::builder("documents").tool(forgotten).build();
}
