//! Recognizes the known reasons why an API rejects a request.

/// A reason why an API rejects a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    ToolNameCharacters,
    ToolNameInvalid,
    ToolNameTooLong,
    TooManyTools,
    DuplicateToolName,
    ObjectWithoutProperties,
    EmptyObject,
    ArrayWithoutItems,
    AlternativesAtRoot,
    RootIsNotAnObject,
    NotASchema,
    InvalidPattern,
    PropertyNameCharacters,
    NotJsonSchema2020,
    ObjectNotClosed,
    PropertyNotRequired,
    UnsupportedKeyword,
    UnsupportedRootKeyword,
    UnsupportedFormat,
    ReferenceOutsideDefinitions,
    NestedTooDeep,
    SomeSchemaNestedTooDeep,
    EnumValueOfAnotherType,
    StrictSchemasTooLarge,
    SchemaTooComplex,
    ListOfTypes,
    EnumOnNonString,
    ObjectKeywordOnAnotherType,
    KeywordOnAnotherType,
    RequiredWithoutProperty,
    SchemasTooLarge,
    UnknownInvalidSchema,
    ConflictingDefinitions,
    SchemaWithoutGrammar,
    SchemasWithoutGrammar,
    MissingType,
    TypeBesideAnyOf,
    InvalidArguments,
    UnreadableCall,
    ErrorResultIsNotText,
    CallWithoutResult,
    MissingSignature,
    ResultContainsRef,
    InvalidCallId,
    ForcedToolWhileThinking,
    ModelDoesNotReason,
}

use Problem as P;

/// Text fragments, in lower case, that all occur in the message of a problem. The first row that matches
/// wins, so more specific rows come first.
const SIGNATURES: &[(&[&str], Problem)] = &[
    // Names and numbers of tools.
    (&["name", "string does not match pattern"], P::ToolNameCharacters),
    (&["name", "string should match pattern"], P::ToolNameCharacters),
    (&["function name was", "must be a-z"], P::ToolNameCharacters),
    (&["invalid function name"], P::ToolNameInvalid),
    (&["name", "string too long"], P::ToolNameTooLong),
    (&["'tools'", "array too long"], P::TooManyTools),
    (&["function declarations can be specified"], P::TooManyTools),
    (&["tool names must be unique"], P::DuplicateToolName),
    (&["duplicate function declaration"], P::DuplicateToolName),
    // Schemas.
    (&["object schema missing properties"], P::ObjectWithoutProperties),
    (&["array schema missing items"], P::ArrayWithoutItems),
    (&["not have 'oneof'", "top level"], P::AlternativesAtRoot),
    (&["does not support oneof", "top level"], P::AlternativesAtRoot),
    (&["schema must be a json schema of"], P::RootIsNotAnObject),
    (&["input_schema.type", "field required"], P::RootIsNotAnObject),
    (&["inputschema.json.type", "must be one of"], P::RootIsNotAnObject),
    (&["is not of type 'object', 'boolean'"], P::NotASchema),
    (&["is not a 'regex'"], P::InvalidPattern),
    (&["property keys should match pattern"], P::PropertyNameCharacters),
    (&["must match json schema draft 2020-12"], P::NotJsonSchema2020),
    (&["'additionalproperties' is required to be supplied"], P::ObjectNotClosed),
    (&["'additionalproperties' must be explicitly set to false"], P::ObjectNotClosed),
    (&["'required' is required to be supplied"], P::PropertyNotRequired),
    (&["is not permitted"], P::UnsupportedKeyword),
    (&["is not a valid format"], P::UnsupportedFormat),
    (&["reference can only point to definitions"], P::ReferenceOutsideDefinitions),
    (&["levels of nesting exceeds"], P::NestedTooDeep),
    (&["maximum allowed nesting depth"], P::SomeSchemaNestedTooDeep),
    (&["enum value", "does not validate against"], P::EnumValueOfAnotherType),
    (&["compiled grammar is too large"], P::StrictSchemasTooLarge),
    (&["too complex for compilation"], P::SchemaTooComplex),
    (&["unknown name", "cannot find field"], P::UnsupportedKeyword),
    (&["proto field is not repeating"], P::ListOfTypes),
    (&["should be non-empty for object type"], P::EmptyObject),
    (&["items: missing field"], P::ArrayWithoutItems),
    (&["only 'enum' and 'date-time' are supported"], P::UnsupportedFormat),
    (&["enum: only allowed for string type"], P::EnumOnNonString),
    (&["invalid value at", "enum[", "(type_string)"], P::EnumOnNonString),
    (&["only allowed for object type"], P::ObjectKeywordOnAnotherType),
    (&["field predicate failed"], P::KeywordOnAnotherType),
    (&["are not defined in the schema properties"], P::RequiredWithoutProperty),
    (&["too many states for serving"], P::SchemasTooLarge),
    (&["null found, object expected"], P::NotASchema),
    (&["extraneous key"], P::UnsupportedRootKeyword),
    (&["invalid function schema"], P::UnknownInvalidSchema),
    (&["has multiple schemas"], P::ConflictingDefinitions),
    (&["unrecognized schema"], P::SchemaWithoutGrammar),
    (&["failed to parse grammar"], P::SchemasWithoutGrammar),
    (&["type is not defined"], P::MissingType),
    (&["type should be defined in anyof items"], P::TypeBesideAnyOf),
    // Calls that the model wrote.
    (&["did not match schema"], P::InvalidArguments),
    (&["tool_use_failed"], P::UnreadableCall),
    // The history.
    (&["all content must be type 'text' if 'is_error'"], P::ErrorResultIsNotText),
    (&["number of function response parts"], P::CallWithoutResult),
    (&["without `tool_result` blocks"], P::CallWithoutResult),
    (&["missing a thought_signature"], P::MissingSignature),
    (&["does not match to a display_name"], P::ResultContainsRef),
    (&["tool call id was"], P::InvalidCallId),
    // Features that the model does not support.
    (&["does not support this tool_choice"], P::ForcedToolWhileThinking),
    (&["thinking may not be enabled when tool_choice forces"], P::ForcedToolWhileThinking),
    (&["encrypted content is not supported"], P::ModelDoesNotReason),
];

impl Problem {
    /// Recognizes the problem that an API's error message describes.
    pub(super) fn of(message: &str) -> Option<Problem> {
        let message = message.to_lowercase();
        let matches = |fragments: &[&str]| fragments.iter().all(|fragment| message.contains(fragment));
        SIGNATURES.iter().find(|(fragments, _)| matches(fragments)).map(|(_, problem)| *problem)
    }

    /// Describes what is wrong, in one line.
    pub(super) const fn cause(self) -> &'static str {
        match self {
            P::ToolNameCharacters => "the tool name has characters that the API does not accept",
            P::ToolNameInvalid => {
                "the tool name has characters that the API does not accept, or is longer than 64 characters"
            }
            P::ToolNameTooLong => "the tool name is longer than the API accepts",
            P::TooManyTools => "there are more tools than the API accepts in one request",
            P::DuplicateToolName => "two tools have the same name",
            P::ObjectWithoutProperties => "the API does not accept an object without `properties`",
            P::EmptyObject => "the API does not accept an object with no properties",
            P::ArrayWithoutItems => "the API does not accept an array without `items`",
            P::AlternativesAtRoot => "the API does not accept alternatives at the root of the schema",
            P::RootIsNotAnObject => "the root of the schema must have the type `object`",
            P::NotASchema => "the schema contains a value that is not a schema where one is required",
            P::InvalidPattern => "the API cannot compile a `pattern`",
            P::PropertyNameCharacters => "a property name has characters that the API does not accept",
            P::NotJsonSchema2020 => "the schema is not valid in JSON Schema 2020-12",
            P::ObjectNotClosed => "strict mode requires `additionalProperties: false` in every object",
            P::PropertyNotRequired => "strict mode requires every property to be required",
            P::UnsupportedKeyword => "the schema has a keyword that the API does not support",
            P::UnsupportedRootKeyword => {
                "the root of the schema has a keyword that the model does not support"
            }
            P::UnsupportedFormat => "the API does not support a `format`",
            P::ReferenceOutsideDefinitions => "a reference points to something other than a definition",
            P::NestedTooDeep => "the schema is nested deeper than the API accepts",
            P::SomeSchemaNestedTooDeep => "a schema is nested deeper than the API accepts",
            P::EnumValueOfAnotherType => "an `enum` value does not match the type beside it",
            P::StrictSchemasTooLarge => "the schemas of the strict tools are too large together",
            P::SchemaTooComplex => "a schema is too complex for strict mode",
            P::ListOfTypes => "the API does not accept a list of types",
            P::EnumOnNonString => "the API accepts `enum` only for strings",
            P::ObjectKeywordOnAnotherType => "a keyword for objects is used with another type",
            P::KeywordOnAnotherType => "a keyword is used with a type that it does not apply to",
            P::RequiredWithoutProperty => "a required property is not defined in `properties`",
            P::SchemasTooLarge => "the schemas together are too large for constrained output",
            P::UnknownInvalidSchema => "a tool's schema is invalid; the API does not report which",
            P::ConflictingDefinitions => "two tools define different schemas under the same name",
            P::SchemaWithoutGrammar => "the server cannot build a grammar from a schema",
            P::SchemasWithoutGrammar => "the server cannot build a grammar from the schemas",
            P::MissingType => "the API requires a `type` in every part of the schema",
            P::TypeBesideAnyOf => "the API does not accept `type` beside `anyOf`",
            P::InvalidArguments => "the model wrote arguments that do not match the schema",
            P::UnreadableCall => "the model wrote a call that the API could not read",
            P::ErrorResultIsNotText => "an error result contains content other than text",
            P::CallWithoutResult => "a call in the history has no result",
            P::MissingSignature => "a call in the history has no signature",
            P::ResultContainsRef => "a result has a `$ref` key, which the API treats as a link",
            P::InvalidCallId => "a call id has a format that the API does not accept",
            P::ForcedToolWhileThinking => "the model cannot be forced to call a tool while thinking",
            P::ModelDoesNotReason => "the model does not support encrypted reasoning",
        }
    }

    /// Returns a one-line suggestion for the user.
    pub(super) const fn hint(self) -> &'static str {
        match self {
            P::ToolNameCharacters | P::ToolNameInvalid | P::ToolNameTooLong => {
                "rename the tool at its server, or exclude it"
            }
            P::TooManyTools => "offer fewer tools, or let the model search for them",
            P::DuplicateToolName => "exclude one of the tools, or give their servers prefixes",
            P::ObjectNotClosed | P::PropertyNotRequired => {
                "turn off strict mode for the tools, or report the tool's schema"
            }
            P::NestedTooDeep | P::SchemaTooComplex => "exclude the tool, or turn off strict mode for it",
            P::SomeSchemaNestedTooDeep => "exclude the tool with the deepest schema",
            P::StrictSchemasTooLarge => "offer fewer strict tools",
            P::SchemasTooLarge => "offer fewer tools, or tools with smaller enums and bounds",
            P::SchemasWithoutGrammar => "offer fewer tools, or tools with smaller bounds",
            P::UnknownInvalidSchema => "offer the tools one by one to find the invalid one, then exclude it",
            P::InvalidArguments | P::UnreadableCall => {
                "send the request again; the model did not follow the tool's schema"
            }
            P::ErrorResultIsNotText
            | P::CallWithoutResult
            | P::MissingSignature
            | P::ResultContainsRef
            | P::InvalidCallId => {
                "start a new conversation, and report this: the history should have been repaired"
            }
            P::ForcedToolWhileThinking => "leave the tool choice to the model",
            P::ModelDoesNotReason => "do not request encrypted reasoning",
            // The conversion avoids the remaining problems, so one that still occurs is a bug.
            _ => "exclude the tool, and report its schema: the conversion should have fixed it",
        }
    }
}
