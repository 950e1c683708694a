//! Decodes and encodes arbitrary arguments for arbitrary tools.
//!
//! The first byte selects the dialect. Then follow the tools, a NUL byte, and the arguments.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolwire_dialect::{Dialect, Options, Toolset};

fuzz_target!(|data: &[u8]| {
    let [choice, rest @ ..] = data else { return };
    let mut parts = rest.splitn(2, |byte| *byte == 0);
    let Ok(tools) = std::str::from_utf8(parts.next().unwrap_or_default()) else { return };
    let arguments = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let dialect = Dialect::all().nth(usize::from(*choice) % Dialect::all().len()).expect("the index is in range");
    let options = Options::default().with_reshape(*choice >= 128);
    let Ok(toolset) = Toolset::from_json(tools, dialect, &options) else { return };
    let value: Option<Value> = serde_json::from_str(&arguments).ok();
    for report in toolset.reports() {
        let _ = toolset.decode(&report.name, &Value::String(arguments.clone()));
        if let Some(value) = &value {
            let _ = toolset.decode(&report.name, value);
            let _ = toolset.encode(&report.tool, value);
        }
    }
});
