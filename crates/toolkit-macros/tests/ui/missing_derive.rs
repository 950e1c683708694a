use serde::Deserialize;
use toolwire_toolkit::tool;

#[derive(Deserialize)]
struct Order {
    thing: String,
}

/// Order something.
#[tool]
async fn order(args: Order) -> String {
    args.thing
}

struct Receipt;

/// Pay for it.
#[tool]
async fn pay() -> Receipt {
    Receipt
}

/// Send it.
#[tool]
async fn send(
    /// What
    thing: Order,
) -> String {
    thing.thing
}

fn main() {}
