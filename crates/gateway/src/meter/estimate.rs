//! The estimate of a request's tokens.

use memchr::memchr_iter;

/// The output of a request without an output limit, and the maximum that is reserved. Most responses are far
/// shorter than their limit.
const DEFAULT_OUTPUT: u64 = 1_024;
const MAX_OUTPUT: u64 = 4_096;

/// A string without spaces that is longer than this is data, such as an image in base64.
const MAX_WORD: usize = 4_096;

/// The tokens of an image or a file.
const DATA_TOKENS: u64 = 1_000;

/// An estimate of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

impl Estimate {
    /// Estimates a JSON body: a token has about four bytes of text.
    pub(crate) fn of(body: &[u8], output_limit: Option<u64>) -> Estimate {
        let output = output_limit.unwrap_or(DEFAULT_OUTPUT).min(MAX_OUTPUT);
        Estimate { input: input(body), output }
    }

    /// Estimates a body that is not text, or whose response has no text.
    pub(crate) fn without_output(body: &[u8]) -> Estimate {
        Estimate { input: input(body), output: 0 }
    }

    pub(crate) fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

fn input(body: &[u8]) -> u64 {
    let (mut text, mut data) = (0, 0);
    let mut start = 0;
    for end in memchr_iter(b'"', body).chain(std::iter::once(body.len())) {
        let part = &body[start..end];
        match part.len() > MAX_WORD && !part[..MAX_WORD].contains(&b' ') {
            true => data += 1,
            false => text += part.len(),
        }
        start = end + 1;
    }
    (text as u64).div_ceil(4) + data * DATA_TOKENS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_counts_less_than_text() {
        let text = format!(r#"{{"content":"{}"}}"#, "word ".repeat(8_000));
        let estimate = Estimate::of(text.as_bytes(), None);
        assert!((10_000..10_010).contains(&estimate.input), "{estimate:?}");
        assert_eq!(estimate.output, DEFAULT_OUTPUT);
        let image = format!(r#"{{"url":"data:image/png;base64,{}"}}"#, "iVBORw0K".repeat(100_000));
        assert!((1_000..1_010).contains(&Estimate::of(image.as_bytes(), Some(9)).input));
        assert_eq!(Estimate::of(b"{}", Some(9)).total(), 10);
        assert_eq!(Estimate::of(b"{}", Some(1_000_000)).output, MAX_OUTPUT);
        assert_eq!(Estimate::without_output(b"").total(), 0);
    }
}
