use toolwire_toolkit::{Context, tool};

/// Take text.
#[tool]
async fn take(
    /// The text
    text: &str,
    cx: Context,
) {
    drop((text, cx));
}

fn main() {}
