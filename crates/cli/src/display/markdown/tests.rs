//! Tests of the displayed text, while it streams and when it is complete.

use proptest::prelude::*;

use super::*;
use crate::display::canvas::{Canvas, Size};
use crate::display::testing::terminal;

const ROWS: u16 = 200;

/// Draws the text piece by piece and returns the contents of the screen with colours.
fn screen(pieces: &[&str], columns: u16) -> String {
    let size = Size { columns: columns.into(), rows: ROWS.into() };
    let mut terminal = terminal(ROWS, columns);
    {
        let mut canvas = Canvas::new(&mut terminal, size);
        let mut markdown = Markdown::new(TextFormat::Markdown);
        for piece in pieces {
            markdown.push(piece);
            let rendered = markdown.lines(canvas.columns());
            for line in rendered.settled.iter().chain(&rendered.open) {
                assert!(line.width() <= canvas.columns(), "{line:?} is wider than {}", canvas.columns());
            }
            canvas.draw(&rendered.settled, &rendered.open).expect("written");
        }
        let columns = canvas.columns();
        canvas.draw(&markdown.finish(columns), &[]).expect("written");
    }
    terminal.screen().contents_formatted()
}

fn plain(text: &str, columns: usize) -> String {
    let mut markdown = Markdown::new(TextFormat::Markdown);
    markdown.push(text);
    let lines: Vec<String> = markdown.finish(columns).iter().map(line_text).collect();
    lines.join("\n")
}

fn line_text(line: &Line) -> String {
    line.spans.iter().map(|span| span.text.as_str()).collect()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(plain(text, 40), expected.trim_matches('\n'));
}

#[test]
fn headings_lists_and_quotes_are_laid_out() {
    check(
        "# Title\nSome *text* with **bold** and `code`\nthat goes on for longer than one line.\n\n- one\n- two that is quite long and needs a second line\n  1. nested\n  2. more\n     > said\n- [x] done\n\n---\n> quoted\n>\n> - in a list\n",
        "
Title

Some text with bold and code that goes
on for longer than one line.

• one
• two that is quite long and needs a
  second line
  1. nested
  2. more
     │ said
• ☑ done

────────────────────────────────────────

│ quoted
│
│ • in a list
",
    );
}

#[test]
fn loose_lists_stay_loose() {
    check("1. one\n\n   more\n\n2. two\n", "1. one\n\n   more\n\n2. two");
}

#[test]
fn code_keeps_its_spaces_and_is_broken_at_the_width() {
    check(
        "```rust\nfn main() {\n\n    let a_rather_long_name = \"a text that is long\";\n}\n```\nafter",
        "
  rust
  fn main() {
  
      let a_rather_long_name = \"a text t
  hat is long\";
  }

after
",
    );
}

#[test]
fn code_can_have_windows_line_ends() {
    check("```py\r\nx = 1\r\n\r\ny = 2\r\n```\r\nafter\r\n", "  py\n  x = 1\n  \n  y = 2\n\nafter");
}

#[test]
fn colours_do_not_change_the_code() {
    let code = "fn f<'a>(x: &'a str) -> u8 { /* 天気\n\n  \u{1b}[31m */ \"it's\tlong enough to be broken\" }\r\n[x]: y\n";
    let uncoloured = plain(&format!("```text\n{code}```\n> ~~~text\n> {code}"), 40);
    for language in ["rust", "python", "js", "html", "diff", "yaml", "bash"] {
        let coloured = plain(&format!("```{language}\n{code}```\n> ~~~{language}\n> {code}"), 40);
        assert_eq!(coloured, uncoloured.replace("text", language));
    }
}

#[test]
fn code_in_a_known_language_has_colours() {
    let colours = |text: &str| {
        let mut markdown = Markdown::new(TextFormat::Markdown);
        markdown.push(text);
        let lines = markdown.finish(40);
        let spans =
            lines.iter().skip(1).flat_map(|line| &line.spans).filter(|span| !span.text.trim().is_empty());
        spans.map(|span| (span.text.clone(), span.style)).collect::<Vec<_>>()
    };
    use anstyle::AnsiColor::{Cyan, Green, Magenta};
    assert_eq!(
        colours("```python\ndef a():\n    \"\"\"b\n    c\"\"\"\n```\n"),
        [
            ("def".to_owned(), Magenta.on_default()),
            (" a():".to_owned(), Style::new()),
            ("\"\"\"b".to_owned(), Green.on_default()),
            ("    c\"\"\"".to_owned(), Green.on_default()),
        ]
    );
    assert_eq!(colours("```text\ndef a():\n```\n"), [("def a():".to_owned(), Cyan.on_default())]);
}

#[test]
fn lines_that_have_scrolled_away_determine_the_colours_and_are_not_repeated() {
    let text = "```python\n\"\"\"a\n\n\nb\n";
    let mut markdown = Markdown::new(TextFormat::Markdown);
    markdown.push(text);
    let rendered = markdown.lines(40);
    // The label, `a` and the two empty lines.
    markdown.freeze(rendered.open[3].end);
    let rest = markdown.finish(40);
    assert_eq!(rest.iter().map(line_text).collect::<Vec<_>>(), ["  b"]);
    assert_eq!(rest[0].spans[1].style, anstyle::AnsiColor::Green.on_default());
}

#[test]
fn tables_are_aligned() {
    check(
        "| city | degrees |\n|---|---:|\n| Paris | 18 |\n| 東京 | 7 |\n",
        "
city  │ degrees
──────┼────────
Paris │      18
東京  │       7
",
    );
    check(
        "| what | why |\n|---|---|\n| a | a cell that is much too long for the line |\n",
        "
what │ why
─────┼──────────────────────────────────
a    │ a cell that is much too long for
     │ the line
",
    );
    check(
        "|a|b|c|d|e|f|g|h|i|\n|-|-|-|-|-|-|-|-|-|\n|1|2|3|4|5|6|7|8|9|\n",
        "a │ b │ c │ d │ e │ f │ g │ h │ i\n1 │ 2 │ 3 │ 4 │ 5 │ 6 │ 7 │ 8 │ 9",
    );
}

#[test]
fn the_url_of_a_link_is_displayed() {
    check("[docs](https://a.b/c) and <https://d.e>", "docs (https://a.b/c) and https://d.e");
    check("![a cat](cat.png)", "[image: a cat] (cat.png)");
    check("see [docs][1]\n\n[1]: https://a.b\n", "see [docs][1]\n\n[1]: https://a.b");
}

#[test]
fn control_characters_are_replaced() {
    check("a\u{1b}[31mb &#27;[2J `c\u{9b}d`", "a\u{fffd}[31mb \u{fffd}[2J c\u{fffd}d");
    check("```\n\u{1b}]0;title\u{7}\n```", "  \u{fffd}]0;title\u{fffd}");
}

#[test]
fn unfinished_text_is_displayed() {
    let mut markdown = Markdown::new(TextFormat::Markdown);
    let mut displayed = Vec::new();
    for piece in ["The ", "ans", "wer is **for", "ty", "-two**", ".\n\n", "- o", "ne\n- "] {
        markdown.push(piece);
        let rendered = markdown.lines(40);
        let text: Vec<String> = rendered.settled.iter().chain(&rendered.open).map(line_text).collect();
        displayed.push(text.join("/"));
    }
    assert_eq!(
        displayed,
        [
            "The",
            "The ans",
            "The answer is for",
            "The answer is forty",
            "The answer is forty-two",
            "The answer is forty-two.",
            "The answer is forty-two.//• o",
            "The answer is forty-two.//• one",
        ]
    );
}

#[test]
fn a_resize_loses_and_repeats_no_word() {
    let text = "one two three four **five six** seven eight nine ten eleven `twelve` thirteen.\n\n- a\n- b c d e f g h i j k l m n\n";
    for (cut, _) in text.char_indices() {
        let mut terminal = terminal(60, 30);
        let mut markdown = Markdown::new(TextFormat::Markdown);
        {
            let mut canvas = Canvas::new(&mut terminal, Size { columns: 30, rows: 60 });
            markdown.push(&text[..cut]);
            let rendered = markdown.lines(canvas.columns());
            canvas.draw(&rendered.settled, &rendered.open).expect("written");
            if let Some(end) = canvas.resize(Size { columns: 12, rows: 60 }).expect("written") {
                markdown.freeze(end);
            }
            markdown.push(&text[cut..]);
            let columns = canvas.columns();
            canvas.draw(&markdown.finish(columns), &[]).expect("written");
        }
        let displayed: String = terminal.screen().contents().split_whitespace().collect();
        assert_eq!(
            displayed, "onetwothreefourfivesixseveneightnineteneleventwelvethirteen.•a•bcdefghijklmn",
            "cut at {cut}"
        );
    }
}

const CODE_STARTS: &[&str] = &["\n```rust\n", "\n```py\n", "\n- x\n  ```html\n", "\n~~~yaml\n", "\n```sh\n"];

const CODE_FRAGMENTS: &[&str] = &[
    "/* ",
    " */\n",
    "\"",
    "'a ",
    "\"\"\"",
    "# x\n",
    "1.5 ",
    "fn f(x: Vec<u8>)\n",
    "<a b=",
    ">",
    "r#\"",
    "<<EOF\n",
    "k: v\n",
];

/// Markdown as models write it, valid or not.
fn texts() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        3 => "[a-z]{1,9} ",
        2 => Just("\n".to_owned()),
        1 => Just("\n\n".to_owned()),
        1 => Just("**".to_owned()),
        1 => Just("*".to_owned()),
        1 => Just("`".to_owned()),
        1 => Just("\n```\n".to_owned()),
        1 => prop::sample::select(CODE_STARTS).prop_map(str::to_owned),
        1 => prop::sample::select(CODE_FRAGMENTS).prop_map(str::to_owned),
        1 => Just("\n- ".to_owned()),
        1 => Just("\n  - ".to_owned()),
        1 => Just("\n1. ".to_owned()),
        1 => Just("\n> ".to_owned()),
        1 => Just("\n## ".to_owned()),
        1 => Just("\n---\n".to_owned()),
        1 => Just("\n| a | b |\n|---|--:|\n| 1 | 2 |\n".to_owned()),
        1 => Just("[x](http://y)".to_owned()),
        1 => Just("\n[x]: http://y\n".to_owned()),
        1 => Just("👩‍👩‍👧 天気 e\u{301}".to_owned()),
        1 => Just("\u{1b}[31m\t&amp;\\*".to_owned()),
        1 => Just("\n    indented\n".to_owned()),
        1 => Just("<b>".to_owned()),
    ];
    prop::collection::vec(fragment, 0..20).prop_map(|fragments| fragments.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_final_screen_does_not_depend_on_how_the_text_was_split(
        text in texts(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        columns in 16_u16..60,
    ) {
        let mut positions: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        positions.retain(|position| text.is_char_boundary(*position));
        positions.extend([0, text.len()]);
        positions.sort_unstable();
        let pieces: Vec<&str> = positions.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        prop_assert_eq!(screen(&pieces, columns), screen(&[text.as_str()], columns));
        let characters: Vec<String> = text.chars().map(String::from).collect();
        let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
        prop_assert_eq!(screen(&characters, columns), screen(&[text.as_str()], columns));
    }
}
