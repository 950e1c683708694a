//! The format of issued keys: `tw_`, the id, `_`, and 43 random letters and digits.

use sha2::{Digest as _, Sha256};
use toolwire_contract::Secret;
use toolwire_contract::keys::{KeyDigest, KeyId};

use crate::ids::random_text;

const PREFIX: &str = "tw_";

/// 256 random bits. A fast hash is enough for such a text, because it cannot be guessed.
const SECRET_LENGTH: usize = 43;

/// A new key. Only its hash is stored, so this is the only time that it is known.
#[derive(Debug)]
#[non_exhaustive]
pub struct IssuedKey {
    pub id: KeyId,
    pub secret: Secret,
    pub digest: KeyDigest,
}

impl IssuedKey {
    /// Creates a random key. Returns `None` if the system provides no random bytes.
    pub fn generate() -> Option<IssuedKey> {
        let id = random_text(KeyId::LENGTH).ok()?;
        let text = format!("{PREFIX}{id}_{}", random_text(SECRET_LENGTH).ok()?);
        let digest = digest(text.as_bytes());
        Some(IssuedKey { id: id.try_into().ok()?, secret: Secret::new(text), digest })
    }
}

/// Returns the id of a text that has the format of a key.
pub(crate) fn id_of(key: &[u8]) -> Option<KeyId> {
    let rest = key.strip_prefix(PREFIX.as_bytes())?;
    let (id, secret) = rest.split_at_checked(KeyId::LENGTH)?;
    let secret = secret.strip_prefix(b"_")?;
    let is_secret = secret.len() == SECRET_LENGTH && secret.iter().all(u8::is_ascii_alphanumeric);
    str::from_utf8(id).ok().filter(|_| is_secret)?.parse().ok()
}

pub(crate) fn digest(key: &[u8]) -> KeyDigest {
    KeyDigest::new(Sha256::digest(key).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_a_part_of_the_key() {
        let key = IssuedKey::generate().expect("random bytes");
        let text = key.secret.expose();
        assert_eq!(text.len(), 3 + 12 + 1 + 43);
        assert_eq!(id_of(text.as_bytes()), Some(key.id.clone()));
        assert!(!format!("{key:?}").contains(&text[16..]));
        for wrong in [
            text[1..].to_owned(),
            text[..text.len() - 1].to_owned(),
            format!("{text}a"),
            text.replacen('_', "-", 2),
            format!("tw_{}_{}", "a".repeat(12), "é".repeat(21) + "a"),
            "tw_".to_owned(),
            String::new(),
        ] {
            assert_eq!(id_of(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
