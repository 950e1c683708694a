//! Tests of the HTML of Markdown, complete and while it streams.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(render(text).into_string(), expected);
}

#[test]
fn headings_are_below_the_heading_of_the_page() {
    check("# a\n###### b", "<h2 dir=\"auto\">a</h2><h6 dir=\"auto\">b</h6>");
}

#[test]
fn paragraphs_have_formats_and_breaks() {
    check(
        "a *b* **c** ~~d~~ `e`\nf  \ng\n\n---",
        "<p dir=\"auto\">a <em>b</em> <strong>c</strong> <del>d</del> <code dir=\"auto\">e</code>\nf<br>g</p><hr>",
    );
}

#[test]
fn lists_and_quotes_contain_each_other() {
    check(
        "3. a\n   - [x] b\n4. c\n\n> d",
        "<ol start=\"3\"><li dir=\"auto\">a<ul><li dir=\"auto\">\
         <span class=\"task\" role=\"img\" aria-label=\"done\">☑</span> b</li></ul></li><li dir=\"auto\">c</li></ol>\
         <blockquote dir=\"auto\"><p dir=\"auto\">d</p></blockquote>",
    );
}

#[test]
fn tables_scroll_in_a_box() {
    check(
        "|a|b|\n|-:|-|\n|c|d|",
        "<div class=\"table-wrap\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table>\
         <thead><tr><th dir=\"auto\" scope=\"col\" class=\"align-end\">a</th><th dir=\"auto\" scope=\"col\">b</th></tr></thead>\
         <tbody><tr><td dir=\"auto\" class=\"align-end\">c</td><td dir=\"auto\">d</td></tr></tbody></table></div>",
    );
}

#[test]
fn code_has_its_language_a_button_and_colors() {
    check(
        "```rust,ignore\nlet a = \"b\"; // 😀\n```",
        "<figure class=\"code\"><figcaption><bdi>rust,ignore</bdi>\
         <button type=\"button\" class=\"button quiet\" data-copy=\"code\">copy</button></figcaption>\
         <pre dir=\"ltr\" tabindex=\"0\"><code><span class=\"hl-k\">let</span> a = \
         <span class=\"hl-s\">\"b\"</span>; <span class=\"hl-c\">// 😀</span>\n</code></pre></figure>",
    );
    check(
        "    a<b>\n    c",
        "<figure class=\"code\"><figcaption>\
         <button type=\"button\" class=\"button quiet\" data-copy=\"code\">copy</button></figcaption>\
         <pre dir=\"ltr\" tabindex=\"0\"><code>a&lt;b&gt;\nc</code></pre></figure>",
    );
}

#[test]
fn links_lead_only_to_safe_schemes() {
    check(
        "[a](https://b.example/?c&d) <mailto:a@b.example> <a@b.example>",
        "<p dir=\"auto\"><a href=\"https://b.example/?c&amp;d\" target=\"_blank\" rel=\"noopener noreferrer\">a</a> \
         <a href=\"mailto:a@b.example\" target=\"_blank\" rel=\"noopener noreferrer\">mailto:a@b.example</a> \
         <a href=\"mailto:a@b.example\" target=\"_blank\" rel=\"noopener noreferrer\">a@b.example</a></p>",
    );
    check("[a](javascript:b)", "<p dir=\"auto\">a <span class=\"muted\">(javascript:b)</span></p>");
}

#[test]
fn a_text_that_looks_like_another_address_shows_the_host() {
    let link = |text: &str| render(&format!("[{text}](https://b.example/c)")).into_string();
    assert!(link("https://a.example").contains("<span class=\"host muted\">(b.example)</span>"));
    assert!(link("a.example").contains("(b.example)"));
    for text in ["see here", "https://b.example/c", "B.EXAMPLE", "a sentence. And more"] {
        assert!(!link(text).contains("host"), "{text}");
    }
}

#[test]
fn images_are_boxes() {
    check(
        "![a *b*](https://c.example/d.png)",
        "<p dir=\"auto\"><span class=\"image\"><span class=\"alt\">a b</span> \
         <a href=\"https://c.example/d.png\" target=\"_blank\" rel=\"noopener noreferrer\">c.example</a></span></p>",
    );
    check(
        "[![a](https://b.example/c)](https://d.example)",
        "<p dir=\"auto\"><a href=\"https://d.example\" target=\"_blank\" rel=\"noopener noreferrer\">\
         <span class=\"image\"><span class=\"alt\">a</span> <span class=\"host muted\">b.example</span></span></a></p>",
    );
    check(
        "![](data:image/png;base64,AAAA)",
        "<p dir=\"auto\"><span class=\"image\"><span class=\"alt\">image</span> \
         <span class=\"muted\">data:image/png;base64,AAAA</span></span></p>",
    );
}

#[test]
fn html_is_text() {
    check(
        "<b onclick=x>a</b>\n\n<div>\nb\n</div>",
        "<p dir=\"auto\">&lt;b onclick=x&gt;a&lt;/b&gt;</p><p dir=\"auto\" class=\"raw\">&lt;div&gt;\nb\n&lt;/div&gt;</p>",
    );
}

/// A page that applies events as the script does.
#[derive(Default)]
struct Page {
    blocks: Vec<String>,
    /// The lines of the block that grows.
    lines: usize,
    settled: usize,
}

impl Page {
    fn apply(&mut self, events: Vec<BlockEvent>) -> Result<(), TestCaseError> {
        for event in events {
            match event {
                BlockEvent::Open { n, html, lines } => {
                    self.lines = lines;
                    self.put(n, html.into_string())?;
                }
                BlockEvent::Settle { n, html } => {
                    self.put(n, html.into_string())?;
                    prop_assert_eq!(n, self.settled, "blocks are settled in order");
                    self.settled += 1;
                }
                BlockEvent::Grow { n, at, to, html } => {
                    prop_assert_eq!((n, at), (self.settled, self.lines));
                    let html = html.into_string();
                    prop_assert_eq!(to - at, html.matches('\n').count());
                    self.lines = to;
                    let (start, end) = self.blocks[n].rsplit_once("</code>").expect("a block of code");
                    self.blocks[n] = format!("{start}{html}</code>{end}");
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, n: usize, html: String) -> Result<(), TestCaseError> {
        prop_assert!(n >= self.settled, "block {n} changed after it was settled");
        prop_assert!(n <= self.blocks.len(), "block {n} comes after {}", self.blocks.len());
        if n == self.blocks.len() {
            self.blocks.push(html);
        } else {
            self.blocks[n] = html;
        }
        Ok(())
    }

    /// Returns the blocks without those at the end that turned out not to exist.
    fn shown(&self) -> Vec<&str> {
        let mut shown: Vec<&str> = self.blocks.iter().map(String::as_str).collect();
        while shown.last().is_some_and(|html| html.is_empty()) {
            shown.pop();
        }
        shown
    }
}

fn strings(blocks: Vec<Markup>) -> Vec<String> {
    blocks.into_iter().map(Markup::into_string).filter(|html| !html.is_empty()).collect()
}

/// Streams the pieces. The page always equals what a new reader gets, and in the end the complete text.
fn stream<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Result<(), TestCaseError> {
    let mut text = String::new();
    let mut streaming = StreamingMarkdown::new();
    let mut page = Page::default();
    for piece in pieces {
        text.push_str(piece);
        streaming.push(piece);
        page.apply(streaming.events())?;
        if !streaming.is_stale() {
            let mut fresh = Page::default();
            fresh.apply(streaming.current())?;
            prop_assert_eq!(page.shown(), fresh.shown(), "after {:?}", text);
        }
    }
    page.apply(streaming.finish())?;
    prop_assert_eq!(page.shown(), strings(blocks(&text)), "the complete text {:?}", text);
    Ok(())
}

/// Splits a text at every character.
fn characters(text: &str) -> Vec<&str> {
    text.char_indices().map(|(start, character)| &text[start..start + character.len_utf8()]).collect()
}

const DOCUMENT: &str = "\n# Title\n\nA *first* **paragraph** with `code`, [a link](https://a.example/b_c) and 天é👩‍👧.\n\
     - one\n- two\n  1. nested\n\n     ```sh\n     ls | wc\n     ```\n- [ ] three\n\n> quoted\n> > twice\nlazily\n\n\
     ```rust\nfn main() {\n    /* a\n    b */ println!(\"<b>\");\n}\n```\n~~~\r\nplain ``` &amp; \u{202E}\r\n~~~\n\
     | a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 |\n\nSetext\n======\n\n<details>\n\n![alt](https://a.example/i.png)\n\
     [1]: https://a.example\n\n1. a\n2. b\n\n---\n\n````md\n```\n````\n    indented\n\nend `open";

#[test]
fn a_document_streams_at_every_character() {
    stream(characters(DOCUMENT)).expect("equal");
}

#[test]
fn a_document_streams_in_two_pieces() {
    for (split, _) in DOCUMENT.char_indices() {
        stream([&DOCUMENT[..split], &DOCUMENT[split..]]).expect("equal");
    }
}

#[test]
fn a_closed_fence_is_settled_at_once() {
    let mut streaming = StreamingMarkdown::new();
    streaming.push("```\na\n```\n");
    let settled =
        streaming.events().into_iter().filter(|event| matches!(event, BlockEvent::Settle { n: 0, .. }));
    assert_eq!(settled.count(), 1);
}

#[test]
fn lines_of_a_fence_are_sent_once() {
    let mut streaming = StreamingMarkdown::new();
    streaming.push("```\n");
    streaming.events();
    let line = "a line of code\n";
    for number in 0..10_000_usize {
        streaming.push(line);
        let events = streaming.events();
        let [BlockEvent::Grow { n: 0, at, html, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!((*at, html.0.as_str()), (number, line));
    }
    assert!(streaming.work < 11_000 * line.len(), "{}", streaming.work);
}

#[test]
fn a_block_that_was_guessed_wrong_is_hidden() {
    let mut streaming = StreamingMarkdown::new();
    let mut page = Page::default();
    for piece in ["a\n\n1", ". b\n"] {
        streaming.push(piece);
        page.apply(streaming.events()).expect("equal");
    }
    stream(["a\n\nb", "\n"]).expect("equal");
    stream(["- a\n\n1", ".", " b"]).expect("equal");
}

#[test]
fn line_ends_of_other_systems_do_not_change_the_blocks() {
    for text in [
        "```rust\n```\ra\n```\n",
        "|a|b|\n|-|-|\n|---\r    <div>\na",
        "a\r\n\r\nb\r\rc\r",
        "```\r\na\r\n```\r\nb",
    ] {
        stream(characters(text)).expect("equal");
        let newlines = text.replace("\r\n", "\n").replace('\r', "\n");
        assert_eq!(render(text).into_string(), render(&newlines).into_string(), "{text:?}");
    }
}

#[test]
fn a_fence_with_a_tab_after_it_closes_nothing() {
    stream(characters("```rust\n```\t\n```\n")).expect("equal");
    stream(characters("<div>\n\n```\n```\t\na")).expect("equal");
}

fn markdown_piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z]{1,5}",
        4 => Just("\n".to_owned()),
        2 => Just("\n\n".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => Just("\r".to_owned()),
        2 => Just(" ".to_owned()),
        1 => Just("    ".to_owned()),
        1 => Just("\t".to_owned()),
        2 => Just("```".to_owned()),
        1 => Just("~~~~".to_owned()),
        1 => Just("```rust\n".to_owned()),
        2 => Just("\n```\n".to_owned()),
        2 => Just("- ".to_owned()),
        1 => Just("2. ".to_owned()),
        1 => Just("> ".to_owned()),
        1 => Just("# ".to_owned()),
        1 => Just("\n===\n".to_owned()),
        1 => Just("---".to_owned()),
        1 => Just("**".to_owned()),
        1 => Just("*".to_owned()),
        1 => Just("_".to_owned()),
        1 => Just("`".to_owned()),
        1 => Just("\\".to_owned()),
        1 => Just("[a](https://b.example)".to_owned()),
        1 => Just("[a]: b".to_owned()),
        1 => Just("![".to_owned()),
        1 => Just("](".to_owned()),
        1 => Just("<b>".to_owned()),
        1 => Just("<!-- ".to_owned()),
        1 => Just("<div>\n".to_owned()),
        1 => Just("|a|b|\n|-|-|\n|".to_owned()),
        1 => Just("[x] ".to_owned()),
        1 => Just("\u{0}\u{1}".to_owned()),
        1 => Just("\u{202E}天👩‍👧".to_owned()),
        1 => Just("&lt;&#0;&amp;".to_owned()),
        1 => "\\PC{1,3}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_streams_like_the_whole(pieces in prop::collection::vec(markdown_piece(), 0..30)) {
        stream(pieces.iter().map(String::as_str))?;
        stream(characters(&pieces.concat()))?;
    }
}
