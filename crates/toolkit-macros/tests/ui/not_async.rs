use toolwire_toolkit::tool;

/// Wait for nothing.
#[tool]
fn wait() {}

fn main() {}
