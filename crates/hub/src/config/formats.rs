//! The formats of a configuration: JSON with comments, and TOML and YAML, which are converted to JSON.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

use super::problem::Problem;

/// A configuration as JSON.
pub(super) struct JsonText<'t> {
    pub(super) json: Cow<'t, str>,
    pub(super) positions: Positions,
}

/// The relation of the offsets of values to positions in the file.
pub(super) enum Positions {
    /// They are offsets of the file.
    OfFile,
    /// They are offsets of the JSON text that a YAML file was converted to.
    #[cfg_attr(not(feature = "yaml"), expect(dead_code, reason = "YAML is not read"))]
    Mapped(PositionMap),
    /// They have no relation: a TOML file was converted to JSON.
    #[cfg_attr(not(feature = "toml"), expect(dead_code, reason = "TOML is not read"))]
    Unknown,
}

/// Maps offsets in the JSON text to lines and columns in the YAML text.
pub(super) struct PositionMap(pub(super) Vec<(usize, (usize, usize))>);

impl PositionMap {
    /// Returns the position of the value that contains the offset.
    pub(super) fn line_and_column(&self, offset: usize) -> Option<(usize, usize)> {
        let after = self.0.partition_point(|(start, _)| *start <= offset);
        after.checked_sub(1).map(|index| self.0[index].1)
    }
}

/// A text that cannot be converted to JSON.
pub(super) struct FormatError {
    pub(super) offset: usize,
    pub(super) positions: Positions,
    pub(super) problem: Problem,
}

/// Converts the text to JSON if the extension of the file is that of TOML or YAML.
pub(super) fn to_json<'t>(text: &'t str, file: &Path) -> Result<JsonText<'t>, FormatError> {
    match file.extension().and_then(OsStr::to_str) {
        Some("toml") => from_toml(text),
        Some("yaml" | "yml") => from_yaml(text),
        _ => Ok(JsonText { json: Cow::Borrowed(text), positions: Positions::OfFile }),
    }
}

#[cfg(feature = "toml")]
fn from_toml(text: &str) -> Result<JsonText<'static>, FormatError> {
    match super::toml::toml_to_json(text) {
        Ok(table) => {
            let json = serde_json::Value::Object(table).to_string();
            Ok(JsonText { json: Cow::Owned(json), positions: Positions::Unknown })
        }
        Err(error) => Err(FormatError {
            offset: error.span().map_or(0, |span| span.start),
            positions: Positions::OfFile,
            problem: Problem::TomlSyntax { message: error.message().to_owned() },
        }),
    }
}

#[cfg(feature = "yaml")]
fn from_yaml(text: &str) -> Result<JsonText<'static>, FormatError> {
    match super::yaml::yaml_to_json(text) {
        Ok(converted) => Ok(JsonText {
            json: Cow::Owned(converted.json),
            positions: Positions::Mapped(converted.positions),
        }),
        Err(error) => Err(FormatError {
            offset: 0,
            positions: Positions::Mapped(PositionMap(vec![(0, error.line_and_column)])),
            problem: Problem::YamlSyntax { message: error.message },
        }),
    }
}

#[cfg(not(feature = "toml"))]
fn from_toml(_: &str) -> Result<JsonText<'static>, FormatError> {
    Err(unsupported("TOML", "toml"))
}

#[cfg(not(feature = "yaml"))]
fn from_yaml(_: &str) -> Result<JsonText<'static>, FormatError> {
    Err(unsupported("YAML", "yaml"))
}

#[cfg(not(all(feature = "toml", feature = "yaml")))]
fn unsupported(format: &'static str, feature: &'static str) -> FormatError {
    FormatError {
        offset: 0,
        positions: Positions::OfFile,
        problem: Problem::UnsupportedFormat { format, feature },
    }
}
