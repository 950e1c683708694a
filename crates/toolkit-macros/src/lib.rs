//! The `#[tool]` attribute of `toolwire-toolkit`.
