//! Forms for the arguments of a tool, generated from its schema.
//!
//! A [`Shape`] is what a form can draw of a schema. A [`Filling`] is the content of a form: the texts that a
//! person typed, which may not be valid yet. A part of a schema that no field can draw, and a value that its
//! field cannot display, is a field with JSON.

mod draw;
mod filling;
mod shape;

pub use draw::draw;
pub use filling::{Action, Fields, Filling, Problem};
pub use shape::{Field, Kind, Shape};

#[cfg(test)]
mod tests;
