//! The table of the page's paths. A path that is not in it does not exist.

/// A name in braces matches any part of a path. Views also have the suffixes `.json` and `.md`.
const PATHS: [&str; 52] = [
    "/",
    "/chat/{chat}",
    "/-/chat/send",
    "/-/chat/{chat}/window",
    "/-/chat/{chat}/messages/{position}/text",
    "/-/chat/{chat}/calls/{call}/{part}",
    "/-/chat/{chat}/send",
    "/-/chat/{chat}/edit",
    "/-/chat/{chat}/retry",
    "/-/chat/{chat}/stop",
    "/-/chat/{chat}/rename",
    "/-/chat/{chat}/delete",
    "/-/chat/{chat}/decide",
    "/-/chat/{chat}/answer",
    "/-/media/{chat}/{position}/{block}",
    "/-/attachments",
    "/-/pulse",
    "/tools",
    "/tools/{tool}",
    "/-/tools/{tool}/call",
    "/-/tools/{tool}/calls/{call}/result",
    "/-/tools/{tool}/calls/{call}/media/{position}",
    "/dialects",
    "/dialects/try",
    "/dialects/{tool}",
    "/-/dialects/try",
    "/-/dialects/arguments",
    "/-/dialects/{tool}/arguments",
    "/servers",
    "/servers/new",
    "/servers/{server}",
    "/servers/{server}/edit",
    "/servers/{server}/remove",
    "/servers/{server}/sign-in",
    "/-/servers/check",
    "/-/servers/preview",
    "/-/servers/write",
    "/-/servers/{server}/{action}",
    "/traffic",
    "/traffic/{request}",
    "/-/events",
    "/-/palette",
    "/-/theme",
    "/-/csp",
    "/-/sign-out",
    "/sign-in",
    "/-/login/{server}",
    "/-/logged-in",
    "/-/assets/{hash}/{file}",
    "/-/admin/pins",
    "/-/admin/pins/accept",
    "/-/admin/pins/keep-off",
];

/// Returns all paths.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    PATHS.into_iter()
}

/// Whether the table has a path, given as its decoded segments.
pub(super) fn is_known(path: &[&str]) -> bool {
    all().any(|pattern| {
        let mut segments = pattern.split('/').filter(|segment| !segment.is_empty());
        let is_same = |found: &&str| {
            segments.next().is_some_and(|expected| expected.starts_with('{') || expected == *found)
        };
        path.iter().all(is_same) && segments.next().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;

    #[test]
    fn a_path_is_known_with_any_name_in_its_place() {
        for path in [&[][..], &["tools"], &["tools", "a/b"], &["-", "chat", "x", "send"]] {
            assert!(is_known(path), "{path:?}");
        }
        for path in [&["x"][..], &["tools", "a", "b"], &["-"], &["-", "chat", "x"], &["-", "chat", "x", "y"]]
        {
            assert!(!is_known(path), "{path:?}");
        }
        assert!(all().all(Page::has_path), "each path belongs to the page");
    }
}
