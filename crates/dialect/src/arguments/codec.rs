//! One tool's arguments, from a model and to a model.

use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::{Map, Value};

use super::apply::World;
use super::plan::Plan;
use super::repair::{Repair, repair};
use super::verdict::{Judge, TooMuch, Violation};
use crate::Dialect;

/// A model's arguments, as MCP's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decoded {
    /// The tool's own name.
    pub name: String,
    pub arguments: Map<String, Value>,
    /// What was mended on the way, if anything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
}

/// MCP arguments, as a model of the dialect would have written them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Encoded {
    /// The name the model sees.
    pub name: String,
    pub arguments: Map<String, Value>,
}

/// Arguments that cannot be turned into a call.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ArgumentError {
    #[error("no tool is named `{name}`")]
    UnknownTool { name: String, nearest: Vec<String> },
    #[error("the arguments cannot be read as JSON: {message}")]
    NotJson { message: String },
    #[error("the arguments must be an object, not {found}")]
    NotAnObject { found: String },
    #[error("the arguments do not fit the tool `{tool}`")]
    Invalid {
        tool: String,
        violations: Vec<Violation>,
        /// The arguments as far as they could be turned back.
        arguments: Map<String, Value>,
    },
    /// Only for schemas whose references multiply.
    #[error(
        "the arguments of the tool `{tool}` cannot be checked: its schema refers to itself so often that it would take \
         too long"
    )]
    TooComplex { tool: String },
}

impl ArgumentError {
    /// What is wrong, every violation included, in one sentence that a model can act on.
    pub fn in_words(&self) -> String {
        let mut message = self.to_string();
        match self {
            ArgumentError::UnknownTool { nearest, .. } if !nearest.is_empty() => {
                let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
                message.push_str(&format!("; did you mean {}?", names.join(" or ")));
            }
            ArgumentError::Invalid { violations, .. } => {
                for (index, violation) in violations.iter().enumerate() {
                    message.push_str(if index == 0 { ": " } else { "; " });
                    message.push_str(&violation.to_string());
                }
            }
            _ => {}
        }
        message
    }

    /// A word for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            ArgumentError::UnknownTool { .. } => "unknown_tool",
            ArgumentError::NotJson { .. } => "not_json",
            ArgumentError::NotAnObject { .. } => "not_an_object",
            ArgumentError::Invalid { .. } => "invalid_arguments",
            ArgumentError::TooComplex { .. } => "too_complex",
        }
    }
}

/// What is needed to turn one tool's arguments, kept from when its schema was converted.
#[derive(Debug)]
pub(crate) struct Codec {
    pub(crate) dialect: Dialect,
    pub(crate) plan: Plan,
    pub(crate) shared: Vec<Plan>,
    /// The definition's schema.
    pub(crate) wire: Arc<Value>,
    /// The tool's own schema as it was sent.
    pub(crate) own: Arc<Value>,
    /// The same, mended, for when it is no schema as it was sent.
    pub(crate) mended: Arc<Value>,
    /// Whether a model is asked for another shape somewhere.
    reshapes: bool,
    own_judge: OnceLock<Option<Judge>>,
    wire_judge: OnceLock<Option<Judge>>,
}

impl Codec {
    pub(crate) fn new(
        dialect: Dialect,
        plan: Plan,
        shared: Vec<Plan>,
        wire: Arc<Value>,
        own: Arc<Value>,
        mended: Arc<Value>,
    ) -> Codec {
        let (own_judge, wire_judge) = (OnceLock::new(), OnceLock::new());
        let reshapes = plan.reshapes() || shared.iter().any(Plan::reshapes);
        Codec { dialect, plan, shared, wire, own, mended, reshapes, own_judge, wire_judge }
    }

    fn world(&self) -> World<'_> {
        let (tries, patience, clash, repeated) = Default::default();
        World { shared: &self.shared, wire: &self.wire, own: &self.mended, tries, patience, clash, repeated }
    }

    fn own_judge(&self) -> Option<&Judge> {
        self.own_judge.get_or_init(|| Judge::of(&self.own).or_else(|| Judge::of(&self.mended))).as_ref()
    }

    fn wire_judge(&self) -> Option<&Judge> {
        // OpenAPI's spelling is none that a validator knows.
        let openapi = self.dialect == Dialect::GeminiOpenApi;
        self.wire_judge.get_or_init(|| if openapi { None } else { Judge::of(&self.wire) }).as_ref()
    }

    /// From what a model sent to the tool's own.
    pub(crate) fn decode(&self, tool: &str, sent: &Value) -> Result<Decoded, ArgumentError> {
        let mut repairs = Vec::new();
        let mut value = Value::Object(parse(sent, &mut repairs)?);
        let too_complex = |_: TooMuch| ArgumentError::TooComplex { tool: tool.to_owned() };
        let caseless = self.dialect == Dialect::AnthropicStrict;
        // Kept where the model was asked for another shape than the tool's, to tell it what is wrong in its own.
        let mut sent_whole = None;
        if !self.plan.is_same() {
            // What arrives in another type than the definition says must be mended before it can be turned back.
            if let Some(judge) = self.wire_judge()
                && !judge.accepts(&value).map_err(too_complex)?
            {
                repair(&mut value, judge, caseless, &mut repairs);
            }
            if self.reshapes {
                sent_whole = Some(value.clone());
            }
            let world = self.world();
            value = world.decode(&self.plan, value);
            if let Some(key) = world.repeated.take() {
                let detail = format!("the key `{key}` came twice among the entries: the last one counts");
                repairs.push(Repair { pointer: String::new(), detail });
            }
        }
        let Some(judge) = self.own_judge() else { return Ok(decoded(tool, value, repairs)) };
        let mut violations = settle(judge, tool, &mut value, caseless, &mut repairs)?;
        if violations.is_empty() {
            return Ok(decoded(tool, value, repairs));
        }
        let in_its_own_shape = sent_whole
            .zip(self.wire_judge())
            .and_then(|(sent, judge)| judge.violations(&sent).ok())
            .filter(|violations| !violations.is_empty());
        match in_its_own_shape {
            Some(found) => violations = found,
            None => {
                for violation in &mut violations {
                    self.plan.to_wire(&self.shared, violation);
                }
            }
        }
        Err(ArgumentError::Invalid { tool: tool.to_owned(), violations, arguments: into_map(value) })
    }

    /// From the tool's own to what a model would have sent.
    pub(crate) fn encode(&self, tool: &str, arguments: &Value) -> Result<Map<String, Value>, ArgumentError> {
        let mut repairs = Vec::new();
        let value = Value::Object(parse(arguments, &mut repairs)?);
        if let Some(judge) = self.own_judge() {
            let violations = judge
                .violations(&value)
                .map_err(|_: TooMuch| ArgumentError::TooComplex { tool: tool.to_owned() })?;
            if !violations.is_empty() {
                let arguments = into_map(value);
                return Err(ArgumentError::Invalid { tool: tool.to_owned(), violations, arguments });
            }
        }
        let world = self.world();
        let encoded = world.encode(&self.plan, value);
        if let Some(key) = world.clash.take() {
            let expected = format!("no key `{key}`, since another key is called so in this dialect");
            let violation = Violation { pointer: String::new(), expected, found: format!("the key `{key}`") };
            let (tool, arguments) = (tool.to_owned(), into_map(encoded));
            return Err(ArgumentError::Invalid { tool, violations: vec![violation], arguments });
        }
        Ok(into_map(encoded))
    }
}

/// Checks and repairs arguments in MCP's own form: for whoever calls a tool without a model's dialect in between.
#[derive(Debug)]
pub struct Checker {
    judge: Option<Judge>,
}

impl Checker {
    /// For a tool's `inputSchema`. One that no validator can be made of checks nothing but that arguments are an object.
    pub fn new(input_schema: &Value) -> Checker {
        Checker { judge: Judge::of(input_schema) }
    }

    /// The arguments as the tool takes them: an object, JSON text of one, or nothing.
    pub fn check(&self, tool: &str, sent: &Value) -> Result<Decoded, ArgumentError> {
        let mut repairs = Vec::new();
        let mut value = Value::Object(parse(sent, &mut repairs)?);
        let Some(judge) = &self.judge else { return Ok(decoded(tool, value, repairs)) };
        let violations = settle(judge, tool, &mut value, false, &mut repairs)?;
        if violations.is_empty() {
            return Ok(decoded(tool, value, repairs));
        }
        Err(ArgumentError::Invalid { tool: tool.to_owned(), violations, arguments: into_map(value) })
    }
}

/// What is wrong with a value after all that can be mended is.
fn settle(
    judge: &Judge,
    tool: &str,
    value: &mut Value,
    caseless: bool,
    repairs: &mut Vec<Repair>,
) -> Result<Vec<Violation>, ArgumentError> {
    let too_complex = |_: TooMuch| ArgumentError::TooComplex { tool: tool.to_owned() };
    if judge.accepts(value).map_err(too_complex)? {
        return Ok(Vec::new());
    }
    repair(value, judge, caseless, repairs);
    judge.violations(value).map_err(too_complex)
}

fn decoded(tool: &str, value: Value, repairs: Vec<Repair>) -> Decoded {
    Decoded { name: tool.to_owned(), arguments: into_map(value), repairs }
}

fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Arguments as an object, whether they came as one, as its JSON text, or as nothing.
fn parse(sent: &Value, repairs: &mut Vec<Repair>) -> Result<Map<String, Value>, ArgumentError> {
    let mut note = |detail: &str| repairs.push(Repair { pointer: String::new(), detail: detail.to_owned() });
    let text = match sent {
        Value::Object(map) => return Ok(map.clone()),
        Value::Null => {
            note("null where an object is due: no arguments");
            return Ok(Map::new());
        }
        Value::String(text) => text,
        other => return Err(not_an_object(other)),
    };
    if text.trim().is_empty() {
        note("empty text where an object is due: no arguments");
        return Ok(Map::new());
    }
    match from_text(text)? {
        Value::Object(map) => Ok(map),
        Value::Null => {
            note("null where an object is due: no arguments");
            Ok(Map::new())
        }
        Value::String(inner) => match serde_json::from_str(&inner) {
            Ok(Value::Object(map)) => {
                note("arguments encoded twice: read once more");
                Ok(map)
            }
            _ => Err(not_an_object(&Value::String(inner))),
        },
        other => Err(not_an_object(&other)),
    }
}

fn from_text(text: &str) -> Result<Value, ArgumentError> {
    serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let message = match message.strip_prefix("recursion limit exceeded") {
            Some(place) => format!("they are nested more than 127 levels deep{place}"),
            None => message,
        };
        ArgumentError::NotJson { message }
    })
}

fn not_an_object(value: &Value) -> ArgumentError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    ArgumentError::NotAnObject { found: found.to_owned() }
}
