//! Arguments on both sides of a comparison: typed on one, converted for the other.

use maud::{Markup, html};
use serde_json::{Map, Value};
use toolwire_contract::text::counted;
use toolwire_dialect::arguments::{ArgumentError, Repair};
use toolwire_dialect::{Dialect, Status, Toolset};

use super::align::{Line, spread};
use super::pair::line;
use super::sample::sample;
use super::{glyph, symbol};
use crate::text::{UntrustedText, WithCode};

/// A side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Side::Left => "left",
            Side::Right => "right",
        }
    }

    pub fn from_name(name: &str) -> Option<Side> {
        [Side::Left, Side::Right].into_iter().find(|side| side.name() == name)
    }
}

/// The definitions of a tool on both sides, between which arguments are converted.
#[derive(Clone, Copy)]
pub struct Route<'a> {
    pub tool: &'a str,
    pub left: &'a Toolset,
    pub right: &'a Toolset,
}

/// Arguments of a tool, as both sides have them.
#[derive(Clone, Debug)]
pub struct Exchange {
    left: Arguments,
    right: Arguments,
}

/// Arguments on one side.
#[derive(Clone, Debug, Default)]
struct Arguments {
    dialect: Option<Dialect>,
    text: String,
    /// The value at whose places the notes are displayed: the typed arguments, or the part of them that could
    /// be read.
    value: Value,
    /// `None` if these arguments were converted from those of the other side.
    outcome: Option<ConversionOutcome>,
}

/// The result of converting typed arguments.
#[derive(Clone, Debug)]
struct ConversionOutcome {
    status: Status,
    message: String,
    notes: Vec<Note>,
}

/// A repair or a violation, at its place in the arguments.
#[derive(Clone, Debug)]
struct Note {
    pointer: String,
    status: Status,
    text: String,
}

impl Exchange {
    /// Converts arguments that were typed on one side. `None` if a side has no definition of the tool.
    pub fn typed(route: Route<'_>, side: Side, text: &str) -> Option<Exchange> {
        let (from, to) = match side {
            Side::Left => (route.left, route.right),
            Side::Right => (route.right, route.left),
        };
        let (typed, converted) = convert(from, to, route.tool, text)?;
        let (left, right) = match side {
            Side::Left => (typed, converted),
            Side::Right => (converted, typed),
        };
        Some(Exchange { left, right })
    }

    /// Converts sampled arguments of the tool: to the right side, and back again. `mcp` has the tool in MCP's
    /// own format.
    pub fn sampled(route: Route<'_>, mcp: &Toolset, schema: &Value) -> Option<Exchange> {
        let sampled = sample(schema, mcp, route.tool);
        let Ok(encoded) = route.left.encode(route.tool, &sampled) else {
            // The sampled arguments do not fit the tool; the notes contain the reason.
            return Exchange::typed(route, Side::Left, &pretty(&sampled));
        };
        let exchange = Exchange::typed(route, Side::Left, &pretty(&Value::Object(encoded.arguments)))?;
        let back = convert(route.right, route.left, route.tool, &exchange.right.text);
        let returned = back.map(|(typed, decoded)| (typed.outcome, decoded.value));
        let outcome = match returned {
            Some((Some(outcome), decoded))
                if outcome.status == Status::Exact && decoded == exchange.left.value =>
            {
                Some(ConversionOutcome { message: "decoded: the same arguments".to_owned(), ..outcome })
            }
            Some((Some(outcome), decoded)) if outcome.status != Status::Refused => Some(ConversionOutcome {
                status: Status::Rewritten,
                message: format!("decoded: {decoded}"),
                notes: outcome.notes,
            }),
            Some((outcome, _)) => outcome,
            None => None,
        };
        Some(Exchange { right: Arguments { outcome, ..exchange.right }, ..exchange })
    }

    fn side(&self, side: Side) -> &Arguments {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }
}

/// Returns the arguments as they were typed, and as the other side has them.
fn convert(from: &Toolset, to: &Toolset, tool: &str, text: &str) -> Option<(Arguments, Arguments)> {
    let name = from.wire_name(tool)?;
    to.wire_name(tool)?;
    let decoded = from.decode(name, &Value::from(text));
    let other = Arguments { dialect: Some(to.dialect()), ..Arguments::default() };
    let (outcome, read, other) = match decoded {
        Err(error) => {
            let read = read_by(&error);
            (failed(&error), read, other)
        }
        Ok(decoded) => {
            let read = decoded.arguments.clone();
            match to.encode(tool, &Value::Object(decoded.arguments)) {
                Err(error) => (failed(&error), read, other),
                Ok(encoded) => {
                    let value = Value::Object(encoded.arguments);
                    (fits(&decoded.repairs), read, Arguments { text: pretty(&value), value, ..other })
                }
            }
        }
    };
    let value = serde_json::from_str(text).unwrap_or(Value::Object(read));
    let typed =
        Arguments { dialect: Some(from.dialect()), text: text.to_owned(), value, outcome: Some(outcome) };
    Some((typed, other))
}

fn read_by(error: &ArgumentError) -> Map<String, Value> {
    match error {
        ArgumentError::Invalid { arguments, .. } => arguments.clone(),
        _ => Map::new(),
    }
}

fn fits(repairs: &[Repair]) -> ConversionOutcome {
    let note = |repair: &Repair| Note {
        pointer: repair.pointer.clone(),
        status: Status::Rewritten,
        text: repair.kind.to_string(),
    };
    let (status, message) = match repairs.len() {
        0 => (Status::Exact, "fits the tool".to_owned()),
        count => (Status::Rewritten, format!("fits the tool after {}", counted(count, "repair"))),
    };
    ConversionOutcome { status, message, notes: repairs.iter().map(note).collect() }
}

fn failed(error: &ArgumentError) -> ConversionOutcome {
    let ArgumentError::Invalid { violations, .. } = error else {
        return ConversionOutcome { status: Status::Refused, message: error.problem(), notes: Vec::new() };
    };
    let note = |violation: &toolwire_dialect::arguments::Violation| Note {
        pointer: violation.pointer.clone(),
        status: Status::Refused,
        text: violation.message(),
    };
    let message = format!("does not fit the tool: {}", counted(violations.len(), "violation"));
    ConversionOutcome { status: Status::Refused, message, notes: violations.iter().map(note).collect() }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// The tool that a form with arguments is for, and the ids of the form.
#[derive(Clone, Copy)]
pub struct ArgumentsTarget<'a> {
    /// The prefix of the ids of elements.
    pub id: &'a str,
    /// The name of the tool, if a server lists it.
    pub listed: Option<&'a str>,
    /// The tool as JSON, if it was pasted.
    pub pasted: Option<&'a str>,
}

/// Renders the arguments of both sides with fields to type in.
pub fn both_ways(exchange: &Exchange, target: ArgumentsTarget<'_>) -> Markup {
    html! {
        section.both-ways aria-label="Arguments" {
            (arguments_form(exchange, Side::Left, target))
            (arguments_form(exchange, Side::Right, target))
        }
    }
}

/// Returns the id of the form of a side, and that of the notes inside.
pub fn ids(id: &str, side: Side) -> (String, String) {
    (format!("{id}arguments-{}", side.name()), format!("{id}notes-{}", side.name()))
}

/// Renders the form of a side.
pub fn arguments_form(exchange: &Exchange, side: Side, target: ArgumentsTarget<'_>) -> Markup {
    let arguments = exchange.side(side);
    let (form_id, _) = ids(target.id, side);
    let action = match target.listed {
        Some(tool) => crate::link::Link::to(&["-", "dialects", tool, "arguments"]),
        None => crate::link::Link::to(&["-", "dialects", "arguments"]),
    };
    let (button, dialects) = match side {
        Side::Left => ("Encode →", [arguments.dialect, exchange.right.dialect]),
        Side::Right => ("← Decode", [exchange.left.dialect, arguments.dialect]),
    };
    let [from, to] = dialects.map(|dialect| dialect.map_or("", Dialect::name));
    html! {
        form #(form_id) method="post" action=(action) data-live="input" {
            @for (name, value) in [("side", side.name()), ("from", from), ("to", to), ("id", target.id)] {
                input type="hidden" name=(name) value=(value);
            }
            @if let Some(tool) = target.pasted { input type="hidden" name="tool" value=(tool); }
            label.field {
                span { (heading(arguments)) }
                textarea name="arguments" rows="3" spellcheck="false" autocomplete="off" data-fresh { "\n" (arguments.text) }
            }
            div.row { button.button.primary { (button) " " kbd { "Ctrl Enter" } } }
            (notes(exchange, side, target.id))
        }
    }
}

/// Renders the result of converting the arguments of a side.
pub fn notes(exchange: &Exchange, side: Side, id: &str) -> Markup {
    let (_, id) = ids(id, side);
    html! { div.notes #(id) { @if let Some(outcome) = &exchange.side(side).outcome { (outcome_of(outcome, &exchange.side(side).value)) } } }
}

/// Renders the arguments without fields.
pub(super) fn shown(exchange: &Exchange) -> Markup {
    html! {
        section.both-ways aria-label="Sampled arguments" {
            @for arguments in [&exchange.left, &exchange.right] {
                div {
                    h3 { (heading(arguments)) span.muted { " (sampled)" } }
                    @if !arguments.text.is_empty() { pre.json tabindex="0" { (UntrustedText(&arguments.text)) } }
                    @if let Some(outcome) = &arguments.outcome { div.notes { (outcome_of(outcome, &arguments.value)) } }
                }
            }
        }
    }
}

fn heading(arguments: &Arguments) -> Markup {
    html! {
        @match arguments.dialect {
            Some(Dialect::Mcp) | None => "Arguments of the tool",
            Some(dialect) => { "What a model sends in " (dialect.name()) }
        }
    }
}

/// Renders the message, and the arguments with each note at its place.
fn outcome_of(outcome: &ConversionOutcome, value: &Value) -> Markup {
    html! {
        p { (glyph(outcome.status)) " " (WithCode(&outcome.message)) }
        @if !outcome.notes.is_empty() {
            @let lines = spread(value);
            @let places: Vec<usize> = outcome.notes.iter().map(|note| place(&lines, &note.pointer)).collect();
            div.noted {
                @for (index, shown) in lines.iter().enumerate() {
                    @let here = outcome.notes.iter().zip(&places).filter(|(_, place)| **place == index);
                    @let marked = here.clone().next().map(|(note, _)| note.status);
                    @match marked {
                        Some(status) => div class={ "line marked " (status.name()) } { (glyph(status)) (code(shown)) },
                        None => (line(Some(shown), "", Status::Exact)),
                    }
                    @for (note, _) in here {
                        p class={ "reason " (note.status.name()) } dir="auto" {
                            b { (symbol(note.status)) " " @if note.pointer.is_empty() { "arguments" } @else { (UntrustedText(&note.pointer)) } } " " (WithCode(&note.text))
                        }
                    }
                }
            }
        }
    }
}

fn code(line: &Line) -> Markup {
    html! { code { ("  ".repeat(line.depth.min(40))) (UntrustedText(&line.text)) } }
}

/// Returns the line of the value at `pointer`, or of the nearest one that contains it.
fn place(lines: &[Line], mut pointer: &str) -> usize {
    loop {
        if let Some(found) = lines.iter().position(|line| line.pointer == pointer) {
            return found;
        }
        let Some((parent, _)) = pointer.rsplit_once('/') else { return 0 };
        pointer = parent;
    }
}
