//! The files of the page, which are embedded in the binary.

use std::fmt::Write as _;
use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    pub name: &'static str,
    pub media_type: &'static str,
    pub bytes: &'static [u8],
}

pub(crate) const STYLESHEET: &str = "page.css";
pub(crate) const MODULE: &str = "page.js";
pub(crate) const ICON: &str = "icon.svg";
/// The icon while a call waits for a decision or a reply. The script sets it.
const ICON_WITH_DOT: &str = "icon-dot.svg";

/// The script loads it when a file is attached.
const ATTACH_MODULE: &str = "attach.js";

/// All files.
pub const ASSETS: [Asset; 5] = [
    Asset {
        name: STYLESHEET,
        media_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../assets/page.css"),
    },
    Asset {
        name: MODULE,
        media_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../assets/page.js"),
    },
    Asset {
        name: ATTACH_MODULE,
        media_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../assets/attach.js"),
    },
    Asset {
        name: ICON_WITH_DOT,
        media_type: "image/svg+xml",
        bytes: include_bytes!("../assets/icon-dot.svg"),
    },
    Asset { name: ICON, media_type: "image/svg+xml", bytes: include_bytes!("../assets/icon.svg") },
];

/// Returns a hash of all files. It is a part of their addresses, so that browsers can cache them forever.
pub fn build() -> &'static str {
    static BUILD: LazyLock<String> = LazyLock::new(|| {
        let mut hasher = Sha256::new();
        for asset in ASSETS {
            hasher.update(asset.bytes);
        }
        let mut text = String::new();
        for byte in hasher.finalize().iter().take(8) {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    });
    &BUILD
}

/// Returns the path of a file.
pub fn path(name: &str) -> String {
    format!("/-/assets/{}/{name}", build())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page and its files have at most 150 KB, as a test in a browser measures. These limits leave
    /// more than half of it to the HTML.
    #[test]
    fn the_files_are_small() {
        for (name, kilobytes) in [(STYLESHEET, 32), (MODULE, 36), (ATTACH_MODULE, 4)] {
            let asset = ASSETS.iter().find(|asset| asset.name == name).expect("a file");
            let size = asset.bytes.len();
            assert!(size <= kilobytes * 1024, "{name} has {size} bytes, more than {kilobytes} KB");
        }
    }
}
