//! Doc comments as descriptions for models.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Returns the text of the doc comments as an expression of type `&'static str`, if there are any.
pub(crate) fn text(attributes: &[Attribute]) -> Option<TokenStream> {
    let expressions: Vec<&Expr> = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("doc"))
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) => Some(&pair.value),
            _ => None,
        })
        .collect();
    let literals: Option<Vec<String>> = expressions.iter().map(|expression| literal(expression)).collect();
    match literals {
        Some(lines) => {
            let text = flowing(&lines.join("\n"));
            (!text.is_empty()).then(|| quote!(#text))
        }
        // `#[doc = include_str!("..")]`: its text is not known to the macro.
        None => Some(quote!(::core::concat!(#(#expressions, "\n"),*))),
    }
}

fn literal(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// Joins lines that were only wrapped for the width of the source.
fn flowing(text: &str) -> String {
    let mut flowing = String::new();
    let mut is_code = false;
    for line in text.lines() {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        let is_fence = line.trim_start().starts_with("```");
        let continues_line = !is_code
            && !is_fence
            && !line.trim().is_empty()
            && !starts_a_line(line)
            && !flowing.is_empty()
            && !flowing.ends_with('\n')
            && !flowing.ends_with("```");
        if continues_line {
            flowing.push(' ');
        } else if !flowing.is_empty() {
            flowing.push('\n');
        }
        flowing.push_str(if continues_line { line.trim_start() } else { line });
        is_code ^= is_fence;
    }
    flowing.trim().to_owned()
}

/// Whether the line must stay separate: it begins a list item, a table row, a heading or a quote.
fn starts_a_line(line: &str) -> bool {
    let line = line.trim_start();
    let is_numbered =
        line.split_once(". ").is_some_and(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()));
    is_numbered || ["- ", "* ", "|", "#", ">"].iter().any(|mark| line.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::flowing;

    #[test]
    fn lines_flow_and_structure_stays() {
        let cases = [
            (
                " Create a document\n in a folder.\n\n Then:\n - look\n - leave",
                "Create a document in a folder.\n\nThen:\n- look\n- leave",
            ),
            (" a\n ```\n x\n   y\n ```\n b", "a\n```\nx\n  y\n```\nb"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(flowing(text), expected);
        }
    }
}
