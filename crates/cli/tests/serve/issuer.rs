//! An OpenID provider that signs tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) struct Issuer {
    pub(crate) url: String,
    pair: Ed25519KeyPair,
    serving: JoinHandle<()>,
}

impl Issuer {
    pub(crate) async fn start() -> Issuer {
        let pair = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(pair.as_ref()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
        let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": x});
        let configuration = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        let pages =
            vec![("/.well-known/openid-configuration", configuration), ("/keys", json!({"keys": [key]}))];
        Issuer { serving: tokio::spawn(serve(pages, listener)), url, pair }
    }

    /// Returns a token that is valid for ten minutes, with further claims.
    pub(crate) fn token(&self, audience: &str, subject: &str, more: &Value) -> String {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = json!({"alg": "EdDSA", "typ": "at+jwt", "kid": "one"});
        let mut claims = json!({"iss": self.url, "aud": audience, "sub": subject, "exp": now + 600});
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()).as_ref());
        format!("{signed}.{signature}")
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Responds to each request with the JSON of its path.
async fn serve(pages: Vec<(&'static str, Value)>, listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split(' ').nth(1).unwrap();
        let found = pages.iter().find(|(name, _)| *name == path);
        let (status, body) =
            found.map_or(("404 Not Found", String::new()), |(_, body)| ("200 OK", body.to_string()));
        let length = body.len();
        let response =
            format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
        stream.write_all(response.as_bytes()).await.unwrap();
    }
}
