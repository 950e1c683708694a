//! Encrypts stored secrets: AES-256-GCM with random nonces and a key from the configuration.

use std::fmt;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf;
use ring::rand::{SecureRandom as _, SystemRandom};
use toolwire_contract::Secret;

use crate::command_error::CommandError;

/// Identifies the format, so that a later one can have another algorithm.
const VERSION: &str = "1.";

/// Encrypts and decrypts texts.
pub(crate) struct Seal {
    key: LessSafeKey,
    random: SystemRandom,
}

/// The place of a text. A text that is moved to another place cannot be decrypted there.
pub(crate) struct Place<'a> {
    /// The kind of the text.
    pub(crate) kind: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) id: &'a str,
}

impl Seal {
    /// The minimum length of the secret in bytes. Shorter secrets could be guessed.
    const MIN_SECRET_BYTES: usize = 32;

    /// Checks the secret of the configuration.
    pub(crate) fn check(secret: &Secret) -> Result<(), CommandError> {
        let (length, minimum) = (secret.expose().len(), Seal::MIN_SECRET_BYTES);
        if length >= minimum {
            return Ok(());
        }
        let message =
            format!("`toolwire.gateway.credentialKey` has {length} bytes; at least {minimum} are required");
        Err(CommandError::usage(message)
            .with_hint("use a random text, such as the output of `openssl rand -hex 32`"))
    }

    pub(crate) fn new(secret: &Secret) -> Seal {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"toolwire");
        let extracted = salt.extract(secret.expose().as_bytes());
        let expanded = extracted.expand(&[b"credentials of users"], &AES_256_GCM);
        let key = UnboundKey::from(expanded.expect("32 bytes are not too long"));
        Seal { key: LessSafeKey::new(key), random: SystemRandom::new() }
    }

    pub(crate) fn seal(&self, place: &Place<'_>, text: &Secret) -> io::Result<String> {
        let mut nonce = [0; NONCE_LEN];
        let failed = |_| io::Error::other("the text cannot be encrypted");
        self.random.fill(&mut nonce).map_err(failed)?;
        let mut bytes = text.expose().as_bytes().to_vec();
        let aad = Aad::from(place.to_string());
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut bytes)
            .map_err(failed)?;
        Ok(format!("{VERSION}{}", URL_SAFE_NO_PAD.encode([&nonce[..], &bytes].concat())))
    }

    /// Returns `None` if the text was sealed with another secret or for another place, or was changed.
    pub(crate) fn open(&self, place: &Place<'_>, sealed: &str) -> Option<Secret> {
        let mut bytes = URL_SAFE_NO_PAD.decode(sealed.strip_prefix(VERSION)?).ok()?;
        let (nonce, content) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let text = self.key.open_in_place(nonce, Aad::from(place.to_string()), content).ok()?;
        Some(Secret::new(std::str::from_utf8(text).ok()?))
    }

    /// Returns random letters and digits that cannot be guessed.
    pub(crate) fn random_text(&self) -> io::Result<String> {
        let mut bytes = [0; 20];
        self.random.fill(&mut bytes).map_err(|_| io::Error::other("the system provides no random bytes"))?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// The lengths make the text of each place unique.
impl fmt::Display for Place<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { kind, owner, id } = self;
        write!(formatter, "toolwire\n{}\n{kind}\n{}\n{owner}\n{id}", kind.len(), owner.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place<'_> = Place { kind: "tokens", owner: "key_a", id: "one" };

    fn seal(secret: &str) -> Seal {
        Seal::new(&Secret::new(secret))
    }

    #[test]
    fn a_text_is_read_only_at_its_place_and_with_its_secret() {
        let (seal, text) = (seal("a secret of at least thirty-two bytes"), Secret::new("token"));
        let sealed = seal.seal(&PLACE, &text).expect("sealed");
        assert!(!sealed.contains("token"));
        assert_ne!(sealed, seal.seal(&PLACE, &text).expect("sealed"), "nonces are random");
        assert_eq!(seal.open(&PLACE, &sealed), Some(text));
        let others = [
            Place { kind: "login", ..PLACE },
            Place { owner: "key_b", ..PLACE },
            Place { id: "two", ..PLACE },
            Place { owner: "key_a\none", id: "", ..PLACE },
        ];
        for place in others {
            assert_eq!(seal.open(&place, &sealed), None, "{place}");
        }
        assert_eq!(self::seal("another secret of at least 32 bytes").open(&PLACE, &sealed), None);
    }

    #[test]
    fn every_change_is_detected() {
        let seal = seal("a secret of at least thirty-two bytes");
        let sealed = seal.seal(&PLACE, &Secret::new("t")).expect("sealed");
        let bytes = URL_SAFE_NO_PAD.decode(&sealed[VERSION.len()..]).expect("base64");
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            let changed = format!("{VERSION}{}", URL_SAFE_NO_PAD.encode(changed));
            assert_eq!(seal.open(&PLACE, &changed), None, "{index}");
        }
        let cut = &sealed[..sealed.len() - 2];
        for invalid in ["", "1.", "1.AAAA", "2.AAAA", cut, &sealed.replacen("1.", "2.", 1)] {
            assert_eq!(seal.open(&PLACE, invalid), None, "{invalid}");
        }
    }
}
