//! Images as sixels: bands of six rows, one pass over a band for each colour in it.

use std::collections::BTreeMap;

use super::png::Pixels;

/// The steps of each colour channel; the palette has a colour for each combination.
const STEPS: usize = 6;
/// Thresholds that distribute the rounding of colours over neighbouring pixels.
const DITHER: [[i32; 4]; 4] = [[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]];

/// Encodes an image, reduced to at most this size. Transparent pixels stay as they are on the screen.
pub(super) fn encode(pixels: &Pixels, max_width: usize, max_height: usize) -> String {
    let scale = |length: usize| {
        let (mut size, mut of) = (1, 1);
        for (max, actual) in [(max_width, pixels.width), (max_height, pixels.height)] {
            if max * of < size * actual {
                (size, of) = (max, actual);
            }
        }
        (length * size / of).max(1)
    };
    let (width, height) = (scale(pixels.width), scale(pixels.height));
    let mut text = format!("\x1bP0;1q\"1;1;{width};{height}");
    for colour in 0..STEPS * STEPS * STEPS {
        let percent = |step: usize| step % STEPS * 100 / (STEPS - 1);
        let (red, green, blue) = (percent(colour / STEPS / STEPS), percent(colour / STEPS), percent(colour));
        text.push_str(&format!("#{colour};2;{red};{green};{blue}"));
    }
    for top in (0..height).step_by(6) {
        let mut band: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for y in top..height.min(top + 6) {
            for x in 0..width {
                let pixel = pixels.at(x * pixels.width / width, y * pixels.height / height);
                if let Some(colour) = colour(pixel, DITHER[y % 4][x % 4]) {
                    band.entry(colour).or_insert_with(|| vec![0; width])[x] |= 1 << (y - top);
                }
            }
        }
        for (colour, columns) in band {
            text.push_str(&format!("#{colour}"));
            for run in columns.chunk_by(|one, other| one == other) {
                let sixel = char::from(b'?' + run[0]);
                match run.len() {
                    1..4 => text.extend(std::iter::repeat_n(sixel, run.len())),
                    length => text.push_str(&format!("!{length}{sixel}")),
                }
            }
            text.push('$');
        }
        text.push('-');
    }
    text.push_str("\x1b\\\r\n");
    text
}

/// Returns the number of a pixel's colour; `None` if it is transparent.
fn colour([red, green, blue, alpha]: [u8; 4], threshold: i32) -> Option<usize> {
    let step = |channel: u8| {
        let shifted = i32::from(channel) * 5 * 16 + threshold * 255;
        usize::try_from(shifted / (255 * 16)).unwrap_or_default().min(STEPS - 1)
    };
    (alpha >= 128).then(|| (step(red) * STEPS + step(green)) * STEPS + step(blue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_becomes_bands_of_colours() {
        let (red, none) = ([255, 0, 0, 255], [0; 4]);
        let pixels =
            Pixels { width: 5, height: 7, rgba: [vec![red; 30], vec![red, none, red, none, red]].concat() };
        let text = encode(&pixels, 100, 100);
        let bands = text.split_once("#215;2;100;100;100").expect("the palette").1;
        assert!(text.starts_with("\x1bP0;1q\"1;1;5;7#0;2;0;0;0#1;2;0;0;20"), "{text:?}");
        assert_eq!(bands, "#180!5~$-#180@?@?@$-\x1b\\\r\n");
    }

    #[test]
    fn an_image_is_reduced_to_the_maximum() {
        let pixels = Pixels { width: 400, height: 100, rgba: vec![[9, 99, 199, 255]; 40_000] };
        let text = encode(&pixels, 100, 100);
        assert!(text.starts_with("\x1bP0;1q\"1;1;100;25#"), "{:?}", &text[..40]);
        let text = encode(&pixels, 1_000, 10);
        assert!(text.starts_with("\x1bP0;1q\"1;1;40;10#"), "{:?}", &text[..40]);
    }
}
