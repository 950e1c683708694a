//! Tests of the comparison of a tool with its definition.

use serde_json::{Value, json};
use toolwire_dialect::comparison::{Comparison, compare};
use toolwire_dialect::{Dialect, Options, Toolset};

use super::*;

fn comparison(schema: &Value, dialect: Dialect) -> Comparison {
    let tool = json!({"name": "f", "inputSchema": schema}).to_string();
    compare(&tool, dialect, &Options::default()).expect("a tool").pop().expect("one tool")
}

/// Returns a tool with its comparisons and sampled arguments.
fn checked(server: Option<&str>, tool: &str, comparisons: Vec<Comparison>) -> CheckedTool {
    let bound = |dialect| Toolset::from_json(tool, dialect, &Options::default()).expect("a tool");
    let mut checked = CheckedTool { server: server.map(str::to_owned), ..CheckedTool::default() };
    for comparison in comparisons {
        let toolset = bound(comparison.report.dialect);
        checked.add(comparison, &bound(Dialect::Mcp), &toolset);
    }
    checked
}

/// Returns the rows as text: both columns, and the reasons below.
fn text(schema: &Value, dialect: Dialect) -> String {
    let html = pair(&Pair::new(&comparison(schema, dialect)), "").into_string();
    let (_, rows) = html.split_once("<div class=\"pair-row").expect("rows");
    let rows = format!("<div class=\"pair-row{rows}");
    let mut text = String::new();
    for part in rows.split_inclusive("</div></div>").flat_map(|part| part.split_inclusive("</p>")) {
        if part.contains("<p class=\"skipped") {
            continue;
        }
        let part = part.replace("<span class=\"unseen\">removed </span>", "− ");
        let part = part.replace("<span class=\"unseen\">added </span>", "+ ").replace("</code></div>", " | ");
        let part = part.replace("<div class=\"line blank\"></div>", " | ");
        let mut is_tag = false;
        let mut line = String::new();
        for character in part.chars() {
            match character {
                '<' => is_tag = true,
                '>' => is_tag = false,
                other if !is_tag => line.push(other),
                _ => {}
            }
        }
        let line = line.replace("&quot;", "\"").replace("&amp;", "&");
        if !line.trim().is_empty() {
            text.push_str(line.trim_end_matches([' ', '|']));
            text.push('\n');
        }
    }
    text
}

#[test]
fn a_rule_that_moved_has_its_reason_below() {
    let schema = json!({
        "type": "object",
        "properties": {"from": {"type": "string", "pattern": "^[A-Z]{3}$"}, "to": {"type": "string"}},
        "required": ["from"]
    });
    assert_eq!(
        text(&schema, Dialect::Gemini),
        r#"{ | {
  "type": "object", |   "type": "object",
  "properties": { |   "properties": {
    "from": { |     "from": {
      "type": "string", |       "type": "string",
!−       "pattern": "^[A-Z]{3}$" | !+       "description": "pattern: \"^[A-Z]{3}$\""
! widened /properties/from pattern: pattern "^[A-Z]{3}$" moved to the description
    }, |     },
    "to": { "type": "string" } |     "to": { "type": "string" }
  }, |   },
  "required": ["from"] |   "required": ["from"]
} | }
"#
    );
}

#[test]
fn an_exact_tool_has_no_changes() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let comparison = comparison(&schema, Dialect::Anthropic);
    let pair = Pair::new(&comparison);
    assert_eq!((pair.unexplained().len(), pair.displayed().count()), (0, 0));
    let html = super::pair(&pair, "").into_string();
    assert!(html.contains("class=\"pair-row ") && !html.contains("pair-row change"), "{html}");
    assert!(!html.contains("class=\"reason"), "{html}");
}

#[test]
fn a_refused_tool_has_the_reason_at_its_place() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"$ref": "#/$defs/Missing"}}
    });
    let html = pair(&Pair::new(&comparison(&schema, Dialect::OpenAi)), "").into_string();
    let (before, after) = html.split_once("class=\"reason refused\"").expect("a reason");
    assert!(before.ends_with("</code></div><div class=\"line blank\"></div></div><p "), "{before}");
    assert!(before.rfind("$defs/Missing") > before.rfind("&quot;a&quot;"), "{before}");
    assert!(after.contains("which does not exist"));
}

#[test]
fn a_renamed_property_is_on_one_row() {
    let schema = json!({"type": "object", "properties": {"a b": {"type": "object", "properties": {
        "c": {"type": "string", "description": "A description that is long enough for several lines."}
    }}}});
    let text = text(&schema, Dialect::Anthropic);
    assert!(text.contains("−     \"a b\": {") && text.contains("+     \"a_b\": {"), "{text}");
    assert!(text.contains("\"c\": {"), "{text}");
}

#[test]
fn two_definitions_are_compared_with_the_reasons_of_both_reports() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "pattern": "^a"},
        "b": {"type": "integer", "default": 1}
    }});
    let (gemini, strict) = (comparison(&schema, Dialect::Gemini), comparison(&schema, Dialect::OpenAiStrict));
    let pair = Pair::between(&gemini, Some(&strict), Some(&gemini));
    assert_eq!(pair.unexplained(), Vec::<String>::new());
    let displayed: Vec<(&str, &str)> =
        pair.displayed().map(|change| (change.pointer.as_str(), change.keyword.as_str())).collect();
    // Both drop the default, so it is not a difference.
    for expected in
        [("/properties/a", "pattern"), ("/properties/b", "required"), ("/properties/b", "default")]
    {
        assert_eq!(displayed.iter().filter(|entry| **entry == expected).count(), 1, "{displayed:?}");
    }
    let html = super::pair(&pair, "").into_string();
    assert!(html.contains("1 change</summary>") || html.contains(" in both</summary>"), "{html}");
}

#[test]
fn the_sides_can_be_swapped() {
    let schema = json!({"type": "object", "properties": {"a b": {"type": "string"}}});
    let anthropic = comparison(&schema, Dialect::Anthropic);
    let swapped = super::pair(&Pair::between(&anthropic, Some(&anthropic), None), "").into_string();
    let (removed, added) = swapped.split_once("added ").expect("a line on the right");
    assert!(removed.contains("&quot;a_b&quot;") && !removed.contains("&quot;a b&quot;"), "{swapped}");
    assert!(added.contains("&quot;a b&quot;"), "{swapped}");
}

fn bound(schema: &Value, dialect: Dialect) -> Toolset {
    let tool = json!({"name": "f", "inputSchema": schema}).to_string();
    Toolset::from_json(&tool, dialect, &Options::default()).expect("a tool")
}

/// Returns both sides after arguments were typed on one: the fields and the notes.
fn typed(schema: &Value, dialect: Dialect, side: Side, text: &str) -> [String; 2] {
    let (left, right) = (bound(schema, Dialect::Mcp), bound(schema, dialect));
    let route = Route { tool: "f", left: &left, right: &right };
    let exchange = Exchange::typed(route, side, text).expect("a definition on both sides");
    let target = ArgumentsTarget { id: "", listed: Some("f"), pasted: None };
    [Side::Left, Side::Right].map(|side| arguments_form(&exchange, side, target).into_string())
}

#[test]
fn arguments_are_converted_in_both_directions() {
    let schema = json!({"type": "object", "properties": {"a b": {"type": "integer"}}, "required": ["a b"]});
    let [left, right] = typed(&schema, Dialect::Anthropic, Side::Left, r#"{"a b": 1}"#);
    assert!(left.contains("fits the tool") && right.contains("&quot;a_b&quot;: 1"), "{left}{right}");
    let [left, right] = typed(&schema, Dialect::Anthropic, Side::Right, r#"{"a_b": "1"}"#);
    assert!(left.contains("&quot;a b&quot;: 1") && right.contains("1 repair"), "{left}{right}");
    assert!(
        right.contains("line marked rewritten") && right.contains("a string instead of an integer"),
        "{right}"
    );
    let [left, right] = typed(&schema, Dialect::Anthropic, Side::Right, r#"{"a_b": "x", "c": 2}"#);
    assert!(!left.contains("a b"), "nothing is converted: {left}");
    assert!(
        right.contains("line marked refused") && right.contains("&quot;a_b&quot;: &quot;x&quot;"),
        "{right}"
    );
    let [left, _] = typed(&schema, Dialect::Anthropic, Side::Left, "{\n  \"a\"");
    assert!(left.contains("not valid JSON") && left.contains("line 2 column"), "{left}");
}

#[test]
fn sampled_arguments_fit_the_tool() {
    let schema = json!({"type": "object", "properties": {
        "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "day": {"type": "string", "format": "date"},
        "count": {"type": "integer", "minimum": 7, "multipleOf": 5},
        "kind": {"enum": ["x", "y"]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}, "minItems": 2},
        "any": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        "impossible": {"type": "string", "pattern": "^[0-9]{4}-no-sample$"}
    }, "required": ["code", "day", "count", "kind", "tags"], "$defs": {"Tag": {"type": "string", "minLength": 6}}});
    let mcp = bound(&schema, Dialect::Mcp);
    let sampled = sample::sample(&schema, &mcp, "f");
    assert!(mcp.encode("f", &sampled).is_ok(), "{sampled}");
    let expected = json!({"code": "ABC", "day": "2026-01-31", "count": 10, "kind": "x", "tags": ["textxx", "textxx"], "any": "text"});
    assert_eq!(sampled, expected);
}

#[test]
fn hostile_texts_are_escaped() {
    let text = "</code><script>alert(1)</script>\u{202E}";
    let tool = json!({"name": text, "description": text, "inputSchema": {
        "type": "object", "properties": {text: {"type": "string", "default": text, "pattern": text}}
    }});
    for dialect in Dialect::all() {
        let comparisons = compare(&tool.to_string(), dialect, &Options::default()).expect("a tool");
        let tools = comparisons
            .into_iter()
            .map(|comparison| checked(Some(text), &tool.to_string(), vec![comparison]));
        let html = standalone(&[dialect], &tools.collect::<Vec<_>>());
        assert!(!html.contains("<script") && !html.contains('\u{202E}'), "{html}");
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;⟨U+202E⟩"));
    }
}

#[test]
fn a_file_is_the_same_each_time_and_loads_nothing() {
    let tool =
        json!({"name": "f", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}});
    let file = || {
        let dialects: Vec<Dialect> = Dialect::all().collect();
        let compared = |dialect: &Dialect| {
            compare(&tool.to_string(), *dialect, &Options::default()).expect("a tool").remove(0)
        };
        let comparisons = dialects.iter().map(compared).collect();
        standalone(&dialects, &[checked(None, &tool.to_string(), comparisons)])
    };
    let html = file();
    assert_eq!(html, file());
    for forbidden in ["src=", "http://", "https://", "url(h", "url(/", "@import", "<link", "<script", "/-/"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    assert!(html.contains("default-src &#39;none&#39;") || html.contains("default-src 'none'"));
}
