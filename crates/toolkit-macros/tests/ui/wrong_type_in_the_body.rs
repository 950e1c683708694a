use toolwire_toolkit::{Outcome, tool};

/// Count.
#[tool]
async fn count() -> Outcome<u32> {
    if true {
        return 5;
    }
    "many"
}

fn main() {}
