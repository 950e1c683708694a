//! Tests with hostile texts: the HTML contains only elements, attributes and schemes of the writer, and the
//! work is limited.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use proptest::prelude::*;

use super::*;

/// The tags of an HTML text, as a browser reads them.
#[derive(Default)]
struct Tags {
    tags: RefCell<Vec<Tag>>,
    others: RefCell<Vec<String>>,
    text: RefCell<String>,
}

impl TokenSink for Tags {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        match token {
            Token::TagToken(tag) => self.tags.borrow_mut().push(tag),
            Token::CharacterTokens(text) => self.text.borrow_mut().push_str(&text),
            Token::ParseError(_) | Token::EOFToken => {}
            other => self.others.borrow_mut().push(format!("{other:?}")),
        }
        TokenSinkResult::Continue
    }
}

fn tags(html: &str) -> Tags {
    let tokenizer = Tokenizer::new(Tags::default(), TokenizerOpts::default());
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from(html));
    let _ = tokenizer.feed(&queue);
    tokenizer.end();
    tokenizer.sink
}

const ALLOWED: &str = "p:dir,class h2:dir h3:dir h4:dir h5:dir h6:dir ul: ol:start li:dir blockquote:dir hr: br: em: \
     strong: del: a:href,target,rel code:dir pre:dir,tabindex span:class,role,aria-label figure:class \
     figcaption: button:type,class,data-copy div:class,tabindex,role,aria-label table: thead: tbody: tr: \
     th:dir,scope,class td:dir,class bdi:";

/// Checks that HTML has only allowed parts, and returns its text.
fn check_html(html: &str, source: &str) -> Result<String, TestCaseError> {
    let read = tags(html);
    prop_assert_eq!(&*read.others.borrow(), &Vec::<String>::new(), "in {:?}", source);
    let mut open: Vec<String> = Vec::new();
    for tag in &*read.tags.borrow() {
        let allowed =
            ALLOWED.split_whitespace().find_map(|entry| entry.strip_prefix(&format!("{}:", tag.name)));
        prop_assert!(allowed.is_some(), "<{}> in {:?} of {:?}", tag.name, html, source);
        for attribute in &tag.attrs {
            let name = &*attribute.name.local;
            prop_assert!(
                allowed.is_some_and(|names| names.split(',').any(|other| other == name)),
                "{} of <{}> in {:?}",
                name,
                tag.name,
                source
            );
            let value = &*attribute.value;
            let is_plain =
                |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_ ".contains(&byte));
            if name == "href" {
                let scheme = value.split(':').next().unwrap_or_default().to_ascii_lowercase();
                prop_assert!(["http", "https", "mailto"].contains(&&*scheme), "{} in {:?}", value, source);
            } else {
                prop_assert!(is_plain(value), "{}={:?} in {:?}", name, value, source);
            }
        }
        if tag.kind == TagKind::EndTag {
            let begun = open.pop();
            prop_assert_eq!(begun.as_deref(), Some(&*tag.name), "in {:?} of {:?}", html, source);
        } else if !["br", "hr"].contains(&&*tag.name) {
            open.push(tag.name.to_string());
        }
    }
    prop_assert_eq!(open, Vec::<String>::new());
    Ok(read.text.take())
}

/// Checks both protections: the HTML is allowed, and the sanitizer has nothing to remove.
fn check(source: &str) -> Result<(), TestCaseError> {
    for range in toolwire_markdown::blocks(source) {
        let written = writer::write(&source[range.clone()]);
        let text = check_html(&written, source)?;
        let rendered = block(&source[range]).into_string();
        prop_assert_eq!(
            check_html(&rendered, source)?,
            text,
            "the sanitizer changed {:?} of {:?}",
            written,
            source
        );
    }
    let mut streaming = StreamingMarkdown::new();
    let (first, second) = source.split_at(source.floor_char_boundary(source.len() / 2));
    for piece in [first, second, "\n"] {
        streaming.push(piece);
        for event in streaming.events() {
            let (BlockEvent::Open { html, .. }
            | BlockEvent::Settle { html, .. }
            | BlockEvent::Grow { html, .. }) = event;
            check_html(&html.0, source)?;
        }
    }
    Ok(())
}

/// HTML, addresses and characters that have been used to attack web pages.
const HOSTILE: [&str; 63] = [
    "<script>alert(1)</script>",
    "<ScRiPt src=//a.example/x.js></sCrIpT>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">",
    "<iframe srcdoc=\"<script>alert(1)</script>\"></iframe>",
    "<object data=x></object><embed src=x>",
    "<base href=//a.example/>",
    "<meta http-equiv=refresh content=\"0;url=javascript:alert(1)\">",
    "<form action=//a.example><button>a</button></form>",
    "<link rel=stylesheet href=//a.example/x.css>",
    "<details open ontoggle=alert(1)>",
    "<template><script>alert(1)</script></template>",
    "</textarea><script>alert(1)</script>",
    "</title></style></script><script>alert(1)</script>",
    "</code></pre></figure></div><script>alert(1)</script>",
    "\" autofocus onfocus=alert(1) x=\"",
    "' onmouseover='alert(1)",
    "<a id=main name=body href=javascript:alert(1)>a</a>",
    "<div style=\"background:url(//a.example)\">",
    "<!--><img src=x onerror=alert(1)>-->",
    "<![CDATA[<img src=x onerror=alert(1)>]]>",
    "<?php alert(1) ?><!DOCTYPE html>",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\tscript:alert(1)",
    "java&NewLine;script&colon;alert(1)",
    "java%0Ascript:alert(1)",
    "&#106;avascript:alert(1)",
    "&#x6A&#x61&#x76&#x61script:alert(1)",
    "\u{1}javascript:alert(1)",
    "vbscript:a",
    "data:text/html,<script>alert(1)</script>",
    "data:text/html;base64,PHNjcmlwdD4=",
    "blob:https://a.example/1",
    "file:///etc/passwd",
    "//a.example/x",
    "https://a.example\\@b.example",
    "https://a.example/\"onmouseover=alert(1)",
    "https://a.example/<script>",
    "https:///a",
    "mailto:a@b.example?cc=\"><script>",
    "{{7*7}}${7*7}#{7*7}",
    "__proto__ constructor",
    "\u{202E}gnp.exe \u{2066}a\u{2069} \u{200B}\u{E0041}",
    "a\u{2028}b\u{2029}c",
    "a\u{0}b",
    "\u{1B}[31mred\u{1B}]8;;https://a.example\u{7}a\u{1B}]8;;\u{7}",
    "\n\nevent: reset\ndata: {}\n\n",
    "<p style=a>b</p><table><td>c",
    "<select><option><style></select><script>alert(1)</script>",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "<xmp><p title=\"</xmp><img src=x onerror=alert(1)>\">",
    "<svg><a xlink:href=\"javascript:alert(1)\"><text>a</text></a></svg>",
    "<img src=`x`onerror=alert(1)>",
    "<a href=\"https://a.example\" ping=\"//b.example\" onclick=alert(1)>a</a>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&amp;lt;img src=x onerror=alert(1)&amp;gt;",
    "<a\u{0}href=javascript:alert(1)>",
    "<\u{FF1C}script\u{FF1E}",
    "[a](https://a.example \"title\\\" onmouseover=alert(1)\")",
    "| <script> | `<img src=x onerror=alert(1)>` |\n|-|-|\n| <b | &lt;b&gt; |",
];

/// The places of a Markdown text: `{}` is replaced.
const PLACES: [&str; 22] = [
    "{}",
    "# {}",
    "- {}\n- a",
    "> {}",
    "**{}**",
    "`{}`",
    "```\n{}\n```",
    "```html\n{}\n```",
    "```{}\na\n```",
    "~~~a {}\nb\n~~~",
    "    {}",
    "[{}](https://a.example)",
    "[a]({})",
    "[a](<{}>)",
    "[a](https://a.example \"{}\")",
    "<{}>",
    "![{}](https://a.example)",
    "![a]({})",
    "[![{}]({})]({})",
    "[a]: {}\n\n[a] ![a]",
    "|{}|b|\n|-|-|\n|c|{}|",
    "<div {}>\n\n{}",
];

#[test]
fn hostile_texts_have_only_allowed_parts_everywhere() {
    for place in PLACES {
        for text in HOSTILE {
            check(&place.replace("{}", text)).expect("harmless");
        }
    }
}

#[test]
fn hostile_texts_stay_readable() {
    for text in ["<script>alert(1)</script>", "\" onfocus=alert(1)", "</code></pre>", "{{7*7}}"] {
        for place in ["{}", "# {}", "`{}`", "```\n{}\n```"] {
            let html = render(&place.replace("{}", text)).into_string();
            assert!(tags(&html).text.borrow().contains(text), "{html}");
        }
    }
}

/// The sanitizer alone: HTML that the writer never writes.
#[test]
fn the_sanitizer_removes_what_is_not_on_its_list() {
    let others = ["<a href=\"/path\">a</a>", "<a href=\"//a.example\">a</a>", "<p title=a lang=b id=c>a</p>"];
    for text in HOSTILE.iter().chain(&others) {
        check_html(&sanitize::sanitize(text).into_string(), text).expect("harmless");
    }
    assert_eq!(sanitize::sanitize(others[1]).into_string(), "<a rel=\"noopener noreferrer\">a</a>");
}

/// Streams a text in pieces of 4 KB and checks the work and the HTML.
#[track_caller]
fn check_work(text: &str, factor: usize) {
    let mut streaming = StreamingMarkdown::new();
    let mut html = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(4096.min(rest.len())));
        rest = after;
        streaming.push(piece);
        streaming.events();
    }
    streaming.finish();
    for event in streaming.current() {
        let BlockEvent::Settle { html: block, .. } = event else { panic!("all blocks are settled") };
        html += block.0.len();
        let mut depth = 0_usize;
        for tag in &*tags(&block.0).tags.borrow() {
            depth = if tag.kind == TagKind::EndTag {
                depth - 1
            } else {
                depth + usize::from(!["br", "hr"].contains(&&*tag.name))
            };
            assert!(depth < 100, "{depth} elements are open");
        }
    }
    assert!(streaming.work <= factor * text.len() + 100_000, "{} of {} bytes", streaming.work, text.len());
    assert!(html <= 60 * text.len() + 1_000, "{html} of {} bytes", text.len());
}

#[test]
fn deep_texts_cost_a_limited_amount() {
    for unit in [
        "> ", "- ", "1. ", "* > ", "[", "![", "*a ", "**a ", "_a_", "<b>", "`", "~~a ", "[a](", "|", "(",
        "&lt;",
    ] {
        check_work(&unit.repeat(10_000), 16);
        check_work(&format!("{}a", unit.repeat(10_000)), 16);
        check_work(&format!("{}\n", unit.repeat(10)).repeat(1_000), 16);
    }
    let nested: String = (0..1_000).map(|depth| format!("{}- a\n", " ".repeat(2 * depth))).collect();
    check_work(&nested, 16);
}

#[test]
fn long_lines_cost_a_limited_amount() {
    for unit in
        ["a", "a ", "*", "`a", "<", "天", "\u{202E}", "[a](b)", "\\", "](", "a|", "https://a.example/", "&"]
    {
        check_work(&unit.repeat(50_000 / unit.len()), 16);
    }
    check_work(&"a".repeat(1_000_000), 16);
    check_work(&"`a` ".repeat(250_000), 16);
}

#[test]
fn long_code_costs_a_limited_amount() {
    for unit in ["a", "\"", "/*", "a\n", "let x = 1;\n", "r#\"", "$a ", "\n\n"] {
        check_work(&format!("```rust\n{}", unit.repeat(50_000 / unit.len())), 16);
    }
    check_work(&format!("```rust\n{}", "let x = 1;\n".repeat(90_000)), 16);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mixed_texts_have_only_allowed_parts(
        pieces in prop::collection::vec(
            prop_oneof![
                prop::sample::select(HOSTILE.to_vec()).prop_map(str::to_owned),
                prop::sample::select(PLACES.to_vec()).prop_map(str::to_owned),
                "[<>\"'&;:/a-z=\\[\\]()!`*_~|#> \n-]{1,8}",
                any::<String>(),
            ],
            1..8,
        ),
    ) {
        check(&pieces.concat())?;
    }
}
