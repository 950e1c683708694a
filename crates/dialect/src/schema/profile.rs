//! The rules of each dialect's API: the only place inside the schema engine where providers differ.
//!
//! The rules come from the providers' documentation, service models and error messages. Where these do not
//! state a rule, the safer choice is made. A profile is data: a new provider is a new constant here.

use super::SchemaSize;
use crate::Dialect;

/// The rules for a dialect's tool definitions.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) name_limit: usize,
    /// Names may begin with a digit or a dash.
    pub(crate) any_first: bool,
    pub(crate) restricted_keys: RestrictedKeys,
    pub(crate) defaults: DefaultSupport,
    /// Every array must have `items`, as an object.
    pub(crate) requires_items: bool,
    /// The root must have `properties`, even if empty.
    pub(crate) requires_properties: bool,
    /// Patterns must compile in Python's `re`. It is used by validators, and its syntax is understood by most
    /// other engines.
    pub(crate) python_patterns: bool,
    /// Keywords that the API rejects at the root.
    pub(crate) rejected_at_root: &'static [&'static str],
    /// The root should have `type`, `properties` and `required` only.
    pub(crate) minimal_root: bool,
    /// References are replaced by the schemas they point to, unless they are recursive.
    pub(crate) inlines_refs: bool,
    /// Optional properties also accept `null`: the API validates calls, and its models send `null`.
    pub(crate) nullable_optionals: bool,
    /// Implicit meaning is made explicit, as valid 2020-12.
    pub(crate) cleans_up: bool,
    /// The subset of JSON Schema to convert to; `None` if the dialect accepts schemas as they are.
    pub(crate) grammar: Option<&'static Grammar>,
}

/// The property keys for which the API restricts the characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestrictedKeys {
    None,
    /// Keys of the root: `[A-Za-z0-9_.-]`, at most 64 characters.
    Root,
    /// All keys: `[A-Za-z_][A-Za-z0-9_]*`, at most 64 characters.
    All,
}

/// Support for the keyword `default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultSupport {
    Unsupported,
    /// Kept if the caller requests it.
    OnRequest,
    /// Kept unless the caller requests otherwise.
    Kept,
}

/// The subset of JSON Schema that a dialect accepts.
#[derive(Debug)]
pub(crate) struct Grammar {
    /// Definitions claim `strict: true`. A schema outside of the subset is sent with `strict: false`.
    pub(crate) strict: bool,
    pub(crate) refs: RefSupport,
    /// Every object has `additionalProperties: false`; no other value is allowed.
    pub(crate) closed: bool,
    /// `additionalProperties` may be `true` or a schema.
    pub(crate) maps: bool,
    /// An object without `additionalProperties` is closed even if it has no properties.
    pub(crate) closed_by_default: bool,
    /// An object without properties may have any keys.
    pub(crate) free_form_objects: bool,
    /// Every property is required; optional ones accept `null` instead.
    pub(crate) all_required: bool,
    /// A schema without `type` is allowed.
    pub(crate) untyped: bool,
    pub(crate) prefix_items: bool,
    /// An array may omit `items`.
    pub(crate) arrays_without_items: bool,
    /// `type` is one type in upper case, with `nullable`; else one or several types in lower case.
    pub(crate) openapi_types: bool,
    pub(crate) constants: bool,
    pub(crate) enum_values: EnumValues,
    pub(crate) title: bool,
    /// Groups of keywords that limit strings, numbers, arrays and objects.
    pub(crate) bounds: &'static [&'static [&'static str]],
    pub(crate) formats: FormatSupport,
    pub(crate) patterns: PatternSupport,
    /// `minLength` and `maxLength` are allowed next to `pattern`; constrained decoders support only one of
    /// the two.
    pub(crate) lengths_beside_pattern: bool,
    /// `minItems` may only be 0 or 1.
    pub(crate) small_min_items: bool,
    pub(crate) limits: SchemaSize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefSupport {
    /// `#` and `#/$defs/…` are allowed, without other keywords next to them.
    Kept,
    /// Only recursive references are allowed, as `#/$defs/…`, and each cycle must pass an optional property.
    Cycles,
    /// References are not supported: a recursive schema is cut.
    Never,
}

/// The values that `enum` may list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnumValues {
    Any,
    /// Strings, numbers, booleans and null.
    Scalars,
    StringsAndNumbers,
    /// Strings; numbers as strings with `format: "enum"`.
    Strings,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum FormatSupport {
    Any,
    Only(&'static [&'static [&'static str]]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternSupport {
    Any,
    WithoutLookaround,
    Simple,
    None,
}

impl Grammar {
    /// Whether the subset has a keyword that limits strings, numbers, arrays or objects.
    pub(crate) fn has_bound(&self, keyword: &str) -> bool {
        self.bounds.iter().any(|group| group.contains(&keyword))
    }
}

const ROOT_COMPOSITION: &[&str] = &["oneOf", "anyOf", "allOf", "enum", "const", "not"];

const RANGES: &[&str] = &["minimum", "maximum"];
const EXCLUSIVE_RANGES: &[&str] = &["exclusiveMinimum", "exclusiveMaximum"];
const MULTIPLES: &[&str] = &["multipleOf"];
const LENGTHS: &[&str] = &["minLength", "maxLength"];
const ITEM_COUNTS: &[&str] = &["minItems", "maxItems"];
const PROPERTY_COUNTS: &[&str] = &["minProperties", "maxProperties"];

const COMMON_FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

const OPENAI: Profile = Profile {
    name_limit: 64,
    any_first: true,
    restricted_keys: RestrictedKeys::None,
    defaults: DefaultSupport::OnRequest,
    requires_items: true,
    requires_properties: true,
    python_patterns: true,
    rejected_at_root: ROOT_COMPOSITION,
    minimal_root: false,
    inlines_refs: false,
    nullable_optionals: false,
    cleans_up: false,
    grammar: None,
};

const RESPONSES: Profile = Profile { name_limit: 128, ..OPENAI };

const GROQ: Profile = Profile { nullable_optionals: true, ..OPENAI };

const DIAL: Profile = Profile { inlines_refs: true, ..OPENAI };

const ANTHROPIC: Profile = Profile {
    name_limit: 128,
    restricted_keys: RestrictedKeys::Root,
    defaults: DefaultSupport::Kept,
    requires_items: false,
    requires_properties: false,
    rejected_at_root: &["oneOf", "anyOf", "allOf"],
    cleans_up: true,
    ..OPENAI
};

const BEDROCK: Profile = Profile { name_limit: 64, minimal_root: true, inlines_refs: true, ..ANTHROPIC };

/// The base of dialects whose schemas are converted to a subset.
const SUBSET: Profile = Profile { defaults: DefaultSupport::Unsupported, requires_items: false, ..OPENAI };

const OPENAI_STRICT: Profile = Profile { grammar: Some(&STRICT_GRAMMAR), ..SUBSET };

const RESPONSES_STRICT: Profile = Profile { name_limit: 128, ..OPENAI_STRICT };

const ANTHROPIC_STRICT: Profile = Profile { grammar: Some(&CLAUDE_GRAMMAR), cleans_up: false, ..ANTHROPIC };

const GEMINI: Profile = Profile {
    any_first: false,
    restricted_keys: RestrictedKeys::All,
    // A tool without arguments is sent without a schema.
    requires_properties: false,
    python_patterns: false,
    grammar: Some(&GEMINI_GRAMMAR),
    ..SUBSET
};

const GEMINI_OPENAPI: Profile =
    Profile { defaults: DefaultSupport::OnRequest, grammar: Some(&OPENAPI_GRAMMAR), ..GEMINI };

const OLLAMA: Profile =
    Profile { minimal_root: true, python_patterns: false, grammar: Some(&OLLAMA_GRAMMAR), ..SUBSET };

const XAI: Profile = Profile { defaults: DefaultSupport::OnRequest, grammar: Some(&GROK_GRAMMAR), ..SUBSET };

/// MCP itself, which needs no conversion.
const MCP: Profile = Profile {
    name_limit: usize::MAX,
    defaults: DefaultSupport::Kept,
    requires_items: false,
    python_patterns: false,
    rejected_at_root: &[],
    ..OPENAI
};

const STRICT_GRAMMAR: Grammar = Grammar {
    strict: true,
    refs: RefSupport::Kept,
    closed: true,
    maps: false,
    closed_by_default: false,
    free_form_objects: false,
    all_required: true,
    untyped: false,
    prefix_items: false,
    arrays_without_items: false,
    openapi_types: false,
    constants: true,
    enum_values: EnumValues::Scalars,
    title: false,
    bounds: &[RANGES, EXCLUSIVE_RANGES, MULTIPLES, LENGTHS, ITEM_COUNTS],
    formats: FormatSupport::Only(&[COMMON_FORMATS]),
    patterns: PatternSupport::WithoutLookaround,
    lengths_beside_pattern: false,
    small_min_items: false,
    limits: SchemaSize {
        depth: 10,
        properties: 5000,
        enum_values: 1000,
        characters: 120_000,
        enum_characters: 15_000,
        ..SchemaSize::UNLIMITED
    },
};

const CLAUDE_GRAMMAR: Grammar = Grammar {
    refs: RefSupport::Never,
    all_required: false,
    bounds: &[&["minItems"]],
    formats: FormatSupport::Only(&[COMMON_FORMATS, &["uri"]]),
    patterns: PatternSupport::Simple,
    small_min_items: true,
    limits: SchemaSize { optional: 24, unions: 16, ..SchemaSize::UNLIMITED },
    ..STRICT_GRAMMAR
};

const GEMINI_GRAMMAR: Grammar = Grammar {
    strict: false,
    refs: RefSupport::Cycles,
    closed: false,
    maps: true,
    closed_by_default: false,
    free_form_objects: true,
    all_required: false,
    untyped: true,
    prefix_items: true,
    arrays_without_items: true,
    openapi_types: false,
    constants: false,
    enum_values: EnumValues::StringsAndNumbers,
    title: true,
    bounds: &[RANGES, ITEM_COUNTS],
    formats: FormatSupport::Any,
    patterns: PatternSupport::None,
    lengths_beside_pattern: true,
    small_min_items: false,
    limits: SchemaSize::UNLIMITED,
};

const OPENAPI_GRAMMAR: Grammar = Grammar {
    refs: RefSupport::Never,
    maps: false,
    free_form_objects: false,
    untyped: false,
    prefix_items: false,
    arrays_without_items: false,
    openapi_types: true,
    enum_values: EnumValues::Strings,
    bounds: &[RANGES, LENGTHS, ITEM_COUNTS, PROPERTY_COUNTS],
    formats: FormatSupport::Only(&[&["date-time"]]),
    patterns: PatternSupport::Any,
    ..GEMINI_GRAMMAR
};

const OLLAMA_GRAMMAR: Grammar = Grammar {
    refs: RefSupport::Never,
    maps: false,
    prefix_items: false,
    enum_values: EnumValues::Any,
    title: false,
    bounds: &[],
    formats: FormatSupport::Only(&[]),
    ..GEMINI_GRAMMAR
};

const GROK_GRAMMAR: Grammar = Grammar {
    refs: RefSupport::Never,
    closed_by_default: true,
    constants: true,
    enum_values: EnumValues::Any,
    title: false,
    bounds: &[RANGES, EXCLUSIVE_RANGES, MULTIPLES, LENGTHS, ITEM_COUNTS, PROPERTY_COUNTS],
    patterns: PatternSupport::Simple,
    arrays_without_items: false,
    ..GEMINI_GRAMMAR
};

impl Profile {
    pub(crate) const fn of(dialect: Dialect) -> &'static Profile {
        match dialect {
            // APIs that copy OpenAI's format are assumed to validate it as OpenAI does.
            Dialect::OpenAi | Dialect::Azure | Dialect::Mistral | Dialect::Cohere | Dialect::DeepSeek => {
                &OPENAI
            }
            Dialect::OpenAiStrict => &OPENAI_STRICT,
            Dialect::Responses => &RESPONSES,
            Dialect::ResponsesStrict => &RESPONSES_STRICT,
            Dialect::Anthropic => &ANTHROPIC,
            Dialect::AnthropicStrict => &ANTHROPIC_STRICT,
            Dialect::Gemini => &GEMINI,
            Dialect::GeminiOpenApi => &GEMINI_OPENAPI,
            Dialect::Bedrock => &BEDROCK,
            Dialect::Ollama => &OLLAMA,
            Dialect::Xai => &XAI,
            Dialect::Groq => &GROQ,
            Dialect::Dial => &DIAL,
            Dialect::Mcp => &MCP,
        }
    }

    /// Returns the profile for a tool that cannot be sent with `strict: true`; `None` if the dialect has no
    /// strict mode.
    pub(crate) const fn fallback(dialect: Dialect) -> Option<&'static Profile> {
        match dialect {
            Dialect::OpenAiStrict => Some(&OPENAI),
            Dialect::ResponsesStrict => Some(&RESPONSES),
            Dialect::AnthropicStrict => Some(&ANTHROPIC),
            _ => None,
        }
    }
}
