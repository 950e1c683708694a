//! Where in the original schema the engine stands.

/// A place in the original schema, as a chain from the root. Chains live on the stack: nothing is allocated until a
/// change is reported.
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
    /// A jump, as after a `$ref`: the whole pointer.
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

    /// The RFC 6901 pointer.
    pub(crate) fn pointer(&self) -> String {
        let mut pointer = String::with_capacity(self.length());
        self.write(&mut pointer);
        pointer
    }

    /// About how long the pointer is.
    fn length(&self) -> usize {
        let step = match self.step {
            Step::Root => 0,
            Step::Key(key) => 1 + key.len(),
            Step::Index(_) => 4,
            Step::Pointer(whole) => whole.len(),
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
                escape_segment(key, pointer);
            }
            Step::Index(index) => {
                pointer.push('/');
                pointer.push_str(&index.to_string());
            }
            Step::Pointer(whole) => pointer.push_str(whole),
        }
    }
}

/// Appends a reference token, escaped.
pub(crate) fn escape_segment(segment: &str, out: &mut String) {
    if !segment.bytes().any(|byte| matches!(byte, b'~' | b'/')) {
        return out.push_str(segment);
    }
    for character in segment.chars() {
        match character {
            '~' => out.push_str("~0"),
            '/' => out.push_str("~1"),
            other => out.push(other),
        }
    }
}

/// A reference token by its characters.
pub(crate) fn unescape_segment(token: &str) -> std::borrow::Cow<'_, str> {
    if token.contains('~') { token.replace("~1", "/").replace("~0", "~").into() } else { token.into() }
}
