//! The public keys of an issuer.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;

use super::TokenAlgorithm;

/// The maximum number of keys; further ones are ignored.
const MAX_KEYS: usize = 100;

/// The keys that can verify tokens.
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<(Option<String>, PublicKey)>);

/// A public key. Its type determines the only algorithm that it is used for.
#[derive(Debug)]
pub(super) enum PublicKey {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeySet {
    /// Reads a JSON Web Key Set. Keys for other purposes or algorithms are ignored.
    pub(super) fn read(set: &Value) -> KeySet {
        let keys = set.get("keys").and_then(Value::as_array).into_iter().flatten();
        let read = |key: &Value| {
            let id = key.get("kid").and_then(Value::as_str).map(str::to_owned);
            PublicKey::read(key).map(|key| (id, key))
        };
        KeySet(keys.filter_map(read).take(MAX_KEYS).collect())
    }

    /// Finds the key with an id. A token without an id matches only if its algorithm has exactly one key.
    pub(super) fn find(&self, id: Option<&str>, algorithm: TokenAlgorithm) -> Option<&PublicKey> {
        let mut keys = self.0.iter().filter(|(_, key)| key.algorithm() == algorithm);
        match id {
            Some(id) => keys.find(|(known, _)| known.as_deref() == Some(id)).map(|(_, key)| key),
            None => keys.next().filter(|_| keys.next().is_none()).map(|(_, key)| key),
        }
    }
}

impl PublicKey {
    fn read(key: &Value) -> Option<PublicKey> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let operations = key.get("key_ops").and_then(Value::as_array);
        if operations.is_some_and(|operations| !operations.iter().any(|operation| operation == "verify")) {
            return None;
        }
        let read = match (text("kty")?, text("crv")) {
            ("RSA", _) => PublicKey::Rsa { modulus: bytes("n")?, exponent: bytes("e")? },
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes("x")?, bytes("y")?);
                if x.len() != 32 || y.len() != 32 {
                    return None;
                }
                // The uncompressed form of a point.
                PublicKey::P256([&[4], &x[..], &y[..]].concat())
            }
            ("OKP", Some("Ed25519")) => PublicKey::Ed25519(bytes("x")?),
            _ => return None,
        };
        text("alg").is_none_or(|name| name == read.algorithm().name()).then_some(read)
    }

    fn algorithm(&self) -> TokenAlgorithm {
        match self {
            PublicKey::Rsa { .. } => TokenAlgorithm::Rs256,
            PublicKey::P256(_) => TokenAlgorithm::Es256,
            PublicKey::Ed25519(_) => TokenAlgorithm::EdDsa,
        }
    }

    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            PublicKey::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok()
            }
            PublicKey::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
            PublicKey::Ed25519(key) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
            }
        }
    }
}
