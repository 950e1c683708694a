use toolwire_toolkit::{Outcome, tool};

struct Document;

/// Give a document.
#[tool]
async fn document() -> Outcome<Document> {
    Outcome::ok(Document)
}

fn main() {}
