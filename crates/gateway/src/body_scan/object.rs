//! The fields of one object that decide together whether it refers to stored data.

use super::place::Place;
use super::{BodyFacts, Found, ObjectType};

/// The fields of an object, as far as they matter. An object has several types if the key occurs more than
/// once.
#[derive(Default)]
pub(super) struct ObjectFields {
    id: Occurrences,
    role: Occurrences,
    content: Occurrences,
    encrypted_content: Occurrences,
    result: Occurrences,
    signature: Occurrences,
    skill_id: Occurrences,
    type_name: Occurrences,
    is_item_reference: bool,
    is_reasoning: bool,
    is_image_generation_call: bool,
    is_thinking: bool,
    is_server_call: bool,
    /// Whether one of the types is not that of a public skill.
    has_other_type: bool,
}

/// The values of a key in one object, in any spelling.
#[derive(Default)]
struct Occurrences {
    count: usize,
    /// Whether one has the spelling of the API.
    is_exact: bool,
    has_value: bool,
    has_no_value: bool,
}

impl Occurrences {
    fn add(&mut self, is_exact: bool, has_value: bool) {
        self.count += 1;
        self.is_exact |= is_exact;
        self.has_value |= has_value;
        self.has_no_value |= !has_value;
    }

    /// Whether every parser finds a value.
    fn is_certain(&self) -> bool {
        self.is_exact && !self.has_no_value
    }

    /// Whether parsers may find different values.
    fn is_ambiguous(&self) -> bool {
        self.count > usize::from(self.is_exact)
    }
}

impl ObjectFields {
    pub(super) fn add(&mut self, key: &str, is_exact: bool, found: Found) {
        let is_set = !matches!(found, Found::Null | Found::Empty);
        match key {
            "id" => self.id.add(is_exact, is_set),
            "role" => self.role.add(is_exact, is_set),
            // The content of a message may be empty, so only `null` counts as missing.
            "content" => self.content.add(is_exact, found != Found::Null),
            "encrypted_content" => self.encrypted_content.add(is_exact, is_set),
            "result" => self.result.add(is_exact, is_set),
            "signature" => self.signature.add(is_exact, is_set),
            "skill_id" => self.skill_id.add(is_exact, is_set),
            "type" => {
                self.type_name.add(is_exact, matches!(found, Found::Type(_)));
                let Found::Type(found) = found else { return };
                self.is_item_reference |= found == ObjectType::ItemReference;
                self.is_reasoning |= found == ObjectType::Reasoning;
                self.is_image_generation_call |= found == ObjectType::ImageGenerationCall;
                self.is_thinking |= found == ObjectType::Thinking;
                self.is_server_call |= found == ObjectType::ServerCall;
                self.has_other_type |= found != ObjectType::PublicSkill;
            }
            _ => {}
        }
    }

    /// Adds the facts that follow from all fields.
    pub(super) fn report(&self, place: Place, facts: &mut BodyFacts) {
        let is_public_skill = self.type_name.is_certain() && !self.has_other_type;
        if self.skill_id.has_value && !is_public_skill {
            facts.add_provider_state("skill_id");
        }
        facts.has_gateway_blocks |= self.is_server_call || (self.is_thinking && !self.signature.has_value);
        match place {
            Place::Reference(name) if self.id.has_value => facts.add_provider_state(name),
            Place::Item if self.id.has_value => self.report_item(facts),
            _ => facts.has_item_references |= self.is_item_reference,
        }
    }

    /// Adds the facts about an item with an id.
    fn report_item(&self, facts: &mut BodyFacts) {
        let is_ambiguous = [&self.id, &self.type_name, &self.role, &self.content, &self.encrypted_content];
        let is_ambiguous = is_ambiguous.into_iter().any(Occurrences::is_ambiguous);
        // Neither a reference nor a message needs a type.
        let is_message = self.type_name.count == 0 && self.role.is_certain() && self.content.is_certain();
        if self.is_item_reference || !(self.type_name.is_certain() || is_message) {
            // The gateway resolves only what every parser reads as a reference.
            match is_ambiguous || self.role.count > 0 {
                true => facts.add_provider_state("item_reference"),
                false => facts.has_item_references = true,
            }
        }
        if self.is_reasoning && !self.encrypted_content.is_certain() {
            // The gateway leaves out only what every parser reads as stored reasoning.
            match is_ambiguous {
                true => facts.add_provider_state("reasoning"),
                false => facts.has_stored_reasoning = true,
            }
        }
        if self.is_image_generation_call && !self.result.is_certain() {
            facts.add_provider_state("image_generation_call");
        }
    }
}
