//! The forms in which OpenAI's clients define and call tools that are not plain functions.

/// The form of a client's tool whose calls are not plain function calls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolForm {
    /// A function in a namespace. The name of the tool is the namespace, a dot, and the function's own name.
    Function { namespace: String },
    /// A free-text tool: its only argument is the text `input`.
    Custom { namespace: Option<String> },
    /// A tool that OpenAI defines, such as `shell`. Its arguments are the fields of the item that is a call.
    Native,
}
