//! Random ids, which contain no data and cannot be guessed.

const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// About 160 random bits.
const LENGTH: usize = 27;

/// The system provides no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system provides no random bytes")]
pub(crate) struct NoRandomness;

/// Returns a prefix, followed by random letters and digits.
pub(crate) fn random_id(prefix: &str) -> Result<String, NoRandomness> {
    Ok(format!("{prefix}{}", random_text(LENGTH)?))
}

/// Returns the id of the response that an item belongs to, if the id of the item is derived from it.
pub(crate) fn response_of(item: &str) -> Option<String> {
    let (_, random) = item.split_once('_')?;
    let random = random.get(..LENGTH).filter(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric()))?;
    Some(format!("resp_{random}"))
}

/// Returns random letters and digits.
pub(crate) fn random_text(length: usize) -> Result<String, NoRandomness> {
    let mut text = String::with_capacity(length);
    let mut bytes = [0; 2 * LENGTH];
    while text.len() < length {
        getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
        let missing = length - text.len();
        // The values 62 and 63 are skipped. Mapping them to letters would make these letters more frequent.
        let letters = bytes.iter().filter_map(|byte| LETTERS.get(usize::from(byte & 63)));
        text.extend(letters.take(missing).map(|letter| char::from(*letter)));
    }
    Ok(text)
}

/// Returns a random number from 0 to 1.
pub(crate) fn random_fraction() -> f64 {
    let mut bytes = [0; 2];
    // If the system has no random numbers, the result is always 0.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u16::from_le_bytes(bytes)) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_item_contains_that_of_its_response() {
        let response = random_id("resp_").expect("random bytes");
        let random = response.strip_prefix("resp_").expect("the prefix");
        for item in [format!("mcpr_{random}0"), format!("msg_{random}12"), response.clone()] {
            assert_eq!(response_of(&item).as_ref(), Some(&response), "{item}");
        }
        for other in [
            "",
            "mcpr_",
            "mcpr_x",
            "mcpr",
            "mcpr_é0123456789012345678901234567890",
            "mcpr_{}0123456789012345678901234",
        ] {
            assert_eq!(response_of(other), None, "{other}");
        }
    }

    #[test]
    fn an_id_is_short_plain_and_unique() {
        let ids: Vec<String> = (0..100).map(|_| random_id("toolu_").expect("random bytes")).collect();
        for id in &ids {
            assert!(id.starts_with("toolu_") && id.len() == 33, "{id}");
            assert!(id[6..].bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        }
        let unique: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len());
    }
}
