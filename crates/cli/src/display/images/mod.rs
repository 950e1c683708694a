//! Images of results: drawn on terminals that support it, otherwise saved to a file.
//!
//! The terminal receives only the escape sequences of its protocol, with the image in base64 or as sixels
//! that are made here. The bytes that a server sent are never written to it unchanged.

mod inline;
#[cfg(feature = "sixel")]
mod png;
pub(crate) mod query;
mod save;
#[cfg(feature = "sixel")]
mod sixel;

use std::env;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use toolwire_contract::text::{counted, format_size};
use toolwire_contract::{Content, ResourceBody, ToolResult};
use toolwire_dialect::result::{image_size, media_type};

use super::canvas::Size;
use crate::terminal_text::sanitize;

/// The number of images of one result that are displayed.
const MAX_IMAGES: usize = 8;
/// The maximum number of pixels: a terminal needs four bytes for each.
const MAX_PIXELS: u64 = 32_000_000;
/// The size of a character cell in pixels if the terminal does not report it.
const DEFAULT_CELL: (usize, usize) = (10, 20);

/// An image. The media type was detected in its bytes.
pub(crate) struct Image {
    bytes: Vec<u8>,
    media_type: &'static str,
    /// Width and height in pixels, if the header has them.
    size: Option<(u32, u32)>,
}

/// Returns the images of a result, and how many more it has than can be displayed.
pub(crate) fn images_of(result: &ToolResult) -> (Vec<Image>, usize) {
    let mut images: Vec<Image> = result.blocks().iter().filter_map(image_of).collect();
    let more = images.len().saturating_sub(MAX_IMAGES);
    images.truncate(MAX_IMAGES);
    (images, more)
}

fn image_of(block: &Content) -> Option<Image> {
    let data = match block {
        Content::Image { data, .. } => data,
        Content::Resource { resource, .. } => match &resource.body {
            ResourceBody::Blob(data) => data,
            ResourceBody::Text(_) => return None,
        },
        _ => return None,
    };
    let data: Vec<u8> = data.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let bytes = STANDARD.decode(data).ok()?;
    let media_type = media_type(&bytes).filter(|media_type| media_type.starts_with("image/"))?;
    let size = image_size(&bytes);
    Some(Image { bytes, media_type, size })
}

/// A way to draw an image in a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Kitty,
    ITerm,
    Sixel,
}

impl Protocol {
    /// Determines the protocol from `TOOLWIRE_IMAGES` and the variables that terminals set.
    pub(crate) fn of_terminal() -> Option<Protocol> {
        protocol(|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }
}

fn protocol(variable: impl Fn(&str) -> Option<String>) -> Option<Protocol> {
    match variable("TOOLWIRE_IMAGES").as_deref() {
        Some("kitty") => return Some(Protocol::Kitty),
        Some("iterm") => return Some(Protocol::ITerm),
        Some("sixel") => return Some(Protocol::Sixel),
        Some("off") => return None,
        _ => {}
    }
    // A multiplexer does not pass images on to its terminal.
    if variable("TMUX").is_some() || variable("STY").is_some() {
        return None;
    }
    let terminal = variable("TERM").unwrap_or_default();
    match variable("TERM_PROGRAM").as_deref() {
        Some("iTerm.app" | "WezTerm" | "mintty" | "rio") => return Some(Protocol::ITerm),
        Some("ghostty") => return Some(Protocol::Kitty),
        _ => {}
    }
    let is_kitty = matches!(terminal.as_str(), "xterm-kitty" | "xterm-ghostty")
        || variable("KITTY_WINDOW_ID").is_some()
        || variable("KONSOLE_VERSION").is_some();
    if is_kitty {
        return Some(Protocol::Kitty);
    }
    // iTerm2 passes this variable on through SSH.
    if variable("LC_TERMINAL").as_deref() == Some("iTerm2") {
        return Some(Protocol::ITerm);
    }
    let has_sixel = ["foot", "mlterm", "contour", "yaft"].iter().any(|name| terminal.starts_with(name));
    has_sixel.then_some(Protocol::Sixel)
}

impl Image {
    /// Returns the text that draws the image with the cursor in the first column, at most as large as the
    /// terminal. `None` if the protocol cannot draw it.
    pub(crate) fn draw(&self, protocol: Protocol, terminal: Size) -> Option<String> {
        let (width, height) = self.size?;
        if u64::from(width) * u64::from(height) > MAX_PIXELS {
            return None;
        }
        let cell = cell_size(terminal);
        let area = cells(width, height, terminal, cell);
        match protocol {
            Protocol::Kitty => inline::kitty(self, area),
            Protocol::ITerm => Some(inline::iterm(self, area)),
            #[cfg(feature = "sixel")]
            Protocol::Sixel => {
                let pixels = png::decode(&self.bytes)?;
                Some(sixel::encode(&pixels, area.0 * cell.0, area.1 * cell.1))
            }
            #[cfg(not(feature = "sixel"))]
            Protocol::Sixel => None,
        }
    }

    /// Saves the image and returns a note with the path.
    pub(crate) fn save(&self) -> String {
        let about = format!("{}, {}", self.media_type, format_size(self.bytes.len()));
        match save::save(&self.bytes, self.media_type.rsplit('/').next().unwrap_or("bin")) {
            Ok(path) => format!("{} ({about})", path.display()),
            Err(error) => {
                format!("{about}; it could not be saved: {}", crate::source::describe_io_error(&error))
            }
        }
    }
}

/// Saves the images of a result and returns a line for each.
pub(crate) fn image_notes(result: &ToolResult) -> String {
    let (images, more) = images_of(result);
    let notes = images.iter().map(|image| format!("image: {}", image.save()));
    notes.chain(more_images(more)).map(|note| format!("{}\n", sanitize(&note))).collect()
}

/// Whether the terminal is expected to answer a query and the answer is needed: it is not a multiplexer, and
/// `TOOLWIRE_IMAGES` does not select a protocol.
pub(crate) fn is_query_safe() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_simple = env::var("TERM").is_ok_and(|terminal| matches!(terminal.as_str(), "dumb" | "linux"));
    cfg!(feature = "sixel") && !["TOOLWIRE_IMAGES", "TMUX", "STY"].into_iter().any(is_set) && !is_simple
}

/// Returns a note about images that are not displayed.
pub(crate) fn more_images(count: usize) -> Option<String> {
    (count > 0).then(|| format!("{} not displayed", counted(count, "more image")))
}

/// Returns the columns and rows of an image: its own size, reduced to that of the terminal.
fn cells(width: u32, height: u32, terminal: Size, cell: (usize, usize)) -> (usize, usize) {
    let (width, height) = (width as usize, height as usize);
    let columns = width.div_ceil(cell.0).max(1);
    let rows = height.div_ceil(cell.1).max(1);
    let max_columns = terminal.columns.saturating_sub(1).max(1);
    // Some lines of text stay visible.
    let max_rows = terminal.rows.saturating_sub(4).max(1);
    let (mut fitted_columns, mut fitted_rows) = (columns, rows);
    if fitted_columns > max_columns {
        (fitted_columns, fitted_rows) = (max_columns, (rows * max_columns).div_ceil(columns).max(1));
    }
    if fitted_rows > max_rows {
        (fitted_columns, fitted_rows) = ((columns * max_rows / rows).max(1), max_rows);
    }
    (fitted_columns, fitted_rows)
}

/// Returns the size of a character cell in pixels.
fn cell_size(terminal: Size) -> (usize, usize) {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout())
        && usize::from(size.ws_xpixel) >= terminal.columns
        && usize::from(size.ws_ypixel) >= terminal.rows
    {
        let (width, height) = (usize::from(size.ws_xpixel), usize::from(size.ws_ypixel));
        return (width / terminal.columns.max(1), height / terminal.rows.max(1));
    }
    let _ = terminal;
    DEFAULT_CELL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: Option<Protocol>) {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(protocol(variable), expected, "{variables:?}");
    }

    #[test]
    fn the_protocol_is_that_of_the_terminal_unless_it_is_set() {
        check(&[("TERM", "xterm-256color")], None);
        check(&[("TERM", "xterm-kitty")], Some(Protocol::Kitty));
        check(&[("TERM", "xterm-256color"), ("KITTY_WINDOW_ID", "1")], Some(Protocol::Kitty));
        check(&[("TERM", "xterm-ghostty"), ("TERM_PROGRAM", "ghostty")], Some(Protocol::Kitty));
        check(&[("TERM_PROGRAM", "WezTerm")], Some(Protocol::ITerm));
        check(&[("LC_TERMINAL", "iTerm2")], Some(Protocol::ITerm));
        check(&[("TERM", "foot-extra")], Some(Protocol::Sixel));
        check(&[("TERM", "xterm-kitty"), ("TMUX", "/tmp/tmux")], None);
        check(&[("TERM", "xterm-kitty"), ("TOOLWIRE_IMAGES", "off")], None);
        check(&[("TMUX", "/tmp/tmux"), ("TOOLWIRE_IMAGES", "sixel")], Some(Protocol::Sixel));
    }

    #[test]
    fn an_image_is_at_most_as_large_as_the_terminal() {
        let terminal = Size { columns: 81, rows: 24 };
        let cells = |width, height| cells(width, height, terminal, DEFAULT_CELL);
        assert_eq!(cells(1, 1), (1, 1));
        assert_eq!(cells(200, 200), (20, 10));
        assert_eq!(cells(1_600, 400), (80, 10));
        assert_eq!(cells(400, 4_000), (4, 20));
        assert_eq!(cells(u32::MAX, 1), (80, 1));
    }

    #[test]
    fn only_valid_images_are_displayed() {
        let result = |blocks: Vec<Content>| ToolResult { content: Some(blocks), ..ToolResult::default() };
        let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAA=";
        let (images, more) = images_of(&result(vec![
            Content::text("x"),
            Content::image("not base64!", "image/png"),
            Content::image("AAAA", "image/png"),
            Content::image(png, "image/jpeg"),
            Content::attached_file("a.png", "image/png", png),
            Content::attached_file("a.pdf", "application/pdf", "JVBERi0xLjQK"),
        ]));
        let found: Vec<_> = images.iter().map(|image| (image.media_type, image.size)).collect();
        assert_eq!((found, more), (vec![("image/png", Some((1, 1))); 2].into_iter().collect(), 0));
        let (images, more) = images_of(&result(vec![Content::image(png, "image/png"); 10]));
        assert_eq!((images.len(), more), (MAX_IMAGES, 2));
    }
}
