//! What a caller may choose about a conversion.

/// How tools are converted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub defaults: Defaults,
    /// Keep a tool strict by saying maps as lists of entries, free-form values as JSON text and tuples as objects.
    pub reshape: bool,
    /// Whose tools these are; it makes rewritten names differ between servers.
    pub server: Option<String>,
    pub layout: Layout,
}

/// What becomes of `default` where a dialect does not take it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defaults {
    /// As the dialect's users expect: gone where the API ignores or refuses it, kept where the model profits from it.
    #[default]
    Usual,
    /// Gone, with a line in the report.
    Drop,
    /// Said in the description instead.
    Describe,
    /// Left where it is, if the dialect takes it at all.
    Keep,
}

/// How definitions are written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Without white space.
    #[default]
    Compact,
    /// Two spaces a level.
    Indented,
}
