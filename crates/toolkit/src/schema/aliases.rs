//! The other names that a struct's fields may be given under (`#[serde(alias = "..")]`), which schemas do not know.
//!
//! Serde hands the names of all fields, aliases among them, to whoever reads the struct; and it complains of a field that comes
//! twice by its own name. So each name that the schema does not know is offered twice.

use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::Value;

/// Each alias of the struct's fields, with the field's own name. Those of a struct with flattened parts are not found, and neither
/// are those inside of a field.
pub(super) fn aliases<T: DeserializeOwned>(schema: &Value) -> Vec<(String, String)> {
    let Err(Trouble::Fields(names)) = T::deserialize(Offer { names: &[], reports: true, depth: 0 }) else {
        return Vec::new();
    };
    let is_known = |name: &str| schema.get("properties").is_some_and(|known| known.get(name).is_some());
    let mut found = Vec::new();
    for (place, alias) in names.iter().enumerate().filter(|(_, name)| !is_known(name)) {
        let own = match T::deserialize(Offer { names: &[*alias, *alias], reports: false, depth: 0 }) {
            Err(Trouble::Twice(name)) => Some(name),
            _ => beside(names, place, is_known),
        };
        let own = own.filter(|name| is_known(name));
        found.extend(own.map(|name| ((*alias).to_owned(), name.to_owned())));
    }
    found
}

/// The field whose names an alias stands among, where its value could not be tried: each field's names are in the order of the
/// alphabet, its own among them, and the fields are in theirs. Where two could have it, neither has.
fn beside(
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
enum Trouble {
    /// Asked for first: the names of all fields.
    Fields(&'static [&'static str]),
    /// A field, by its own name.
    Twice(&'static str),
    Other,
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value that was only tried")
    }
}

impl std::error::Error for Trouble {}

impl serde::de::Error for Trouble {
    fn custom<T: fmt::Display>(_: T) -> Trouble {
        Trouble::Other
    }

    fn duplicate_field(field: &'static str) -> Trouble {
        Trouble::Twice(field)
    }
}

/// A struct with the fields of these names; inside of it, whatever is asked for.
#[derive(Clone, Copy)]
struct Offer<'a> {
    names: &'a [&'a str],
    reports: bool,
    depth: usize,
}

/// Types that contain themselves are not followed further.
const DEEPEST: usize = 16;

impl Offer<'_> {
    fn inside(self) -> Result<Offer<'static>, Trouble> {
        match self.depth < DEEPEST {
            true => Ok(Offer { names: &[], reports: false, depth: self.depth + 1 }),
            false => Err(Trouble::Other),
        }
    }
}

macro_rules! give {
    ($($method:ident => $visit:ident($($value:expr)?)),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Trouble> {
            visitor.$visit($($value)?)
        })*
    };
}

impl<'de> Deserializer<'de> for Offer<'_> {
    type Error = Trouble;

    give! {
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
    ) -> Result<V::Value, Trouble> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Trouble> {
        // A struct around the struct changes nothing.
        visitor.visit_newtype_struct(Offer { depth: self.depth + 1, ..self })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Trouble> {
        visitor.visit_seq(Rest { offer: self.inside()?, names: &[], left: 0 })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Trouble> {
        visitor.visit_seq(Rest { offer: self.inside()?, names: &[], left: length })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Trouble> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Trouble> {
        visitor.visit_map(Rest { offer: self.inside()?, names: &[], left: 0 })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Trouble> {
        if self.reports {
            return Err(Trouble::Fields(fields));
        }
        let names = if self.names.is_empty() { fields } else { self.names };
        visitor.visit_map(Rest { offer: self.inside()?, names, left: 0 })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Trouble> {
        let variant = variants.first().ok_or(Trouble::Other)?;
        visitor.visit_enum(Variant { variant, offer: self.inside()? })
    }
}

/// What is still to come of a list or of a struct.
struct Rest<'a> {
    offer: Offer<'a>,
    names: &'a [&'a str],
    left: usize,
}

impl<'de> SeqAccess<'de> for Rest<'_> {
    type Error = Trouble;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Trouble> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                seed.deserialize(self.offer).map(Some)
            }
            None => Ok(None),
        }
    }
}

impl<'de> MapAccess<'de> for Rest<'_> {
    type Error = Trouble;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Trouble> {
        match self.names.split_first() {
            Some((name, others)) => {
                self.names = others;
                seed.deserialize((*name).into_deserializer()).map(Some)
            }
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Trouble> {
        seed.deserialize(self.offer)
    }
}

struct Variant<'a> {
    variant: &'static str,
    offer: Offer<'a>,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Trouble;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Trouble> {
        Ok((seed.deserialize(self.variant.into_deserializer())?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Trouble;

    fn unit_variant(self) -> Result<(), Trouble> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Trouble> {
        seed.deserialize(self.offer)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Trouble> {
        self.offer.deserialize_tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Trouble> {
        self.offer.deserialize_struct("", fields, visitor)
    }
}
