//! Where the configuration is looked for.

use std::path::{Path, PathBuf};

/// A place where the configuration may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub path: PathBuf,
    pub origin: Origin,
}

/// Who named the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `--config`.
    Flag,
    /// `$TOOLWIRE_CONFIG`.
    Variable,
    /// The folder in which Toolwire was started.
    Folder,
    /// The user's own configuration.
    User,
}

impl Candidate {
    /// Whether a person named this very file, so that its absence is an error and not a reason to look further.
    pub fn must_exist(&self) -> bool {
        matches!(self.origin, Origin::Flag | Origin::Variable)
    }
}

pub(super) fn candidates(
    flag: Option<&Path>,
    variable: Option<&Path>,
    user_folder: Option<&Path>,
) -> Vec<Candidate> {
    let candidate = |path: PathBuf, origin| Candidate { path, origin };
    if let Some(path) = flag {
        return vec![candidate(path.to_owned(), Origin::Flag)];
    }
    // An empty variable is how shells unset one for a single command.
    if let Some(path) = variable.filter(|path| !path.as_os_str().is_empty()) {
        return vec![candidate(path.to_owned(), Origin::Variable)];
    }
    let mut places =
        vec![candidate("mcp.json".into(), Origin::Folder), candidate(".mcp.json".into(), Origin::Folder)];
    places.extend(user_folder.map(|folder| candidate(folder.join("mcp.json"), Origin::User)));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(flag: Option<&str>, variable: Option<&str>, user: Option<&str>, expected: &[(&str, Origin)]) {
        let found = candidates(flag.map(Path::new), variable.map(Path::new), user.map(Path::new));
        let found: Vec<(&str, Origin)> =
            found.iter().map(|one| (one.path.to_str().expect("paths here are text"), one.origin)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_places_are_those_of_the_contract() {
        check(Some("a"), Some("b"), Some("u"), &[("a", Origin::Flag)]);
        check(None, Some("b"), Some("u"), &[("b", Origin::Variable)]);
        let folder = [("mcp.json", Origin::Folder), (".mcp.json", Origin::Folder)];
        check(None, None, None, &folder);
        check(None, Some(""), Some("u"), &[folder[0], folder[1], ("u/mcp.json", Origin::User)]);
    }

    #[test]
    fn a_file_that_was_named_must_exist() {
        let origins = [Origin::Flag, Origin::Variable, Origin::Folder, Origin::User];
        let must = origins.map(|origin| Candidate { path: "a".into(), origin }.must_exist());
        assert_eq!(must, [true, true, false, false]);
    }
}
