//! Tokens on disk: they survive a restart, and two processes do not lose each other's.
//!
//! One file per server and issuer, for a token is good at the one server it was issued for, and a client is known
//! to the one issuer it registered with. A file is replaced whole or not at all, so a reader needs no lock. Who
//! is about to refresh takes the server's lock and reads again first: refresh tokens are often good for one use,
//! and the other process may have used it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use reqwest::Url;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use crate::Secret;

/// No token file comes near it; what is larger is no token file.
const LARGEST_FILE: u64 = 1 << 20;
const VERSION: u32 = 1;

/// What an authorization server granted, and to whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) version: u32,
    /// The server's URL.
    pub(super) resource: String,
    pub(super) issuer: String,
    pub(super) client: Client,
    #[serde(default, with = "exposed", skip_serializing_if = "Option::is_none")]
    pub(super) access_token: Option<Secret>,
    #[serde(default, with = "exposed", skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<Secret>,
    /// In seconds since 1970, as all times here.
    pub(super) issued_at: u64,
    /// Missing when the authorization server did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
}

/// Who we are to the issuer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    #[serde(default, with = "exposed", skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<Secret>,
    /// It registered itself, and so may do it again.
    #[serde(default)]
    pub(super) registered: bool,
}

impl Grant {
    pub(super) fn new(resource: String, issuer: String, client: Client) -> Grant {
        Grant {
            version: VERSION,
            resource,
            issuer,
            client,
            access_token: None,
            refresh_token: None,
            issued_at: 0,
            expires_at: None,
            scopes: Vec::new(),
        }
    }
}

/// The grants of one server in a folder.
#[derive(Debug, Clone)]
pub(super) struct Store {
    folder: Arc<Path>,
    /// How the names of this server's files begin.
    stem: Arc<str>,
    resource: Arc<str>,
}

/// Held while a token is being replaced; let go when dropped, or when the process dies.
#[derive(Debug)]
pub(super) struct Lock {
    _file: Option<File>,
}

impl Store {
    pub(super) fn new(folder: PathBuf, resource: &Url) -> Store {
        let host = resource.host_str().unwrap_or_default();
        let host: String = host
            .chars()
            .take(64)
            .map(|letter| if letter.is_ascii_alphanumeric() || "-.".contains(letter) { letter } else { '_' })
            .collect();
        let stem = format!("{host}-{}", fingerprint(resource.as_str()));
        Store { folder: folder.into(), stem: stem.into(), resource: resource.as_str().into() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The newest grant. A file that cannot be read counts as none: the worst that follows is a login.
    pub(super) async fn load(&self) -> Option<Grant> {
        let store = self.clone();
        tokio::task::spawn_blocking(move || store.load_now()).await.unwrap_or_default()
    }

    fn load_now(&self) -> Option<Grant> {
        let grants = self.files().into_iter().filter_map(|path| match read(&path) {
            Ok(grant) if *grant.resource == *self.resource => Some(grant),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), kind = ?error.kind(), "a token file cannot be read and is ignored");
                None
            }
        });
        grants.max_by_key(|grant| grant.issued_at)
    }

    pub(super) async fn save(&self, grant: Grant) -> io::Result<()> {
        let store = self.clone();
        tokio::task::spawn_blocking(move || store.save_now(&grant)).await.map_err(io::Error::other)?
    }

    fn save_now(&self, grant: &Grant) -> io::Result<()> {
        make_private_folder(&self.folder)?;
        let path = self.folder.join(format!("{}-{}.json", self.stem, fingerprint(&grant.issuer)));
        // Made with mode 0600 from the start, and gone again if anything fails.
        let mut file = tempfile::Builder::new().prefix(".token-").suffix(".new").tempfile_in(&self.folder)?;
        file.write_all(&serde_json::to_vec_pretty(grant)?)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    /// Removes all grants of the server.
    pub(super) async fn forget(&self) -> io::Result<()> {
        let store = self.clone();
        let remove = move || {
            store.files().into_iter().try_for_each(|path| match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            })
        };
        tokio::task::spawn_blocking(remove).await.map_err(io::Error::other)?
    }

    /// Waits until no other process is replacing this server's token; `None` if that takes longer than `patience`.
    pub(super) async fn lock(&self, patience: Duration) -> io::Result<Option<Lock>> {
        let deadline = Instant::now() + patience;
        make_private_folder(&self.folder)?;
        let path = self.folder.join(format!("{}.lock", self.stem));
        let file = private().create(true).truncate(false).write(true).open(path)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Lock { _file: Some(file) })),
                Err(fs::TryLockError::WouldBlock) if Instant::now() >= deadline => return Ok(None),
                Err(fs::TryLockError::WouldBlock) => sleep(Duration::from_millis(50)).await,
                // Some network file systems have no locks; then reading again is all that can be done.
                Err(fs::TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(Some(Lock { _file: None }));
                }
                Err(fs::TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let start = format!("{}-", self.stem);
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&start) && name.ends_with(".json"))
        };
        entries.flatten().map(|entry| entry.path()).filter(is_ours).collect()
    }
}

fn read(path: &Path) -> io::Result<Grant> {
    let mut text = Vec::new();
    File::open(path)?.take(LARGEST_FILE).read_to_end(&mut text)?;
    // serde_json's own message may quote the text, which is a token.
    let grant: Grant = serde_json::from_slice(&text).map_err(|_| io::ErrorKind::InvalidData)?;
    if grant.version == VERSION { Ok(grant) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Enough of a SHA-256 to tell all servers of a person apart.
fn fingerprint(text: &str) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(unix)]
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(not(unix))]
fn private() -> OpenOptions {
    OpenOptions::new()
}

fn make_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        builder.mode(0o700).create(folder)?;
        let mode = fs::metadata(folder)?.permissions().mode();
        if mode & 0o077 != 0 {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        }
    }
    #[cfg(not(unix))]
    builder.create(folder)?;
    Ok(())
}

/// The one place where a secret is written as it is.
mod exposed {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::Secret;

    pub(super) fn serialize<S: Serializer>(
        secret: &Option<Secret>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Secret::expose).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(folder: &Path) -> Store {
        Store::new(folder.join("tokens"), &Url::parse("https://example.com/mcp").expect("it is a URL"))
    }

    fn grant(issuer: &str, token: &str, issued_at: u64) -> Grant {
        let client = Client { id: "client".to_owned(), secret: Some(Secret::new("hush")), registered: true };
        Grant {
            access_token: Some(Secret::new(token)),
            refresh_token: Some(Secret::new("again")),
            issued_at,
            expires_at: Some(issued_at + 3600),
            scopes: vec!["read".to_owned()],
            ..Grant::new("https://example.com/mcp".to_owned(), issuer.to_owned(), client)
        }
    }

    fn only_file(folder: &Path) -> PathBuf {
        let mut files = fs::read_dir(folder.join("tokens")).expect("it was made").flatten();
        files.find(|entry| entry.path().extension().is_some_and(|end| end == "json")).expect("saved").path()
    }

    #[tokio::test]
    async fn what_was_saved_is_loaded_and_the_newest_wins() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        assert_eq!(store.load().await, None);
        store.save(grant("https://old.example", "a", 1)).await.expect("saved");
        store.save(grant("https://new.example", "b", 2)).await.expect("saved");
        assert_eq!(store.load().await, Some(grant("https://new.example", "b", 2)));
        store.save(grant("https://old.example", "c", 3)).await.expect("saved");
        assert_eq!(store.load().await, Some(grant("https://old.example", "c", 3)));
        store.forget().await.expect("removed");
        assert_eq!(store.load().await, None);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn only_the_owner_may_look() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = folder.path().join("tokens");
        fs::create_dir(&tokens).expect("a folder");
        fs::set_permissions(&tokens, fs::Permissions::from_mode(0o755)).expect("set");
        let store = store(folder.path());
        store.save(grant("https://issuer.example", "a", 1)).await.expect("saved");
        let _lock = store.lock(Duration::ZERO).await.expect("locked");
        let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        assert_eq!(mode(&tokens), 0o700);
        for entry in fs::read_dir(&tokens).expect("it exists").flatten() {
            assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
        }
    }

    #[tokio::test]
    async fn a_spoilt_file_counts_as_none_and_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        store.save(grant("https://issuer.example", "a", 1)).await.expect("saved");
        let file = only_file(folder.path());
        let whole = fs::read(&file).expect("it is there");
        let spoilt = [&b""[..], b"{", b"null", b"\xff\xfe", b"{\"version\": 2}", &whole[..whole.len() / 2]];
        for text in spoilt {
            fs::write(&file, text).expect("written");
            assert_eq!(store.load().await, None);
        }
        store.save(grant("https://issuer.example", "b", 2)).await.expect("saved");
        assert_eq!(store.load().await, Some(grant("https://issuer.example", "b", 2)));
    }

    #[tokio::test]
    async fn another_servers_file_is_not_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        let elsewhere = Grant { resource: "https://example.com/other".to_owned(), ..grant("i", "a", 1) };
        store.save(elsewhere).await.expect("saved");
        assert_eq!(store.load().await, None);
    }

    #[tokio::test]
    async fn the_lock_is_held_by_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (store(folder.path()), store(folder.path()));
        let lock = first.lock(Duration::ZERO).await.expect("locks work");
        assert!(lock.is_some());
        assert!(second.lock(Duration::ZERO).await.expect("locks work").is_none());
        let waiting = second.lock(Duration::from_secs(30));
        let (waited, ()) = futures::join!(waiting, async { drop(lock) });
        assert!(waited.expect("locks work").is_some());
    }
}
