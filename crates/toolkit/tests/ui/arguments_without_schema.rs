use toolwire_toolkit::tool;

struct Search;

/// Search.
#[tool]
async fn search(args: Search) {
    drop(args);
}

fn main() {}
