//! The table of languages.

use super::TokenKind;

/// A property of some languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feature {
    /// A name that starts with a capital letter is a type. A name in capital letters only is a constant.
    CapitalizedTypes,
    /// Upper and lower case are equivalent in keywords. The table has them in lower case.
    IgnoresCase,
    /// A quote inside a word is an apostrophe.
    BareWords,
    RustLiterals,
    Markup,
    Diff,
}

/// The marks around a comment or string.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delimiter {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    pub(super) kind: TokenKind,
    /// Whether a backslash escapes the next character.
    pub(super) escapes: bool,
    pub(super) is_multiline: bool,
    pub(super) nests: bool,
}

/// The properties of a language that affect its colours. Lists of words are separated by spaces.
#[derive(Debug)]
pub(super) struct Language {
    /// The names that can follow the opening fence of a code block.
    pub(super) names: &'static str,
    /// The marks of comments that end with the line.
    pub(super) comments: &'static [&'static str],
    /// The marks of other comments and of strings; a longer mark is before its prefix.
    pub(super) delimiters: &'static [Delimiter],
    pub(super) keywords: &'static str,
    pub(super) types: &'static str,
    pub(super) constants: &'static str,
    /// Characters of names besides letters, digits and `_`.
    pub(super) name_characters: &'static str,
    /// Characters that make the name after them a variable (`$`) or a keyword.
    pub(super) sigils: &'static str,
    /// The character after keys.
    pub(super) key_mark: Option<char>,
    /// The mark before the end word of a here document.
    pub(super) heredoc: &'static str,
    pub(super) features: &'static [Feature],
}

const fn string(open: &'static str, close: &'static str, escapes: bool, is_multiline: bool) -> Delimiter {
    Delimiter { open, close, kind: TokenKind::String, escapes, is_multiline, nests: false }
}

const fn comment(open: &'static str, close: &'static str, nests: bool) -> Delimiter {
    Delimiter { open, close, kind: TokenKind::Comment, escapes: false, is_multiline: true, nests }
}

const DOUBLE: Delimiter = string("\"", "\"", true, false);
pub(super) const SINGLE: Delimiter = string("'", "'", true, false);
const LONG_DOUBLE: Delimiter = string("\"", "\"", true, true);
const LONG_SINGLE: Delimiter = string("'", "'", true, true);
/// A quoted text without escapes.
const LITERAL: Delimiter = string("'", "'", false, false);
const LONG_LITERAL: Delimiter = string("'", "'", false, true);
const TRIPLE: Delimiter = string("\"\"\"", "\"\"\"", true, true);
const TRIPLE_SINGLE: Delimiter = string("'''", "'''", true, true);
const TEMPLATE: Delimiter = string("`", "`", true, true);
/// A raw string in Rust; its end mark depends on its start mark.
pub(super) const RAW: Delimiter = string("\"", "\"", false, true);
const C_COMMENT: Delimiter = comment("/*", "*/", false);
const NESTED_COMMENT: Delimiter = comment("/*", "*/", true);
pub(super) const MARKUP_COMMENT: Delimiter = comment("<!--", "-->", false);

const BASE: Language = Language {
    names: "",
    comments: &[],
    delimiters: &[DOUBLE, SINGLE],
    keywords: "",
    types: "",
    constants: "true false null",
    name_characters: "",
    sigils: "",
    key_mark: None,
    heredoc: "",
    features: &[],
};

/// Comments and strings as in C, and types with capitals.
const C_LIKE: Language = Language {
    comments: &["//"],
    delimiters: &[C_COMMENT, TRIPLE, DOUBLE, SINGLE],
    sigils: "@",
    features: &[Feature::CapitalizedTypes],
    ..BASE
};

/// Comments with `#`.
const SCRIPT: Language = Language { comments: &["#"], ..BASE };

pub(super) const LANGUAGES: &[Language] = &[
    Language {
        names: "rust rs",
        delimiters: &[NESTED_COMMENT, LONG_DOUBLE],
        keywords: "as async await break const continue crate dyn else enum extern fn for if impl in let loop \
                   macro_rules match mod move mut pub ref return self static struct super trait type unsafe use \
                   where while yield",
        types: "Self bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize",
        constants: "true false",
        sigils: "",
        features: &[Feature::CapitalizedTypes, Feature::RustLiterals],
        ..C_LIKE
    },
    Language {
        names: "python py python3 pycon",
        delimiters: &[TRIPLE, TRIPLE_SINGLE, DOUBLE, SINGLE],
        keywords: "and as assert async await break case class continue def del elif else except finally for from \
                   global if import in is lambda match nonlocal not or pass raise return try while with yield",
        types: "bool bytes dict float frozenset int list object set str tuple type",
        constants: "True False None self cls",
        sigils: "@",
        features: &[Feature::CapitalizedTypes],
        ..SCRIPT
    },
    Language {
        names: "javascript js jsx mjs cjs typescript ts tsx node",
        delimiters: &[C_COMMENT, TEMPLATE, DOUBLE, SINGLE],
        keywords: "abstract as async await break case catch class const continue debugger declare default delete do \
                   else enum export extends finally for from function get if implements import in instanceof \
                   interface keyof let namespace new of private protected public readonly return satisfies set \
                   static super switch this throw try type typeof var void while with yield",
        types: "any bigint boolean never number object string symbol unknown",
        constants: "true false null undefined NaN Infinity",
        name_characters: "$",
        ..C_LIKE
    },
    Language {
        names: "json json5 jsonc jsonl ndjson",
        comments: &["//"],
        delimiters: &[C_COMMENT, DOUBLE, SINGLE],
        key_mark: Some(':'),
        ..BASE
    },
    Language {
        names: "yaml yml",
        delimiters: &[LONG_DOUBLE, LONG_LITERAL],
        constants: "true false null yes no on off",
        name_characters: "-./",
        key_mark: Some(':'),
        features: &[Feature::BareWords],
        ..SCRIPT
    },
    Language {
        names: "toml ini cfg conf properties dotenv env editorconfig",
        comments: &["#", ";"],
        delimiters: &[TRIPLE, string("'''", "'''", false, true), DOUBLE, LITERAL],
        name_characters: "-.",
        key_mark: Some('='),
        features: &[Feature::BareWords],
        ..BASE
    },
    Language {
        names: "bash sh shell zsh fish ksh",
        delimiters: &[LONG_DOUBLE, LONG_LITERAL],
        keywords: "alias break case continue declare do done elif else esac eval exec exit export fi for function if \
                   in local readonly return select set shift source then trap unset until while",
        constants: "true false",
        name_characters: "-",
        sigils: "$",
        heredoc: "<<",
        ..SCRIPT
    },
    Language {
        names: "go golang",
        delimiters: &[C_COMMENT, string("`", "`", false, true), DOUBLE, SINGLE],
        keywords: "break case chan const continue default defer else fallthrough for func go goto if import \
                   interface map package range return select struct switch type var",
        types: "any bool byte complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint \
                uint8 uint16 uint32 uint64 uintptr",
        constants: "true false nil iota",
        sigils: "",
        ..C_LIKE
    },
    Language {
        names: "c h cpp c++ cc cxx hpp objective-c objc arduino cuda",
        delimiters: &[C_COMMENT, DOUBLE, SINGLE],
        keywords: "alignas alignof asm auto break case catch class const consteval constexpr const_cast continue \
                   co_await co_return co_yield decltype default delete do dynamic_cast else enum explicit export \
                   extern final for friend goto if inline mutable namespace new noexcept operator override private \
                   protected public register reinterpret_cast requires restrict return sizeof static static_assert \
                   static_cast struct switch template this throw try typedef typename union using virtual volatile \
                   while",
        types: "bool char double float int int8_t int16_t int32_t int64_t long short signed size_t string uint8_t \
                uint16_t uint32_t uint64_t unsigned void wchar_t",
        constants: "true false nullptr NULL",
        sigils: "#@",
        ..C_LIKE
    },
    Language {
        names: "java",
        keywords: "abstract assert break case catch class continue default do else enum extends final finally for if \
                   implements import instanceof interface native new package permits private protected public record \
                   return sealed static super switch synchronized this throw throws transient try var volatile while \
                   yield",
        types: "boolean byte char double float int long short void",
        ..C_LIKE
    },
    Language {
        names: "csharp c# cs",
        delimiters: &[C_COMMENT, TRIPLE, string("@\"", "\"", false, true), DOUBLE, SINGLE],
        keywords: "abstract as async await base break case catch checked class const continue default delegate do \
                   else enum event explicit extern finally fixed for foreach get goto if implicit in init interface \
                   internal is lock namespace new operator out override params partial private protected public \
                   readonly record ref required return sealed set sizeof static struct switch this throw try typeof \
                   unchecked unsafe using value var virtual when where while yield",
        types: "bool byte char decimal double dynamic float int long object sbyte short string uint ulong ushort void",
        sigils: "#",
        ..C_LIKE
    },
    Language {
        names: "kotlin kt kts gradle groovy",
        delimiters: &[NESTED_COMMENT, TRIPLE, DOUBLE, SINGLE],
        keywords: "abstract as break by catch class companion const constructor continue data def do else enum finally \
                   for fun if import in infix inline inner interface internal is lateinit object open operator out \
                   override package private protected public return sealed super suspend this throw try typealias \
                   val var vararg when where while",
        ..C_LIKE
    },
    Language {
        names: "swift",
        delimiters: &[NESTED_COMMENT, TRIPLE, DOUBLE],
        keywords: "actor as associatedtype async await break case catch class continue default defer deinit do else \
                   enum extension fallthrough fileprivate final for func guard if import in init inout internal is \
                   lazy let mutating open operator override private protocol public repeat rethrows return some \
                   static struct subscript super switch throw throws try typealias var weak where while",
        constants: "true false nil self",
        sigils: "@#",
        ..C_LIKE
    },
    Language {
        names: "scala sc dart",
        delimiters: &[NESTED_COMMENT, TRIPLE, TRIPLE_SINGLE, DOUBLE, SINGLE],
        keywords: "abstract async await break case catch class const continue def default do else enum export extends \
                   extension factory final finally for get given if implements implicit import in is late lazy \
                   match mixin new object override package part private protected required rethrow return sealed set \
                   static super switch this throw trait try type typedef using val var void while with yield",
        types: "bool double int num dynamic",
        ..C_LIKE
    },
    Language {
        names: "ruby rb",
        keywords: "alias and attr_accessor attr_reader attr_writer begin break case class def defined? do else elsif \
                   end ensure extend for if in include module next not or private protected public raise redo \
                   require require_relative rescue retry return super then undef unless until when while yield",
        constants: "true false nil self",
        name_characters: "?",
        sigils: "@$",
        heredoc: "<<~",
        features: &[Feature::CapitalizedTypes],
        ..SCRIPT
    },
    Language {
        names: "php",
        comments: &["//", "# "],
        delimiters: &[C_COMMENT, LONG_DOUBLE, LONG_SINGLE],
        keywords: "abstract and array as break callable case catch class clone const continue declare default do echo \
                   else elseif empty enum extends final finally fn for foreach function global if implements \
                   include include_once instanceof interface isset match namespace new or print private protected \
                   public readonly require require_once return static switch throw trait try unset use var while \
                   yield",
        types: "bool float int iterable mixed never object self string void",
        sigils: "$",
        heredoc: "<<<",
        ..C_LIKE
    },
    Language {
        names: "sql mysql postgres postgresql pgsql sqlite plsql tsql",
        comments: &["--"],
        delimiters: &[C_COMMENT, LONG_LITERAL, DOUBLE],
        keywords: "add all alter and as asc begin between by cascade case check collate column commit constraint \
                   create cross database default delete desc distinct drop else end except exists explain foreign \
                   from full function grant group having if in index inner insert intersect into is join key left \
                   like limit not offset on or order outer over partition primary procedure references returning \
                   revoke right rollback select set table then transaction trigger truncate union unique update \
                   using values view when where window with",
        types: "bigint blob bool boolean bytea char date datetime decimal double float int integer json jsonb numeric \
                real serial smallint text time timestamp timestamptz uuid varchar",
        features: &[Feature::IgnoresCase],
        ..BASE
    },
    Language {
        names: "html htm xml svg xhtml vue svelte plist xsl xsd",
        delimiters: &[LONG_DOUBLE, LONG_LITERAL],
        name_characters: "-:.@",
        features: &[Feature::Markup],
        ..BASE
    },
    Language {
        names: "css scss less sass",
        delimiters: &[C_COMMENT, DOUBLE, SINGLE],
        keywords: "and from important not only or to",
        constants: "auto inherit initial none unset",
        name_characters: "-",
        sigils: "@$",
        key_mark: Some(':'),
        ..BASE
    },
    Language { names: "diff patch udiff", features: &[Feature::Diff], ..BASE },
    Language {
        names: "dockerfile docker containerfile makefile make mk",
        keywords: "ADD ARG AS CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL ONBUILD RUN SHELL STOPSIGNAL USER \
                   VOLUME WORKDIR define else endef endif export ifdef ifeq ifndef ifneq include override",
        sigils: "$",
        features: &[Feature::BareWords],
        ..SCRIPT
    },
    Language {
        names: "hcl terraform tf nix graphql gql proto protobuf",
        comments: &["#", "//"],
        delimiters: &[C_COMMENT, TRIPLE, DOUBLE],
        keywords: "data else enum extend for fragment if import in inherit input interface let locals message module \
                   mutation oneof option output package provider query rec repeated reserved resource returns rpc \
                   scalar schema service subscription syntax terraform then type union variable with",
        types: "bool bytes double float int32 int64 list map number object set string uint32 uint64",
        sigils: "@$",
        heredoc: "<<",
        features: &[Feature::CapitalizedTypes],
        ..BASE
    },
    Language {
        names: "lua",
        comments: &["--"],
        delimiters: &[comment("--[[", "]]", false), string("[[", "]]", false, true), DOUBLE, SINGLE],
        keywords: "and break do else elseif end for function goto if in local not or repeat return then until while",
        constants: "true false nil self",
        ..BASE
    },
    Language {
        names: "powershell ps1 pwsh",
        delimiters: &[comment("<#", "#>", false), string("\"", "\"", false, true), LONG_LITERAL],
        keywords: "begin break catch class continue do else elseif end exit finally for foreach function if in param \
                   process return switch throw trap try until using while",
        constants: "",
        name_characters: "-",
        sigils: "$",
        features: &[Feature::IgnoresCase],
        ..SCRIPT
    },
];
