//! The paths to search for the configuration.

use std::path::{Path, PathBuf};

use super::toolwire_folder;

/// A path where the configuration may be.
pub(crate) struct ConfigCandidate {
    pub(crate) path: PathBuf,
    /// Whether the user named this file, so that it is an error if the file does not exist.
    pub(crate) must_exist: bool,
}

/// Returns the paths to search for the configuration. The last one is the user's own, unless another one is
/// named.
pub(crate) fn config_candidates(flag: Option<&Path>) -> Vec<ConfigCandidate> {
    let variable = std::env::var_os("TOOLWIRE_CONFIG").map(PathBuf::from);
    let user_folder = toolwire_folder("XDG_CONFIG_HOME", "APPDATA", ".config");
    candidates(flag, variable.as_deref(), user_folder.as_deref())
}

/// `flag` is the value of `--config`, `variable` the value of `$TOOLWIRE_CONFIG`, and `user_folder` the
/// user's configuration folder for Toolwire.
fn candidates(
    flag: Option<&Path>,
    variable: Option<&Path>,
    user_folder: Option<&Path>,
) -> Vec<ConfigCandidate> {
    // An empty variable counts as unset: shells use it to unset a variable for one command.
    let named = flag.or(variable.filter(|path| !path.as_os_str().is_empty()));
    if let Some(path) = named {
        return vec![ConfigCandidate { path: path.to_owned(), must_exist: true }];
    }
    let in_current_folder = ["mcp.json", ".mcp.json"].map(PathBuf::from);
    let in_user_folder = user_folder.map(|folder| folder.join("mcp.json"));
    let paths = in_current_folder.into_iter().chain(in_user_folder);
    paths.map(|path| ConfigCandidate { path, must_exist: false }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(flag: Option<&str>, variable: Option<&str>, user: Option<&str>, expected: &[(&str, bool)]) {
        let candidates = super::candidates(flag.map(Path::new), variable.map(Path::new), user.map(Path::new));
        let candidates: Vec<(&str, bool)> = candidates
            .iter()
            .map(|candidate| (candidate.path.to_str().expect("a UTF-8 path"), candidate.must_exist))
            .collect();
        assert_eq!(candidates, expected);
    }

    #[test]
    fn the_search_order_is_flag_variable_current_folder_user_folder() {
        check(Some("a"), Some("b"), Some("u"), &[("a", true)]);
        check(None, Some("b"), Some("u"), &[("b", true)]);
        let folder = [("mcp.json", false), (".mcp.json", false)];
        check(None, None, None, &folder);
        check(None, Some(""), Some("u"), &[folder[0], folder[1], ("u/mcp.json", false)]);
    }
}
