//! Decodes PNG images of every colour type and bit depth.

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use super::MAX_PIXELS;

/// The pixels of an image.
pub(super) struct Pixels {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Red, green, blue and alpha, row by row.
    pub(super) rgba: Vec<[u8; 4]>,
}

impl Pixels {
    pub(super) fn at(&self, x: usize, y: usize) -> [u8; 4] {
        self.rgba.get(y * self.width + x).copied().unwrap_or_default()
    }
}

/// The first column, the first row, and the distances to the next ones, for each pass of an interlaced image.
const ADAM7: [(usize, usize, usize, usize); 7] =
    [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)];
const ALL_AT_ONCE: [(usize, usize, usize, usize); 1] = [(0, 0, 1, 1)];

struct Header {
    width: usize,
    height: usize,
    depth: usize,
    colour_type: u8,
    is_interlaced: bool,
}

/// Decodes an image; `None` if it is damaged or has too many pixels.
pub(super) fn decode(bytes: &[u8]) -> Option<Pixels> {
    let mut rest = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let (mut header, mut palette, mut transparent, mut data) = (None, &[][..], &[][..], Vec::new());
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (kind, tail) = tail.split_first_chunk::<4>()?;
        let (body, tail) = tail.split_at_checked(length)?;
        match kind {
            b"IHDR" => header = Some(read_header(body)?),
            b"PLTE" => palette = body,
            b"tRNS" => transparent = body,
            b"IDAT" => data.extend_from_slice(body),
            b"IEND" => break,
            _ => {}
        }
        rest = tail.get(4..)?; // after the checksum
    }
    let header = header?;
    let channels: usize = match header.colour_type {
        0 | 3 => 1,
        2 => 3,
        4 => 2,
        6 => 4,
        _ => return None,
    };
    let bits = channels * header.depth;
    let passes: &[_] = if header.is_interlaced { &ADAM7 } else { &ALL_AT_ONCE };
    let size_of = |&(x, y, dx, dy): &(usize, usize, usize, usize)| {
        let columns = header.width.saturating_sub(x).div_ceil(dx);
        let rows = header.height.saturating_sub(y).div_ceil(dy);
        if columns == 0 { (0, 0, 0) } else { (columns, rows, (columns * bits).div_ceil(8)) }
    };
    let size = passes.iter().map(size_of).map(|(_, rows, row_bytes)| rows * (row_bytes + 1)).sum();
    let data = decompress_to_vec_zlib_with_limit(&data, size).ok().filter(|data| data.len() == size)?;
    let mut rgba = vec![[0; 4]; header.width * header.height];
    let mut data = data.as_slice();
    for pass in passes {
        let (columns, rows, row_bytes) = size_of(pass);
        let mut previous = vec![0; row_bytes];
        for row in 0..rows {
            let (line, tail) = data.split_at_checked(row_bytes + 1)?;
            data = tail;
            let mut line_bytes = line[1..].to_vec();
            unfilter(line[0], &mut line_bytes, &previous, bits.div_ceil(8))?;
            for column in 0..columns {
                let sample = |channel: usize| sample(&line_bytes, column * channels + channel, header.depth);
                let pixel = pixel(&header, sample, palette, transparent)?;
                let (x, y) = (pass.0 + column * pass.2, pass.1 + row * pass.3);
                rgba[y * header.width + x] = pixel;
            }
            previous = line_bytes;
        }
    }
    Some(Pixels { width: header.width, height: header.height, rgba })
}

fn read_header(body: &[u8]) -> Option<Header> {
    let number = |at: usize| Some(u32::from_be_bytes(*body.get(at..)?.first_chunk::<4>()?));
    let (width, height) = (number(0)?, number(4)?);
    let &[depth, colour_type, _, _, interlace] = body.get(8..13)? else { return None };
    let pixels = u64::from(width) * u64::from(height);
    let is_valid = (1..=MAX_PIXELS).contains(&pixels)
        && matches!(depth, 1 | 2 | 4 | 8 | 16)
        && (depth >= 8 || matches!(colour_type, 0 | 3));
    let (width, height) = (usize::try_from(width).ok()?, usize::try_from(height).ok()?);
    is_valid.then_some(Header {
        width,
        height,
        depth: depth.into(),
        colour_type,
        is_interlaced: interlace == 1,
    })
}

/// Adds the prediction that the filter has subtracted. `distance` is that to the pixel on the left, in bytes.
fn unfilter(filter: u8, line: &mut [u8], previous: &[u8], distance: usize) -> Option<()> {
    for index in 0..line.len() {
        let left = index.checked_sub(distance);
        let (a, c) = left.map_or((0, 0), |left| (line[left], previous[left]));
        let b = previous[index];
        let prediction = match filter {
            0 => 0,
            1 => a,
            2 => b,
            3 => u8::try_from((u16::from(a) + u16::from(b)) / 2).unwrap_or_default(),
            4 => {
                let (wide_a, wide_b, wide_c) = (i16::from(a), i16::from(b), i16::from(c));
                let estimate = wide_a + wide_b - wide_c;
                let distances = [wide_a, wide_b, wide_c].map(|value| (estimate - value).abs());
                if distances[0] <= distances[1] && distances[0] <= distances[2] {
                    a
                } else if distances[1] <= distances[2] {
                    b
                } else {
                    c
                }
            }
            _ => return None,
        };
        line[index] = line[index].wrapping_add(prediction);
    }
    Some(())
}

/// Returns a sample of a line with its full depth.
fn sample(line: &[u8], index: usize, depth: usize) -> u16 {
    match depth {
        16 => u16::from_be_bytes([line[index * 2], line[index * 2 + 1]]),
        8 => line[index].into(),
        _ => {
            let bit = index * depth;
            let shifted = line[bit / 8] >> (8 - depth - bit % 8);
            u16::from(shifted) & ((1 << depth) - 1)
        }
    }
}

fn pixel(
    header: &Header,
    sample: impl Fn(usize) -> u16,
    palette: &[u8],
    transparent: &[u8],
) -> Option<[u8; 4]> {
    // To eight bits.
    let level = |value: u16| match header.depth {
        16 => u8::try_from(value >> 8).unwrap_or(u8::MAX),
        depth => u8::try_from(u32::from(value) * 255 / ((1 << depth) - 1)).unwrap_or(u8::MAX),
    };
    let is_transparent = |channels: usize| {
        let keys = transparent.chunks_exact(2).map(|key| u16::from_be_bytes([key[0], key[1]]));
        transparent.len() == channels * 2 && keys.eq((0..channels).map(&sample))
    };
    let opaque = |channels: usize| if is_transparent(channels) { 0 } else { 255 };
    Some(match header.colour_type {
        0 => [level(sample(0)), level(sample(0)), level(sample(0)), opaque(1)],
        2 => [level(sample(0)), level(sample(1)), level(sample(2)), opaque(3)],
        3 => {
            let index = usize::from(sample(0));
            let &[red, green, blue] = palette.get(index * 3..)?.first_chunk::<3>()?;
            [red, green, blue, transparent.get(index).copied().unwrap_or(255)]
        }
        4 => [level(sample(0)), level(sample(0)), level(sample(0)), level(sample(1))],
        _ => [level(sample(0)), level(sample(1)), level(sample(2)), level(sample(3))],
    })
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::compress_to_vec_zlib;

    use super::*;

    fn chunk(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).expect("a short chunk").to_be_bytes();
        [&length[..], kind, body, &[0; 4]].concat()
    }

    /// Creates an image: size, bit depth, colour type and interlacing, more chunks, and the filtered lines.
    fn png(width: u32, height: u32, kind: [u8; 3], chunks: &[u8], lines: &[u8]) -> Vec<u8> {
        let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
        header.extend([kind[0], kind[1], 0, 0, kind[2]]);
        let data = chunk(b"IDAT", &compress_to_vec_zlib(lines, 6));
        [b"\x89PNG\r\n\x1a\n", &*chunk(b"IHDR", &header), chunks, &data, &chunk(b"IEND", &[])].concat()
    }

    #[track_caller]
    fn check(image: &[u8], expected: &[[u8; 4]]) {
        assert_eq!(decode(image).expect("a valid image").rgba, expected);
        for end in 0..image.len() - 12 {
            let _ = decode(&image[..end]); // a truncated image must not panic
        }
    }

    #[test]
    fn every_colour_type_is_decoded() {
        check(&png(2, 1, [8, 6, 0], &[], &[0, 1, 2, 3, 4, 5, 6, 7, 8]), &[[1, 2, 3, 4], [5, 6, 7, 8]]);
        check(&png(1, 1, [16, 2, 0], &[], &[0, 1, 9, 2, 9, 3, 9]), &[[1, 2, 3, 255]]);
        check(
            &png(2, 1, [1, 0, 0], &chunk(b"tRNS", &[0, 0]), &[0, 0x40]),
            &[[0, 0, 0, 0], [255, 255, 255, 255]],
        );
        check(&png(1, 1, [8, 4, 0], &[], &[0, 7, 8]), &[[7, 7, 7, 8]]);
        let palette = [chunk(b"PLTE", &[1, 2, 3, 4, 5, 6]), chunk(b"tRNS", &[9])].concat();
        check(&png(2, 1, [4, 3, 0], &palette, &[0, 0x10]), &[[4, 5, 6, 255], [1, 2, 3, 9]]);
    }

    #[test]
    fn every_filter_is_undone() {
        let lines = [
            [1, 10, 1, 1].as_slice(), // left: 10, 11, 12
            &[2, 1, 1, 1],            // above: 11, 12, 13
            &[3, 1, 1, 1],            // average: 6, 10, 12
            &[4, 1, 1, 1],            // Paeth: 7, 11, 13
        ]
        .concat();
        let grey = |level: u8| [level, level, level, 255];
        check(&png(3, 4, [8, 0, 0], &[], &lines), &[10, 11, 12, 11, 12, 13, 6, 10, 12, 7, 11, 13].map(grey));
    }

    #[test]
    fn interlaced_images_are_decoded() {
        // The passes of 2 x 2 pixels: (0, 0), then (1, 0), then (0, 1) and (1, 1).
        let lines = [0, 1, 0, 2, 0, 3, 4];
        check(&png(2, 2, [8, 0, 1], &[], &lines), &[1, 2, 3, 4].map(|level| [level, level, level, 255]));
    }

    #[test]
    fn damaged_images_and_bombs_are_rejected() {
        assert!(decode(&png(u32::MAX, u32::MAX, [8, 6, 0], &[], &[])).is_none());
        assert!(decode(&png(30_000, 30_000, [8, 6, 0], &[], &[])).is_none());
        assert!(decode(&png(0, 1, [8, 6, 0], &[], &[])).is_none());
        assert!(decode(&png(1, 1, [8, 6, 0], &[], &[0; 100_000])).is_none());
        assert!(decode(&png(2, 1, [8, 6, 0], &[], &[0; 5])).is_none());
        assert!(decode(&png(1, 1, [8, 3, 0], &chunk(b"PLTE", &[1, 2, 3]), &[0, 1])).is_none());
        assert!(decode(&png(1, 1, [8, 0, 0], &[], &[5, 1])).is_none());
        assert!(decode(&png(1, 1, [4, 2, 0], &[], &[0; 9])).is_none());
        assert!(decode(b"\x89PNG\r\n\x1a\n").is_none());
    }
}
