//! Images as the terminal's own formats: kitty's graphics protocol and iTerm2's inline images.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Image;

/// The maximum size of one part of an image.
const CHUNK_BYTES: usize = 4_096;

/// Returns a PNG in kitty's graphics protocol, which accepts no other format. The terminal sends no reply.
pub(super) fn kitty(image: &Image, (columns, rows): (usize, usize)) -> Option<String> {
    if image.media_type != "image/png" {
        return None;
    }
    let data = STANDARD.encode(&image.bytes);
    let mut keys = format!("a=T,f=100,q=2,c={columns},r={rows},");
    let mut drawing = String::with_capacity(data.len() + data.len() / 64 + 64);
    let mut rest = data.as_str();
    while !rest.is_empty() {
        let (chunk, tail) = rest.split_at(rest.len().min(CHUNK_BYTES));
        let more = u8::from(!tail.is_empty());
        drawing.push_str(&format!("\x1b_G{keys}m={more};{chunk}\x1b\\"));
        keys.clear();
        rest = tail;
    }
    drawing.push_str("\r\n");
    Some(drawing)
}

/// Returns an image of any format as an inline image of iTerm2.
pub(super) fn iterm(image: &Image, (columns, rows): (usize, usize)) -> String {
    let size = image.bytes.len();
    let data = STANDARD.encode(&image.bytes);
    format!(
        "\x1b]1337;File=inline=1;size={size};width={columns};height={rows};preserveAspectRatio=1:{data}\x07\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(bytes: usize, media_type: &'static str) -> Image {
        Image { bytes: vec![0x1b; bytes], media_type, size: Some((1, 1)) }
    }

    #[test]
    fn kitty_gets_a_png_in_chunks() {
        let drawing = kitty(&image(6_000, "image/png"), (3, 2)).expect("a PNG");
        let data = STANDARD.encode(vec![0x1b; 6_000]);
        let (first, second) = data.split_at(4_096);
        let expected = format!("\x1b_Ga=T,f=100,q=2,c=3,r=2,m=1;{first}\x1b\\\x1b_Gm=0;{second}\x1b\\\r\n");
        assert_eq!(drawing, expected);
        assert_eq!(kitty(&image(9, "image/jpeg"), (3, 2)), None);
    }

    #[test]
    fn iterm_gets_any_image() {
        let text = iterm(&image(3, "image/jpeg"), (3, 2));
        let keys = "inline=1;size=3;width=3;height=2;preserveAspectRatio=1";
        assert_eq!(text, format!("\x1b]1337;File={keys}:Gxsb\x07\r\n"));
    }
}
