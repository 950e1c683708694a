//! The credentials of proxies that a server process gets in its environment. Programs print proxy URLs in
//! their errors.

use std::ffi::OsString;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use reqwest::Url;
use toolwire_contract::Secret;

/// Shorter values are not secret, and are parts of other words.
const MIN_SECRET_BYTES: usize = 8;

/// The user info of each proxy, in the forms in which programs print it.
#[derive(Default)]
pub(crate) struct ProxyCredentials(Vec<Secret>);

impl ProxyCredentials {
    pub(crate) fn new(environment: &[(OsString, OsString)]) -> ProxyCredentials {
        let mut forms: Vec<String> = environment
            .iter()
            .filter(|(name, _)| name.to_str().is_some_and(names_proxy))
            .filter_map(|(_, value)| user_info(value.to_str()?))
            .flat_map(printed_forms)
            .collect();
        // One form can be a part of another one.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        ProxyCredentials(forms.into_iter().map(Secret::new).collect())
    }

    /// Replaces the credentials in the output of a process.
    pub(crate) fn redact(&self, text: String) -> String {
        self.0.iter().fold(text, |text, form| {
            let form = form.expose();
            match (text.contains(form), form.ends_with('@')) {
                (false, _) => text,
                (true, true) => text.replace(form, "…@"),
                (true, false) => text.replace(form, "…"),
            }
        })
    }

    /// Returns the length of the longest text that [`redact`](ProxyCredentials::redact) replaces.
    pub(crate) fn max_bytes(&self) -> usize {
        self.0.first().map_or(0, |form| form.expose().len())
    }
}

fn names_proxy(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("_proxy") && name != "no_proxy"
}

/// Returns the user info of a proxy URL, which may have no scheme.
fn user_info(proxy: &str) -> Option<&str> {
    let rest = proxy.split_once("://").map_or(proxy, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    authority.rsplit_once('@').map(|(user_info, _)| user_info).filter(|user_info| !user_info.is_empty())
}

fn printed_forms(user_info: &str) -> Vec<String> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let mut written = vec![user_info.to_owned(), decode(user_info)];
    // Some characters are encoded when a program parses the URL.
    if let Ok(url) = Url::parse(&format!("http://{user_info}@proxy")) {
        written.push(match url.password() {
            Some(password) => format!("{}:{password}", url.username()),
            None => url.username().to_owned(),
        });
    }
    let passwords =
        written.iter().filter_map(|form| form.split_once(':')).map(|(_, password)| password.to_owned());
    let mut long: Vec<String> = passwords.chain(written.iter().cloned()).collect();
    // As in a `Proxy-Authorization` header.
    long.push(STANDARD.encode(decode(user_info)));
    long.retain(|form| form.len() >= MIN_SECRET_BYTES);
    written.into_iter().map(|form| format!("{form}@")).chain(long).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, text: &str, expected: &str) {
        let credentials = ProxyCredentials::new(&[(name.into(), value.into())]);
        assert_eq!(credentials.redact(text.to_owned()), expected);
    }

    #[test]
    fn every_form_of_the_credentials_is_removed() {
        const PROXY: &str = "http://me:s3cret%2Fword@proxy.example:3128/";
        for (text, expected) in [
            (
                "cannot reach http://me:s3cret%2Fword@proxy.example:3128/",
                "cannot reach http://…@proxy.example:3128/",
            ),
            ("user me:s3cret/word, password s3cret/word", "user …, password …"),
            ("password s3cret%2Fword", "password …"),
            ("Proxy-Authorization: Basic bWU6czNjcmV0L3dvcmQ=", "Proxy-Authorization: Basic …"),
            ("me and others at proxy.example", "me and others at proxy.example"),
        ] {
            for name in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"] {
                check(name, PROXY, text, expected);
            }
        }
    }

    #[test]
    fn short_credentials_are_removed_from_urls_alone() {
        check("HTTPS_PROXY", "a:b@proxy:1", "via http://a:b@proxy:1, data:b", "via http://…@proxy:1, data:b");
        check("HTTPS_PROXY", "token@proxy", "via token@proxy, a token", "via …@proxy, a token");
    }

    #[test]
    fn a_password_can_contain_any_character() {
        check("HTTPS_PROXY", "http://me:p@ss word@proxy", "http://me:p@ss word@proxy", "http://…@proxy");
        check("HTTPS_PROXY", "http://me:p@ss word@proxy", "http://me:p%40ss%20word@proxy", "http://…@proxy");
    }

    #[test]
    fn a_proxy_without_credentials_changes_nothing() {
        check(
            "HTTPS_PROXY",
            "http://proxy.example:3128/@",
            "http://proxy.example:3128/@",
            "http://proxy.example:3128/@",
        );
        check("NO_PROXY", "user:password@host", "user:password@host", "user:password@host");
    }
}
