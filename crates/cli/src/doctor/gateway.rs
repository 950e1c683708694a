//! Checks what `toolwire serve` needs: its address, its keys, the files for TLS and the store; and asks a
//! gateway that is running whether it is ready.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolwire_contract::text::counted;
use toolwire_gateway::Keys;
use toolwire_hub::{ServerConfig, Transport};

use super::{ERROR, QUIET, SUCCESS, WARNING};
use crate::command_error::CommandError;
use crate::serve::configuration::read_tls;
use crate::serve::user_servers;
use crate::serve::{DEFAULT_ADDRESS, KEY_VARIABLE, address, keys};
use crate::servers::LoadedConfig;
use crate::settings::Settings;
use crate::storage;
use crate::stored_secrets::server_tokens::TokenPlace;
use crate::terminal_text::sanitize;

/// A certificate that expires within this time is a problem.
const SOON: Duration = Duration::from_secs(14 * DAY_SECONDS);

const DAY_SECONDS: u64 = 24 * 60 * 60;

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A longer response is not read to its end.
const MAX_RESPONSE_BYTES: u64 = 1024 * 1024;

/// The lines about the gateway, and the number of problems.
#[derive(Default)]
struct Findings {
    text: String,
    problems: usize,
}

impl Findings {
    fn good(&mut self, part: &str, facts: &str) {
        let _ = writeln!(self.text, "{SUCCESS}✓{SUCCESS:#} {part}  {QUIET}{}{QUIET:#}", sanitize(facts));
    }

    fn bad(&mut self, part: &str, problem: &str, hint: Option<&str>) {
        self.problems += 1;
        let _ = writeln!(self.text, "{ERROR}✗{ERROR:#} {part}  {}", sanitize(problem));
        if let Some(hint) = hint {
            let _ = writeln!(self.text, "    {}", sanitize(hint));
        }
    }

    fn warn(&mut self, part: &str, problem: &str, hint: &str) {
        self.problems += 1;
        let _ = writeln!(
            self.text,
            "{WARNING}!{WARNING:#} {part}  {}\n    {}",
            sanitize(problem),
            sanitize(hint)
        );
    }

    fn failed(&mut self, part: &str, error: CommandError) {
        let (problem, hint) = error.into_parts();
        self.bad(part, &problem, hint.as_deref());
    }
}

/// Reports the gateway if it is configured, and returns the number of problems.
pub(super) async fn report_gateway(text: &mut String, loaded: &LoadedConfig, settings: &Settings) -> usize {
    let configured = |key: &str| loaded.config.toolwire.as_ref().is_some_and(|keys| keys.get(key).is_some());
    let mut findings = Findings::default();
    if configured("store") {
        report_store(&mut findings, settings).await;
        report_logins(&mut findings, loaded);
    }
    if configured("gateway") || std::env::var_os(KEY_VARIABLE).is_some() {
        let listen = settings.gateway.listen.as_deref().unwrap_or(DEFAULT_ADDRESS);
        match address(listen) {
            Ok(address) => {
                report_keys(&mut findings, settings, address).await;
                report_user_servers(&mut findings, loaded, settings, address);
                report_tls(&mut findings, settings);
                report_running(&mut findings, settings, address).await;
            }
            Err(error) => findings.failed("gateway", error),
        }
    }
    text.push_str(&findings.text);
    findings.problems
}

/// Reports the servers for which each user has credentials.
fn report_user_servers(
    findings: &mut Findings,
    loaded: &LoadedConfig,
    settings: &Settings,
    address: SocketAddr,
) {
    let local = address.ip().is_loopback().then(|| format!("http://{address}"));
    match user_servers::check(&loaded.config, settings, local) {
        Ok(servers) => servers.iter().for_each(|(name, access)| findings.good(&sanitize(name), access)),
        Err(error) => findings.failed("credentials of users", error),
    }
}

async fn report_store(findings: &mut Findings, settings: &Settings) {
    match storage::open(&settings.store).await {
        Ok(store) => match store.list(1, None).await {
            Ok(_) => findings.good("store", "conversations can be read"),
            Err(error) => findings.failed("store", storage::command_error(error)),
        },
        Err(error) => findings.failed("store", error),
    }
}

/// Reports where the logins at servers are stored, if several gateways may have the same store.
fn report_logins(findings: &mut Findings, loaded: &LoadedConfig) {
    let may_need_login = |server: &ServerConfig| {
        let is_shared = server.user_credentials.is_none() && !server.disabled;
        is_shared && matches!(server.transport, Transport::Http { oauth: Some(_), .. })
    };
    if !loaded.config.servers.iter().any(may_need_login) {
        return;
    }
    match &loaded.tokens {
        TokenPlace::Files => {}
        TokenPlace::FilesWithoutSecret => findings.good(
            "logins",
            "stored on this machine only; with `toolwire.gateway.credentialKey`, all gateways share them",
        ),
        TokenPlace::Shared(_) => findings.good("logins", "stored in Redis for all gateways"),
    }
}

async fn report_keys(findings: &mut Findings, settings: &Settings, address: SocketAddr) {
    let keys = match keys(settings) {
        Ok(keys) => keys,
        Err(error) => return findings.failed("gateway", error),
    };
    let is_local = address.ip().to_canonical().is_loopback();
    // `report_store` reports a store that cannot be read.
    let stored = match storage::open_keys(&settings.store).await {
        Ok(store) => store.table.count().await.unwrap_or(0),
        Err(_) => 0,
    };
    let count = keys.len().saturating_add(usize::try_from(stored).unwrap_or(usize::MAX));
    if !is_local && count == 0 && settings.gateway.oidc.is_empty() {
        let problem = format!("{address} is reachable from other machines, and no key is configured");
        let hint = format!("use `toolwire keys create NAME`, {KEY_VARIABLE}, or `toolwire.gateway.keys`");
        return findings.bad("gateway", &problem, Some(&hint));
    }
    if let Some(name) = keys.weak_key().filter(|_| !is_local) {
        let problem = format!("the key `{name}` is shorter than {} characters", Keys::MIN_LENGTH);
        return findings.bad("gateway", &problem, Some("use the output of `openssl rand -hex 32`"));
    }
    let count = if count == 0 { "no keys".to_owned() } else { counted(count, "key") };
    findings.good("gateway", &format!("{address}, {count}"));
    if !is_local && settings.gateway.tls.is_none() {
        let hint = "set `toolwire.gateway.tls`, or use a proxy on this machine that has TLS";
        findings.warn("gateway", "clients on other machines send their keys without TLS", hint);
    }
}

fn report_tls(findings: &mut Findings, settings: &Settings) {
    let Some(files) = &settings.gateway.tls else { return };
    let tls = match read_tls(files) {
        Ok(tls) => tls,
        Err(error) => return findings.failed("TLS", error),
    };
    let renew = "renew it, then reload the gateway with SIGHUP";
    match tls.expires().map(|end| end.duration_since(SystemTime::now())) {
        None => findings.good("TLS", "the certificate and the key belong together"),
        Some(Err(_)) => findings.bad("TLS", "the certificate has expired", Some(renew)),
        Some(Ok(rest)) => {
            let days = counted(rest.as_secs() / DAY_SECONDS, "day");
            match rest < SOON {
                true => findings.warn("TLS", &format!("the certificate expires in {days}"), renew),
                false => findings.good("TLS", &format!("the certificate is valid for {days}")),
            }
        }
    }
    if is_readable_by_others(&files.key) {
        let problem = format!("other users can read `{}`", files.key.display());
        findings.warn("TLS", &problem, "remove their permissions: `chmod 600`");
    }
}

#[cfg(unix)]
fn is_readable_by_others(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|file| file.permissions().mode() & 0o004 != 0)
}

#[cfg(not(unix))]
fn is_readable_by_others(_: &Path) -> bool {
    false
}

/// Asks the gateway at the address, if there is one, whether it is ready.
async fn report_running(findings: &mut Findings, settings: &Settings, address: SocketAddr) {
    let address = match address {
        SocketAddr::V4(address) if address.ip().is_unspecified() => {
            SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))
        }
        SocketAddr::V6(address) if address.ip().is_unspecified() => {
            SocketAddr::from((Ipv6Addr::LOCALHOST, address.port()))
        }
        address => address,
    };
    let Ok(Ok(stream)) = tokio::time::timeout(RESPONSE_TIMEOUT, TcpStream::connect(address)).await else {
        return findings.good("running", "no gateway is running at this address");
    };
    if settings.gateway.tls.is_some() {
        return findings
            .good("running", "a program is listening; its state is not checked, because TLS is configured");
    }
    let state = tokio::time::timeout(RESPONSE_TIMEOUT, readiness(stream, address)).await.ok().flatten();
    let Some(state) = state else {
        let hint = "stop it, or use another address with `toolwire.gateway.listen`";
        return findings.bad("running", &format!("another program is listening on {address}"), Some(hint));
    };
    let status = state["status"].as_str().unwrap_or_default();
    let reasons = state["reasons"].as_array().map(Vec::as_slice).unwrap_or_default();
    match status == "ready" && reasons.is_empty() {
        true => findings.good("running", "the gateway is ready"),
        false => findings.bad("running", &format!("the gateway is {status}"), None),
    }
    for reason in reasons {
        let part = |key: &str| reason[key].as_str().map(sanitize).unwrap_or_default();
        let name = [part("part"), part("name")].join(" ");
        let _ = writeln!(findings.text, "    {}: {}", name.trim(), part("reason"));
    }
}

/// Returns the body of `/readyz`; `None` if the program at the address is not a gateway.
async fn readiness(mut stream: TcpStream, address: SocketAddr) -> Option<Value> {
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut response = String::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_string(&mut response).await.ok()?;
    let (_, body) = response.split_once("\r\n\r\n")?;
    let state: Value = serde_json::from_str(body).ok()?;
    state.get("unavailableServers").is_some().then_some(state)
}
