use toolwire_toolkit::tool;

struct Documents;

impl Documents {
    /// List them.
    #[tool]
    async fn list(&self) {}
}

fn main() {}
