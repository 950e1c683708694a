//! The body of a request with JSON.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};
use toolwire_dialect::client::ErrorKind;
use toolwire_dialect::request::ApiSupport;

use crate::body_scan::BodyFacts;
use crate::response::Failure;
use crate::top_level::{InvalidBody, MAX_VALUES, TopLevel};

/// If a body has more values and keys than this, the memory of the parsed values is counted.
const MANY_VALUES: usize = 10_000;

/// A body, and the positions of its top-level fields.
pub(crate) struct RequestBody {
    bytes: Bytes,
    fields: TopLevel,
}

impl RequestBody {
    pub(crate) fn read(bytes: Bytes) -> Result<RequestBody, Failure> {
        let fields = TopLevel::scan(&bytes, MAX_VALUES).map_err(invalid_body)?;
        Ok(RequestBody { bytes, fields })
    }

    /// Returns the size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Estimates the memory for the body and for what is parsed from it.
    pub(crate) fn estimated_bytes(&self) -> usize {
        let values = self.fields.values();
        let parsed = if values > MANY_VALUES { values.saturating_mul(size_of::<Value>()) } else { 0 };
        self.len().max(parsed)
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the JSON text.
    pub(crate) fn text(&self) -> &str {
        // The text was checked when the fields were found.
        std::str::from_utf8(&self.bytes).unwrap_or_default()
    }

    pub(crate) fn to_object(&self) -> Result<Map<String, Value>, Failure> {
        let parsed = serde_json::from_slice(&self.bytes);
        parsed.map_err(|error| invalid_body(InvalidBody::Syntax(error.to_string())))
    }

    /// Parses the whole body to find what matters for the decision whether it is forwarded.
    pub(crate) fn facts(&self) -> Result<BodyFacts, Failure> {
        BodyFacts::of(&self.bytes).map_err(|error| invalid_body(InvalidBody::Syntax(error.to_string())))
    }

    /// Returns the bytes of a top-level field.
    pub(crate) fn raw(&self, key: &str) -> Option<&[u8]> {
        self.fields.get(key).map(|field| &self.bytes[field.value.clone()])
    }

    /// Returns the JSON text of a top-level field, without copying it.
    pub(crate) fn slice(&self, key: &str) -> Option<Bytes> {
        self.fields.get(key).map(|field| self.bytes.slice(field.value.clone()))
    }

    /// Returns the names and the JSON texts of all top-level fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = self.text();
        self.fields.iter().map(|field| (&text[field.key.clone()], &text[field.value.clone()]))
    }

    /// Whether a field is set. `null` means absent, and `false` is the default of the fields that are
    /// switches.
    pub(crate) fn sets(&self, key: &str) -> bool {
        self.raw(key).is_some_and(|value| !matches!(value, b"null" | b"false"))
    }

    /// Returns the body without a top-level field.
    pub(crate) fn without(&self, key: &str) -> Bytes {
        let fields = self.fields().filter(|(name, _)| *name != key);
        let fields: Vec<String> = fields.map(|(name, value)| format!("\"{name}\":{value}")).collect();
        Bytes::from(format!("{{{}}}", fields.join(",")))
    }

    /// Returns the output limit.
    pub(crate) fn output_limit(&self) -> Option<u64> {
        let keys = ["max_completion_tokens", "max_tokens", "max_output_tokens"];
        keys.into_iter().find_map(|key| serde_json::from_slice(self.raw(key)?).ok())
    }

    /// Returns the name of the model.
    pub(crate) fn model(&self) -> Option<String> {
        serde_json::from_slice(self.raw("model")?).ok()
    }

    /// Returns the body with the provider's name of the model, and of the output limit if it has only a part
    /// of the API. All other bytes stay as they are.
    pub(crate) fn for_provider(&self, model: &str, api_support: ApiSupport) -> Bytes {
        let name = Value::from(model).to_string();
        let model = self.fields.get("model").map(|field| (field.value.clone(), name.as_str()));
        let mut edits: Vec<_> = model.into_iter().collect();
        if api_support == ApiSupport::Partial {
            edits.extend(self.limit_edits());
        }
        edits.retain(|(range, text)| self.bytes[range.clone()] != *text.as_bytes());
        edits.sort_by_key(|(range, _)| range.start);
        if edits.is_empty() {
            return self.bytes.clone();
        }
        let mut body = BytesMut::with_capacity(self.bytes.len() + name.len());
        let mut position = 0;
        for (range, text) in edits {
            body.extend_from_slice(&self.bytes[position..range.start]);
            body.extend_from_slice(text.as_bytes());
            position = range.end;
        }
        body.extend_from_slice(&self.bytes[position..]);
        body.freeze()
    }

    /// Returns the edits after which `max_tokens` has the output limit. At most one of the two fields is set.
    fn limit_edits(&self) -> Vec<(Range<usize>, &'static str)> {
        let key = |name: &str| self.fields.get(name).map(|field| field.key.clone());
        match (key("max_completion_tokens"), key("max_tokens")) {
            (Some(limit), None) => vec![(limit, "max_tokens")],
            (Some(limit), Some(null)) if self.sets("max_completion_tokens") => {
                vec![(limit, "max_tokens"), (null, "max_completion_tokens")]
            }
            _ => Vec::new(),
        }
    }
}

fn invalid_body(error: InvalidBody) -> Failure {
    Failure::new(ErrorKind::InvalidRequest, error.to_string())
}
