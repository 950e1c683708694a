//! What each dialect's API takes: the only place where providers differ inside the engine.
//!
//! The facts are those of the providers' documentation, service models and error messages; where they are silent the
//! careful choice is made. A profile is data: a new provider is a new constant here.

use crate::Dialect;

/// What a dialect's tool definitions allow.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) name_limit: usize,
    /// Names may begin with a digit or a dash.
    pub(crate) any_first: bool,
    pub(crate) keys: Keys,
    /// `default` stays unless the caller says otherwise.
    pub(crate) keeps_defaults: bool,
    /// `default` can stay if the caller asks for it.
    pub(crate) takes_defaults: bool,
    /// An array must say `items`, as an object.
    pub(crate) needs_items: bool,
    /// The root must say `properties`, if empty.
    pub(crate) needs_properties: bool,
    /// Patterns are compiled by Python's `re`.
    pub(crate) python_patterns: bool,
    /// Keywords that may not stand at the root.
    pub(crate) refused_at_root: &'static [&'static str],
    /// The root may say `type`, `properties` and `required`, and little else.
    pub(crate) bare_root: bool,
    /// Non-recursive references are replaced by what they point to.
    pub(crate) inline: bool,
    /// Optional properties also take `null`, since this API checks calls and its models send it.
    pub(crate) nullable_optionals: bool,
    /// What a schema only means is said aloud, in the words of 2020-12.
    pub(crate) tidies: bool,
    /// How schemas are said anew, if they are not kept word for word.
    pub(crate) grammar: Option<&'static Grammar>,
}

/// Which property keys must keep to the API's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    Any,
    /// Those of the root: `[A-Za-z0-9_.-]`, 64 at most.
    Root,
    /// All: `[A-Za-z_][A-Za-z0-9_]*`, 64 at most.
    All,
}

/// The subset of JSON Schema that a dialect's schemas are said in.
#[derive(Debug)]
pub(crate) struct Grammar {
    /// `strict: true` is claimed, so what cannot be said sends the tool out non-strict.
    pub(crate) strict: bool,
    pub(crate) refs: Refs,
    /// Every object says `additionalProperties: false`, and no other.
    pub(crate) closed: bool,
    /// `additionalProperties` may be `true` or a schema.
    pub(crate) maps: bool,
    /// An object without properties is free-form, and may stand so.
    pub(crate) free_objects: bool,
    /// Every property is required; optional ones take `null` instead.
    pub(crate) all_required: bool,
    /// `{}` may stand.
    pub(crate) untyped: bool,
    pub(crate) prefix_items: bool,
    /// An array may leave out `items`.
    pub(crate) bare_arrays: bool,
    pub(crate) types: Types,
    pub(crate) constants: bool,
    pub(crate) values: Values,
    pub(crate) title: bool,
    /// Keywords that bound strings, numbers and arrays.
    pub(crate) bounds: &'static [&'static str],
    pub(crate) formats: Formats,
    pub(crate) patterns: Patterns,
    /// `minLength` and `maxLength` may stand beside `pattern`; constrained decoders cannot hold both.
    pub(crate) lengths_beside_pattern: bool,
    /// `minItems` may be 0 or 1 only.
    pub(crate) small_min_items: bool,
    pub(crate) limits: Limits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refs {
    /// `#` and `#/$defs/…` stand, nothing beside them.
    Kept,
    /// Only cycles stand, as `#/$defs/…`, and run through optional properties.
    Cycles,
    /// None: a cycle is cut.
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Types {
    /// `type` may be a list.
    Lists,
    /// One upper-case type, with `nullable`.
    OpenApi,
}

/// Which values `enum` may list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Any,
    /// Strings, numbers, booleans and null.
    Scalars,
    StringsAndNumbers,
    /// Strings; numbers as strings with `format: "enum"`.
    Strings,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Formats {
    Any,
    Only(&'static [&'static str]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patterns {
    Any,
    WithoutLookaround,
    Simple,
    None,
}

/// What a strict schema may count up to.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) depth: usize,
    pub(crate) properties: usize,
    pub(crate) enum_values: usize,
    pub(crate) characters: usize,
    /// Characters of one string enum that has more than 250 values.
    pub(crate) enum_characters: usize,
    pub(crate) optional: usize,
    pub(crate) unions: usize,
}

const UNLIMITED: Limits = Limits {
    depth: usize::MAX,
    properties: usize::MAX,
    enum_values: usize::MAX,
    characters: usize::MAX,
    enum_characters: usize::MAX,
    optional: usize::MAX,
    unions: usize::MAX,
};

const ROOT_COMPOSITION: &[&str] = &["oneOf", "anyOf", "allOf", "enum", "const", "not"];

const OPENAI: Profile = Profile {
    name_limit: 64,
    any_first: true,
    keys: Keys::Any,
    keeps_defaults: false,
    takes_defaults: true,
    needs_items: true,
    needs_properties: true,
    python_patterns: true,
    refused_at_root: ROOT_COMPOSITION,
    bare_root: false,
    inline: false,
    nullable_optionals: false,
    tidies: false,
    grammar: None,
};

const RESPONSES: Profile = Profile { name_limit: 128, ..OPENAI };

const GROQ: Profile = Profile { nullable_optionals: true, ..OPENAI };

const DIAL: Profile = Profile { inline: true, ..OPENAI };

const ANTHROPIC: Profile = Profile {
    name_limit: 128,
    keys: Keys::Root,
    keeps_defaults: true,
    needs_items: false,
    needs_properties: false,
    python_patterns: false,
    refused_at_root: &["oneOf", "anyOf", "allOf"],
    tidies: true,
    ..OPENAI
};

const BEDROCK: Profile = Profile { name_limit: 64, bare_root: true, inline: true, ..ANTHROPIC };

const SHAPED: Profile =
    Profile { takes_defaults: false, needs_items: false, python_patterns: false, ..OPENAI };

const OPENAI_STRICT: Profile = Profile { grammar: Some(&STRICT), ..SHAPED };

const RESPONSES_STRICT: Profile = Profile { name_limit: 128, ..OPENAI_STRICT };

const ANTHROPIC_STRICT: Profile = Profile {
    grammar: Some(&CLAUDE),
    tidies: false,
    needs_items: false,
    python_patterns: false,
    takes_defaults: true,
    ..ANTHROPIC
};

const GEMINI: Profile = Profile { any_first: false, keys: Keys::All, grammar: Some(&GOOGLE), ..SHAPED };

const GEMINI_OPENAPI: Profile = Profile { takes_defaults: true, grammar: Some(&GOOGLE_OPENAPI), ..GEMINI };

const OLLAMA: Profile = Profile { bare_root: true, grammar: Some(&FIXED_STRUCT), ..SHAPED };

const XAI: Profile = Profile { takes_defaults: true, grammar: Some(&GROK), ..SHAPED };

/// MCP itself: nothing is looked at.
const MCP: Profile = Profile {
    name_limit: usize::MAX,
    keeps_defaults: true,
    needs_items: false,
    python_patterns: false,
    refused_at_root: &[],
    ..OPENAI
};

const STRICT: Grammar = Grammar {
    strict: true,
    refs: Refs::Kept,
    closed: true,
    maps: false,
    free_objects: false,
    all_required: true,
    untyped: false,
    prefix_items: false,
    bare_arrays: false,
    types: Types::Lists,
    constants: true,
    values: Values::Scalars,
    title: false,
    bounds: &[
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
    ],
    formats: Formats::Only(&[
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uuid",
    ]),
    patterns: Patterns::WithoutLookaround,
    lengths_beside_pattern: false,
    small_min_items: false,
    limits: Limits {
        depth: 10,
        properties: 5000,
        enum_values: 1000,
        characters: 120_000,
        enum_characters: 15_000,
        ..UNLIMITED
    },
};

const CLAUDE: Grammar = Grammar {
    refs: Refs::Never,
    all_required: false,
    bounds: &["minItems"],
    formats: Formats::Only(&[
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "uri",
        "ipv4",
        "ipv6",
        "uuid",
    ]),
    patterns: Patterns::Simple,
    small_min_items: true,
    limits: Limits { optional: 24, unions: 16, ..UNLIMITED },
    ..STRICT
};

const GOOGLE: Grammar = Grammar {
    strict: false,
    refs: Refs::Cycles,
    closed: false,
    maps: true,
    free_objects: true,
    all_required: false,
    untyped: true,
    prefix_items: true,
    bare_arrays: true,
    types: Types::Lists,
    constants: false,
    values: Values::StringsAndNumbers,
    title: true,
    bounds: &["minimum", "maximum", "minItems", "maxItems"],
    formats: Formats::Any,
    patterns: Patterns::None,
    lengths_beside_pattern: true,
    small_min_items: false,
    limits: UNLIMITED,
};

const GOOGLE_OPENAPI: Grammar = Grammar {
    refs: Refs::Never,
    maps: false,
    free_objects: false,
    untyped: false,
    prefix_items: false,
    bare_arrays: false,
    types: Types::OpenApi,
    values: Values::Strings,
    bounds: &[
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    ],
    formats: Formats::Only(&["date-time"]),
    patterns: Patterns::Any,
    ..GOOGLE
};

const FIXED_STRUCT: Grammar = Grammar {
    refs: Refs::Never,
    maps: false,
    prefix_items: false,
    values: Values::Any,
    title: false,
    bounds: &[],
    formats: Formats::Only(&[]),
    ..GOOGLE
};

const GROK: Grammar = Grammar {
    refs: Refs::Never,
    constants: true,
    values: Values::Any,
    title: false,
    bounds: &[
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    ],
    patterns: Patterns::Any,
    bare_arrays: false,
    ..GOOGLE
};

impl Profile {
    pub(crate) const fn of(dialect: Dialect) -> &'static Profile {
        match dialect {
            // Those that take OpenAI's shape are taken to check it as OpenAI does.
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

    /// What a tool that cannot be said strictly goes out by.
    pub(crate) const fn fallback(dialect: Dialect) -> &'static Profile {
        match dialect {
            Dialect::OpenAiStrict => &OPENAI,
            Dialect::ResponsesStrict => &RESPONSES,
            Dialect::AnthropicStrict => &ANTHROPIC,
            other => Profile::of(other),
        }
    }
}
