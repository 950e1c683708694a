//! The tools that OpenAI defines and the client runs. Their calls and results are items of their own in the
//! Responses API.

use serde_json::{Map, Value};

/// A tool that OpenAI defines and the client runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NativeTool {
    /// The name of the tool in the types of `toolwire-contract`.
    pub(crate) name: &'static str,
    /// The types of its definitions.
    types: &'static [&'static str],
    /// The type of the item that is a call.
    pub(crate) call: &'static str,
    /// The type of the item that is a result.
    pub(crate) output: &'static str,
    /// The start of the ids of calls.
    pub(crate) id_prefix: &'static str,
}

static NATIVE_TOOLS: [NativeTool; 5] = [
    NativeTool {
        name: "local_shell",
        types: &["local_shell"],
        call: "local_shell_call",
        output: "local_shell_call_output",
        id_prefix: "lsh",
    },
    NativeTool {
        name: "shell",
        types: &["shell"],
        call: "shell_call",
        output: "shell_call_output",
        id_prefix: "sh",
    },
    NativeTool {
        name: "apply_patch",
        types: &["apply_patch"],
        call: "apply_patch_call",
        output: "apply_patch_call_output",
        id_prefix: "apc",
    },
    NativeTool {
        name: "computer",
        types: &["computer", "computer_use", "computer_use_preview"],
        call: "computer_call",
        output: "computer_call_output",
        id_prefix: "cu",
    },
    NativeTool {
        name: "tool_search",
        types: &["tool_search"],
        call: "tool_search_call",
        output: "tool_search_output",
        id_prefix: "tsc",
    },
];

impl NativeTool {
    /// Returns the tool with this name.
    pub(crate) fn named(name: &str) -> Option<&'static NativeTool> {
        NATIVE_TOOLS.iter().find(|tool| tool.name == name)
    }

    /// Returns the tool that a choice with this type names.
    pub(crate) fn of_type(type_name: &str) -> Option<&'static NativeTool> {
        NATIVE_TOOLS.iter().find(|tool| tool.types.contains(&type_name))
    }

    /// Returns the tool of a definition, unless the provider runs it.
    pub(crate) fn of_definition(definition: &Value) -> Option<&'static NativeTool> {
        let tool = NativeTool::of_type(definition.get("type")?.as_str()?)?;
        tool.runs_at_client(definition).then_some(tool)
    }

    /// Returns the tool of a call, unless the provider runs it.
    pub(crate) fn of_call(item: &Value) -> Option<&'static NativeTool> {
        let type_name = item.get("type")?.as_str()?;
        let tool = NATIVE_TOOLS.iter().find(|tool| tool.call == type_name)?;
        tool.runs_at_client(item).then_some(tool)
    }

    /// Returns the tool whose results have this type.
    pub(crate) fn of_output(type_name: &str) -> Option<&'static NativeTool> {
        NATIVE_TOOLS.iter().find(|tool| tool.output == type_name)
    }

    /// Whether the client runs the tool of a definition or a call. The provider runs shells in its
    /// containers, and its own search.
    fn runs_at_client(&self, item: &Value) -> bool {
        match self.name {
            "shell" => {
                let environment = item.get("environment").and_then(|environment| environment.get("type"));
                environment.and_then(Value::as_str).is_none_or(|kind| kind == "local")
            }
            "tool_search" => item.get("execution").and_then(Value::as_str) == Some("client"),
            _ => true,
        }
    }
}

/// Returns the arguments of a call of a native tool: the fields of its item, without those that every item
/// has.
pub(crate) fn native_arguments(item: &Map<String, Value>) -> Map<String, Value> {
    const OF_ITEMS: [&str; 4] = ["type", "id", "call_id", "status"];
    let fields = item.iter().filter(|(key, _)| !OF_ITEMS.contains(&key.as_str()));
    fields.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns the name of a tool in a namespace.
pub(crate) fn qualified_name(namespace: &str, name: &str) -> String {
    format!("{namespace}.{name}")
}

/// Returns the name of a tool without its namespace.
pub(crate) fn without_namespace<'n>(namespace: Option<&str>, name: &'n str) -> &'n str {
    let plain = namespace.and_then(|namespace| name.strip_prefix(namespace)?.strip_prefix('.'));
    plain.unwrap_or(name)
}
