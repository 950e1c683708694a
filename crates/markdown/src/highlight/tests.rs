use proptest::prelude::*;

use super::*;

/// Returns the tokens that have colours, each as its kind and text.
fn tokens(language: &str, code: &str) -> Vec<(TokenKind, String)> {
    let mut highlighter = Highlighter::new(language).expect("a known language");
    let mut tokens = Vec::new();
    for line in code.lines() {
        let found = highlighter.line(line);
        tokens.extend(found.into_iter().map(|(range, kind)| (kind, line[range].to_owned())));
    }
    tokens.retain(|(kind, _)| *kind != TokenKind::Plain);
    tokens
}

#[track_caller]
fn check(language: &str, code: &str, expected: &[(TokenKind, &str)]) {
    let tokens = tokens(language, code);
    let tokens: Vec<(TokenKind, &str)> = tokens.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
    assert_eq!(tokens, expected);
}

use TokenKind::{Added, Comment, Constant, Header, Key, Keyword, Removed, String as Text, Type};

#[test]
fn rust_has_raw_strings_lifetimes_and_nested_comments() {
    check(
        "rust,ignore",
        "fn f<'a>(x: &'a str) -> char { 'x' } // end\nlet s = r#\"a \"b\"\nc\"#;\n/* a /* b */\nc */ Self::MAX",
        &[
            (Keyword, "fn"),
            (Type, "'a"),
            (Type, "'a"),
            (Type, "str"),
            (Type, "char"),
            (Text, "'x'"),
            (Comment, "// end"),
            (Keyword, "let"),
            (Text, "r#\"a \"b\""),
            (Text, "c\"#"),
            (Comment, "/* a /* b */"),
            (Comment, "c */"),
            (Type, "Self"),
            (Constant, "MAX"),
        ],
    );
}

#[test]
fn python_has_strings_of_several_lines() {
    check(
        "py",
        "x = \"\"\"a\n'b' # c\n\"\"\" + 'it\\'s'  # d\n@cache\ndef f(n: int = 0x1F) -> None: ...",
        &[
            (Text, "\"\"\"a"),
            (Text, "'b' # c"),
            (Text, "\"\"\""),
            (Text, "'it\\'s'"),
            (Comment, "# d"),
            (Keyword, "@cache"),
            (Keyword, "def"),
            (Type, "int"),
            (Constant, "0x1F"),
            (Constant, "None"),
        ],
    );
}

#[test]
fn an_unclosed_string_ends_with_its_line() {
    check("js", "let a = 'b\nlet", &[(Keyword, "let"), (Text, "'b"), (Keyword, "let")]);
    check("ts", "`a ${b}\nc` as", &[(Text, "`a ${b}"), (Text, "c`"), (Keyword, "as")]);
}

#[test]
fn data_has_keys() {
    check(
        "json",
        "{\"a\": [1.5e-3, true], \"b\":\"c\"}",
        &[(Key, "\"a\""), (Constant, "1.5e-3"), (Constant, "true"), (Key, "\"b\""), (Text, "\"c\"")],
    );
    check("yaml", "a-b: don't # c\n- url: http://x#y", &[(Key, "a-b"), (Comment, "# c"), (Key, "url")]);
    check("toml", "[a]\nb.c = \"d\" # e", &[(Key, "b.c"), (Text, "\"d\""), (Comment, "# e")]);
    check("css", "a:hover { color: #fff; } /* b */", &[(Key, "color"), (Comment, "/* b */")]);
}

#[test]
fn shells_have_here_documents() {
    check(
        "bash",
        "for f in \"$x\"; do echo $f ${#a}; done\ncat <<'EOF' > y\nit's\nEOF\ngrep a <<<\"b\" # c",
        &[
            (Keyword, "for"),
            (Keyword, "in"),
            (Text, "\"$x\""),
            (Keyword, "do"),
            (Key, "$f"),
            (Keyword, "done"),
            (Text, "'EOF'"),
            (Text, "it's"),
            (Text, "EOF"),
            (Text, "\"b\""),
            (Comment, "# c"),
        ],
    );
}

#[test]
fn markup_has_tags_and_attributes() {
    check(
        "html",
        "<a href=\"x>\ny\" b>don't < c</a><!-- d\n-->",
        &[
            (Keyword, "<a"),
            (Key, "href"),
            (Text, "\"x>"),
            (Text, "y\""),
            (Key, "b"),
            (Keyword, ">"),
            (Keyword, "</a>"),
            (Comment, "<!-- d"),
            (Comment, "-->"),
        ],
    );
}

#[test]
fn other_languages_have_their_own_rules() {
    check("sql", "SELECT 'it''s' -- x", &[(Keyword, "SELECT"), (Text, "'it''s'"), (Comment, "-- x")]);
    check(
        "diff",
        "--- a\n@@ 1 @@\n+b\n-c\n d",
        &[(Header, "--- a"), (Type, "@@ 1 @@"), (Added, "+b"), (Removed, "-c")],
    );
    check(
        "lua",
        "--[[ a\nb ]] nil -- c",
        &[(Comment, "--[[ a"), (Comment, "b ]]"), (Constant, "nil"), (Comment, "-- c")],
    );
    check(
        "c++",
        "#include <a>\nint x = 1'000;",
        &[(Keyword, "#include"), (Type, "int"), (Constant, "1'000")],
    );
    check("{.c#}", "var s = @\"a\\\"; // b", &[(Keyword, "var"), (Text, "@\"a\\\""), (Comment, "// b")]);
    check(
        "Dockerfile",
        "FROM a AS b\nRUN echo $c",
        &[(Keyword, "FROM"), (Keyword, "AS"), (Keyword, "RUN"), (Key, "$c")],
    );
}

#[test]
fn unknown_languages_have_no_highlighter() {
    for info in ["", "text", "console", "mermaid", "{", "rusty"] {
        assert!(Highlighter::new(info).is_none(), "{info}");
    }
}

#[test]
fn no_name_is_listed_twice() {
    let mut names: Vec<&str> = LANGUAGES.iter().flat_map(|language| language.names.split(' ')).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    for language in LANGUAGES {
        for list in [language.names, language.keywords, language.types, language.constants] {
            assert!(list.is_empty() || list.split(' ').all(|word| !word.is_empty()), "{list}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tokens_are_the_whole_text(
        fragments in prop::collection::vec(
            prop_oneof![
                "[a-zA-Z_]{1,6}",
                "[0-9.xe+-]{1,5}",
                "[\"'`#/*<>=:;$@\\\\ {}()-]{1,4}",
                Just("\n".to_owned()),
                Just("天é👩‍👧\u{301}".to_owned()),
                Just("<<EOF".to_owned()),
                Just("EOF".to_owned()),
                any::<String>(),
            ],
            0..30,
        ),
    ) {
        let code = fragments.concat();
        for language in LANGUAGES {
            let name = language.names.split(' ').next().expect("a name");
            let mut highlighter = Highlighter::new(name).expect("a known language");
            for line in code.split('\n') {
                let text: std::string::String =
                    highlighter.line(line).into_iter().map(|(range, _)| &line[range]).collect();
                prop_assert_eq!(text, line);
            }
        }
    }
}
