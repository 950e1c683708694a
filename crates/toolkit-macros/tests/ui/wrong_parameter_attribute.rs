use toolwire_toolkit::tool;

/// Log in.
#[tool]
async fn login(
    /// The password
    #[tool(secret)]
    password: String,
) {
    drop(password);
}

fn main() {}
