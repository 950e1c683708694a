use toolwire_toolkit::transport::serve_stdio;
use toolwire_toolkit::{Outcome, Server, tool};

/// Count the words of a text.
#[tool(read_only)]
async fn count_words(
    /// The text
    text: String,
) -> Outcome<usize> {
    Outcome::ok(text.split_whitespace().count())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("words").tool(count_words).build()?;
    serve_stdio(server)?.finished().await;
    Ok(())
}
