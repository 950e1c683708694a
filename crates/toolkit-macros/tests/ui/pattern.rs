use toolwire_toolkit::tool;

/// Take two.
#[tool]
async fn take((first, second): (u8, u8)) {
    drop((first, second));
}

fn main() {}
