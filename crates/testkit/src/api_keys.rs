//! API keys in the environment of the tests.

use std::ffi::OsString;

/// Returns the variables that may hold an API key. Tests remove them, because a key selects a model.
pub fn api_key_variables() -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().ends_with("_API_KEY"))
}
