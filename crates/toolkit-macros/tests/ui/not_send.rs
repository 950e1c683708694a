use std::rc::Rc;

use toolwire_toolkit::tool;

/// Wait for something.
#[tool]
async fn wait() -> String {
    let data = Rc::new(5);
    std::future::ready(()).await;
    data.to_string()
}

fn main() {}
