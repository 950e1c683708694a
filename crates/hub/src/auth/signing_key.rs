//! The private key that a client signs with instead of sending a secret (RFC 7523, SEP-1046).

use std::{fs::File, io::Read};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256,
        RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RsaKeyPair,
    },
};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};

use crate::Secret;

const MAX_KEY_BYTES: u64 = 64 * 1024;

/// A private key with its algorithm.
pub(super) enum SigningKey {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
}

impl SigningKey {
    /// Reads a key; `text` is the PEM text or the path of a file that contains it. The error completes the
    /// sentence "`oauth.privateKey` …".
    pub(super) fn read(text: &Secret) -> Result<SigningKey, String> {
        let text = text.expose().trim();
        let pem = if text.contains("-----BEGIN") {
            // Environment variables often contain line breaks as the two characters `\n`.
            text.replace("\\n", "\n")
        } else {
            read_file(text)?
        };
        SigningKey::parse(&pem)
    }

    fn parse(pem: &str) -> Result<SigningKey, String> {
        const CONVERT: &str = "convert it with `openssl pkcs8 -topk8 -nocrypt`";
        const SUPPORTED: &str = "use RSA with 2048 bits or more, P-256 or P-384";
        if pem.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") {
            return Err(format!("is an encrypted key; {CONVERT}"));
        }
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| "contains no private key (`-----BEGIN PRIVATE KEY-----`)".to_owned())?;
        let der = match &der {
            PrivateKeyDer::Pkcs1(der) => {
                let key = RsaKeyPair::from_der(der.secret_pkcs1_der());
                return key.map(SigningKey::Rsa).map_err(|error| format!("is not a valid RSA key: {error}"));
            }
            PrivateKeyDer::Pkcs8(der) => der.secret_pkcs8_der(),
            PrivateKeyDer::Sec1(_) => return Err(format!("is an EC key in SEC 1 format; {CONVERT}")),
            _ => return Err(format!("has an unsupported key type; {SUPPORTED}")),
        };
        let random = SystemRandom::new();
        let ecdsa = |curve| EcdsaKeyPair::from_pkcs8(curve, der, &random);
        ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .map(SigningKey::P256)
            .or_else(|_| ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING).map(SigningKey::P384))
            .or_else(|_| RsaKeyPair::from_pkcs8(der).map(SigningKey::Rsa))
            .map_err(|error| format!("is not a supported key ({error}); {SUPPORTED}"))
    }

    /// Returns the algorithm to sign with; `supported` lists those that the authorization server advertises.
    pub(super) fn algorithm(&self, supported: Option<&[&str]>) -> &'static str {
        let is_supported = |name: &&str| supported.is_none_or(|supported| supported.contains(name));
        match self {
            SigningKey::P256(_) => "ES256",
            SigningKey::P384(_) => "ES384",
            SigningKey::Rsa(_) => {
                ["RS256", "RS384", "RS512"].into_iter().find(is_supported).unwrap_or("RS256")
            }
        }
    }

    /// Returns a signed JSON Web Token, or `None` if the key cannot sign.
    pub(super) fn sign_token(&self, algorithm: &str, claims: &Value) -> Option<String> {
        let header = json!({"typ": "client-authentication+jwt", "alg": algorithm});
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let content = format!("{}.{}", encode(&header), encode(claims));
        let random = SystemRandom::new();
        let signature = match self {
            SigningKey::P256(key) | SigningKey::P384(key) => {
                key.sign(&random, content.as_bytes()).ok()?.as_ref().to_vec()
            }
            SigningKey::Rsa(key) => {
                let padding = match algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(padding, &random, content.as_bytes(), &mut signature).ok()?;
                signature
            }
        };
        Some(format!("{content}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

fn read_file(path: &str) -> Result<String, String> {
    let mut pem = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_KEY_BYTES).read_to_string(&mut pem));
    read.map_err(|error| format!("is neither a PEM key nor a readable file: {error}"))?;
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation};

    use super::*;

    macro_rules! key {
        ($name:literal) => {
            include_str!(concat!("../../tests/keys/", $name, ".pem"))
        };
    }

    #[track_caller]
    fn check(pem: &str, public: &str, supported: Option<&[&str]>, algorithm: Algorithm) {
        let key = SigningKey::read(&Secret::new(pem)).expect("a supported key");
        let name = key.algorithm(supported);
        assert_eq!(name, format!("{algorithm:?}"));
        let claims = json!({"aud": "issuer", "exp": 4_000_000_000_u64, "jti": "1"});
        let token = key.sign_token(name, &claims).expect("signed");
        let decoding = match &key {
            SigningKey::Rsa(_) => DecodingKey::from_rsa_pem(public.as_bytes()),
            _ => DecodingKey::from_ec_pem(public.as_bytes()),
        };
        let mut validation = Validation::new(algorithm);
        validation.set_audience(&["issuer"]);
        let decoded = jsonwebtoken::decode::<Value>(&token, &decoding.expect("a public key"), &validation);
        let decoded = decoded.expect("a valid signature");
        assert_eq!(decoded.claims, claims);
        assert_eq!(decoded.header.typ.as_deref(), Some("client-authentication+jwt"));
    }

    #[test]
    fn tokens_are_signed_with_an_algorithm_that_the_authorization_server_supports() {
        let rsa = key!("rsa.public");
        check(key!("p256"), key!("p256.public"), None, Algorithm::ES256);
        check(&key!("p256").replace('\n', "\\n"), key!("p256.public"), None, Algorithm::ES256);
        check(key!("p384"), key!("p384.public"), Some(&["RS256"]), Algorithm::ES384);
        check(key!("rsa"), rsa, None, Algorithm::RS256);
        check(key!("rsa.pkcs1"), rsa, None, Algorithm::RS256);
        check(key!("rsa"), rsa, Some(&["ES256", "RS384"]), Algorithm::RS384);
        check(key!("rsa"), rsa, Some(&["ES256", "RS512"]), Algorithm::RS512);
        check(key!("rsa"), rsa, Some(&["PS256"]), Algorithm::RS256);
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        let error = SigningKey::read(&Secret::new(text)).err().expect("an unusable key");
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn an_unusable_key_is_explained() {
        check_error(
            key!("ed25519"),
            "is not a supported key (WrongAlgorithm); use RSA with 2048 bits or more,",
        );
        check_error(key!("rsa1024"), "is not a supported key (TooSmall)");
        check_error(key!("p256.sec1"), "openssl pkcs8");
        check_error(key!("p256.encrypted"), "openssl pkcs8");
        check_error(key!("p256.public"), "no private key");
        check_error("/does/not/exist.pem", "nor a readable file");
        check_error("-----BEGIN PRIVATE KEY-----\n", "no private key");
        check_error("-----BEGIN PRIVATE KEY-----\nü\n-----END PRIVATE KEY-----", "no private key");
        check_error(
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
            "not a valid RSA key",
        );
    }

    #[test]
    fn a_key_can_be_in_a_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("key.pem");
        std::fs::write(&path, key!("p256")).expect("written");
        let key = SigningKey::read(&Secret::new(path.to_str().expect("a UTF-8 path")));
        assert!(matches!(key, Ok(SigningKey::P256(_))));
    }
}
