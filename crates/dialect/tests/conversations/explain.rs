//! Explanations of the APIs' error messages: which tool, where in its schema, and the cause.

use serde_json::json;
use toolwire_contract::Tool;
use toolwire_dialect::{Dialect, Options, Toolset, explain};

/// Returns tools named `server.tool_0` and so on, which some dialects rename.
fn tools(dialect: Dialect) -> Toolset {
    let tools: Vec<Tool> = (0..140)
        .map(|number| {
            let schema = json!({"type": "object", "properties": {
                "first": {"type": "string"}, "x": {"type": "array", "items": {"type": "object", "properties": {"y": {"type": "integer"}}}}}});
            Tool::try_from(json!({"name": format!("server.tool_{number}"), "inputSchema": schema})).unwrap()
        })
        .collect();
    Toolset::new(&tools, dialect, &Options::default())
}

/// Checks an explanation. `X` in the message is replaced with the dialect's name for `server.tool_7`.
#[track_caller]
fn check(dialect: Dialect, message: &str, tool: Option<usize>, pointer: Option<&str>, cause: &str) {
    let tools = tools(dialect);
    let message = message.replace("X", tools.wire_name("server.tool_7").unwrap());
    let explanation =
        explain(dialect, &tools, &message).unwrap_or_else(|| panic!("no explanation for {message}"));
    let tool = tool.map(|number| format!("server.tool_{number}"));
    assert_eq!((&explanation.tool, explanation.pointer.as_deref()), (&tool, pointer), "{message}");
    assert!(explanation.cause.contains(cause), "{message}: {}", explanation.cause);
    assert!(!explanation.hint.is_empty());
}

#[test]
fn openai_errors_are_explained() {
    let check =
        |message: &str, tool, pointer, cause: &str| check(Dialect::OpenAi, message, tool, pointer, cause);
    let function = |rest: &str| format!("Invalid schema for function 'X': {rest}");
    check(
        "Invalid 'tools[85].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        Some(85),
        None,
        "characters",
    );
    check(
        "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64, but got a string with length 65 instead.",
        Some(0),
        None,
        "longer",
    );
    check(
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 140 instead.",
        None,
        None,
        "more tools",
    );
    check(
        &function("In context=(), object schema missing properties."),
        Some(7),
        Some(""),
        "without `properties`",
    );
    check(
        &function("In context=('properties', 'targets'), array schema missing items."),
        Some(7),
        Some("/properties/targets"),
        "without `items`",
    );
    check(
        &function("In context=('properties', 'v', 'anyOf', '6'), array schema missing items."),
        Some(7),
        Some("/properties/v/anyOf/6"),
        "without `items`",
    );
    check(
        &function(
            "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
        ),
        Some(7),
        None,
        "root",
    );
    check(
        &function("schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'."),
        Some(7),
        None,
        "root",
    );
    check(&function("'object' is not of type 'object', 'boolean'"), Some(7), None, "not a schema");
    check(&function("'^\\\\p{L}+$' is not a 'regex'"), Some(7), None, "`pattern`");
    check(
        &function("In context=(), 'additionalProperties' is required to be supplied and to be false."),
        Some(7),
        Some(""),
        "`additionalProperties: false`",
    );
    check(
        &function(
            "In context=(), 'required' is required to be supplied and to be an array including every key in properties. Missing 'x'.",
        ),
        Some(7),
        Some(""),
        "required",
    );
    check(
        &function("In context=('properties', 'x'), 'allOf' is not permitted."),
        Some(7),
        Some("/properties/x"),
        "keyword",
    );
    check(
        &function("In context=('properties', 'x'), 'uri' is not a valid format."),
        Some(7),
        Some("/properties/x"),
        "`format`",
    );
    check(
        &function(
            "In context=(), reference can only point to definitions defined at the top level of the schema.",
        ),
        Some(7),
        Some(""),
        "reference",
    );
    check(&function("6 levels of nesting exceeds limit of 5."), Some(7), None, "nested");
    check(&function("enum value a does not validate against {'type': 'null'}."), Some(7), None, "`enum`");
}

#[test]
fn anthropic_errors_are_explained() {
    let check =
        |message: &str, tool, pointer, cause: &str| check(Dialect::Anthropic, message, tool, pointer, cause);
    check(
        "tools.19.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        Some(19),
        None,
        "characters",
    );
    check(
        "tools.134.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'",
        Some(134),
        Some("/properties"),
        "property name",
    );
    check(
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
        Some(0),
        Some(""),
        "root",
    );
    check(
        "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
        Some(0),
        Some(""),
        "2020-12",
    );
    check("tools.0.custom.input_schema.type: Field required", Some(0), Some("/type"), "root");
    check("tools: Tool names must be unique.", None, None, "same name");
    check(
        "tools.0.custom: For 'object' type, 'additionalProperties' must be explicitly set to false",
        Some(0),
        None,
        "`additionalProperties: false`",
    );
    check(
        "The compiled grammar is too large, which would cause performance issues.",
        None,
        None,
        "too large",
    );
    check("Schema is too complex for compilation.", None, None, "too complex");
    check(
        "messages.1.content.0.tool_result: all content must be type 'text' if 'is_error' is true",
        None,
        None,
        "error",
    );
}

#[test]
fn gemini_errors_are_explained() {
    let check = |message: &str, tool, pointer, cause: &str| {
        check(Dialect::GeminiOpenApi, message, tool, pointer, cause)
    };
    check(
        "Invalid JSON payload received. Unknown name \"additionalProperties\" at 'tools[0].function_declarations[3].parameters': Cannot find field.",
        Some(3),
        Some(""),
        "keyword",
    );
    check(
        "Invalid JSON payload received. Unknown name \"const\" at 'tools[0].function_declarations[3].parameters.properties[1].value.items.properties[0].value': Cannot find field.",
        Some(3),
        Some("/properties/x/items/properties/y"),
        "keyword",
    );
    check(
        "Invalid JSON payload received. Unknown name \"type\" at 'tools[0].function_declarations[0].parameters.properties[0].value': Proto field is not repeating, cannot start list.",
        Some(0),
        Some("/properties/first"),
        "list of types",
    );
    check(
        "* GenerateContentRequest.tools[0].function_declarations[5].parameters.properties: should be non-empty for OBJECT type",
        Some(5),
        Some("/properties"),
        "no properties",
    );
    check(
        "* GenerateContentRequest.tools[0].function_declarations[5].parameters.properties[x].items: missing field.",
        Some(5),
        Some("/properties/x/items"),
        "`items`",
    );
    check(
        "* GenerateContentRequest.tools[0].function_declarations[5].parameters.properties[x].format: only 'enum' and 'date-time' are supported for STRING type",
        Some(5),
        Some("/properties/x/format"),
        "`format`",
    );
    check(
        "* GenerateContentRequest.tools[0].function_declarations[5].parameters.properties[x].enum: only allowed for STRING type",
        Some(5),
        Some("/properties/x/enum"),
        "`enum`",
    );
    check(
        "Invalid value at 'tools[0].function_declarations[5].parameters.properties[0].value.enum[0]' (TYPE_STRING), 0",
        Some(5),
        Some("/properties/first/enum/0"),
        "`enum`",
    );
    check(
        "* GenerateContentRequest.tools[0].function_declarations[5].parameters.properties[x].properties: only allowed for OBJECT type",
        Some(5),
        Some("/properties/x/properties"),
        "objects",
    );
    check(
        "* GenerateContentRequest.tools[0].function_declarations[5].parameters.properties[x].items: field predicate failed: $type == Type.ARRAY",
        Some(5),
        Some("/properties/x/items"),
        "type",
    );
    check(
        "GenerateContentRequest.tools[0].function_declarations[5].parameters: required fields ['model'] are not defined in the schema properties",
        Some(5),
        Some(""),
        "not defined",
    );
    check(
        "Invalid function name. Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.",
        None,
        None,
        "name",
    );
    check("Duplicate function declaration found: X", Some(7), None, "same name");
    check(
        "tools[0].function_declarations: [FIELD_INVALID] At most 512 function declarations can be specified.",
        None,
        None,
        "more tools",
    );
    check(
        "A FunctionDeclaration in the request exceeds the maximum allowed nesting depth.",
        None,
        None,
        "nested",
    );
    check(
        "The specified schema produces a constraint that has too many states for serving.",
        None,
        None,
        "too large",
    );
    check(
        "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
        None,
        None,
        "no result",
    );
    check("Function call is missing a thought_signature in functionCall parts.", None, None, "signature");
    check(
        "The referenced name `#/$defs/A` in function_response.response does not match to a display_name in the function_response.parts.",
        None,
        None,
        "`$ref`",
    );
}

#[test]
fn errors_of_other_providers_are_explained() {
    check(
        Dialect::Bedrock,
        "The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must be one of the following: object.",
        Some(0),
        Some("/type"),
        "root",
    );
    check(
        Dialect::Bedrock,
        "The json schema definition at toolConfig.tools.1.toolSpec.inputSchema is invalid. Fix the following errors and try again: $.properties: null found, object expected",
        Some(1),
        Some("/properties"),
        "not a schema",
    );
    check(
        Dialect::Bedrock,
        "Malformed input request: #/toolConfig/tools/1/toolSpec/inputSchema/json: extraneous key [$defs] is not permitted, please reformat your input and try again.",
        Some(1),
        Some(""),
        "keyword",
    );
    check(
        Dialect::Mistral,
        "Function name was X but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64.",
        Some(7),
        None,
        "characters",
    );
    check(
        Dialect::Mistral,
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        None,
        None,
        "id",
    );
    check(
        Dialect::Groq,
        "Tool call validation failed: tool call validation failed: parameters for tool X did not match schema: errors: [`/x`: expected integer, but got null]",
        Some(7),
        None,
        "do not match",
    );
    check(Dialect::Xai, "Invalid request content: Invalid function schema.", None, None, "schema");
    check(
        Dialect::OpenAi,
        "Tool definition 'Filter' has multiple schemas, which is not supported.",
        None,
        None,
        "two tools",
    );
    check(
        Dialect::OpenAi,
        "JSON schema conversion failed: Unrecognized schema: {\"not\":{}}",
        None,
        None,
        "grammar",
    );
    check(Dialect::OpenAi, "Failed to initialize samplers: failed to parse grammar", None, None, "grammar");
    check(
        Dialect::OpenAi,
        "Invalid request: tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'properties.x': type is not defined>",
        None,
        Some("/properties/x"),
        "type",
    );
    check(Dialect::DeepSeek, "Thinking mode does not support this tool_choice", None, None, "thinking");
}

#[test]
fn an_unknown_error_about_a_tool_names_the_tool() {
    let explanation = explain(
        Dialect::Anthropic,
        &tools(Dialect::Anthropic),
        "tools.3.custom.input_schema.properties.x: is odd",
    )
    .unwrap();
    assert_eq!(
        explanation.to_string(),
        "tool `server.tool_3`, at `/properties/x` of its schema: `anthropic` rejected it: tools.3.custom.input_schema.properties.x: is odd",
    );
}

#[test]
fn errors_that_are_not_about_a_tool_are_not_explained() {
    for message in [
        "",
        "Rate limit reached",
        "tools.999.custom.name: is odd",
        "tools[",
        "tools[99999999999999999999999]",
        "In context=(",
    ] {
        assert_eq!(
            explain(Dialect::OpenAi, &tools(Dialect::OpenAi), message).map(|known| known.cause),
            None::<String>,
            "{message}"
        );
    }
}
