//! Stop sequences for APIs that have none: the text ends before the first sequence.

use toolwire_contract::model::{ModelResponse, StopReason};
use toolwire_contract::{Block, Content};

use super::is_refusal;

/// Finds the first stop sequence in a text that arrives in fragments.
#[derive(Debug, Default)]
pub(crate) struct StopSequences {
    sequences: Vec<String>,
    /// The end of the text, which may be the start of a sequence.
    held: String,
    /// The size of the text that was returned.
    returned_bytes: usize,
    found: Option<String>,
}

impl StopSequences {
    pub(crate) fn new(sequences: &[String]) -> StopSequences {
        let sequences = sequences.iter().filter(|sequence| !sequence.is_empty()).cloned().collect();
        StopSequences { sequences, ..StopSequences::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    pub(crate) fn is_found(&self) -> bool {
        self.found.is_some()
    }

    /// Adds a fragment, and returns the text that is certainly before every sequence.
    pub(crate) fn push(&mut self, fragment: &str) -> String {
        if self.is_found() {
            return String::new();
        }
        let mut text = std::mem::take(&mut self.held);
        text.push_str(fragment);
        let first = self.sequences.iter().filter_map(|sequence| Some((text.find(&**sequence)?, sequence)));
        // Of several sequences at one position, the longest is reported.
        if let Some((position, sequence)) =
            first.min_by_key(|(position, found)| (*position, usize::MAX - found.len()))
        {
            self.found = Some(sequence.clone());
            text.truncate(position);
        } else {
            self.held = text.split_off(text.len() - self.partial_bytes(&text));
        }
        self.returned_bytes += text.len();
        text
    }

    /// Returns the text that was held back, because no further text follows.
    pub(crate) fn flush(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.returned_bytes += held.len();
        held
    }

    /// Returns the size of the longest end of `text` that is the start of a sequence.
    fn partial_bytes(&self, text: &str) -> usize {
        let partial = |sequence: &String| {
            let lengths = sequence.char_indices().map(|(position, _)| position);
            lengths.filter(|length| text.ends_with(&sequence[..*length])).max()
        };
        self.sequences.iter().filter_map(partial).max().unwrap_or(0)
    }

    /// Ends a response before the sequence, if one was found.
    pub(crate) fn cut(&self, response: &mut ModelResponse) {
        let Some(sequence) = &self.found else { return };
        let mut left = self.returned_bytes;
        let mut is_cut = false;
        response.message.content.retain_mut(|block| {
            match block {
                _ if is_cut => return false,
                Block::Content(content) if is_refusal(content) => {}
                Block::Content(Content::Text { text, .. }) if text.len() > left => {
                    is_cut = true;
                    text.truncate(left);
                    return left > 0;
                }
                Block::Content(Content::Text { text, .. }) => left -= text.len(),
                _ => {}
            }
            true
        });
        let kept: Vec<String> = response.message.calls().map(|(id, _)| id.to_owned()).collect();
        response.unusable.retain(|call| kept.contains(&call.id));
        response.stop = StopReason::Sequence(sequence.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text before the sequence, and the sequence, if the text arrives in fragments of one size.
    fn read(sequences: &[&str], text: &str, size: usize) -> (String, Option<String>) {
        let sequences: Vec<String> = sequences.iter().map(|sequence| (*sequence).to_owned()).collect();
        let mut stop = StopSequences::new(&sequences);
        let chars: Vec<char> = text.chars().collect();
        let mut shown = String::new();
        for fragment in chars.chunks(size) {
            shown += &stop.push(&fragment.iter().collect::<String>());
        }
        shown += &stop.flush();
        assert_eq!(shown.len(), stop.returned_bytes);
        (shown, stop.found)
    }

    #[test]
    fn the_text_ends_before_the_first_sequence_however_it_is_divided() {
        let cases: [(&[&str], &str, &str, Option<&str>); 8] = [
            (&["END"], "one END two", "one ", Some("END")),
            (&["END"], "one EN", "one EN", None),
            (&["END"], "EEND", "E", Some("END")),
            (&["aab"], "aaab", "a", Some("aab")),
            (&["two", "one"], "zero one two", "zero ", Some("one")),
            (&["🌍."], "a 🌍! 🌍.", "a 🌍! ", Some("🌍.")),
            (&[""], "text", "text", None),
            (&[], "text", "text", None),
        ];
        for (sequences, text, expected, found) in cases {
            for size in 1..=text.len() {
                let read = read(sequences, text, size);
                assert_eq!(read, (expected.to_owned(), found.map(str::to_owned)), "{text} in {size}");
            }
        }
    }

    #[test]
    fn only_the_possible_start_of_a_sequence_is_held_back() {
        let mut stop = StopSequences::new(&["\n\nHuman:".to_owned()]);
        assert_eq!(stop.push("Hi.\n"), "Hi.");
        assert_eq!(stop.push("\nHum"), "");
        assert_eq!(stop.push("ans"), "\n\nHumans");
    }
}
