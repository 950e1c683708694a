//! Converts SQLite errors to `StoreError`.

use std::time::Duration;

use rusqlite::{ErrorCode, ffi};
use toolwire_contract::conversations::StoreError;

/// A failed job, before the location of the store is added.
#[derive(Debug)]
pub(super) enum SqliteFailure {
    Sqlite(rusqlite::Error),
    Store(StoreError),
    /// The contents of the file cannot be read.
    Damaged(String),
    Foreign(String),
    Newer {
        found: u64,
        known: u64,
    },
    /// The worker thread or the file is unavailable.
    Unavailable(String),
}

impl From<rusqlite::Error> for SqliteFailure {
    fn from(error: rusqlite::Error) -> SqliteFailure {
        SqliteFailure::Sqlite(error)
    }
}

impl From<StoreError> for SqliteFailure {
    fn from(error: StoreError) -> SqliteFailure {
        SqliteFailure::Store(error)
    }
}

/// Whether a failed job may have written something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Reads,
    Writes,
}

impl SqliteFailure {
    pub(super) fn at(self, place: &str, timeout: Duration, access: Access) -> StoreError {
        let place = place.to_owned();
        let unavailable = |place, problem| match access {
            Access::Reads => StoreError::Unavailable { place, problem },
            Access::Writes => StoreError::OutcomeUnknown { place, problem },
        };
        match self {
            SqliteFailure::Store(error) => error,
            SqliteFailure::Damaged(problem) => StoreError::Damaged { place, problem },
            SqliteFailure::Foreign(problem) => StoreError::Foreign { place, problem },
            SqliteFailure::Newer { found, known } => StoreError::Newer { place, found, known },
            SqliteFailure::Unavailable(problem) => unavailable(place, problem),
            SqliteFailure::Sqlite(error) if is_disk_full(&error) => StoreError::Full { place },
            SqliteFailure::Sqlite(error) => {
                let problem = error.to_string();
                match error.sqlite_error_code() {
                    Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                        StoreError::Busy { place, after: timeout }
                    }
                    Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                        StoreError::Damaged { place, problem }
                    }
                    Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                        StoreError::Unavailable { place, problem }
                    }
                    // A commit that failed with an I/O error may still be on the disk after a crash.
                    Some(ErrorCode::SystemIoFailure) => unavailable(place, problem),
                    Some(_) => StoreError::Refused { place, problem },
                    // A column does not have the type that this program writes.
                    None => StoreError::Damaged { place, problem },
                }
            }
        }
    }
}

/// Whether a file could not grow. The first access needs 32 kB beside the file, and SQLite reports a full
/// disk there as an I/O error.
fn is_disk_full(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| (error.code, error.extended_code));
    matches!(code, Some((ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: i32, access: Access, expected: &str) {
        let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        let error = SqliteFailure::Sqlite(failure).at("a.db", Duration::ZERO, access);
        assert_eq!(error.code(), expected, "{error}");
    }

    #[test]
    fn a_full_disk_is_recognized_when_it_prevents_the_first_access() {
        for access in [Access::Reads, Access::Writes] {
            check(ffi::SQLITE_IOERR_SHMSIZE, access, "full");
            check(ffi::SQLITE_FULL, access, "full");
        }
        check(ffi::SQLITE_IOERR_READ, Access::Reads, "unavailable");
        check(ffi::SQLITE_IOERR_WRITE, Access::Writes, "outcome_unknown");
    }
}
