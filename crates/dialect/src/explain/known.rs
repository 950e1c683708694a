//! The refusals that are known: what an API writes, and what it means.

/// A refusal that is known by its words.
pub(super) struct Known {
    /// All of these stand in it, in whatever case.
    words: &'static [&'static str],
    pub(super) cause: &'static str,
    pub(super) hint: &'static str,
}

/// The first that fits.
pub(super) fn find(message: &str) -> Option<&'static Known> {
    let message = message.to_lowercase();
    KNOWN.iter().find(|known| known.words.iter().all(|words| message.contains(words)))
}

/// Conversion mends these, so one that comes all the same is worth a report.
const REPORT: &str =
    "leave the tool out to go on, and report its schema: the conversion should have mended it";
const RENAME: &str = "rename the tool at its server, or leave it out";
const FEWER: &str = "offer fewer tools, or let the model search for them";
const SIMPLER: &str = "leave the tool out, or offer it without strict mode";
const HISTORY: &str =
    "begin a new conversation to go on, and report this: the history should have been mended";
const NOT_STRICT: &str = "offer the tools without strict mode, or report the tool's schema";

const fn known(words: &'static [&'static str], cause: &'static str, hint: &'static str) -> Known {
    Known { words, cause, hint }
}

/// The more telling ones first.
const KNOWN: &[Known] = &[
    // Names and numbers of tools.
    known(
        &["name", "string does not match pattern"],
        "the name has characters that the API does not take",
        RENAME,
    ),
    known(
        &["name", "string should match pattern"],
        "the name has characters that the API does not take",
        RENAME,
    ),
    known(
        &["function name was", "must be a-z"],
        "the name has characters that the API does not take",
        RENAME,
    ),
    known(
        &["invalid function name"],
        "the name has characters that the API does not take, or is longer than 64",
        RENAME,
    ),
    known(&["name", "string too long"], "the name is longer than the API takes", RENAME),
    known(&["'tools'", "array too long"], "there are more tools than the API takes in one request", FEWER),
    known(
        &["function declarations can be specified"],
        "there are more tools than the API takes in one request",
        FEWER,
    ),
    known(
        &["tool names must be unique"],
        "two tools have one name",
        "leave one of them out, or give their servers prefixes",
    ),
    known(
        &["duplicate function declaration"],
        "two tools have one name",
        "leave one of them out, or give their servers prefixes",
    ),
    // Schemas.
    known(&["object schema missing properties"], "an object without `properties` is not taken", REPORT),
    known(&["array schema missing items"], "an array without `items` is not taken", REPORT),
    known(&["not have 'oneof'", "top level"], "the root of the schema may hold no alternatives", REPORT),
    known(
        &["does not support oneof", "top level"],
        "the root of the schema may hold no alternatives",
        REPORT,
    ),
    known(
        &["schema must be a json schema of"],
        "the root of the schema must be of the type `object`",
        REPORT,
    ),
    known(
        &["input_schema.type", "field required"],
        "the root of the schema must be of the type `object`",
        REPORT,
    ),
    known(
        &["inputschema.json.type", "must be one of"],
        "the root of the schema must be of the type `object`",
        REPORT,
    ),
    known(
        &["is not of type 'object', 'boolean'"],
        "something that is no schema stands where one must",
        REPORT,
    ),
    known(&["is not a 'regex'"], "a `pattern` is not one that the API can read", REPORT),
    known(
        &["property keys should match pattern"],
        "a property's name has characters that the API does not take",
        REPORT,
    ),
    known(
        &["must match json schema draft 2020-12"],
        "the schema is not valid in JSON Schema 2020-12",
        REPORT,
    ),
    known(
        &["'additionalproperties' is required to be supplied"],
        "strict mode wants every object closed",
        NOT_STRICT,
    ),
    known(
        &["'additionalproperties' must be explicitly set to false"],
        "strict mode wants every object closed",
        NOT_STRICT,
    ),
    known(
        &["'required' is required to be supplied"],
        "strict mode wants every property required",
        NOT_STRICT,
    ),
    known(&["is not permitted"], "the schema has a keyword that the API does not take", REPORT),
    known(&["is not a valid format"], "a `format` is not one that the API knows", REPORT),
    known(
        &["reference can only point to definitions"],
        "a reference leads elsewhere than to a definition",
        REPORT,
    ),
    known(&["levels of nesting exceeds"], "the schema is nested more deeply than the API takes", SIMPLER),
    known(
        &["maximum allowed nesting depth"],
        "a schema is nested more deeply than the API takes",
        "leave out the tool with the deepest schema",
    ),
    known(
        &["enum value", "does not validate against"],
        "a value of an `enum` does not fit the type beside it",
        REPORT,
    ),
    known(
        &["compiled grammar is too large"],
        "the schemas of the strict tools are too large together",
        "offer fewer strict tools",
    ),
    known(&["too complex for compilation"], "a schema is too complex for strict mode", SIMPLER),
    known(
        &["unknown name", "cannot find field"],
        "the schema has a keyword that the API does not know",
        REPORT,
    ),
    known(&["proto field is not repeating"], "a list of types is not taken", REPORT),
    known(&["should be non-empty for object type"], "an object without properties is not taken", REPORT),
    known(&["items: missing field"], "an array without `items` is not taken", REPORT),
    known(&["only 'enum' and 'date-time' are supported"], "a `format` is not one that the API knows", REPORT),
    known(&["enum: only allowed for string type"], "only texts may have an `enum`", REPORT),
    known(&["invalid value at", "enum[", "(type_string)"], "only texts may have an `enum`", REPORT),
    known(&["only allowed for object type"], "a keyword of objects stands beside another type", REPORT),
    known(&["field predicate failed"], "a keyword stands beside a type it does not belong to", REPORT),
    known(
        &["are not defined in the schema properties"],
        "a property is required that is not described",
        REPORT,
    ),
    known(
        &["too many states for serving"],
        "the schemas together are too large to hold the model to them",
        "offer fewer tools, or tools with smaller enums and bounds",
    ),
    known(&["null found, object expected"], "something that is no schema stands where one must", REPORT),
    known(&["extraneous key"], "the root of the schema has a keyword that the model does not take", REPORT),
    known(
        &["invalid function schema"],
        "a tool's schema is not taken; the API does not say which",
        "offer the tools one by one to find it, then leave it out",
    ),
    known(&["has multiple schemas"], "two tools define different schemas under one name", REPORT),
    known(&["unrecognized schema"], "the server cannot make a grammar of a schema", REPORT),
    known(
        &["failed to parse grammar"],
        "the server cannot make a grammar of the schemas",
        "offer fewer tools, or tools with smaller bounds",
    ),
    known(&["type is not defined"], "the API wants a type at every place of the schema", REPORT),
    known(&["type should be defined in anyof items"], "the API takes no type beside `anyOf`", REPORT),
    // What the model wrote.
    known(
        &["did not match schema"],
        "the model wrote arguments that do not fit, and the API refused them",
        "ask again; the model did not keep to the tool's schema",
    ),
    known(
        &["tool_use_failed"],
        "the model wrote a call that the API could not read",
        "ask again; the model did not keep to the tool's schema",
    ),
    // The history.
    known(
        &["all content must be type 'text' if 'is_error'"],
        "a result that is an error holds something else than text",
        HISTORY,
    ),
    known(&["number of function response parts"], "a call in the history has no result", HISTORY),
    known(&["without `tool_result` blocks"], "a call in the history has no result", HISTORY),
    known(&["missing a thought_signature"], "a call in the history lost its signature", HISTORY),
    known(
        &["does not match to a display_name"],
        "a result holds a key `$ref`, which the API takes for a link",
        HISTORY,
    ),
    known(&["tool call id was"], "the id of a call has a form that the API does not take", HISTORY),
    // What the model cannot do.
    known(
        &["does not support this tool_choice"],
        "the model cannot be made to call a tool while it thinks",
        "leave the choice to the model",
    ),
    known(
        &["thinking may not be enabled when tool_choice forces"],
        "the model cannot be made to call a tool while it thinks",
        "leave the choice to the model",
    ),
    known(
        &["encrypted content is not supported"],
        "the model does not reason, so there is no reasoning to ask for",
        "do not ask for encrypted reasoning",
    ),
];
