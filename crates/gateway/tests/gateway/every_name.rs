use toolwire_gateway::{ModelCatalog, ServedModel, UnknownModel};

/// A catalog that returns the same model for every name.
pub(crate) struct EveryName(pub(crate) ServedModel);

impl ModelCatalog for EveryName {
    fn names(&self) -> Vec<String> {
        vec!["up".to_owned()]
    }

    fn find(&self, _: &str) -> Result<ServedModel, UnknownModel> {
        Ok(self.0.clone())
    }
}
