use std::rc::Rc;

use toolwire_toolkit::tool;

/// Wait for something.
#[tool]
async fn wait() -> String {
    let kept = Rc::new(5);
    std::future::ready(()).await;
    kept.to_string()
}

fn main() {}
