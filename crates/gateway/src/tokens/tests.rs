//! Tokens of hostile clients.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::json;

use super::*;

const ISSUER: &str = "https://login.example";
const AUDIENCE: &str = "https://gateway.example";

/// An issuer with a key of each type.
struct Provider {
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Provider {
    fn new() -> Provider {
        let random = SystemRandom::new();
        let text: String =
            include_str!("test-rsa.pem").lines().filter(|line| !line.starts_with("-----")).collect();
        let rsa = RsaKeyPair::from_pkcs8(&STANDARD.decode(text).expect("base64")).expect("a key");
        let curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let p256 = EcdsaKeyPair::generate_pkcs8(curve, &random).expect("a key");
        let p256 = EcdsaKeyPair::from_pkcs8(curve, p256.as_ref(), &random).expect("a key");
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
        let ed25519 = Ed25519KeyPair::from_pkcs8(ed25519.as_ref()).expect("a key");
        Provider { rsa, p256, ed25519 }
    }

    fn rsa_components(&self) -> RsaPublicKeyComponents<Vec<u8>> {
        RsaPublicKeyComponents::from(self.rsa.public())
    }

    fn key_set(&self) -> Value {
        let RsaPublicKeyComponents { n, e } = self.rsa_components();
        let (n, e) = (encode(n), encode(e));
        let point = self.p256.public_key().as_ref();
        let ed25519 = encode(self.ed25519.public_key());
        json!({"keys": [
            {"kty": "oct", "kid": "shared", "k": "c2VjcmV0", "alg": "HS256"},
            {"kty": "RSA", "kid": "encryption", "use": "enc", "n": n, "e": e},
            {"kty": "RSA", "kid": "rsa", "use": "sig", "alg": "RS256", "n": n, "e": e},
            {"kty": "EC", "kid": "ec", "crv": "P-256", "x": encode(&point[1..33]), "y": encode(&point[33..])},
            {"kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": ed25519},
            {"kty": "unknown"}, 7,
        ]})
    }

    /// Signs with the key that belongs to the algorithm of the header.
    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = match header["alg"].as_str() {
            Some("ES256") => {
                let signature = self.p256.sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature");
                signature.as_ref().to_vec()
            }
            Some("EdDSA") => self.ed25519.sign(signed.as_bytes()).as_ref().to_vec(),
            _ => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                let random = SystemRandom::new();
                self.rsa
                    .sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature)
                    .expect("a signature");
                signature
            }
        };
        format!("{signed}.{}", encode(signature))
    }
}

/// Returns the key set, and counts how often.
struct Source {
    set: Option<Value>,
    fetches: AtomicUsize,
}

impl KeySetSource for Source {
    fn fetch(&self) -> BoxFuture<'_, Result<Value, KeySetError>> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        let set = self.set.clone().ok_or_else(|| KeySetError { problem: "it is down".to_owned() });
        Box::pin(std::future::ready(set))
    }
}

fn issuers(set: Option<Value>, settings: TokenIssuer) -> (Issuers, Arc<Source>) {
    let source = Arc::new(Source { set, fetches: AtomicUsize::new(0) });
    let mut issuers = Issuers::default();
    issuers.add(settings, source.clone());
    (issuers, source)
}

fn header() -> Value {
    json!({"alg": "RS256", "typ": "at+jwt", "kid": "rsa"})
}

fn claims() -> Value {
    let seconds = now().0 / 1_000;
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": seconds + 600, "iat": seconds, "groups": ["ml", "ops"]})
}

/// Returns a copy with other values; `null` removes a value.
fn with(value: &Value, changes: Value) -> Value {
    let mut changed = value.as_object().expect("an object").clone();
    for (key, value) in changes.as_object().expect("an object") {
        match value {
            Value::Null => changed.shift_remove(key),
            value => changed.insert(key.clone(), value.clone()),
        };
    }
    Value::Object(changed)
}

#[tokio::test]
async fn valid_tokens_are_accepted() {
    let provider = Provider::new();
    let (issuers, source) = issuers(Some(provider.key_set()), TokenIssuer::new(ISSUER, AUDIENCE));
    for header in [
        header(),
        json!({"alg": "ES256", "typ": "AT+JWT", "kid": "ec"}),
        json!({"alg": "EdDSA", "typ": "application/at+jwt", "kid": "ed"}),
        // The only key of the algorithm.
        json!({"alg": "ES256", "typ": "at+jwt"}),
        // Keys in the header are ignored.
        with(&header(), json!({"jku": "https://evil.example", "jwk": {"kty": "oct"}, "x5c": ["x"]})),
    ] {
        let token = provider.sign(&header, &claims());
        assert!(issuers.verify(token.as_bytes()).await.is_ok(), "{header}");
    }
    for change in [
        json!({"aud": ["other", AUDIENCE]}),
        json!({"nbf": 0}),
        json!({"exp": now().0 / 1_000 - 10}),
        json!({"iat": null}),
    ] {
        let token = provider.sign(&header(), &with(&claims(), change.clone()));
        assert!(issuers.verify(token.as_bytes()).await.is_ok(), "{change}");
    }
    assert_eq!(source.fetches.load(Ordering::SeqCst), 1);
}

/// Security rule 32: hostile tokens.
#[tokio::test]
async fn hostile_tokens_are_refused() {
    let provider = Provider::new();
    let (issuers, source) = issuers(Some(provider.key_set()), TokenIssuer::new(ISSUER, AUDIENCE));
    let valid = provider.sign(&header(), &claims());
    assert!(issuers.verify(valid.as_bytes()).await.is_ok());
    let mut tokens: Vec<(String, String)> = Vec::new();
    for change in [
        json!({"alg": "none"}),
        json!({"alg": "None"}),
        json!({"alg": ""}),
        json!({"alg": null}),
        json!({"alg": ["RS256"]}),
        json!({"alg": "HS256"}),
        json!({"alg": "HS256", "kid": "shared"}),
        json!({"alg": "PS256"}),
        json!({"alg": "RS512"}),
        json!({"alg": "rs256"}),
        json!({"alg": "ES256"}),
        json!({"kid": "ec"}),
        json!({"kid": "encryption"}),
        json!({"kid": "../rsa"}),
        json!({"kid": "unknown"}),
        json!({"kid": 7}),
        json!({"kid": "k".repeat(300)}),
        json!({"typ": "JWT"}),
        json!({"typ": null}),
        json!({"crit": ["exp"]}),
        json!({"crit": []}),
    ] {
        tokens.push((change.to_string(), provider.sign(&with(&header(), change), &claims())));
    }
    let seconds = now().0 / 1_000;
    for change in [
        json!({"iss": "https://login.example/"}),
        json!({"iss": "https://evil.example"}),
        json!({"iss": null}),
        json!({"iss": [ISSUER]}),
        json!({"aud": "https://gateway.example/"}),
        json!({"aud": "https://gateway.example:443"}),
        json!({"aud": []}),
        json!({"aud": {"a": AUDIENCE}}),
        json!({"aud": null}),
        json!({"exp": null}),
        json!({"exp": (seconds + 600).to_string()}),
        json!({"exp": seconds - 60}),
        json!({"exp": -1}),
        json!({"exp": 1e300}),
        json!({"exp": seconds + 90_000}),
        json!({"exp": seconds + 90_000, "iat": null}),
        json!({"nbf": seconds + 60}),
        json!({"nbf": "0"}),
        json!({"iat": seconds + 60}),
        json!({"sub": null}),
        json!({"sub": ""}),
        json!({"sub": 7}),
        json!({"sub": "s".repeat(2_000)}),
    ] {
        tokens.push((change.to_string(), provider.sign(&header(), &with(&claims(), change))));
    }
    let [head, body, signature] = valid.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
    let unsigned = encode(with(&header(), json!({"alg": "none"})).to_string());
    let other = Provider::new().sign(&json!({"alg": "ES256", "typ": "at+jwt", "kid": "ec"}), &claims());
    // The public key as a shared secret.
    let shared = {
        let head = encode(with(&header(), json!({"alg": "HS256"})).to_string());
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &provider.rsa_components().n);
        let tag = ring::hmac::sign(&key, format!("{head}.{body}").as_bytes());
        format!("{head}.{body}.{}", encode(tag))
    };
    let more = encode(with(&claims(), json!({"admin": true})).to_string());
    for (name, token) in [
        ("no signature", format!("{unsigned}.{body}.")),
        ("no signature part", format!("{unsigned}.{body}")),
        ("an empty signature", format!("{head}.{body}.")),
        ("other claims", format!("{head}.{more}.{signature}")),
        ("another key", other),
        ("a shared secret", shared),
        ("four parts", format!("{valid}.{signature}")),
        ("padding", format!("{valid}=")),
        ("spaces", format!(" {valid}")),
        ("a long one", format!("{head}.{}.{signature}", "A".repeat(9_000))),
        ("arrays", format!("{}.{}.{signature}", encode("[]"), encode("[]"))),
        ("no JSON", format!("{}.{body}.{signature}", encode("{"))),
        ("nothing", "..".to_owned()),
    ] {
        tokens.push((name.to_owned(), token));
    }
    for (name, token) in tokens {
        let verdict = issuers.verify(token.as_bytes()).await;
        assert!(matches!(verdict, Err(TokenError::Refused(_))), "{name}: {verdict:?}");
    }
    assert!(source.fetches.load(Ordering::SeqCst) <= 2, "unknown keys cause at most one fetch in a minute");
}

/// Security rule 32: many unknown keys at the same time.
#[tokio::test]
async fn unknown_keys_cause_few_fetches() {
    let provider = Provider::new();
    let (issuers, source) = issuers(Some(provider.key_set()), TokenIssuer::new(ISSUER, AUDIENCE));
    let tokens = (0..200).map(|number| {
        provider.sign(&json!({"alg": "ES256", "typ": "at+jwt", "kid": number.to_string()}), &claims())
    });
    let tokens: Vec<String> = tokens.collect();
    let verdicts =
        futures::future::join_all(tokens.iter().map(|token| issuers.verify(token.as_bytes()))).await;
    assert!(verdicts.iter().all(Result::is_err));
    assert_eq!(source.fetches.load(Ordering::SeqCst), 1);
    let valid = provider.sign(&header(), &claims());
    assert!(issuers.verify(valid.as_bytes()).await.is_ok());
}

#[tokio::test]
async fn tokens_are_not_accepted_without_the_keys_of_their_issuer() {
    let provider = Provider::new();
    let (issuers, source) = issuers(None, TokenIssuer::new(ISSUER, AUDIENCE));
    let token = provider.sign(&header(), &claims());
    for _ in 0..3 {
        assert_eq!(issuers.verify(token.as_bytes()).await.err(), Some(TokenError::Unavailable));
    }
    assert_eq!(source.fetches.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn rights_come_from_claims() {
    let provider = Provider::new();
    let only = |model: &str| KeyRights { models: Some(vec![model.to_owned()]), ..KeyRights::default() };
    let mut settings = TokenIssuer::new(ISSUER, AUDIENCE);
    settings.rights = None;
    settings.tenant_claim = Some("org".to_owned());
    settings.rules = vec![
        ClaimRule::new("groups".to_owned(), "ops".to_owned(), only("a")),
        ClaimRule::new("scope".to_owned(), "chat".to_owned(), only("b")),
    ];
    let (issuers, _) = issuers(Some(provider.key_set()), settings);
    let verify = async |change: Value| {
        let token = provider.sign(&header(), &with(&claims(), change));
        issuers.verify(token.as_bytes()).await.map(crate::principal::Principal::new)
    };
    let ops = verify(json!({"org": "acme", "scope": "chat"})).await.expect("a valid token");
    assert!(ops.permits_model(&["a"]) && !ops.permits_model(&["b"]));
    let chat = json!({"org": "acme", "sub": "bob", "groups": "dev", "scope": "openid chat"});
    let chat = verify(chat).await.expect("a valid token");
    assert!(!chat.permits_model(&["a"]) && chat.permits_model(&["b"]));
    assert_eq!(ops, chat, "one tenant");
    assert_ne!(ops.key_id(), chat.key_id());
    let other = verify(json!({"org": "other"})).await.expect("a valid token");
    assert_ne!(ops, other);
    assert!(verify(json!({"org": "acme", "groups": "opsx", "scope": "chatter"})).await.is_err());
    assert!(verify(json!({})).await.is_err(), "no tenant");
}
