//! Locations in the original schema, written as RFC 6901 pointers.

use toolwire_contract::text::escape_pointer_segment;

/// A location in the original schema, as a chain of steps from the root.
///
/// Chains are kept on the stack; nothing is allocated until a change is reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p> {
    parent: Option<&'p Place<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'p> {
    Root,
    Key(&'p str),
    Index(usize),
    /// A complete pointer, for example the target of a `$ref`.
    Pointer(&'p str),
}

impl<'p> Place<'p> {
    pub(crate) const ROOT: Place<'static> = Place { parent: None, step: Step::Root };

    pub(crate) fn key(&'p self, key: &'p str) -> Place<'p> {
        Place { parent: Some(self), step: Step::Key(key) }
    }

    pub(crate) fn index(&'p self, index: usize) -> Place<'p> {
        Place { parent: Some(self), step: Step::Index(index) }
    }

    pub(crate) fn at(pointer: &'p str) -> Place<'p> {
        Place { parent: None, step: Step::Pointer(pointer) }
    }

    pub(crate) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    /// Returns the RFC 6901 pointer.
    pub(crate) fn pointer(&self) -> String {
        let mut pointer = String::with_capacity(self.length());
        self.write(&mut pointer);
        pointer
    }

    /// Returns the approximate length of the pointer.
    fn length(&self) -> usize {
        let step = match self.step {
            Step::Root => 0,
            Step::Key(key) => 1 + key.len(),
            Step::Index(_) => 4,
            Step::Pointer(pointer) => pointer.len(),
        };
        step + self.parent.map_or(0, Place::length)
    }

    fn write(&self, pointer: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(pointer);
        }
        match self.step {
            Step::Root => {}
            Step::Key(key) => {
                pointer.push('/');
                push_segment(key, pointer);
            }
            Step::Index(index) => {
                pointer.push('/');
                pointer.push_str(&index.to_string());
            }
            Step::Pointer(complete) => pointer.push_str(complete),
        }
    }
}

/// Appends a segment of a pointer, escaped.
pub(crate) fn push_segment(segment: &str, out: &mut String) {
    out.push_str(&escape_pointer_segment(segment));
}
