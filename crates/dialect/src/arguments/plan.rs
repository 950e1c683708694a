//! Plans: how to convert between a model's arguments and the tool's own.
//!
//! A plan is made when the schema is lowered. It has the structure of the definition, but only where
//! something must be converted; everywhere else it is [`Plan::Same`]. A value of a type that the plan does
//! not expect is passed on unchanged, and the final validation rejects it.

use serde_json::Value;

use toolwire_contract::text::unescape_pointer_segment;
use toolwire_validation::{Violation, ViolationKind};

use crate::json::push_segment;

/// The maximum number of shared plans that lead to each other without a step into the value.
const MAX_SHARED_HOPS: usize = 64;

/// The conversion of one value. The side of the definition is called the *wire*.
#[derive(Clone, Debug, Default)]
pub(crate) enum Plan {
    #[default]
    Same,
    Object(Box<ObjectPlan>),
    /// Each item of an array.
    Items(Box<Plan>),
    /// Items by position, then the remaining items.
    Tuple {
        positions: Vec<Plan>,
        rest: Box<Plan>,
    },
    /// The branch that the value matches.
    Union(Vec<Branch>),
    /// A plan that several places share, or that contains itself; the index of the plan.
    Shared(usize),
    /// The value is JSON text on the wire.
    JsonText,
    /// A map is a list of `{"key", "value"}` on the wire.
    Entries(Box<Plan>),
    /// An array is an object with one key per position on the wire.
    Positions(Box<PositionsPlan>),
    /// Each of these values is text on the wire.
    Values(Vec<(String, Value)>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectPlan {
    pub(crate) fields: Vec<Field>,
    pub(crate) rest: Rest,
    /// Whether an absent optional key is written as `null`.
    pub(crate) fill: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The key on the wire.
    pub(crate) wire: String,
    /// The tool's own key.
    pub(crate) own: String,
    pub(crate) plan: Plan,
    /// Whether `null` on the wire means that the key is absent.
    pub(crate) null_is_absent: bool,
}

/// The conversion of keys that are not fields.
#[derive(Clone, Debug, Default)]
pub(crate) enum Rest {
    #[default]
    Same,
    Plan(Plan),
    /// They are a list of entries under one key on the wire.
    Entries {
        wire: String,
        plan: Plan,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// The schema of the definition, to recognize a value on the wire.
    pub(crate) wire: Value,
    /// The schema of the tool, to recognize one of its own values.
    pub(crate) own: Value,
    pub(crate) plan: Plan,
}

#[derive(Clone, Debug)]
pub(crate) struct PositionsPlan {
    pub(crate) keys: Vec<String>,
    pub(crate) plans: Vec<Plan>,
    /// The number of positions where `null` is a value, not a missing item.
    pub(crate) min_length: usize,
    /// The key of the list of items after the positions.
    pub(crate) rest: Option<(String, Plan)>,
}

impl Plan {
    pub(crate) const fn is_same(&self) -> bool {
        matches!(self, Plan::Same)
    }

    /// Whether a value has a different shape on the wire, not only other keys or additional nulls.
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

    /// Replaces the tool's own keys in a violation with those on the wire, which the model knows.
    pub(crate) fn use_wire_names(&self, shared: &[Plan], violation: &mut Violation) {
        let mut plan = self;
        let mut pointer = String::with_capacity(violation.pointer.len());
        let mut steps = violation.pointer.split('/').skip(1);
        loop {
            let mut hops = 0;
            while let Plan::Shared(index) = plan {
                hops += 1;
                plan = shared.get(*index).filter(|_| hops < MAX_SHARED_HOPS).unwrap_or(&Plan::Same);
            }
            let Some(step) = steps.next() else { break };
            pointer.push('/');
            match plan {
                Plan::Object(object) => {
                    let own = unescape_pointer_segment(step);
                    match object.fields.iter().find(|field| field.own == own) {
                        Some(field) => {
                            push_segment(&field.wire, &mut pointer);
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
            let wire_name = |name: &String| {
                let field = object.fields.iter().find(|field| field.own == *name);
                field.map_or(name, |field| &field.wire).clone()
            };
            match &mut violation.kind {
                ViolationKind::MissingProperty { name, .. } => *name = wire_name(name),
                ViolationKind::UnknownProperty { known: Some(known), .. } => {
                    *known = known.iter().map(wire_name).collect();
                }
                _ => {}
            }
        }
    }

    pub(crate) fn items(plan: Plan) -> Plan {
        if plan.is_same() { Plan::Same } else { Plan::Items(Box::new(plan)) }
    }
}

impl ObjectPlan {
    /// Returns the plan, or [`Plan::Same`] if it converts nothing.
    pub(crate) fn into_plan(self) -> Plan {
        let converts_nothing = self
            .fields
            .iter()
            .all(|field| field.wire == field.own && field.plan.is_same() && !field.null_is_absent)
            && matches!(&self.rest, Rest::Same | Rest::Plan(Plan::Same));
        if converts_nothing { Plan::Same } else { Plan::Object(Box::new(self)) }
    }
}
