//! Marks arguments that were validated, so that they are not validated twice on their way to a server.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value};

/// Identifies a schema by its content, within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SchemaFingerprint(u64);

impl SchemaFingerprint {
    pub fn of(schema: &Value) -> SchemaFingerprint {
        SchemaFingerprint(hash(schema))
    }
}

/// States that arguments were validated against a schema.
///
/// It holds for exactly these arguments and this schema. A toolbox compares it with the stamp of the
/// arguments that it received and of the schema that its tool has now: if one of them changed, the stamps
/// differ and the arguments must be validated again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidationStamp(u64);

impl ValidationStamp {
    pub fn new(schema: SchemaFingerprint, arguments: &Map<String, Value>) -> ValidationStamp {
        ValidationStamp(hash(&(schema, arguments)))
    }
}

fn hash(content: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
