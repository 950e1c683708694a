use toolwire_toolkit::tool;

/// No function at all.
#[tool]
struct Wait;

fn main() {}
