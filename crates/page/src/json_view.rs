//! JSON values for people: tables and trees.

use maud::{Markup, html};
use serde_json::{Map, Value};
use toolwire_contract::text::counted;

use crate::text::UntrustedText;

/// The limits of what is drawn; the rest is counted.
const MAX_ROWS: usize = 200;
const MAX_COLUMNS: usize = 16;
const MAX_DEPTH: usize = 12;

/// Returns a value as a table where it has rows, else as a tree.
pub fn draw(value: &Value) -> Markup {
    draw_at(value, 0)
}

fn draw_at(value: &Value, depth: usize) -> Markup {
    match value {
        Value::Object(object) if object.is_empty() => html! { code { "{}" } },
        Value::Array(items) if items.is_empty() => html! { code { "[]" } },
        value if depth >= MAX_DEPTH => html! { code { (UntrustedText(&value.to_string())) } },
        Value::Object(object) => properties(object, depth),
        Value::Array(items) => match columns(items) {
            Some(columns) => rows(items, &columns, depth),
            None => list(items, depth),
        },
        value => scalar(value),
    }
}

fn scalar(value: &Value) -> Markup {
    match value {
        Value::String(text) => html! { span.plain dir="auto" { (UntrustedText(text)) } },
        value => html! { span.num { (value.to_string()) } },
    }
}

fn properties(object: &Map<String, Value>, depth: usize) -> Markup {
    html! {
        div.table-wrap tabindex="0" role="group" aria-label="Properties" {
            table.properties {
                @for (key, value) in object.iter().take(MAX_ROWS) {
                    tr { th scope="row" { bdi { (UntrustedText(key)) } } td { (draw_at(value, depth + 1)) } }
                }
            }
            (rest(object.len(), "property"))
        }
    }
}

fn list(items: &[Value], depth: usize) -> Markup {
    html! {
        ol.values start="0" { @for item in items.iter().take(MAX_ROWS) { li { (draw_at(item, depth + 1)) } } }
        (rest(items.len(), "item"))
    }
}

fn rows(items: &[Value], columns: &[&String], depth: usize) -> Markup {
    html! {
        div.table-wrap tabindex="0" role="group" aria-label="Rows" {
            table {
                thead { tr { @for column in columns { th scope="col" { bdi { (UntrustedText(column)) } } } } }
                tbody {
                    @for item in items.iter().take(MAX_ROWS) {
                        tr { @for column in columns { td { @if let Some(value) = item.get(column) { (draw_at(value, depth + 2)) } } } }
                    }
                }
            }
            (rest(items.len(), "row"))
        }
    }
}

fn rest(count: usize, noun: &str) -> Markup {
    let hidden = count.saturating_sub(MAX_ROWS);
    html! { @if hidden > 0 { p.muted { (counted(hidden, &format!("more {noun}"))) } } }
}

/// Returns the columns of a list of objects that are similar enough for a table.
fn columns(items: &[Value]) -> Option<Vec<&String>> {
    let mut columns: Vec<&String> = Vec::new();
    for item in items.iter().take(MAX_ROWS) {
        for key in item.as_object()?.keys() {
            if !columns.contains(&key) {
                columns.push(key);
            }
        }
        if columns.len() > MAX_COLUMNS {
            return None;
        }
    }
    (items.len() > 1 && !columns.is_empty()).then_some(columns)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn similar_objects_are_a_table() {
        let html = draw(&json!([{"a": 1, "b": "x"}, {"a": 2, "c": {"d": null}}])).into_string();
        assert_eq!(html.matches("scope=\"col\"").count(), 3, "{html}");
        assert!(html.contains("<bdi>d</bdi>") && html.contains("null"), "{html}");
    }

    #[test]
    fn large_and_deep_values_are_cut() {
        let deep = (0..500).fold(json!(1), |value, _| json!([value]));
        assert!(draw(&deep).into_string().len() < 10_000);
        let many = Value::from((0..1_000).collect::<Vec<_>>());
        assert!(draw(&many).into_string().contains("800 more items"));
    }

    #[test]
    fn texts_are_escaped() {
        let html = draw(&json!({"<b>": "<img src=x onerror=alert(1)>"})).into_string();
        assert!(!html.contains("<b>") && !html.contains("<img"), "{html}");
    }
}
