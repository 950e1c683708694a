//! Parses dialect names on the command line; clap suggests similar names for a misspelt one.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use toolwire_dialect::Dialect;

/// Accepts the name of any dialect.
pub(crate) fn any() -> impl TypedValueParser<Value = Dialect> {
    parser(|_| true)
}

/// Accepts the name of a dialect whose definitions can be converted back to tools.
pub(crate) fn readable() -> impl TypedValueParser<Value = Dialect> {
    parser(Dialect::is_readable)
}

fn parser(is_accepted: fn(Dialect) -> bool) -> impl TypedValueParser<Value = Dialect> {
    let values = Dialect::all()
        .filter(move |dialect| is_accepted(*dialect))
        .map(|dialect| PossibleValue::new(dialect.name()).help(dialect.title()));
    PossibleValuesParser::new(values)
        .map(|name| name.parse::<Dialect>().expect("a dialect name, checked by clap"))
}
