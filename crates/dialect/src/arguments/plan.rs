//! The way between a model's arguments and the tool's own, as it was laid down when the schema was lowered.
//!
//! A plan mirrors the definition, but only where something must be done; everywhere else it is [`Plan::Same`]. It is
//! tolerant: a value of another kind than the plan expects passes as it is, for the final validation to judge.

use serde_json::Value;

use super::verdict::Violation;
use crate::json::{escape_segment, unescape_segment};

/// What to do with one value. The definition's side is called the wire.
#[derive(Clone, Debug, Default)]
pub(crate) enum Plan {
    #[default]
    Same,
    Object(Box<ObjectPlan>),
    /// Each item of an array.
    Items(Box<Plan>),
    /// Items by position, then the rest.
    Tuple {
        positions: Vec<Plan>,
        rest: Box<Plan>,
    },
    /// The first branch that fits.
    Union(Vec<Branch>),
    /// A plan that several places share, or that leads back to itself.
    Shared(usize),
    /// On the wire: JSON text of the value.
    JsonText,
    /// On the wire: a list of `{"key", "value"}` instead of a map.
    Entries(Box<Plan>),
    /// On the wire: an object with one key a position, instead of an array.
    Positions(Box<PositionsPlan>),
    /// On the wire: text instead of each of these values.
    Values(Vec<(String, Value)>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectPlan {
    pub(crate) fields: Vec<Field>,
    pub(crate) rest: Rest,
    /// A key that may be left out is written as `null` when it is not there.
    pub(crate) fill: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The key on the wire.
    pub(crate) wire: String,
    /// The tool's own key.
    pub(crate) own: String,
    pub(crate) plan: Plan,
    /// On the wire `null` stands for a key that is not there.
    pub(crate) null_is_absent: bool,
}

/// What happens to keys that no field names.
#[derive(Clone, Debug, Default)]
pub(crate) enum Rest {
    #[default]
    Same,
    Plan(Plan),
    /// On the wire they are a list of entries under one key.
    Entries {
        wire: String,
        plan: Plan,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// What the definition says, to know a value from the wire by.
    pub(crate) wire: Value,
    /// What the tool says, to know a value of its own by.
    pub(crate) own: Value,
    pub(crate) plan: Plan,
}

#[derive(Clone, Debug)]
pub(crate) struct PositionsPlan {
    pub(crate) keys: Vec<String>,
    pub(crate) plans: Vec<Plan>,
    /// Key of the list that holds what comes after the positions.
    pub(crate) rest: Option<(String, Plan)>,
}

impl Plan {
    pub(crate) const fn is_same(&self) -> bool {
        matches!(self, Plan::Same)
    }

    /// Whether the wire has another shape than the tool somewhere, not only other keys or more nulls.
    pub(crate) fn reshapes(&self) -> bool {
        match self {
            Plan::Same | Plan::Shared(_) => false,
            Plan::JsonText | Plan::Entries(_) | Plan::Positions(_) | Plan::Values(_) => true,
            Plan::Items(plan) => plan.reshapes(),
            Plan::Tuple { positions, rest } => rest.reshapes() || positions.iter().any(Plan::reshapes),
            Plan::Union(branches) => branches.iter().any(|branch| branch.plan.reshapes()),
            Plan::Object(plan) => {
                let rest = match &plan.rest {
                    Rest::Same => false,
                    Rest::Plan(plan) => plan.reshapes(),
                    Rest::Entries { .. } => true,
                };
                rest || plan.fields.iter().any(|field| field.plan.reshapes())
            }
        }
    }

    /// Says a violation in the keys of the wire: those are what a model was shown.
    pub(crate) fn to_wire(&self, shared: &[Plan], violation: &mut Violation) {
        let mut plan = self;
        let mut pointer = String::with_capacity(violation.pointer.len());
        let mut steps = violation.pointer.split('/').skip(1);
        loop {
            let mut hops = 0;
            while let Plan::Shared(index) = plan {
                hops += 1;
                plan = shared.get(*index).filter(|_| hops < 64).unwrap_or(&Plan::Same);
            }
            let Some(step) = steps.next() else { break };
            pointer.push('/');
            match plan {
                Plan::Object(object) => {
                    let own = unescape_segment(step);
                    match object.fields.iter().find(|field| field.own == own) {
                        Some(field) => {
                            escape_segment(&field.wire, &mut pointer);
                            plan = &field.plan;
                        }
                        None => {
                            pointer.push_str(step);
                            plan = &Plan::Same;
                        }
                    }
                }
                Plan::Items(items) => {
                    pointer.push_str(step);
                    plan = items;
                }
                _ => {
                    pointer.push_str(step);
                    plan = &Plan::Same;
                }
            }
        }
        violation.pointer = pointer;
        if let Plan::Object(object) = plan {
            for field in object.fields.iter().filter(|field| field.wire != field.own) {
                violation.expected =
                    violation.expected.replace(&format!("`{}`", field.own), &format!("`{}`", field.wire));
            }
        }
    }

    pub(crate) fn items(plan: Plan) -> Plan {
        if plan.is_same() { Plan::Same } else { Plan::Items(Box::new(plan)) }
    }
}

impl ObjectPlan {
    /// The plan, or [`Plan::Same`] if it does nothing.
    pub(crate) fn into_plan(self) -> Plan {
        let idle = self
            .fields
            .iter()
            .all(|field| field.wire == field.own && field.plan.is_same() && !field.null_is_absent)
            && matches!(&self.rest, Rest::Same | Rest::Plan(Plan::Same));
        if idle { Plan::Same } else { Plan::Object(Box::new(self)) }
    }
}
