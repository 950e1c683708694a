use toolwire_toolkit::{Outcome, tool};

type Reply = Outcome<u32>;

/// Count.
#[tool]
async fn count() -> Reply {
    Outcome::ok(1)
}

fn main() {}
