//! Converts arbitrary text from any dialect to any other.
//!
//! The first two bytes select the dialects. The rest is the input.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolwire_dialect::{Dialect, Options, convert};

fuzz_target!(|data: &[u8]| {
    let [from, to, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let dialects: Vec<Dialect> = Dialect::all().collect();
    let dialect = |byte: u8| dialects[usize::from(byte) % dialects.len()];
    let options = Options::default().with_reshape(*to >= 128);
    if let Ok(conversion) = convert(text, dialect(*from), dialect(*to), &options)
        && let Some(definitions) = conversion.definitions
    {
        serde_json::from_str::<serde_json::Value>(&definitions).expect("definitions are JSON");
    }
});
