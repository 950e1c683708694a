//! Descriptions: the doc comment, then the list of arguments.

use serde_json::Value;
use toolwire_toolkit::tool;

use crate::support::{list, plain};

/// Move a document to another folder, which may contain
/// other documents.
///
/// Existing documents are:
/// - never overwritten
/// - never renamed
#[tool(explicit = "MOVE")]
async fn shift(
    /// The document
    name: String,
    /// The target folder
    #[tool(default = "inbox")]
    folder: String,
    /// The versions
    versions: Option<Vec<u32>>,
    /// Other data
    more: Option<Value>,
) {
    let _ = (name, folder, versions, more);
}

/// Look.
#[tool(title = "Look around")]
async fn look() {}

#[test]
fn a_description_has_the_doc_comment_and_the_arguments() {
    let tools = list(&plain().tool(shift).tool(look).build().unwrap());
    assert_eq!(
        tools[0].description.as_deref().unwrap(),
        "REQUIRES EXPLICIT USER INSTRUCTION. Move a document to another folder, which may contain other documents.\n\
         \n\
         Existing documents are:\n\
         - never overwritten\n\
         - never renamed\n\
         \n\
         Arguments:\n\
         - `name`: string, required\n\
         - `folder`: string, default `inbox`\n\
         - `versions`: array of integer, optional\n\
         - `more`: any, optional\n\
         - `explicit_action`: string, required, always `MOVE`"
    );
    assert_eq!(tools[1].description.as_deref(), Some("Look."));
    assert_eq!(tools[1].title.as_deref(), Some("Look around"));
}
