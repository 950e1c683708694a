use toolwire_toolkit::tool;

/// Look.
#[tool(readonly)]
async fn look() {}

fn main() {}
