//! Token files. They survive a restart, and processes that share them do not lose each other's tokens.
//!
//! There is one file per server and issuer: a token is valid only at the server it was issued for, and a
//! client is known only to the issuer it registered with. Files are replaced atomically, so readers need no
//! lock. A process that refreshes takes the server's lock and reads the file again first, because refresh
//! tokens are often valid for one use and another process may have used it.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use reqwest::Url;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use super::token_storage::TokenLock;
use crate::{Secret, private_file};

/// Token files are much smaller.
const MAX_FILE_BYTES: u64 = 1 << 20;
const VERSION: u32 = 1;

/// Tokens that an authorization server issued, and the client that received them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) version: u32,
    /// The server's URL.
    pub(super) resource: String,
    pub(super) issuer: String,
    pub(super) client: OAuthClient,
    #[serde(default, with = "plain_text", skip_serializing_if = "Option::is_none")]
    pub(super) access_token: Option<Secret>,
    #[serde(default, with = "plain_text", skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<Secret>,
    /// In seconds since 1970, like all times here.
    pub(super) issued_at: u64,
    /// Missing if the authorization server did not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
}

/// This client, as the issuer knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OAuthClient {
    pub(super) id: String,
    #[serde(default, with = "plain_text", skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<Secret>,
    /// Whether it registered itself, and so can do it again.
    #[serde(default)]
    pub(super) registered: bool,
}

impl Grant {
    pub(super) fn new(resource: String, issuer: String, client: OAuthClient) -> Grant {
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

    pub(super) fn from_json(text: &[u8]) -> io::Result<Grant> {
        // serde_json's message may quote the text, which contains a token.
        let grant: Grant = serde_json::from_slice(text).map_err(|_| io::ErrorKind::InvalidData)?;
        if grant.version == VERSION { Ok(grant) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// The stored grants of one server.
#[derive(Debug, Clone)]
pub(super) struct TokenFiles {
    folder: Arc<Path>,
    /// The start of the names of this server's files.
    stem: Arc<str>,
    resource: Arc<str>,
}

impl TokenFiles {
    pub(super) fn new(folder: PathBuf, resource: &Url) -> TokenFiles {
        let host = resource.host_str().unwrap_or_default();
        let host: String = host
            .chars()
            .take(64)
            .map(|letter| if letter.is_ascii_alphanumeric() || "-.".contains(letter) { letter } else { '_' })
            .collect();
        let stem = format!("{host}-{}", short_hash(resource.as_str()));
        TokenFiles { folder: folder.into(), stem: stem.into(), resource: resource.as_str().into() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the newest grant. Unreadable files are ignored: the worst consequence is another login.
    pub(super) async fn load(&self) -> Option<Grant> {
        let store = self.clone();
        tokio::task::spawn_blocking(move || store.load_blocking()).await.unwrap_or_default()
    }

    fn load_blocking(&self) -> Option<Grant> {
        let grants = self.files().into_iter().filter_map(|path| match read(&path) {
            Ok(grant) if *grant.resource == *self.resource => Some(grant),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), kind = ?error.kind(), "ignoring an unreadable token file");
                None
            }
        });
        grants.max_by_key(|grant| grant.issued_at)
    }

    pub(super) async fn save(&self, grant: Grant) -> io::Result<()> {
        let store = self.clone();
        tokio::task::spawn_blocking(move || store.save_blocking(&grant)).await.map_err(io::Error::other)?
    }

    fn save_blocking(&self, grant: &Grant) -> io::Result<()> {
        private_file::make_private_folder(&self.folder)?;
        let path = self.folder.join(format!("{}-{}.json", self.stem, short_hash(&grant.issuer)));
        private_file::replace(&path, &serde_json::to_vec_pretty(grant)?)
    }

    /// Deletes all grants of the server, and returns whether there were any.
    pub(super) async fn delete(&self) -> io::Result<bool> {
        let store = self.clone();
        let remove = move || {
            let files = store.files();
            files.iter().try_for_each(|path| match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            })?;
            Ok(!files.is_empty())
        };
        tokio::task::spawn_blocking(remove).await.map_err(io::Error::other)?
    }

    /// Waits until no other process refreshes this server's token; returns `None` after `timeout`.
    pub(super) async fn lock(&self, timeout: Duration) -> io::Result<Option<TokenLock>> {
        let deadline = Instant::now() + timeout;
        private_file::make_private_folder(&self.folder)?;
        let path = self.folder.join(format!("{}.lock", self.stem));
        let file = private_file::open_for_lock(&path)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Box::new(file))),
                Err(fs::TryLockError::WouldBlock) if Instant::now() >= deadline => return Ok(None),
                Err(fs::TryLockError::WouldBlock) => sleep(Duration::from_millis(50)).await,
                // Some network file systems have no locks; reading the file again must be enough there.
                Err(fs::TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(Some(Box::new(())));
                }
                Err(fs::TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let start = format!("{}-", self.stem);
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let is_token_file = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&start) && name.ends_with(".json"))
        };
        entries.flatten().map(|entry| entry.path()).filter(is_token_file).collect()
    }
}

fn read(path: &Path) -> io::Result<Grant> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut text)?;
    Grant::from_json(&text)
}

/// Returns the first 8 bytes of a SHA-256: enough to distinguish the servers of one user.
fn short_hash(text: &str) -> String {
    let mut hash = format!("{:x}", Sha256::digest(text));
    hash.truncate(16);
    hash
}

pub(super) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Serializes secrets as plain text.
pub(super) mod plain_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::Secret;

    pub(in crate::auth) fn serialize<S: Serializer>(
        secret: &Option<Secret>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(Secret::expose).serialize(serializer)
    }

    pub(in crate::auth) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(folder: &Path) -> TokenFiles {
        TokenFiles::new(folder.join("tokens"), &Url::parse("https://example.com/mcp").expect("a valid URL"))
    }

    fn grant(issuer: &str, token: &str, issued_at: u64) -> Grant {
        let client =
            OAuthClient { id: "client".to_owned(), secret: Some(Secret::new("hush")), registered: true };
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
        let mut files = fs::read_dir(folder.join("tokens")).expect("the folder exists").flatten();
        files
            .find(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
            .expect("a saved grant")
            .path()
    }

    #[tokio::test]
    async fn the_newest_saved_grant_is_loaded() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = store(folder.path());
        assert_eq!(store.load().await, None);
        store.save(grant("https://old.example", "a", 1)).await.expect("saved");
        store.save(grant("https://new.example", "b", 2)).await.expect("saved");
        assert_eq!(store.load().await, Some(grant("https://new.example", "b", 2)));
        store.save(grant("https://old.example", "c", 3)).await.expect("saved");
        assert_eq!(store.load().await, Some(grant("https://old.example", "c", 3)));
        store.delete().await.expect("deleted");
        assert_eq!(store.load().await, None);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn only_the_owner_can_read_token_files() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tokens = folder.path().join("tokens");
        fs::create_dir(&tokens).expect("a temporary folder");
        fs::set_permissions(&tokens, fs::Permissions::from_mode(0o755)).expect("set");
        let store = store(folder.path());
        store.save(grant("https://issuer.example", "a", 1)).await.expect("saved");
        let _lock = store.lock(Duration::ZERO).await.expect("locked");
        let mode = |path: &Path| fs::metadata(path).expect("the file exists").permissions().mode() & 0o777;
        assert_eq!(mode(&tokens), 0o700);
        for entry in fs::read_dir(&tokens).expect("the folder exists").flatten() {
            assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
        }
    }

    #[tokio::test]
    async fn an_invalid_file_is_ignored_and_replaced() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = store(folder.path());
        store.save(grant("https://issuer.example", "a", 1)).await.expect("saved");
        let file = only_file(folder.path());
        let complete = fs::read(&file).expect("the file exists");
        let invalid =
            [&b""[..], b"{", b"null", b"\xff\xfe", b"{\"version\": 2}", &complete[..complete.len() / 2]];
        for text in invalid {
            fs::write(&file, text).expect("written");
            assert_eq!(store.load().await, None);
        }
        store.save(grant("https://issuer.example", "b", 2)).await.expect("saved");
        assert_eq!(store.load().await, Some(grant("https://issuer.example", "b", 2)));
    }

    #[tokio::test]
    async fn the_file_of_another_server_is_not_used() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = store(folder.path());
        let other_server = Grant { resource: "https://example.com/other".to_owned(), ..grant("i", "a", 1) };
        store.save(other_server).await.expect("saved");
        assert_eq!(store.load().await, None);
    }

    #[tokio::test]
    async fn only_one_process_holds_the_lock() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (first, second) = (store(folder.path()), store(folder.path()));
        let lock = first.lock(Duration::ZERO).await.expect("the lock file can be opened");
        assert!(lock.is_some());
        assert!(second.lock(Duration::ZERO).await.expect("the lock file can be opened").is_none());
        let waiting = second.lock(Duration::from_secs(30));
        let (waited, ()) = futures::join!(waiting, async { drop(lock) });
        assert!(waited.expect("the lock file can be opened").is_some());
    }
}
