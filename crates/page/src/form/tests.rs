use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "A text"},
            "count": {"type": "integer", "default": 3},
            "ratio": {"type": ["number", "null"]},
            "on": {"type": "boolean"},
            "unit": {"enum": ["celsius", "fahrenheit", 1, "1", null]},
            "a/b~c": {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]},
            "points": {"type": "array", "items": {"$ref": "#/$defs/point"}},
            "any": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        },
        "required": ["text"],
        "$defs": {"point": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
            "required": ["x"],
            "additionalProperties": false,
        }},
    })
}

/// Returns the names and values that a browser sends for a form.
fn submitted(html: &str) -> Vec<(String, String)> {
    let document = scraper::Html::parse_fragment(html);
    let selector = scraper::Selector::parse("input, textarea, select").expect("a selector");
    let mut fields = Vec::new();
    for element in document.select(&selector) {
        let Some(name) = element.attr("name") else { continue };
        let value = match element.value().name() {
            "textarea" => {
                let text: String = element.text().collect();
                text.replace('\n', "\r\n")
            }
            "select" => {
                let option = scraper::Selector::parse("option[selected]").expect("a selector");
                let option = element.select(&option).next().expect("a selected option");
                option.attr("value").unwrap_or_default().to_owned()
            }
            _ => {
                let is_button = matches!(element.attr("type"), Some("radio" | "checkbox"));
                if is_button && element.attr("checked").is_none() {
                    continue;
                }
                element.attr("value").unwrap_or_default().to_owned()
            }
        };
        fields.push((name.to_owned(), value));
    }
    fields
}

fn round_trip(schema: &Value, value: &Value) -> Result<Value, Vec<Problem>> {
    let shape = Shape::of(schema);
    let filling = Filling::new(&shape, Some(value));
    let html = draw(&shape, &filling, &[], "f").into_string();
    Filling::read(&shape, &Fields::new(submitted(&html))).value(&shape)
}

#[test]
fn omitted_null_and_empty_are_different() {
    for value in [
        json!({"text": ""}),
        json!({"text": "", "ratio": null}),
        json!({"text": "a\n\tb", "ratio": 0.50}),
        json!({"text": "\n", "a/b~c": null, "unit": null}),
        json!({"text": "x", "a/b~c": {"x": 1}, "unit": "1"}),
        json!({"text": "x", "unit": 1, "on": false}),
        json!({"text": "x", "points": [], "any": 12}),
        json!({"text": "x", "points": [{"x": 1, "y": 2}, {"x": 3}], "extra": {"k": [1]}}),
        json!({"text": "\r\n"}),
        json!({}),
        json!({"text": 12, "count": "wrong", "points": "wrong", "a/b~c": {"z": 1}}),
    ] {
        assert_eq!(round_trip(&schema(), &value), Ok(value));
    }
}

#[test]
fn a_new_form_has_required_fields_and_omits_others() {
    let shape = Shape::of(&schema());
    let filling = Filling::new(&shape, None);
    assert_eq!(filling.value(&shape), Ok(json!({"text": ""})));
    let html = draw(&shape, &filling, &[], "f").into_string();
    assert_eq!(Filling::read(&shape, &Fields::new(submitted(&html))), filling);
}

#[test]
fn lists_grow_and_shrink() {
    let shape = Shape::of(&schema());
    let mut filling = Filling::new(&shape, Some(&json!({"text": "x"})));
    let add = Fields::new([("act".to_owned(), "add:/points".to_owned())]).action().expect("an action");
    filling.apply(&shape, &add);
    filling.apply(&shape, &add);
    let problems = filling.value(&shape).expect_err("numbers are missing");
    assert_eq!(problems[0].pointer, "/points/0/x");
    filling.apply(&shape, &Action::Remove("/points/0".to_owned()));
    assert_eq!(filling.value(&shape).expect_err("a number is missing").len(), 1);
    filling.apply(&shape, &Action::Remove("/points/7".to_owned()));
    filling.apply(&shape, &Action::Remove("nonsense".to_owned()));
}

#[test]
fn problems_are_drawn_at_their_fields() {
    let shape = Shape::of(&schema());
    let form = [("vtext", "x"), ("scount", "set"), ("v/count", "abc"), ("s/count", "set"), ("v/text", "x")];
    let form = Fields::new(form.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let filling = Filling::read(&shape, &form);
    let problems = filling.value(&shape).expect_err("not a number");
    assert_eq!(problems[0].pointer, "/count");
    let html = draw(&shape, &filling, &problems, "f").into_string();
    assert!(
        html.contains("<code dir=\"auto\">abc</code> is not a number") && html.contains("value=\"abc\""),
        "{html}"
    );
}

#[test]
fn problems_of_parts_without_a_field_are_drawn_at_the_nearest_one() {
    let shape = Shape::of(&schema());
    let value = json!({"text": "x", "any": {"a": [1]}, "points": [{"x": 1}], "extra": 1});
    let filling = Filling::new(&shape, Some(&value));
    let pointers =
        ["", "/extra", "/text", "/any/a/0", "/points/0/x", "/points/0/zz", "/points/7", "/a~1b~0c/x"];
    let problem =
        |pointer: &&str| Problem { pointer: (*pointer).to_owned(), message: format!("<{pointer}>") };
    let problems: Vec<Problem> = pointers.iter().map(problem).collect();
    let html = draw(&shape, &filling, &problems, "f").into_string();
    let document = scraper::Html::parse_fragment(&html);
    let selector = |text| scraper::Selector::parse(text).expect("a selector");
    let (violation, field) = (selector("p.violation"), selector("[data-pointer]"));
    let mut found: Vec<(String, String)> = document
        .select(&violation)
        .map(|violation| {
            let mut parents = violation.ancestors().filter_map(scraper::ElementRef::wrap);
            let parent = parents.find(|parent| field.matches(parent));
            let at = parent.and_then(|parent| parent.attr("data-pointer")).unwrap_or_default();
            (at.to_owned(), violation.text().collect())
        })
        .collect();
    found.sort();
    let mut expected = vec![
        ("", "/extra </extra>"),
        ("", "<>"),
        ("/a~1b~0c/x", "</a~1b~0c/x>"),
        ("/any", "/a/0 </any/a/0>"),
        ("/points", "/7 </points/7>"),
        ("/points", "/zz </points/0/zz>"),
        ("/points/0/x", "</points/0/x>"),
        ("/text", "</text>"),
    ];
    expected.sort_unstable();
    let found: Vec<(&str, &str)> = found.iter().map(|(at, text)| (at.as_str(), text.as_str())).collect();
    assert_eq!(found, expected);
    let names: Vec<_> =
        document.select(&selector("[aria-invalid=true]")).filter_map(|field| field.attr("name")).collect();
    assert_eq!(names, ["v/text", "v/a~1b~0c/x", "v/points/0/x", "j/any"]);
}

#[test]
fn hostile_schemas_have_a_small_form() {
    let mut deep = json!({"type": "string"});
    for _ in 0..200 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let wide: serde_json::Map<String, Value> =
        (0..5_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    let wide = json!({"type": "object", "properties": wide});
    let cycle = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}});
    let tree = json!({"type": "object", "properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}});
    for schema in [deep, wide, cycle, tree, json!(true), json!(null), json!({"type": 7, "properties": []})] {
        let shape = Shape::of(&schema);
        let html = draw(&shape, &Filling::new(&shape, None), &[], "f").into_string();
        assert!(html.len() < 1_000_000, "{}", html.len());
    }
}

fn arguments() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map("[xyz]|.*", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    let key = prop_oneof!["text", "count", "ratio", "on", "unit", "a/b~c", "points", "any", ".*"];
    proptest::collection::hash_map(key, value, 0..8).prop_map(|map| Value::Object(map.into_iter().collect()))
}

proptest! {
    #[test]
    fn any_arguments_remain_unchanged(value in arguments()) {
        prop_assert_eq!(round_trip(&schema(), &value), Ok(value));
    }

    #[test]
    fn any_submission_is_read(fields in proptest::collection::vec(("[svjno]?(/text|/points|/points/0|/a~1b~0c|/any)?", ".{0,20}"), 0..12)) {
        let shape = Shape::of(&schema());
        let filling = Filling::read(&shape, &Fields::new(fields));
        let _ = filling.value(&shape);
        let _ = draw(&shape, &filling, &[], "f");
    }
}
