use toolwire_toolkit::tool;

/// Take too much.
#[tool]
async fn take(
    args: String,
    /// More
    more: bool,
) {
    drop((args, more));
}

fn main() {}
