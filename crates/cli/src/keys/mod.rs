//! `toolwire keys`: creates, lists and revokes the keys of the gateway's clients.

mod rights;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolwire_contract::conversations::Timestamp;
use toolwire_contract::keys::{KeyId, KeyRecord};
use toolwire_contract::text::parse_duration;
use toolwire_gateway::{IssuedKey, stored_key_owner};

use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::output::{self, to_json};
use crate::servers;
use crate::settings;
use crate::storage::{self, KeyStore};
use crate::terminal_text::sanitize;
use rights::RightsArgs;

/// Create, list and revoke keys of the gateway
///
/// A key identifies a client of `toolwire serve`, and limits what it may do. The keys are in the store of the
/// configuration; all gateways that use this store accept them, and refuse them within seconds after they are
/// revoked. Only a hash of a key is stored.
#[derive(Args)]
#[command(after_long_help = include_str!("../help/keys.txt"))]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create a key, and print it once
    ///
    /// From the first key on, all clients of the gateway need a key.
    Create(Box<CreateArgs>),
    /// List the keys
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Display a key: its rights, its limits and its usage
    Show {
        /// The id of the key, its name, or the key itself
        #[arg(value_name = "KEY")]
        key: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key; it cannot be used again
    Revoke {
        /// The id of the key, its name, or the key itself
        #[arg(value_name = "KEY")]
        key: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct CreateArgs {
    /// A name for people, such as `ci` or `alice`
    #[arg(value_name = "NAME")]
    name: String,
    /// Keys of the same tenant share stored data, such as responses [default: none, and the data is not
    /// shared]
    #[arg(long, value_name = "T")]
    tenant: Option<String>,
    /// When the key expires: a duration such as 12h or 30d, or the start of a day (UTC) such as 2027-01-31
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
    #[command(flatten)]
    rights: RightsArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &KeysArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let loaded = servers::find_config(config)?;
    let settings = settings::read(loaded.config.toolwire.as_ref(), &loaded.origin)?;
    servers::run(async {
        let store = storage::open_keys(&settings.store).await?;
        match &args.action {
            Action::Create(args) => create(args, &store).await,
            Action::List { json } => list(*json, &store).await,
            Action::Show { key, json } => show(key, *json, &store).await,
            Action::Revoke { key, json } => revoke(key, *json, &store).await,
        }?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn create(args: &CreateArgs, store: &KeyStore) -> Result<(), CommandError> {
    let name = args.name.trim();
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(CommandError::usage(
            "the name of a key must have a visible character, and no line breaks",
        )
        .with_hint("use the name of a person or a program, such as `alice` or `ci`"));
    }
    let rights = args.rights.read()?;
    let created = now();
    let expires = args.expires.as_deref().map(|text| expiry(text, created)).transpose()?;
    let issued = IssuedKey::generate()
        .ok_or_else(|| CommandError::work("the operating system provides no random bytes"))?;
    let record = KeyRecord {
        id: issued.id,
        name: name.to_owned(),
        tenant: args.tenant.as_deref().map(str::trim).filter(|tenant| !tenant.is_empty()).map(str::to_owned),
        digest: issued.digest,
        rights,
        created,
        expires,
        revoked: None,
    };
    let is_first = store.table.count().await.map_err(storage::command_error)? == 0;
    if !store.table.add(record.clone()).await.map_err(storage::command_error)? {
        return Err(CommandError::work(format!("there is already a key with the id {}", record.id))
            .with_hint("run the command again"));
    }
    let key = issued.secret.expose();
    if args.json {
        let mut value = describe(&record, created, None);
        value["key"] = Value::from(key);
        output::print(&to_json(&value, false))?;
    } else {
        output::print(&format!("{key}\n"))?;
    }
    print_stderr(&format!(
        "{NOTE}note:{NOTE:#} the key cannot be displayed again; clients send it as `Authorization: Bearer KEY` or \
         `x-api-key: KEY`\n"
    ));
    if is_first {
        print_stderr(&format!(
            "{NOTE}note:{NOTE:#} this is the first key in {}: from now on, all clients need a key\n",
            sanitize(&store.place)
        ));
    }
    Ok(())
}

async fn list(is_json: bool, store: &KeyStore) -> Result<(), CommandError> {
    let keys = store.table.list().await.map_err(storage::command_error)?;
    let now = now();
    if is_json {
        let keys: Vec<Value> = keys.iter().map(|key| describe(key, now, None)).collect();
        return output::print(&to_json(&keys, false));
    }
    if keys.is_empty() {
        print_stderr(&format!(
            "{NOTE}note:{NOTE:#} there are no keys\n{HINT}hint:{HINT:#} `toolwire keys create NAME` creates one\n"
        ));
    }
    output::print_styled(&table::list(&keys, now))
}

async fn show(key: &str, is_json: bool, store: &KeyStore) -> Result<(), CommandError> {
    let key = find(key, false, store).await?;
    let now = now();
    let used = match key.rights.tokens_per_month {
        Some(_) => {
            let (owner, month) = (stored_key_owner(&key.id), now.month());
            Some(store.usage.used(&owner, &month).await.map_err(storage::command_error)?)
        }
        None => None,
    };
    match is_json {
        true => output::print(&to_json(&describe(&key, now, used), false)),
        false => output::print_styled(&table::one(&key, now, used)),
    }
}

async fn revoke(key: &str, is_json: bool, store: &KeyStore) -> Result<(), CommandError> {
    let key = find(key, true, store).await?;
    let now = now();
    let was_revoked = key.revoked.is_some();
    let revoked = store.table.revoke(&key.id, now).await.map_err(storage::command_error)?.unwrap_or(key);
    if is_json {
        return output::print(&to_json(&describe(&revoked, now, None), false));
    }
    let name = sanitize(&revoked.name);
    let text = match was_revoked {
        true => format!("{} (`{name}`) was already revoked\n", revoked.id),
        false => format!("revoked {} (`{name}`); running gateways refuse it within 5 seconds\n", revoked.id),
    };
    output::print(&text)
}

/// Finds a key by its id, its text or its name. With `prefers_valid`, keys of the same name that are
/// not valid any more are ignored if there are several.
async fn find(text: &str, prefers_valid: bool, store: &KeyStore) -> Result<KeyRecord, CommandError> {
    let text = text.trim();
    // A complete key is found by the id that it contains; its secret part is ignored.
    let id = text.strip_prefix("tw_").and_then(|rest| rest.get(..KeyId::LENGTH)).unwrap_or(text);
    if let Ok(id) = id.parse::<KeyId>()
        && let Some(key) = store.table.find(&id).await.map_err(storage::command_error)?
    {
        return Ok(key);
    }
    let keys = store.table.list().await.map_err(storage::command_error)?;
    let mut named: Vec<KeyRecord> = keys.into_iter().filter(|key| key.name == text).collect();
    if named.len() > 1 && prefers_valid {
        let now = now();
        named.retain(|key| key.is_valid_at(now));
    }
    match named.len() {
        1 => Ok(named.remove(0)),
        0 => {
            // A mistyped key must not appear in a log.
            let what = if text.starts_with("tw_") {
                "no such key".to_owned()
            } else {
                format!("no key has the name or the id `{}`", sanitize(text))
            };
            Err(CommandError::usage(what).with_hint("`toolwire keys list` lists the keys"))
        }
        count => {
            let ids: Vec<&str> = named.iter().map(|key| key.id.as_str()).collect();
            Err(CommandError::usage(format!("{count} keys are named `{}`", sanitize(text)))
                .with_hint(format!("use one of their ids: {}", ids.join(", "))))
        }
    }
}

/// Returns a key as JSON, without its hash.
fn describe(key: &KeyRecord, now: Timestamp, used: Option<u64>) -> Value {
    let time = |time: Option<Timestamp>| time.map(|time| time.rfc_3339().to_string());
    let mut value = json!({
        "id": key.id, "name": key.name, "tenant": key.tenant, "state": table::state(key, now),
        "created": time(Some(key.created)), "expires": time(key.expires), "revoked": time(key.revoked),
        "rights": key.rights,
    });
    if let Some(used) = used {
        value["usage"] = json!({"month": now.month(), "tokens": used});
    }
    value
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Parses a duration from now, or a date.
fn expiry(text: &str, now: Timestamp) -> Result<Timestamp, CommandError> {
    let text = text.trim();
    let days = text.strip_suffix('d').and_then(|days| days.trim().parse::<u32>().ok());
    let after = days.map(|days| Duration::from_secs(u64::from(days) * 24 * 60 * 60));
    // A number without a unit would mean seconds, which is probably a mistake.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let after = after.or_else(|| parse_duration(text).filter(|_| !is_number));
    let at =
        after.and_then(|after| Some(Timestamp(now.0.checked_add(u64::try_from(after.as_millis()).ok()?)?)));
    match at.or_else(|| Timestamp::from_date(text)) {
        Some(at) if at > now => Ok(at),
        Some(_) => Err(CommandError::usage(format!("`--expires`: {} is in the past", sanitize(text)))
            .with_hint("use a duration such as 30d, or a later day")),
        None => {
            Err(CommandError::usage(format!("`--expires`: `{}` is not a duration or a day", sanitize(text)))
                .with_hint("use a duration such as 12h or 30d, or a day such as 2027-01-31"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_expires_after_a_duration_or_on_a_day() {
        let now = Timestamp::from_date("2026-11-19").expect("a date");
        let after = |text: &str| expiry(text, now).map(|at| (at.0 - now.0) / 3_600_000).ok();
        assert_eq!(after("12h"), Some(12));
        assert_eq!(after("30d"), Some(30 * 24));
        assert_eq!(after("2026-11-20"), Some(24));
        for wrong in ["", "30", "d", "soon", "2026-11-19", "2026-02-30", "0d", "-1d", "99999999999999999999h"]
        {
            assert_eq!(after(wrong), None, "{wrong}");
        }
    }
}
