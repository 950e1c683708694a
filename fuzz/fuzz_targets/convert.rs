//! Any text, from any dialect to any other: the first two bytes choose, the rest is the input.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolwire_dialect::{Dialect, Options, convert};

fuzz_target!(|data: &[u8]| {
    let [from, to, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let dialect = |byte: u8| Dialect::ALL[usize::from(byte) % Dialect::ALL.len()];
    let options = Options { reshape: *to >= 128, ..Options::default() };
    if let Ok(conversion) = convert(text, dialect(*from), dialect(*to), &options)
        && let Some(definitions) = conversion.definitions
    {
        serde_json::from_str::<serde_json::Value>(&definitions).expect("definitions are JSON");
    }
});
