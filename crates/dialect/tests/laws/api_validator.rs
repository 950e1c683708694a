//! Tests of the API validators: they accept what the documentation allows, and reject the rest with the known
//! messages of the APIs.

use crate::support::api_validator::{compiles_in_python, validate_definition, validate_request};
use crate::support::{corpus, schema_path};
use serde_json::{Value, json};
use toolwire_dialect::Dialect;

/// Returns `{"type":"object","properties":…}`.
fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

/// Returns `schema` in the dialect's wrapper, with `strict` in the strict dialects.
fn wrapped(dialect: Dialect, name: &str, schema: &Value) -> Value {
    match dialect {
        Dialect::OpenAiStrict => {
            json!({"type": "function", "function": {"name": name, "description": "d", "parameters": schema, "strict": true}})
        }
        Dialect::Responses | Dialect::ResponsesStrict => {
            let strict = dialect == Dialect::ResponsesStrict;
            json!({"type": "function", "name": name, "description": "d", "parameters": schema, "strict": strict})
        }
        Dialect::Anthropic => json!({"name": name, "description": "d", "input_schema": schema}),
        Dialect::AnthropicStrict => {
            json!({"name": name, "description": "d", "input_schema": schema, "strict": true})
        }
        Dialect::Gemini => json!({"name": name, "description": "d", "parametersJsonSchema": schema}),
        Dialect::GeminiOpenApi => json!({"name": name, "description": "d", "parameters": schema}),
        Dialect::Bedrock => {
            json!({"toolSpec": {"name": name, "description": "d", "inputSchema": {"json": schema}}})
        }
        Dialect::Mcp => json!({"name": name, "description": "d", "inputSchema": schema}),
        _ => {
            json!({"type": "function", "function": {"name": name, "description": "d", "parameters": schema}})
        }
    }
}

#[track_caller]
fn check_accepted(dialects: &[Dialect], schema: Value) {
    for dialect in dialects {
        assert_eq!(
            validate_definition(*dialect, &wrapped(*dialect, "get", &schema)),
            Ok(()),
            "{dialect}: {schema}"
        );
    }
}

#[track_caller]
fn check_rejected(dialects: &[Dialect], schema: Value, message: &str) {
    for dialect in dialects {
        check_definition_rejected(*dialect, &wrapped(*dialect, "get", &schema), message);
    }
}

#[track_caller]
fn check_definition_rejected(dialect: Dialect, definition: &Value, message: &str) {
    let errors =
        validate_definition(dialect, definition).expect_err(&format!("{dialect} accepted {definition}"));
    assert!(errors.iter().any(|error| error.contains(message)), "{dialect}: {errors:?}");
}

use Dialect::{
    Anthropic, AnthropicStrict, Azure, Bedrock, Cohere, DeepSeek, Dial, Gemini, GeminiOpenApi, Groq, Mcp,
    Mistral, Ollama, OpenAi, OpenAiStrict, Responses, ResponsesStrict, Xai,
};

const CHAT: [Dialect; 6] = [OpenAi, Responses, Azure, Dial, DeepSeek, Groq];
const STRICT: [Dialect; 2] = [OpenAiStrict, ResponsesStrict];

#[test]
fn every_api_accepts_a_plain_tool() {
    let plain = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": false});
    for dialect in Dialect::all() {
        if !matches!(dialect, GeminiOpenApi | Ollama) {
            check_accepted(&[dialect], plain.clone());
        }
    }
    check_accepted(
        &[Ollama],
        json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}),
    );
    check_accepted(
        &[GeminiOpenApi],
        json!({"type": "OBJECT", "properties": {"q": {"type": "STRING"}}, "required": ["q"]}),
    );
}

#[test]
fn wrappers_are_complete_and_have_no_other_keys() {
    let schema = object(json!({}));
    let mut definition = wrapped(OpenAi, "get", &schema);
    definition["function"]["strict"] = json!(false);
    check_definition_rejected(OpenAi, &definition, "Unknown parameter: 'tools[0].function.strict'");
    let bare = json!({"type": "function", "function": {"name": "get", "parameters": schema}});
    check_definition_rejected(OpenAi, &bare, "Missing required parameter: 'tools[0].function.description'");
    check_definition_rejected(OpenAiStrict, &wrapped(OpenAi, "get", &schema), "Missing required parameter");
    let mut responses = wrapped(Responses, "get", &schema);
    responses["strict"] = json!(null);
    check_definition_rejected(Responses, &responses, "must be false");
    check_definition_rejected(Responses, &wrapped(OpenAi, "get", &schema), "Missing required parameter");
    check_definition_rejected(Cohere, &wrapped(OpenAiStrict, "get", &schema), "Unknown parameter");
    check_definition_rejected(
        Bedrock,
        &json!({"toolSpec": {"name": "get", "description": "", "inputSchema": {"json": schema}}}),
        "valid min length: 1",
    );
    check_definition_rejected(AnthropicStrict, &wrapped(Anthropic, "get", &schema), "strict");
    check_definition_rejected(Mcp, &json!({"inputSchema": {}}), "name");
}

#[test]
fn a_strict_dialect_may_send_a_tool_without_strict_mode() {
    let open = object(json!({"h": {"type": "object", "additionalProperties": {"type": "string"}}}));
    for (dialect, place) in
        [(OpenAiStrict, "/function/strict"), (ResponsesStrict, "/strict"), (AnthropicStrict, "/strict")]
    {
        let mut definition = wrapped(dialect, "get", &open);
        assert!(validate_definition(dialect, &definition).is_err());
        *definition.pointer_mut(place).expect("a strict definition") = json!(false);
        assert_eq!(validate_definition(dialect, &definition), Ok(()));
    }
}

#[test]
fn names_follow_each_api() {
    let schema = object(json!({"q": {"type": "string"}}));
    let long = "n".repeat(65);
    for (dialect, name, message) in [
        (OpenAi, "a.b", "string does not match pattern"),
        (OpenAi, "", "string does not match pattern"),
        (OpenAi, long.as_str(), "maximum length 64, but got a string with length 65"),
        (Responses, &"n".repeat(129), "maximum length 128"),
        (Anthropic, "a b", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
        (Anthropic, &"n".repeat(129), "{1,128}"),
        (Gemini, "2fa", "Must start with a letter or an underscore"),
        (Gemini, &long, "maximum length of 64"),
        (Bedrock, &long, "1 to 64"),
        (Mistral, "a.b", "Function name was a.b but must be"),
        (Xai, "a/b", "string does not match pattern"),
        (Cohere, "a/b", "string does not match pattern"),
    ] {
        check_definition_rejected(dialect, &wrapped(dialect, name, &schema), message);
    }
    for (dialect, name) in [
        (OpenAi, "2fa_verify"),
        (OpenAi, "-x"),
        (Responses, long.as_str()),
        (Anthropic, &long),
        (Ollama, "搜索"),
    ] {
        assert_eq!(validate_definition(dialect, &wrapped(dialect, name, &schema)), Ok(()));
    }
    assert_eq!(validate_definition(Gemini, &json!({"name": "a.b:c-d"})), Ok(()));
}

#[test]
fn the_root_is_an_object_without_composition() {
    check_rejected(&CHAT, json!({"type": "object"}), "In context=(), object schema missing properties.");
    check_rejected(&CHAT, json!({"properties": {}}), "got 'type: \"None\"'");
    check_rejected(&[Anthropic], json!({"properties": {}}), "input_schema.type: Field required");
    check_rejected(&[Bedrock], json!({"properties": {}}), "json.type must be one of the following: object");
    for keyword in ["oneOf", "anyOf", "allOf"] {
        let mut schema = object(json!({"a": {"type": "string"}}));
        schema[keyword] = json!([{"required": ["a"]}]);
        check_rejected(&CHAT, schema.clone(), "at the top level");
        check_rejected(
            &[Anthropic, Bedrock],
            schema.clone(),
            "does not support oneOf, allOf, or anyOf at the top level",
        );
        check_rejected(&[Ollama], schema.clone(), "silently dropped");
        check_rejected(&[Xai], schema, "Invalid function schema.");
    }
    for keyword in ["enum", "const", "not"] {
        let mut schema = object(json!({}));
        schema[keyword] = if keyword == "enum" { json!([{}]) } else { json!({}) };
        check_rejected(&CHAT, schema, "at the top level");
    }
    check_accepted(&[Anthropic, Bedrock, Mistral, Cohere, Xai], json!({"type": "object"}));
}

#[test]
fn openai_checks_arrays_patterns_and_the_metaschema_at_every_depth() {
    check_rejected(
        &CHAT,
        object(json!({"t": {"type": "array"}})),
        "In context=('properties', 't'), array schema missing items.",
    );
    check_rejected(
        &CHAT,
        object(json!({"v": {"anyOf": [{"type": "string"}, {"type": ["array", "null"]}]}})),
        "In context=('properties', 'v', 'anyOf', '1'), array schema missing items.",
    );
    check_rejected(
        &CHAT,
        json!({"type": "object", "properties": {}, "$defs": {"D": {"type": "array"}}}),
        "missing items",
    );
    check_rejected(
        &CHAT,
        object(json!({"s": {"type": "string", "pattern": "^\\p{L}+$"}})),
        "is not a 'regex'",
    );
    check_rejected(&CHAT, object(json!({"s": {"patternProperties": {"(?<n>a)": {}}}})), "is not a 'regex'");
    check_rejected(&CHAT, object(json!({"type": "object", "a": {"type": "string"}})), "is not of type");
    check_rejected(&CHAT, object(json!({"n": {"minimum": 0, "exclusiveMinimum": true}})), "is not of type");
    check_rejected(
        &CHAT,
        object(json!({"p": {"type": "array", "items": [{"type": "string"}]}})),
        "is not of type",
    );
    check_rejected(&CHAT, object(json!({"a": {"$ref": "#/$defs/Missing"}})), "cannot be resolved");
    check_accepted(
        &CHAT,
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A", "default": 1}, "items": {"type": "string"}},
            "$defs": {"A": {"oneOf": [{"type": "string", "format": "uri"}, {"type": "array", "items": {}}, true]}}, "x-any": 1}),
    );
}

#[test]
fn patterns_that_python_compiles_are_recognized() {
    for pattern in [
        "^a+$",
        "^(?!admin)[a-z]+$",
        "[0-9]{2,4}",
        "\\d{4}-\\d{2}",
        "[\\w.-]+",
        "(?:a|b)*",
        "(?<=ab)c",
        "[a\\-z]",
        "^[^\\s@]+@",
        "\\u00e9",
    ] {
        assert!(compiles_in_python(pattern), "{pattern}");
    }
    for pattern in [
        "^\\p{L}+$",
        "\\u{1F600}",
        "(?<name>a)",
        "\\cA",
        "[^]",
        "[a-\\d]",
        "(?<=a+)b",
        "(a",
        "a)",
        "[a",
        "*a",
        "a\\",
        "(?<=a|bc)d",
    ] {
        assert!(!compiles_in_python(pattern), "{pattern}");
    }
}

/// Python's `re` compiles every pattern in the corpus, so the validator must accept all of them.
#[test]
fn python_compiles_the_patterns_of_real_tools() {
    let mut patterns = std::collections::BTreeSet::new();
    for tool in corpus::shapes().iter().flat_map(|server| &server.tools) {
        schema_path::walk(&tool["inputSchema"], &mut |_, node| {
            patterns.extend(node.get("pattern").and_then(Value::as_str).map(str::to_owned));
        });
    }
    assert!(patterns.len() > 50);
    let refused: Vec<&String> = patterns.iter().filter(|pattern| !compiles_in_python(pattern)).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

/// Returns a closed object that requires all its keys.
fn closed(properties: Value) -> Value {
    let names: Vec<String> = properties.as_object().expect("properties").keys().cloned().collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

#[test]
fn strict_mode_accepts_its_subset() {
    let mut schema = closed(json!({
        "a": {"type": ["string", "null"], "enum": ["x", null]},
        "b": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}], "description": "d"},
        "c": {"type": "integer", "minimum": 0, "exclusiveMaximum": 9, "multipleOf": 3},
        "d": {"type": "array", "items": {"type": "string", "format": "uuid", "pattern": "^a"}, "minItems": 1, "maxItems": 2},
        "e": {"type": "string", "const": "x", "minLength": 1, "maxLength": 1},
        "f": {"$ref": "#"},
    }));
    schema["$defs"] =
        json!({"N": closed(json!({"next": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}}))});
    check_accepted(&STRICT, schema);
    check_accepted(&STRICT, closed(json!({})));
}

#[test]
fn strict_mode_rejects_the_rest() {
    for (property, message) in [
        (object(json!({})), "'additionalProperties' is required to be supplied and to be false"),
        (
            json!({"type": "object", "properties": {}, "required": [], "additionalProperties": {"type": "string"}}),
            "to be false",
        ),
        (json!({"oneOf": [{"type": "string"}]}), "'oneOf' is not permitted"),
        (json!({"allOf": [{"type": "string"}]}), "'allOf' is not permitted"),
        (json!({"type": "string", "default": "x"}), "'default' is not permitted"),
        (json!({"type": "string", "format": "uri"}), "'uri' is not a valid format"),
        (json!({"type": "string", "pattern": "^(?!a)b"}), "lookaround"),
        (json!({}), "must have a 'type' key"),
        (json!(true), "not a boolean"),
        (json!({"enum": ["a"]}), "must have a 'type' key"),
        (json!({"type": "array"}), "missing items"),
        (json!({"type": "array", "items": {}}), "must have a 'type' key"),
        (
            json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
            "'uniqueItems' is not permitted",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "prefixItems": []}),
            "'prefixItems' is not permitted",
        ),
        (json!({"type": "null", "enum": ["a"]}), "does not validate against"),
        (json!({"type": "string", "enum": []}), "must not be empty"),
        (json!({"type": "string", "items": {"type": "string"}}), "'items' is not permitted"),
        (json!({"$ref": "#/$defs/A", "description": "d"}), "$ref cannot have keywords"),
        (json!({"$ref": "#/properties/x"}), "defined at the top level"),
        (json!({"type": "string", "x-mcp-header": "A"}), "'x-mcp-header' is not permitted"),
        (json!({"not": {"type": "string"}}), "'not' is not permitted"),
        (
            json!({"type": "object", "propertyNames": {}, "properties": {}, "required": [], "additionalProperties": false}),
            "'propertyNames' is not permitted",
        ),
    ] {
        let mut schema = closed(json!({"x": property}));
        schema["$defs"] = json!({"A": {"type": "string"}});
        check_rejected(&STRICT, schema, message);
    }
    let optional = json!({"type": "object", "properties": {"x": {"type": "string"}}, "required": [], "additionalProperties": false});
    check_rejected(&STRICT, optional, "Missing 'x'");
    let undefined =
        json!({"type": "object", "properties": {}, "required": ["x"], "additionalProperties": false});
    check_rejected(&STRICT, undefined, "Extra required key 'x'");
}

#[test]
fn strict_mode_has_limits() {
    let nested = |levels: usize| (1..levels).fold(closed(json!({})), |inner, _| closed(json!({"x": inner})));
    check_accepted(&STRICT, nested(10));
    check_rejected(&STRICT, nested(11), "11 levels of nesting exceeds limit of 10");
    let wide = |count: usize| {
        closed(
            (0..count)
                .map(|index| (format!("p{index}"), json!({"type": "string"})))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        )
    };
    check_accepted(&STRICT, wide(5000));
    check_rejected(&STRICT, wide(5001), "5001 object properties exceeds limit of 5000");
    let listed = |count: usize, length: usize| {
        let values: Vec<String> = (0..count).map(|index| format!("{index:0length$}")).collect();
        closed(json!({"e": {"type": "string", "enum": values}}))
    };
    check_accepted(&STRICT, listed(1000, 5));
    check_rejected(&STRICT, listed(1001, 5), "1001 enum values exceeds limit of 1000");
    check_rejected(&STRICT, listed(300, 60), "18000 characters, limit 15000");
    check_rejected(&STRICT, listed(240, 600), "exceeds limit of 120000");
}

#[test]
fn anthropic_checks_keys_and_the_metaschema() {
    for key in ["$filter", "日付", "", "user id", &"k".repeat(65)] {
        check_rejected(
            &[Anthropic, Bedrock],
            object(json!({key: {"type": "string"}})),
            "Property keys should match pattern",
        );
    }
    check_accepted(&[Anthropic], object(json!({"a.b-c": {"type": "object", "properties": {"$deep": {}}}})));
    for property in [
        json!({"minimum": 0, "exclusiveMinimum": true}),
        json!({"type": "array", "items": [{"type": "string"}]}),
        json!({"type": ""}),
        json!({"type": "string", "description": null}),
    ] {
        check_rejected(
            &[Anthropic, Bedrock],
            object(json!({"a": property})),
            "It must match JSON Schema draft 2020-12",
        );
    }
}

#[test]
fn anthropic_strict_accepts_its_subset() {
    let mut schema = json!({"type": "object", "additionalProperties": false, "required": ["a"], "properties": {
        "a": {"type": ["string", "null"], "default": "x", "format": "uri"},
        "b": {"anyOf": [{"$ref": "#/$defs/D"}, {"type": "null"}]},
        "c": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "d": {"const": 5},
        "e": {"allOf": [{"type": "string"}], "pattern": "^a+$"},
    }});
    schema["$defs"] = json!({"D": {"type": "object", "properties": {}, "additionalProperties": false}});
    check_accepted(&[AnthropicStrict], schema);
    for (property, message) in [
        (object(json!({})), "must be explicitly set to false"),
        (json!({"type": "integer", "minimum": 0}), "'minimum' is not supported"),
        (json!({"type": "string", "maxLength": 5}), "'maxLength' is not supported"),
        (json!({"oneOf": [{"type": "string"}]}), "'oneOf' is not supported"),
        (json!({"type": "array", "items": {"type": "string"}, "minItems": 2}), "other than 0 or 1"),
        (json!({"type": "array", "items": {"type": "string"}, "maxItems": 2}), "'maxItems' is not supported"),
        (json!({"type": "array", "items": {}}), "must have a type"),
        (json!({}), "must have a type"),
        (json!({"enum": [{"a": 1}]}), "must be primitives"),
        (json!({"type": "integer", "format": "int64"}), "format 'int64' is not supported"),
        (json!({"type": "string", "pattern": "\\bword"}), "is not supported"),
        (json!({"allOf": [{"$ref": "#/$defs/D"}]}), "allOf with $ref"),
        (json!({"$ref": "#"}), "recursive schemas are not supported"),
        (json!(true), "boolean schemas"),
    ] {
        let mut schema = closed(json!({"x": property}));
        schema["$defs"] = json!({"D": {"type": "string"}});
        check_rejected(&[AnthropicStrict], schema, message);
    }
}

#[test]
fn anthropic_limits_apply_to_the_complete_request() {
    let optional = |count: usize| {
        let names: serde_json::Map<String, Value> =
            (0..count).map(|index| (format!("p{index}"), json!({"type": "string"}))).collect();
        json!({"type": "object", "properties": names, "additionalProperties": false})
    };
    check_accepted(&[AnthropicStrict], optional(24));
    check_rejected(&[AnthropicStrict], optional(25), "too many optional parameters (25)");
    let unions: serde_json::Map<String, Value> =
        (0..17).map(|index| (format!("p{index}"), json!({"type": ["string", "null"]}))).collect();
    check_rejected(&[AnthropicStrict], closed(unions.into()), "too many parameters with union types (17)");
    let strict: Vec<Value> =
        (0..21).map(|index| wrapped(AnthropicStrict, &format!("t{index}"), &closed(json!({})))).collect();
    let all: Vec<&Value> = strict.iter().collect();
    assert_eq!(validate_request(AnthropicStrict, &all[..20]), Ok(()));
    assert!(validate_request(AnthropicStrict, &all).is_err());
}

#[test]
fn requests_have_limits_and_unique_names() {
    let many = |dialect: Dialect, count: usize| -> Vec<Value> {
        let schema = if dialect == GeminiOpenApi {
            json!({"type": "OBJECT", "properties": {"q": {"type": "STRING"}}})
        } else {
            object(json!({"q": {"type": "string"}}))
        };
        (0..count).map(|index| wrapped(dialect, &format!("t{index}"), &schema)).collect()
    };
    for (dialect, max) in
        [(OpenAi, 128), (Azure, 128), (Groq, 128), (Gemini, 512), (GeminiOpenApi, 512), (Xai, 350)]
    {
        let definitions = many(dialect, max + 1);
        let all: Vec<&Value> = definitions.iter().collect();
        assert_eq!(validate_request(dialect, &all[..max]), Ok(()), "{dialect}");
        assert!(validate_request(dialect, &all).is_err(), "{dialect}");
    }
    assert!(validate_request(OpenAi, &[]).is_err());
    assert!(validate_request(Bedrock, &[]).is_err());
    for dialect in Dialect::all() {
        if !matches!(dialect, OpenAiStrict | ResponsesStrict | AnthropicStrict) {
            let definition = &many(dialect, 1)[0];
            assert!(validate_request(dialect, &[definition, definition]).is_err(), "{dialect}");
        }
    }
}

#[test]
fn gemini_accepts_few_keywords() {
    check_accepted(
        &[Gemini],
        json!({"type": "object", "properties": {
            "a": {"type": ["string", "null"], "enum": ["x"], "format": "uri", "title": "t"},
            "b": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 9}, {"type": "null"}]},
            "c": {"type": "array", "prefixItems": [{"type": "string"}], "items": {}, "minItems": 1, "maxItems": 3},
            "d": {"$ref": "#/$defs/N", "description": "d"},
            "e": {"type": "object", "additionalProperties": {"type": "string"}},
        }, "required": ["a"], "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}}}),
    );
    for (property, message) in [
        (json!({"const": "x"}), "Unknown name \"const\""),
        (json!({"type": "string", "pattern": "a"}), "Unknown name \"pattern\""),
        (json!({"type": "string", "default": "a"}), "Unknown name \"default\""),
        (json!({"type": "number", "exclusiveMinimum": 0}), "Unknown name \"exclusiveMinimum\""),
        (json!({"allOf": []}), "Unknown name \"allOf\""),
        (json!({"$ref": "#/$defs/N", "type": "object"}), "was set alongside unsupported fields"),
        (json!({"enum": [true]}), "only strings and numbers"),
        (json!(true), "boolean schema"),
        (
            json!({"type": "object", "properties": {}, "required": ["model"]}),
            "are not defined in the schema properties",
        ),
        (json!({"$ref": "#/$defs/R"}), "cyclic reference"),
        (json!({"type": "object", "properties": {"$x": {}}}), "Invalid parameter name"),
    ] {
        let mut schema = object(json!({"p": property}));
        schema["$defs"] = json!({
            "N": {"type": "object"},
            "R": {"type": "object", "properties": {"next": {"$ref": "#/$defs/R"}}, "required": ["next"]},
        });
        check_rejected(&[Gemini], schema, message);
    }
    check_rejected(&[Gemini], object(json!({"user id": {"type": "string"}})), "Invalid parameter name");
    check_rejected(&[Gemini], object(json!({})), "should be non-empty for OBJECT type");
    assert_eq!(validate_definition(Gemini, &json!({"name": "get", "description": "d"})), Ok(()));
}

#[test]
fn gemini_open_api_accepts_fewer_keywords() {
    check_accepted(
        &[GeminiOpenApi],
        json!({"type": "OBJECT", "properties": {
            "a": {"type": "STRING", "nullable": true, "enum": ["x"], "format": "enum"},
            "b": {"anyOf": [{"type": "INTEGER", "minimum": 0}, {"type": "string", "format": "date-time"}]},
            "c": {"type": "ARRAY", "items": {"type": "NUMBER"}, "minItems": 1},
            "d": {"type": "INTEGER", "format": "enum", "enum": ["1", "2"]},
        }, "required": ["a"]}),
    );
    for (property, message) in [
        (
            json!({"type": "OBJECT", "properties": {"a": {}}, "additionalProperties": false}),
            "Unknown name \"additionalProperties\"",
        ),
        (json!({"const": "x"}), "Unknown name \"const\""),
        (json!({"$ref": "#/$defs/N"}), "Unknown name \"$ref\""),
        (json!({"type": ["STRING", "NULL"]}), "Proto field is not repeating, cannot start list."),
        (json!({"type": "OBJECT"}), "should be non-empty for OBJECT type"),
        (json!({"type": "ARRAY"}), "items: missing field."),
        (
            json!({"type": "STRING", "format": "uri"}),
            "only 'enum' and 'date-time' are supported for STRING type",
        ),
        (json!({"type": "INTEGER", "enum": ["1"]}), "only allowed for STRING type"),
        (json!({"type": "STRING", "enum": [0]}), "(TYPE_STRING), 0"),
        (json!({"type": "STRING", "properties": {"a": {}}}), "properties: only allowed for OBJECT type"),
        (json!({"type": "STRING", "items": {}}), "field predicate failed: == Type.ARRAY"),
        (json!({"anyOf": [{"type": "STRING"}], "description": "d"}), "it must be the only field set"),
        (json!(true), "a schema must be an object"),
        (
            json!({"type": "OBJECT", "properties": {"a": {}}, "required": ["b"]}),
            "are not defined in the schema properties",
        ),
    ] {
        check_rejected(&[GeminiOpenApi], json!({"type": "OBJECT", "properties": {"p": property}}), message);
    }
}

#[test]
fn other_apis_have_their_own_rules() {
    let old = object(json!({"n": {"minimum": 0, "exclusiveMinimum": true}}));
    check_rejected(&[Mistral, Cohere, Xai], old, "is not of type");
    check_accepted(&[Mistral], object(json!({"p": {"type": "array", "items": [{"type": "string"}]}})));
    check_rejected(&[Xai], object(json!({"a": {"allOf": [{}, {}]}})), "Invalid function schema.");
    check_rejected(&[Xai], object(json!({"a": {"$ref": "#"}})), "circular reference");
    check_accepted(&[Xai], object(json!({"a": {"allOf": [{}]}, "b": {"oneOf": [{}, {}]}})));
    for keyword in
        ["$ref", "oneOf", "const", "default", "pattern", "additionalProperties", "minimum", "format"]
    {
        check_rejected(&[Ollama], object(json!({"a": {keyword: 1}})), "silently dropped");
    }
    check_rejected(&[Ollama], object(json!({"a": true})), "cannot unmarshal bool");
    check_rejected(
        &[Ollama],
        json!({"type": "object", "properties": {}, "description": "d"}),
        "silently dropped",
    );
}
