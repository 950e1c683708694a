//! Untrusted texts: those of models, tools, servers and users.

use std::fmt::Write as _;

use maud::{Markup, Render, html};

/// A text of a model, tool, server or user, which is displayed without formatting. Control characters and
/// characters that change the direction of the text are displayed as their code, such as `⟨U+202E⟩`, so that
/// they cannot hide or reorder other characters. Line breaks and tabs remain.
pub struct UntrustedText<'a>(pub &'a str);

impl Render for UntrustedText<'_> {
    fn render_to(&self, buffer: &mut String) {
        let mut rest = self.0;
        while let Some((position, character)) =
            rest.char_indices().find(|(_, character)| is_hidden(*character))
        {
            rest[..position].render_to(buffer);
            // Writing to a string does not fail.
            let _ = write!(buffer, "⟨U+{:04X}⟩", u32::from(character));
            rest = &rest[position + character.len_utf8()..];
        }
        rest.render_to(buffer);
    }
}

/// A message, in which backticks mark code. Parts of it may be untrusted.
pub struct WithCode<'a>(pub &'a str);

impl Render for WithCode<'_> {
    fn render_to(&self, buffer: &mut String) {
        let mut rest = self.0;
        while let Some((before, code, after)) = next_code(rest) {
            UntrustedText(before).render_to(buffer);
            html! { code dir="auto" { (UntrustedText(code)) } }.render_to(buffer);
            rest = after;
        }
        UntrustedText(rest).render_to(buffer);
    }
}

/// Returns the first part of a text that is marked as code, with the parts before and after it.
fn next_code(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('`').find_map(|(start, _)| {
        let inside = &text[start + 1..];
        let end = inside.find(['`', '\n']).filter(|end| *end > 0 && inside[*end..].starts_with('`'))?;
        Some((&text[..start], &inside[..end], &inside[end + 1..]))
    })
}

/// Returns an inline element with an untrusted text. The direction of the text does not affect the text
/// around it.
pub fn inline(text: &str) -> Markup {
    html! { bdi { (UntrustedText(text)) } }
}

/// Returns the first line of a text, shortened to a number of characters.
pub fn shortened(text: &str, limit: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None if line.len() < text.trim().len() => format!("{line} …"),
        None => line.to_owned(),
    }
}

/// Whether a character is not visible, or changes the order of other characters.
fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' | '\r' => false,
        _ if character.is_control() => true,
        // Format characters. A joiner is a part of emoji and of several scripts, so it remains.
        '\u{200D}' | '\u{200C}' => false,
        '\u{00AD}' | '\u{061C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' => true,
        '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}' => true,
        // Letters of Hangul and a Braille pattern without a visible shape.
        '\u{115F}' | '\u{1160}' | '\u{3164}' | '\u{FFA0}' | '\u{2800}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> String {
        UntrustedText(text).render().into_string()
    }

    #[test]
    fn hidden_characters_are_displayed() {
        assert_eq!(rendered("a\u{202E}b\u{0}c\u{E0041}"), "a⟨U+202E⟩b⟨U+0000⟩c⟨U+E0041⟩");
        assert_eq!(rendered("a\n\tb 👩\u{200D}🔬"), "a\n\tb 👩\u{200D}🔬");
        assert_eq!(rendered("<b>&\""), "&lt;b&gt;&amp;&quot;");
        assert_eq!(rendered("\u{1B}[31mred"), "⟨U+001B⟩[31mred");
    }

    #[test]
    fn backticks_mark_code() {
        let rendered = |text| WithCode(text).render().into_string();
        assert_eq!(
            rendered("no `a<b`, `c`"),
            "no <code dir=\"auto\">a&lt;b</code>, <code dir=\"auto\">c</code>"
        );
        for text in ["", "`", "a ` b", "``", "```", "`a\nb`", "a``"] {
            assert_eq!(rendered(text), text);
        }
        assert_eq!(rendered("``a`"), "`<code dir=\"auto\">a</code>");
        assert_eq!(rendered("`\u{202E}`"), "<code dir=\"auto\">⟨U+202E⟩</code>");
    }

    #[test]
    fn texts_are_shortened() {
        assert_eq!(shortened("one two three", 7), "one two…");
        assert_eq!(shortened("one\ntwo", 10), "one …");
        assert_eq!(shortened("  one ", 10), "one");
        assert_eq!(shortened("日本語", 2), "日本…");
    }
}
