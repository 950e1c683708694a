use toolwire_toolkit::{Context, tool};

/// Take text.
#[tool]
async fn take(
    /// Which
    text: &str,
    cx: Context,
) {
    drop((text, cx));
}

fn main() {}
