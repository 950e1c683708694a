use toolwire_toolkit::tool;

/// Look.
#[tool(read_only, destructive)]
async fn look() {}

/// See.
#[tool(name = "see it")]
async fn see() {}

/// Watch.
#[tool(explicit)]
async fn watch() {}

/// Stare.
#[tool(idempotent = "yes")]
async fn stare() {}

fn main() {}
