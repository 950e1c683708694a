//! The form, the header and the signature of a token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::jwk::KeySet;
use super::{TokenAlgorithm, TokenError, TokenIssuer};
use TokenError::Refused;

/// The maximum size of a token.
const MAX_BYTES: usize = 8 * 1024;

/// The maximum size of the id of a key.
const MAX_KEY_ID_BYTES: usize = 256;

/// A token whose signature may be wrong.
#[derive(Debug)]
pub(super) struct Jwt {
    header: Map<String, Value>,
    claims: Map<String, Value>,
    /// The signed text.
    signed: Vec<u8>,
    signature: Vec<u8>,
}

impl Jwt {
    pub(super) fn parse(token: &[u8]) -> Result<Jwt, TokenError> {
        if token.len() > MAX_BYTES {
            return Err(Refused("it is too long"));
        }
        let mut parts = token.split(|byte| *byte == b'.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Refused("it does not have three parts"));
        };
        let signed = token[..header.len() + 1 + claims.len()].to_vec();
        let decode = |part: &[u8]| URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused("it is not base64url"));
        let object = |part: &[u8]| -> Result<Map<String, Value>, TokenError> {
            serde_json::from_slice(&decode(part)?).map_err(|_| Refused("a part of it is not a JSON object"))
        };
        Ok(Jwt { header: object(header)?, claims: object(claims)?, signed, signature: decode(signature)? })
    }

    pub(super) fn issuer(&self) -> Option<&str> {
        self.claims.get("iss")?.as_str()
    }

    pub(super) fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }

    /// Returns the id of the key that has signed the token.
    pub(super) fn key_id(&self) -> Option<&str> {
        self.header.get("kid")?.as_str()
    }

    /// Checks the header, except for the key: keys in a header (`jwk`, `jku`, `x5u`, `x5c`) are never used.
    pub(super) fn check_header(&self, issuer: &TokenIssuer) -> Result<TokenAlgorithm, TokenError> {
        let text = |key: &str| self.header.get(key).and_then(Value::as_str);
        let name = text("alg").ok_or(Refused("it has no algorithm"))?;
        let algorithm = issuer.algorithms.iter().find(|algorithm| algorithm.name() == name);
        let algorithm = *algorithm.ok_or(Refused("its algorithm is not accepted"))?;
        // Extensions that must be understood.
        if self.header.contains_key("crit") {
            return Err(Refused("it has critical extensions"));
        }
        let type_name = text("typ").unwrap_or_default().to_ascii_lowercase();
        let type_name = type_name.strip_prefix("application/").unwrap_or(&type_name);
        if !issuer.types.iter().any(|accepted| accepted.eq_ignore_ascii_case(type_name)) {
            return Err(Refused("its type is not accepted"));
        }
        match self.header.get("kid") {
            None => {}
            Some(Value::String(id)) if !id.is_empty() && id.len() <= MAX_KEY_ID_BYTES => {}
            Some(_) => return Err(Refused("the id of its key is not valid")),
        }
        Ok(algorithm)
    }

    pub(super) fn check_signature(&self, keys: &KeySet, algorithm: TokenAlgorithm) -> Result<(), TokenError> {
        let key = keys.find(self.key_id(), algorithm).ok_or(Refused("its key is unknown"))?;
        match key.verify(&self.signed, &self.signature) {
            true => Ok(()),
            false => Err(Refused("its signature is wrong")),
        }
    }
}
