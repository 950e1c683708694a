//! The URL of a master that Redis Sentinel watches.
//!
//! `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DATABASE?sentinel_username=U&sentinel_password=P`
//!
//! The user and the password before `@` are those of the master and its replicas, because they are needed
//! more often. With `rediss+sentinel`, all connections use TLS.

use std::borrow::Cow;
use std::fmt;

use ::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use percent_encoding::percent_decode_str;

/// The port of a sentinel, if an address has none.
const SENTINEL_PORT: u16 = 26_379;

/// A master, and the sentinels that know its address.
#[derive(Debug)]
pub(super) struct SentinelUrl {
    pub(super) sentinels: Vec<ConnectionInfo>,
    /// The name of the master in the configuration of the sentinels.
    pub(super) master: String,
    pub(super) settings: RedisConnectionInfo,
    pub(super) uses_tls: bool,
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    pub(super) fn connection_info(
        &self,
        settings: &RedisConnectionInfo,
        uses_tls: bool,
    ) -> Result<ConnectionInfo, ::redis::RedisError> {
        let Address { host, port } = self.clone();
        let address = match uses_tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        };
        Ok(address.into_connection_info()?.set_redis_settings(settings.clone()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(formatter, "[{}]:{}", self.host, self.port),
            false => write!(formatter, "{}:{}", self.host, self.port),
        }
    }
}

/// Whether a URL has a scheme for sentinels.
pub(super) fn is_sentinel_url(url: &str) -> bool {
    ["redis+sentinel://", "rediss+sentinel://"].iter().any(|scheme| url.starts_with(scheme))
}

impl SentinelUrl {
    /// Reads a URL. Errors contain nothing that may be a password.
    pub(super) fn parse(url: &str) -> Result<SentinelUrl, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let uses_tls = scheme == "rediss+sentinel";
        if rest.contains('#') {
            return Err("unexpected `#`; write `%23` in a password".to_owned());
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let mut settings = with_credentials(&decode(user)?, &decode(password)?);
        let (master, database) = path.split_once('/').unwrap_or((path, ""));
        let master = decode(master)?.into_owned();
        if master.is_empty() {
            return Err(format!("the name of the master is missing; write `{scheme}://HOST:26379/NAME`"));
        }
        if !database.is_empty() {
            let number =
                database.parse::<u32>().map_err(|_| "the database after the master is not a number")?;
            settings = settings.set_db(i64::from(number));
        }
        let sentinel_settings = sentinel_settings(query)?;
        let sentinels = hosts.split(',').map(|host| {
            let address = parse_address(host)?;
            let info = address.connection_info(&sentinel_settings, uses_tls);
            info.map_err(|error| error.to_string())
        });
        Ok(SentinelUrl { sentinels: sentinels.collect::<Result<_, String>>()?, master, settings, uses_tls })
    }
}

/// Reads the user and the password of the sentinels.
fn sentinel_settings(query: &str) -> Result<RedisConnectionInfo, String> {
    let (mut user, mut password) = (Cow::default(), Cow::default());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "sentinel_username" => user = decode(value)?,
            "sentinel_password" => password = decode(value)?,
            _ => return Err("expected `sentinel_username` or `sentinel_password` after `?`".to_owned()),
        }
    }
    Ok(with_credentials(&user, &password))
}

fn with_credentials(user: &str, password: &str) -> RedisConnectionInfo {
    let settings = RedisConnectionInfo::default();
    let settings = if user.is_empty() { settings } else { settings.set_username(user) };
    if password.is_empty() { settings } else { settings.set_password(password) }
}

fn decode(text: &str) -> Result<Cow<'_, str>, String> {
    percent_decode_str(text).decode_utf8().map_err(|_| "a part of the URL is not UTF-8".to_owned())
}

fn parse_address(text: &str) -> Result<Address, String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("the address of a sentinel has `[` without `]`")?,
        None => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
    };
    if host.is_empty() {
        return Err("the address of a sentinel is missing".to_owned());
    }
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().map_err(|_| "the port of a sentinel is not a number up to 65535")?,
        None if port.is_empty() => SENTINEL_PORT,
        None => return Err("the address of a sentinel has text after `]`".to_owned()),
    };
    Ok(Address { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sentinels, the master, the database and whether there is TLS, and both pairs of
    /// credentials.
    fn parts(url: &str) -> (Vec<String>, String, i64, bool, [Option<String>; 4]) {
        let parsed = SentinelUrl::parse(url).expect("a valid URL");
        let sentinels = parsed.sentinels.iter().map(|sentinel| sentinel.addr().to_string()).collect();
        let is_tls = |info: &ConnectionInfo| matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        assert!(parsed.sentinels.iter().all(|sentinel| is_tls(sentinel) == parsed.uses_tls));
        let of_sentinel = parsed.sentinels[0].redis_settings();
        assert_eq!(of_sentinel.db(), 0, "sentinels have no databases");
        let credentials = [
            parsed.settings.username(),
            parsed.settings.password(),
            of_sentinel.username(),
            of_sentinel.password(),
        ];
        let credentials = credentials.map(|text| text.map(str::to_owned));
        (sentinels, parsed.master, parsed.settings.db(), parsed.uses_tls, credentials)
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn every_part_is_read() {
        let (sentinels, master, database, uses_tls, credentials) = parts("redis+sentinel://one/main");
        assert_eq!((sentinels, &*master, database, uses_tls), (texts(&["one:26379"]), "main", 0, false));
        assert_eq!(credentials, [None, None, None, None]);

        let url = "rediss+sentinel://app:p%40ss,%2F@one:1,two,[::1]:3,[::2]/my%20master/5\
                   ?sentinel_username=watch&sentinel_password=s%26cret";
        let (sentinels, master, database, uses_tls, credentials) = parts(url);
        assert_eq!(sentinels, texts(&["one:1", "two:26379", "::1:3", "::2:26379"]));
        assert_eq!((&*master, database, uses_tls), ("my master", 5, true));
        let expected = ["app", "p@ss,/", "watch", "s&cret"];
        assert_eq!(credentials, expected.map(|text| Some(text.to_owned())));

        let (.., credentials) = parts("redis+sentinel://:secret@one/main/");
        assert_eq!(credentials, [None, Some("secret".to_owned()), None, None]);
    }

    #[test]
    fn errors_do_not_contain_the_password() {
        for (part, problem) in [
            ("one:1", "the name of the master is missing; write `redis+sentinel://HOST:26379/NAME`"),
            ("one:1/", "the name of the master is missing; write `redis+sentinel://HOST:26379/NAME`"),
            ("/main", "the address of a sentinel is missing"),
            ("one,,two/main", "the address of a sentinel is missing"),
            ("one:x/main", "the port of a sentinel is not a number up to 65535"),
            ("[::1/main", "the address of a sentinel has `[` without `]`"),
            ("[::1]1/main", "the address of a sentinel has text after `]`"),
            ("one/main/first", "the database after the master is not a number"),
            ("one/main/0#x", "unexpected `#`; write `%23` in a password"),
            ("one/main?password=secret", "expected `sentinel_username` or `sentinel_password` after `?`"),
        ] {
            let error = SentinelUrl::parse(&format!("redis+sentinel://:secret@{part}")).expect_err(part);
            assert_eq!(error, problem, "{part}");
        }
    }
}
