//! Saves images in the user's data folder, readable only by the user.

use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::servers::data_folder;

/// The number of saved images that are kept.
const MAX_SAVED: usize = 200;

/// Saves an image and returns its path. The name comes from the bytes, so the same image is saved once.
pub(super) fn save(bytes: &[u8], extension: &str) -> io::Result<PathBuf> {
    let folder = data_folder().unwrap_or_else(std::env::temp_dir).join("images");
    save_in(&folder, bytes, extension)
}

fn save_in(folder: &Path, bytes: &[u8], extension: &str) -> io::Result<PathBuf> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let hash = hasher.finish();
    for number in 0..100 {
        let path = folder.join(format!("{:016x}.{extension}", hash.wrapping_add(number)));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&path) {
            Ok(mut file) => {
                if let Err(error) = file.write_all(bytes) {
                    let _ = fs::remove_file(&path);
                    return Err(error);
                }
                remove_oldest(folder);
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if fs::read(&path).is_ok_and(|saved| saved == bytes) {
                    return Ok(path);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes the oldest images. Errors are ignored: another process may have removed them.
fn remove_oldest(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut saved: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    saved.sort();
    let excess = saved.len().saturating_sub(MAX_SAVED);
    for (_, path) in &saved[..excess] {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_saved_once_and_the_oldest_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("images");
        let path = save_in(&folder, b"first", "png").expect("saved");
        assert_eq!(save_in(&folder, b"first", "png").expect("saved"), path);
        fs::write(&path, "another").expect("written");
        let other = save_in(&folder, b"first", "png").expect("saved");
        assert_ne!(other, path);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
            assert_eq!((mode(&folder), mode(&other)), (0o700, 0o600));
        }
        for number in 0..MAX_SAVED {
            save_in(&folder, number.to_string().as_bytes(), "png").expect("saved");
        }
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), MAX_SAVED);
    }
}
