//! Finds tools that cannot be converted to any dialect.

use bumpalo::Bump;
use toolwire_contract::Tool;

use crate::source::SourceTool;
use crate::{Dialect, Options, Refusal, schema};

/// Checks whether a tool's definition can be converted at all.
///
/// It runs only the steps that can refuse a tool: reading the schema, normalizing it and following its
/// references. No definition is written. Plain `openai` has the fewest restrictions, so no dialect accepts
/// what is refused here. A dialect with a smaller schema language may still refuse a tool that passes.
///
/// ```
/// use serde_json::json;
/// use toolwire_contract::Tool;
/// use toolwire_dialect::check_definition;
///
/// assert!(check_definition(&Tool::new("search", json!({"type": "object"}))).is_ok());
/// let refusal = check_definition(&Tool::new("search", json!({"$ref": "#/$defs/Missing"}))).unwrap_err();
/// assert_eq!(refusal.code, "dangling_ref");
/// ```
pub fn check_definition(tool: &Tool) -> Result<(), Refusal> {
    let arena = Bump::new();
    let source = SourceTool::from_tool(tool, &arena);
    if let Some(error) = source.error {
        let message = error.message(None);
        return Err(Refusal { code: error.code(), pointer: String::new(), message });
    }
    schema::convert(source.input_schema, Dialect::OpenAi, &Options::default(), &arena).map(drop)
}
