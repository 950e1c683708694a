//! The URL that requests are sent to.

use percent_encoding::{percent_decode_str, utf8_percent_encode};
use reqwest::Url;

use crate::Secret;
use crate::providers::Provider;
use crate::sign::RESERVED;

/// Returns the URL that requests are sent to, and the user and the password of the base URL. A query of the
/// base URL stays.
pub(crate) fn request_url(
    base_url: &str,
    path: &str,
    model: &str,
    version: Option<&str>,
    provider: &Provider,
) -> Result<(Url, Option<(String, Secret)>), String> {
    let (base_url, base_query) = match base_url.split_once('?') {
        Some((base_url, query)) => (base_url, Some(query).filter(|query| !query.is_empty())),
        None => (base_url, None),
    };
    let base_url = if provider.name == "ollama" { ollama_base_url(base_url) } else { base_url.to_owned() };
    let base = base_url.trim_end_matches('/');
    // Azure's v1 API names the deployment in the body and needs no version.
    let is_azure_v1 = provider.name == "azure" && base.ends_with("/openai/v1");
    let v1_path = path.strip_prefix("/openai/deployments/{model}").filter(|_| is_azure_v1);
    let path = v1_path.and_then(|path| path.split('?').next()).unwrap_or(path);
    // The base URL may already end with the first segment of the path.
    let path = match path.trim_start_matches('/').split_once('/') {
        Some((first, _)) if base.ends_with(&format!("/{first}")) => &path[first.len() + 1..],
        _ => path,
    };
    let encode = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
    let path = path
        .replace("{model}", &encode(model))
        .replace("{api-version}", &encode(version.unwrap_or_default()));
    let mut url = Url::parse(&format!("{base}{path}")).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("the scheme is not `http` or `https`, or the host is missing".to_owned());
    }
    if let Some(base_query) = base_query {
        let key = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
        let base_keys: Vec<String> = base_query.split('&').map(key).collect();
        let own = url.query().into_iter().flat_map(|query| query.split('&'));
        let own = own.filter(|pair| !base_keys.contains(&key(pair)));
        let query = own.chain([base_query]).collect::<Vec<_>>().join("&");
        url.set_query(Some(&query));
    }
    let login = take_login(&mut url);
    Ok((url, login))
}

/// Removes the user and the password from the URL.
fn take_login(url: &mut Url) -> Option<(String, Secret)> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (user, password) = (decode(url.username()), decode(url.password().unwrap_or_default()));
    if user.is_empty() && password.is_empty() {
        return None;
    }
    // Neither fails for a URL with a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Some((user, Secret::new(password)))
}

/// Replaces what may be secret in the text of a URL, which need not be valid: user, password and query.
pub(crate) fn redact_url(text: &str) -> String {
    let (text, query) = text.split_once('?').map_or((text, ""), |(text, _)| (text, "?…"));
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let rest = match rest.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => rest.to_owned(),
    };
    format!("{scheme}{rest}{query}")
}

/// Returns the URL for `OLLAMA_HOST`, which may be a host, a host and a port, or a URL. The listen address
/// `0.0.0.0` becomes localhost.
fn ollama_base_url(host: &str) -> String {
    let with_scheme =
        if host.contains("://") { host.to_owned() } else { format!("http://{}", with_hostname(host)) };
    let Ok(mut url) = Url::parse(&with_scheme) else { return host.to_owned() };
    if url.host_str() == Some("0.0.0.0") && url.set_host(Some("127.0.0.1")).is_err() {
        return host.to_owned();
    }
    if !host.contains("://") && url.port().is_none() && url.set_port(Some(11434)).is_err() {
        return host.to_owned();
    }
    url.to_string()
}

fn with_hostname(host: &str) -> String {
    if host.starts_with(':') { format!("127.0.0.1{host}") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_a_url_are_redacted() {
        for (text, expected) in [
            ("https://a.example/v1", "https://a.example/v1"),
            ("https://me:pass@a.example/v1?key=k", "https://…@a.example/v1?…"),
            ("htp//me:p@ss@a", "…@a"),
        ] {
            assert_eq!(redact_url(text), expected);
        }
    }
}
