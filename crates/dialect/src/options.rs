//! Options for conversions.

/// Options for the conversion of tools.
///
/// ```
/// use toolwire_dialect::{Defaults, Options};
///
/// let options = Options::default().with_defaults(Defaults::Describe).with_server("github".to_owned());
/// assert_eq!(options.server.as_deref(), Some("github"));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub defaults: Defaults,
    /// Keep more tools strict by asking the model for another shape: maps become lists of entries, free-form
    /// values become JSON text and tuples become objects. Arguments are converted back.
    pub reshape: bool,
    /// The server the tools come from. Its name is part of the hash in rewritten tool names, so that they
    /// differ between servers.
    pub server: Option<String>,
    pub layout: Layout,
    /// Tools that were found or called before, the most recent first. Where an API limits the number of
    /// strict tools, these are strict first.
    pub recent_tools: Vec<String>,
}

impl Options {
    pub fn with_defaults(self, defaults: Defaults) -> Options {
        Options { defaults, ..self }
    }

    pub fn with_reshape(self, reshape: bool) -> Options {
        Options { reshape, ..self }
    }

    pub fn with_server(self, server: impl Into<Option<String>>) -> Options {
        Options { server: server.into(), ..self }
    }

    pub fn with_recent_tools(self, recent_tools: Vec<String>) -> Options {
        Options { recent_tools, ..self }
    }

    pub fn with_layout(self, layout: Layout) -> Options {
        Options { layout, ..self }
    }
}

/// The treatment of the `default` keyword.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defaults {
    /// Decide for each dialect: drop defaults that the API ignores or rejects, keep those that help the
    /// model.
    #[default]
    PerDialect,
    /// Remove defaults and report each removal.
    Drop,
    /// Move defaults into the description.
    Describe,
    /// Keep defaults wherever the dialect accepts them.
    Keep,
}

/// The layout of definitions written as text.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// No white space.
    #[default]
    Compact,
    /// Indented by two spaces per level.
    Indented,
}
