//! Finds the aliases of a struct's fields (`#[serde(alias = "..")]`), which its schema does not contain.
//!
//! Serde passes the names of all fields, including aliases, to the deserializer, and a duplicate field is
//! reported by its own name. So each name that is not in the schema is passed twice.

use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::Value;

/// Returns each alias with the name of its field. Aliases of structs with flattened parts, and those inside
/// of a field, are not found.
pub(super) fn aliases<T: DeserializeOwned>(schema: &Value) -> Vec<(String, String)> {
    let Err(ProbeError::Fields(names)) = T::deserialize(Probe { names: &[], reports: true, depth: 0 }) else {
        return Vec::new();
    };
    let is_known = |name: &str| schema.get("properties").is_some_and(|known| known.get(name).is_some());
    let mut found = Vec::new();
    for (place, alias) in names.iter().enumerate().filter(|(_, name)| !is_known(name)) {
        let own = match T::deserialize(Probe { names: &[*alias, *alias], reports: false, depth: 0 }) {
            Err(ProbeError::DuplicateField(name)) => Some(name),
            _ => neighbouring_field(names, place, is_known),
        };
        let own = own.filter(|name| is_known(name));
        found.extend(own.map(|name| ((*alias).to_owned(), name.to_owned())));
    }
    found
}

/// Returns the field of an alias by its position, if its value could not be probed. The names of each field,
/// including its own, are sorted, and fields are in order of declaration. Returns `None` if two fields are
/// possible.
fn neighbouring_field(
    names: &'static [&'static str],
    place: usize,
    is_known: impl Fn(&str) -> bool,
) -> Option<&'static str> {
    let alias = names.get(place)?;
    let before = names[..place].iter().rev().find(|name| is_known(name)).filter(|name| *name < alias);
    let after = names[place + 1..].iter().find(|name| is_known(name)).filter(|name| alias < *name);
    match (before, after) {
        (Some(one), None) | (None, Some(one)) => Some(one),
        _ => None,
    }
}

#[derive(Debug)]
enum ProbeError {
    /// The names of all fields.
    Fields(&'static [&'static str]),
    /// The own name of a duplicate field.
    DuplicateField(&'static str),
    Other,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a probe value")
    }
}

impl std::error::Error for ProbeError {}

impl serde::de::Error for ProbeError {
    fn custom<T: fmt::Display>(_: T) -> ProbeError {
        ProbeError::Other
    }

    fn duplicate_field(field: &'static str) -> ProbeError {
        ProbeError::DuplicateField(field)
    }
}

/// Deserializes a struct with fields of these names, and any value inside of it.
#[derive(Clone, Copy)]
struct Probe<'a> {
    names: &'a [&'a str],
    reports: bool,
    depth: usize,
}

/// Limits the recursion into recursive types.
const MAX_DEPTH: usize = 16;

impl Probe<'_> {
    fn inside(self) -> Result<Probe<'static>, ProbeError> {
        match self.depth < MAX_DEPTH {
            true => Ok(Probe { names: &[], reports: false, depth: self.depth + 1 }),
            false => Err(ProbeError::Other),
        }
    }
}

macro_rules! visit_with {
    ($($method:ident => $visit:ident($($value:expr)?)),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ProbeError> {
            visitor.$visit($($value)?)
        })*
    };
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = ProbeError;

    visit_with! {
        deserialize_any => visit_unit(),
        deserialize_ignored_any => visit_unit(),
        deserialize_unit => visit_unit(),
        deserialize_bool => visit_bool(false),
        deserialize_i8 => visit_i8(1),
        deserialize_i16 => visit_i16(1),
        deserialize_i32 => visit_i32(1),
        deserialize_i64 => visit_i64(1),
        deserialize_i128 => visit_i128(1),
        deserialize_u8 => visit_u8(1),
        deserialize_u16 => visit_u16(1),
        deserialize_u32 => visit_u32(1),
        deserialize_u64 => visit_u64(1),
        deserialize_u128 => visit_u128(1),
        deserialize_f32 => visit_f32(1.0),
        deserialize_f64 => visit_f64(1.0),
        deserialize_char => visit_char('a'),
        deserialize_str => visit_str(""),
        deserialize_string => visit_str(""),
        deserialize_identifier => visit_str(""),
        deserialize_bytes => visit_bytes(&[]),
        deserialize_byte_buf => visit_bytes(&[]),
        deserialize_option => visit_none(),
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ProbeError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ProbeError> {
        // A newtype has the fields of the struct inside.
        visitor.visit_newtype_struct(Probe { depth: self.depth + 1, ..self })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ProbeError> {
        visitor.visit_seq(ProbeItems { probe: self.inside()?, names: &[], left: 0 })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, ProbeError> {
        visitor.visit_seq(ProbeItems { probe: self.inside()?, names: &[], left: length })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, ProbeError> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ProbeError> {
        visitor.visit_map(ProbeItems { probe: self.inside()?, names: &[], left: 0 })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ProbeError> {
        if self.reports {
            return Err(ProbeError::Fields(fields));
        }
        let names = if self.names.is_empty() { fields } else { self.names };
        visitor.visit_map(ProbeItems { probe: self.inside()?, names, left: 0 })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ProbeError> {
        let variant = variants.first().ok_or(ProbeError::Other)?;
        visitor.visit_enum(Variant { variant, probe: self.inside()? })
    }
}

/// The remaining items of a list or names of a struct.
struct ProbeItems<'a> {
    probe: Probe<'a>,
    names: &'a [&'a str],
    left: usize,
}

impl<'de> SeqAccess<'de> for ProbeItems<'_> {
    type Error = ProbeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ProbeError> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                seed.deserialize(self.probe).map(Some)
            }
            None => Ok(None),
        }
    }
}

impl<'de> MapAccess<'de> for ProbeItems<'_> {
    type Error = ProbeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ProbeError> {
        match self.names.split_first() {
            Some((name, others)) => {
                self.names = others;
                seed.deserialize((*name).into_deserializer()).map(Some)
            }
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ProbeError> {
        seed.deserialize(self.probe)
    }
}

struct Variant<'a> {
    variant: &'static str,
    probe: Probe<'a>,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = ProbeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), ProbeError> {
        Ok((seed.deserialize(self.variant.into_deserializer())?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = ProbeError;

    fn unit_variant(self) -> Result<(), ProbeError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ProbeError> {
        seed.deserialize(self.probe)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, ProbeError> {
        self.probe.deserialize_tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ProbeError> {
        self.probe.deserialize_struct("", fields, visitor)
    }
}
