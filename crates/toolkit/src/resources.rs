//! Resources that clients can read.

use std::collections::BTreeMap;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolwire_contract::{ResourceContents, ResourceLink};

use crate::context::Context;
pub use crate::offers::{Caching, OfferError};

/// A provider of resources.
pub trait Resources: Send + Sync {
    /// Returns the listed resources, always in the same order.
    fn list(&self) -> Vec<ResourceLink> {
        Vec::new()
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// Reads a resource; returns `None` if this provider does not have it.
    fn read<'a>(
        &'a self,
        uri: &'a str,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Option<Vec<ResourceContents>>, OfferError>>;

    /// Suggests values for a variable of a template, best first.
    fn complete<'a>(
        &'a self,
        template: &'a str,
        completing: &'a CompletionRequest,
    ) -> BoxFuture<'a, Vec<String>> {
        let _ = (template, completing);
        Box::pin(async { Vec::new() })
    }
}

/// A template for the URIs of similar resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceTemplate {
    /// A URI template (RFC 6570), such as `log://{day}`.
    pub uri_template: String,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub mime_type: Option<String>,
    /// All other fields: `icons`, `annotations`, `_meta`.
    pub extra: Map<String, Value>,
}

/// A request to complete an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletionRequest {
    pub argument: String,
    /// The text typed so far.
    pub value: String,
    /// The other arguments that are already filled in.
    pub others: BTreeMap<String, String>,
}

impl ResourceTemplate {
    pub(crate) fn to_json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("uriTemplate".to_owned(), json!(self.uri_template));
        fields.insert("name".to_owned(), json!(self.name));
        let optional =
            [("title", &self.title), ("description", &self.description), ("mimeType", &self.mime_type)];
        for (key, value) in optional {
            fields.extend(value.as_ref().map(|value| (key.to_owned(), json!(value))));
        }
        fields.extend(self.extra.clone());
        Value::Object(fields)
    }
}

/// A resource with fixed contents.
pub(crate) struct FixedResource {
    pub(crate) link: ResourceLink,
    pub(crate) contents: Vec<ResourceContents>,
}

impl Resources for FixedResource {
    fn list(&self) -> Vec<ResourceLink> {
        vec![self.link.clone()]
    }

    fn read<'a>(
        &'a self,
        uri: &'a str,
        _: &'a Context,
    ) -> BoxFuture<'a, Result<Option<Vec<ResourceContents>>, OfferError>> {
        Box::pin(async move { Ok((self.link.uri == uri).then(|| self.contents.clone())) })
    }
}
