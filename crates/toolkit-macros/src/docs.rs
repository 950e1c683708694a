//! Doc comments, as a model reads them.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// The text of the doc comments, if there is any; an expression of type `&'static str`.
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
        // `#[doc = include_str!("..")]`: what it says is known only later.
        None => Some(quote!(::core::concat!(#(#expressions, "\n"),*))),
    }
}

fn literal(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// The text without the line breaks that only the width of the source asked for.
fn flowing(text: &str) -> String {
    let mut flowing = String::new();
    let mut is_code = false;
    for line in text.lines() {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        let is_fence = line.trim_start().starts_with("```");
        let goes_on = !is_code
            && !is_fence
            && !line.trim().is_empty()
            && !starts_a_line(line)
            && !flowing.is_empty()
            && !flowing.ends_with('\n')
            && !flowing.ends_with("```");
        if goes_on {
            flowing.push(' ');
        } else if !flowing.is_empty() {
            flowing.push('\n');
        }
        flowing.push_str(if goes_on { line.trim_start() } else { line });
        is_code ^= is_fence;
    }
    flowing.trim().to_owned()
}

/// Lists, tables and headings keep their lines.
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
