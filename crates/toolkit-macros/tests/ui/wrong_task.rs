use toolwire_toolkit::tool;

/// Look.
#[tool(task(optional))]
async fn look() {}

/// See.
#[tool(task, task(required))]
async fn see() {}

fn main() {}
