use toolwire_toolkit::tool;

/// Take anything.
#[tool]
async fn take<T: Send>(
    /// What
    thing: T,
) {
    drop(thing);
}

fn main() {}
