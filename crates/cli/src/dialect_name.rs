//! Dialects on the command line: by name, with near names when one is misspelt.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use toolwire_dialect::Dialect;

/// Takes the name of any dialect.
pub(crate) fn any() -> impl TypedValueParser<Value = Dialect> {
    among(|_| true)
}

/// Takes the name of a dialect whose definitions can be read back into tools.
pub(crate) fn readable() -> impl TypedValueParser<Value = Dialect> {
    among(Dialect::is_readable)
}

fn among(admitted: fn(Dialect) -> bool) -> impl TypedValueParser<Value = Dialect> {
    let values = Dialect::all()
        .filter(move |dialect| admitted(*dialect))
        .map(|dialect| PossibleValue::new(dialect.name()).help(dialect.title()));
    PossibleValuesParser::new(values)
        .map(|name| name.parse::<Dialect>().expect("clap lets only names of dialects through"))
}
