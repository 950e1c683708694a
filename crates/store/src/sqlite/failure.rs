//! What can go wrong below, in the words of the contract.

use std::time::Duration;

use rusqlite::ErrorCode;
use toolwire_contract::StoreError;

/// Why a job failed, before it is known at which place.
#[derive(Debug)]
pub(super) enum Failure {
    Sqlite(rusqlite::Error),
    Store(StoreError),
    /// What is written in the file cannot be read.
    Damaged(String),
    Foreign(String),
    Newer {
        found: u64,
        known: u64,
    },
    /// The thread or the file is not there.
    Gone(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Sqlite(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Store(error)
    }
}

/// Whether a job that fails may have written something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Reads,
    Writes,
}

impl Failure {
    pub(super) fn at(self, place: &str, patience: Duration, access: Access) -> StoreError {
        let place = place.to_owned();
        let gone = |place, problem| match access {
            Access::Reads => StoreError::Unavailable { place, problem },
            Access::Writes => StoreError::OutcomeUnknown { place, problem },
        };
        match self {
            Failure::Store(error) => error,
            Failure::Damaged(problem) => StoreError::Damaged { place, problem },
            Failure::Foreign(problem) => StoreError::Foreign { place, problem },
            Failure::Newer { found, known } => StoreError::Newer { place, found, known },
            Failure::Gone(problem) => gone(place, problem),
            Failure::Sqlite(error) => {
                let problem = error.to_string();
                match error.sqlite_error_code() {
                    Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                        StoreError::Busy { place, after: patience }
                    }
                    Some(ErrorCode::DiskFull) => StoreError::Full { place },
                    Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                        StoreError::Damaged { place, problem }
                    }
                    Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                        StoreError::Unavailable { place, problem }
                    }
                    // A commit that failed on the disk may still be found there after a crash.
                    Some(ErrorCode::SystemIoFailure) => gone(place, problem),
                    Some(_) => StoreError::Refused { place, problem },
                    // A column of another type than we write.
                    None => StoreError::Damaged { place, problem },
                }
            }
        }
    }
}
