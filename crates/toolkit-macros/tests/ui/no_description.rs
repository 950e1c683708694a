#![deny(deprecated)]

use toolwire_toolkit::tool;

#[tool]
async fn silent(number: u8) {
    let _ = number;
}

fn main() {}
