//! The private key that a client signs with, and its algorithms (RFC 7523, SEP-1046).

use std::{fs::File, io::Read};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use rmcp::transport::auth::JwtSigningAlgorithm;

use crate::Secret;

const MAX_KEY_BYTES: u64 = 64 * 1024;

/// A private key in PEM format.
pub(super) struct SigningKey {
    pub(super) pem: Secret,
    kind: KeyKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyKind {
    Rsa,
    P256,
    P384,
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
        let kind = key_kind(&pem)?;
        Ok(SigningKey { pem: Secret::new(pem), kind })
    }

    /// Returns the algorithm to sign with; `supported` lists those that the authorization server advertises.
    pub(super) fn algorithm(&self, supported: Option<&[&str]>) -> JwtSigningAlgorithm {
        let is_supported = |name: &str| supported.is_none_or(|supported| supported.contains(&name));
        match self.kind {
            KeyKind::P256 => JwtSigningAlgorithm::ES256,
            KeyKind::P384 => JwtSigningAlgorithm::ES384,
            KeyKind::Rsa if is_supported("RS256") => JwtSigningAlgorithm::RS256,
            KeyKind::Rsa if is_supported("RS384") => JwtSigningAlgorithm::RS384,
            KeyKind::Rsa if is_supported("RS512") => JwtSigningAlgorithm::RS512,
            KeyKind::Rsa => JwtSigningAlgorithm::RS256,
        }
    }
}

fn read_file(path: &str) -> Result<String, String> {
    let mut pem = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_KEY_BYTES).read_to_string(&mut pem));
    read.map_err(|error| format!("is neither a PEM key nor a readable file: {error}"))?;
    Ok(pem)
}

fn key_kind(pem: &str) -> Result<KeyKind, String> {
    const CONVERT: &str = "convert it with `openssl pkcs8 -topk8 -nocrypt`";
    if pem.contains("-----BEGIN RSA PRIVATE KEY-----") {
        return Ok(KeyKind::Rsa);
    }
    if pem.contains("-----BEGIN EC PRIVATE KEY-----") {
        return Err(format!("is an EC key in SEC 1 format; {CONVERT}"));
    }
    if pem.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") {
        return Err(format!("is an encrypted key; {CONVERT}"));
    }
    let Some((_, body)) = pem.split_once("-----BEGIN PRIVATE KEY-----") else {
        return Err("contains no private key (`-----BEGIN PRIVATE KEY-----`)".to_owned());
    };
    // In PKCS#8, the first bytes contain the algorithm as an object identifier.
    let start: String = body.chars().filter(|letter| letter.is_ascii_graphic()).take(64).collect();
    let bytes = STANDARD_NO_PAD.decode(&start[..start.len() / 4 * 4]).unwrap_or_default();
    let contains = |identifier: &[u8]| bytes.windows(identifier.len()).any(|part| part == identifier);
    if contains(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01]) {
        Ok(KeyKind::Rsa)
    } else if contains(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]) {
        Ok(KeyKind::P256)
    } else if contains(&[0x2b, 0x81, 0x04, 0x00, 0x22]) {
        Ok(KeyKind::P384)
    } else {
        Err("has an unsupported key type; use RSA, P-256 or P-384".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pem: &str, expected: Result<KeyKind, &str>) {
        let actual = SigningKey::read(&Secret::new(pem)).map(|key| key.kind);
        match (actual, expected) {
            (Ok(actual), Ok(expected)) => assert_eq!(actual, expected),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (actual, expected) => panic!("got {actual:?}, expected {expected:?}"),
        }
    }

    const P256: &str = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgYpsroGX0NzVK9rpJ\nZRVu+bcmqESxii4trLnWXU09mKShRANCAATXw86jdCGDelqCkq9PRJpZcB6dKXCZ\nA9PiW//TbLa/vl4SYXf4OwAyU13w7qJD1GmyTmZFkIMEmn/9UTw2T73r\n-----END PRIVATE KEY-----\n";

    #[test]
    fn the_kind_of_a_key_is_detected() {
        check(P256, Ok(KeyKind::P256));
        check(&P256.replace('\n', "\\n"), Ok(KeyKind::P256));
        let begin = "-----BEGIN PRIVATE KEY-----\n";
        check(
            &format!("{begin}MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDCxGP9Pm7+xl0zwfI2w"),
            Ok(KeyKind::P384),
        );
        check(
            &format!("{begin}MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"),
            Ok(KeyKind::Rsa),
        );
        check("-----BEGIN RSA PRIVATE KEY-----\nMIIE", Ok(KeyKind::Rsa));
        check(
            &format!("{begin}MC4CAQAwBQYDK2VwBCIEIJDL8ta1QjnsX/akNiFLVDkym5Qp2b2OI+b/1kFWS+cm"),
            Err("use RSA, P-256 or P-384"),
        );
        check("-----BEGIN EC PRIVATE KEY-----\nMHcC", Err("openssl pkcs8"));
        check("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMHcC", Err("openssl pkcs8"));
        check("-----BEGIN PUBLIC KEY-----\nMHcC", Err("no private key"));
        check("/does/not/exist.pem", Err("nor a readable file"));
        check(begin, Err("use RSA"));
        check(&format!("{begin}ü"), Err("use RSA"));
    }

    #[test]
    fn a_key_can_be_in_a_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("key.pem");
        std::fs::write(&path, P256).expect("written");
        check(path.to_str().expect("a UTF-8 path"), Ok(KeyKind::P256));
    }

    #[test]
    fn an_rsa_key_signs_with_an_algorithm_that_the_authorization_server_supports() {
        let key = SigningKey { pem: Secret::new(""), kind: KeyKind::Rsa };
        let algorithm = |supported: Option<&[&str]>| format!("{:?}", key.algorithm(supported));
        assert_eq!(algorithm(None), "RS256");
        assert_eq!(algorithm(Some(&["ES256", "RS512"])), "RS512");
        assert_eq!(algorithm(Some(&["PS256"])), "RS256");
    }
}
