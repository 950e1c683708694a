//! The HTML of a form.

use maud::{Markup, html};
use serde_json::Value;

use super::filling::{Filling, Problem};
use super::shape::{Field, Kind, Shape};
use crate::pointer::child;
use crate::text::{UntrustedText, WithCode, shortened};

/// The maximum number of choices in a selection list. More choices are a text field with suggestions.
const MAX_OPTIONS: usize = 50;
const MAX_DESCRIPTION: usize = 500;

/// Returns the fields of a form. The caller adds the element `form`, and buttons.
///
/// `prefix` begins the ids of the elements, so that a page can have several forms.
pub fn draw(shape: &Shape, filling: &Filling, problems: &[Problem], prefix: &str) -> Markup {
    let form = Form { problems, prefix };
    html! {
        div.form {
            (form.violations(shape, filling, ""))
            (form.content(shape, filling, "", None))
        }
    }
}

struct Form<'a> {
    problems: &'a [Problem],
    prefix: &'a str,
}

impl Form<'_> {
    fn id(&self, pointer: &str) -> String {
        format!("{}{pointer}", self.prefix)
    }

    fn field(&self, field: &Field, filling: &Filling, pointer: &str) -> Markup {
        let id = self.id(pointer);
        let name = field.title.as_deref().unwrap_or(&field.key);
        let has_states = can_be_omitted(field, filling) || field.shape.is_nullable;
        let is_group = matches!(field.shape.kind, Kind::Object { .. } | Kind::List(_));
        html! {
            div.form-field data-pointer=(pointer) data-state=[has_states.then(|| state(filling))] role=[is_group.then_some("group")]
                aria-labelledby=[is_group.then(|| format!("{id}-name"))] {
                div.form-label {
                    label #{ (id) "-name" } for=(id) { bdi { (UntrustedText(&field.key)) } @if field.is_required { span title="required" { " *" } } }
                    @if !name.eq_ignore_ascii_case(&field.key) { bdi.muted { (UntrustedText(&shortened(name, 60))) } }
                    span.muted.small { (UntrustedText(&field.shape.hint)) }
                    @if has_states { (states(field, filling, pointer, &id)) }
                }
                div.form-input { (self.content(&field.shape, filling, pointer, Some(name))) }
                @if let Some(description) = &field.description {
                    p.form-help dir="auto" { (UntrustedText(&shortened(description, MAX_DESCRIPTION))) }
                }
                @if let Some(default) = &field.default {
                    p.form-help { "default " code { (UntrustedText(&default.to_string())) } }
                }
                (self.violations(&field.shape, filling, pointer))
            }
        }
    }

    /// Returns the control for a value. A field that is omitted has an empty control, so that setting it
    /// needs no request.
    fn content(&self, shape: &Shape, filling: &Filling, pointer: &str, name: Option<&str>) -> Markup {
        let empty;
        let filling = match filling {
            Filling::Omitted | Filling::Null => {
                empty = Filling::new(&Shape { is_nullable: false, ..shape.clone() }, None);
                &empty
            }
            filling => filling,
        };
        let id = self.id(pointer);
        let value_name = format!("v{pointer}");
        let is_invalid = self.is_invalid(pointer);
        match (&shape.kind, filling) {
            (Kind::Object { fields, is_open }, Filling::Object { fields: fillings, others }) => {
                let others_name = format!("o{pointer}");
                html! {
                    div.form #(id) {
                        @if fields.is_empty() && !is_open { p.muted { "takes no arguments" } }
                        @for (field, filling) in fields.iter().zip(fillings) {
                            (self.field(field, filling, &child(pointer, &field.key)))
                        }
                        @if *is_open || !others.is_empty() {
                            details.others open[!others.is_empty()] {
                                summary { "other properties" }
                                textarea.mono name=(others_name) rows="2" spellcheck="false" aria-label="Other properties, as a JSON object" placeholder="{}" { "\n" (others) }
                            }
                        }
                    }
                }
            }
            (Kind::List(item), Filling::List(items)) => html! {
                div.form-list #(id) {
                    input type="hidden" name={ "n" (pointer) } value=(items.len());
                    @for (position, filling) in items.iter().enumerate() {
                        @let at = child(pointer, &position.to_string());
                        div.form-item {
                            (self.content(item, filling, &at, Some(&format!("{} {}", name.unwrap_or("item"), position + 1))))
                            button.button.quiet name="act" value={ "remove:" (at) } formnovalidate { "Remove" span.unseen { " item " (position + 1) } }
                        }
                        (self.violations(item, filling, &at))
                    }
                    button.button.quiet name="act" value={ "add:" (pointer) } formnovalidate { "Add an item" }
                }
            },
            (Kind::Text, Filling::Text(text)) => html! {
                textarea #(id) name=(value_name) rows="1" dir="auto" aria-label=[name] aria-invalid=[is_invalid] { "\n" (text) }
            },
            (Kind::Number, Filling::Number(text)) => html! {
                input #(id) name=(value_name) inputmode="decimal" autocomplete="off" value=(text) aria-label=[name] aria-invalid=[is_invalid];
            },
            (Kind::Boolean, Filling::Boolean(value)) => html! {
                label.row { input #(id) type="checkbox" name=(value_name) value="true" checked[*value] aria-label=[name] aria-invalid=[is_invalid]; "true" }
            },
            (Kind::Choice(choices), Filling::Choice(chosen)) if choices.len() <= MAX_OPTIONS => html! {
                select #(id) name=(value_name) aria-label=[name] aria-invalid=[is_invalid] {
                    @for (position, choice) in choices.iter().enumerate() {
                        @let title = shape.titles.get(position).filter(|title| !title.is_empty());
                        option value=(position) selected[position == *chosen] { (UntrustedText(&title.cloned().unwrap_or_else(|| choice_text(choice)))) }
                    }
                }
            },
            (Kind::Choice(choices), Filling::Choice(chosen)) => {
                let list = format!("{id}-list");
                let text = choices.get(*chosen).map(Value::to_string).unwrap_or_default();
                html! {
                    input.mono #(id) name={ "j" (pointer) } list=(list) value=(text) autocomplete="off" aria-label=[name] aria-invalid=[is_invalid];
                    datalist #(list) { @for choice in choices { option value=(choice.to_string()) {} } }
                }
            }
            (_, filling) => {
                let text = match filling {
                    Filling::Json(text) => text.clone(),
                    other => other.value(shape).map(|value| value.to_string()).unwrap_or_default(),
                };
                html! {
                    textarea.mono #(id) name={ "j" (pointer) } rows="2" spellcheck="false" aria-label=[name.map(|name| format!("{name}, as JSON"))] aria-invalid=[is_invalid] placeholder="JSON" { "\n" (text) }
                }
            }
        }
    }

    /// Returns the problems of a value, and of the parts of it that have no field of their own.
    fn violations(&self, shape: &Shape, filling: &Filling, pointer: &str) -> Markup {
        let with_field: Vec<String> = match (&shape.kind, filling) {
            (Kind::Object { fields, .. }, Filling::Object { .. } | Filling::Omitted | Filling::Null) => {
                fields.iter().map(|field| child(pointer, &field.key)).collect()
            }
            (Kind::List(_), Filling::List(items)) => {
                (0..items.len()).map(|position| child(pointer, &position.to_string())).collect()
            }
            _ => Vec::new(),
        };
        let is_here = |problem: &&Problem| {
            is_within(&problem.pointer, pointer)
                && !with_field.iter().any(|field| is_within(&problem.pointer, field))
        };
        html! {
            @for problem in self.problems.iter().filter(is_here) {
                p.violation dir="auto" {
                    @if problem.pointer != pointer {
                        code { (UntrustedText(problem.pointer.strip_prefix(pointer).unwrap_or_default())) } " "
                    }
                    (WithCode(&problem.message))
                }
            }
        }
    }

    /// Whether a value without parts is wrong.
    fn is_invalid(&self, pointer: &str) -> Option<&'static str> {
        self.problems.iter().any(|problem| is_within(&problem.pointer, pointer)).then_some("true")
    }
}

/// Whether a pointer is that of a value or of a part of it.
fn is_within(pointer: &str, of: &str) -> bool {
    pointer.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the choice between a value, no value and `null`.
fn states(field: &Field, filling: &Filling, pointer: &str, id: &str) -> Markup {
    let states = [
        ("left-out", "left out", can_be_omitted(field, filling)),
        ("set", "set", true),
        ("null", "null", field.shape.is_nullable),
    ];
    html! {
        fieldset.states {
            legend.unseen { "State of " (UntrustedText(&field.key)) }
            @for (value, text, _) in states.into_iter().filter(|(_, _, is_possible)| *is_possible) {
                label for={ (id) "-" (value) } {
                    input #{ (id) "-" (value) } type="radio" name={ "s" (pointer) } value=(value) checked[value == state(filling)];
                    span { (text) }
                }
            }
        }
    }
}

/// Whether the form offers to leave a property out. A required one may be left out only if it already is.
fn can_be_omitted(field: &Field, filling: &Filling) -> bool {
    !field.is_required || *filling == Filling::Omitted
}

/// Returns the name of the state of a field.
fn state(filling: &Filling) -> &'static str {
    match filling {
        Filling::Omitted => "left-out",
        Filling::Null => "null",
        _ => "set",
    }
}

fn choice_text(choice: &Value) -> String {
    match choice {
        // Quotes distinguish the text `1` from the number.
        Value::String(text) if text.is_empty() || serde_json::from_str::<Value>(text).is_ok() => {
            choice.to_string()
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
