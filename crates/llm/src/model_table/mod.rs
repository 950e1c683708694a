//! Facts about the public models of the providers: context window, output limit and prices.
//!
//! `models.txt` is written by `scripts/model-table`. The configuration overrides it, and so do the limits
//! that the provider states (`discovery`).

use crate::Price;

const TABLE: &str = include_str!("models.txt");

/// The prefixes of Bedrock's inference profiles.
const REGIONS: [&str; 8] = ["us-gov.", "us.", "eu.", "apac.", "global.", "au.", "jp.", "ca."];

/// The facts about one model. An unknown number is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ModelFacts {
    /// The context window, or the maximum input where that is limited separately.
    pub(crate) context_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    pub(crate) price: Option<Price>,
}

/// Returns the facts about a model under its provider's name for it; nothing is known about a model that is
/// not in the table.
pub(crate) fn facts(provider: &str, model: &str) -> ModelFacts {
    let sections: &[&str] = match provider {
        "openai" | "responses" | "azure" => &["openai"],
        // They offer models of many vendors. The name of the vendor may be part of the id.
        "dial" | "openrouter" | "" => {
            &["openai", "anthropic", "gemini", "mistral", "deepseek", "xai", "cohere"]
        }
        own => &[own],
    };
    let found = names(model).into_iter().find_map(|name| {
        let is_found = |entry: &&str| {
            let mut words = entry.split_ascii_whitespace();
            words.next().is_some_and(|section| sections.contains(&section))
                && words.next() == Some(name.as_str())
        };
        TABLE.lines().find(is_found)
    });
    let Some(entry) = found else { return ModelFacts::default() };
    let numbers: Vec<Option<f64>> =
        entry.split_ascii_whitespace().skip(2).map(|word| word.parse().ok()).collect();
    let number = |index: usize| numbers.get(index).copied().flatten();
    let tokens = |index: usize| number(index).map(|tokens| tokens as u64);
    // Other providers charge other prices for the same model.
    let has_price = provider == sections[0] || provider == "responses";
    let price = match (has_price, number(2), number(3)) {
        (true, Some(input), Some(output)) => {
            Some(Price { input, output, cached_input: number(4), cache_write: None })
        }
        _ => None,
    };
    ModelFacts { context_tokens: tokens(0), output_tokens: tokens(1), price }
}

/// Returns the names under which a model may be listed, the most specific first: without the prefixes of
/// regions, vendors and lists, and without dates and versions.
fn names(model: &str) -> Vec<String> {
    let mut name = model.trim().to_ascii_lowercase();
    // The ARN of an inference profile ends with its id.
    if name.starts_with("arn:")
        && let Some((_, id)) = name.rsplit_once('/')
    {
        name = id.to_owned();
    }
    for prefix in ["models/", "ft:"].into_iter().chain(REGIONS) {
        name = name.strip_prefix(prefix).map(str::to_owned).unwrap_or(name);
    }
    let mut names = vec![name.clone()];
    // `vendor/model`, and variants such as `:free`.
    if let Some((_, after)) = name.rsplit_once('/') {
        let plain = after.split(':').next().unwrap_or(after);
        names.extend([plain.to_owned(), plain.replace('.', "-")]);
    }
    for index in 0..names.len() {
        let mut rest = names[index].as_str();
        let mut shorter = Vec::new();
        while let Some(short) = without_version(rest) {
            shorter.push(short.to_owned());
            rest = short;
        }
        names.extend(shorter);
    }
    names
}

/// Removes a version or a date at the end of a name: `-v1:0`, `-1:0`, `@20251001`, `-20251001`,
/// `-2025-10-01`, `-001`, `-latest`.
fn without_version(name: &str) -> Option<&str> {
    let is_digits =
        |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((before, _)) = name.rsplit_once('@').filter(|(_, date)| is_digits(date, 8)) {
        return Some(before);
    }
    let (before, last) = name.rsplit_once('-')?;
    let number = last.strip_prefix('v').unwrap_or(last);
    let is_revision =
        |number: &str| number.split_once(':').is_some_and(|(one, two)| is_short(one) && is_short(two));
    if last == "latest" || is_digits(last, 8) || is_digits(last, 3) || is_revision(number) {
        return Some(before);
    }
    if last.starts_with('v') && is_short(number) {
        return Some(before);
    }
    // A date of three parts.
    let (year_and_month, day) = (before, last);
    let (with_year, month) = year_and_month.rsplit_once('-')?;
    let (name, year) = with_year.rsplit_once('-')?;
    (is_digits(day, 2) && is_digits(month, 2) && is_digits(year, 4)).then_some(name)
}

fn is_short(number: &str) -> bool {
    (1..=2).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(provider: &str, model: &str, context: Option<u64>, output: Option<u64>) {
        let facts = facts(provider, model);
        assert_eq!((facts.context_tokens, facts.output_tokens), (context, output), "{provider}/{model}");
    }

    #[test]
    fn a_model_is_found_under_every_form_of_its_name() {
        for model in ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5@20250929"] {
            check("anthropic", model, Some(200_000), Some(64_000));
        }
        for model in [
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
            "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ] {
            check("bedrock", model, Some(200_000), Some(64_000));
        }
        check("bedrock", "openai.gpt-oss-120b-1:0", Some(128_000), None);
        check("bedrock", "amazon.nova-2-pro-preview-20251202-v1:0", Some(1_000_000), Some(64_000));
        check("gemini", "models/gemini-2.0-flash-001", Some(1_048_576), Some(8_192));
        check("openai", "GPT-4o-2024-11-20", Some(128_000), Some(16_384));
        check("responses", "gpt-5.2", Some(272_000), Some(128_000));
        check("azure", "gpt-4.1-mini", Some(1_047_576), Some(32_768));
        check("dial", "gpt-4o-2024-08-06", Some(128_000), Some(16_384));
        check("openrouter", "anthropic/claude-sonnet-4.5", Some(200_000), Some(64_000));
        check("openrouter", "google/gemini-2.5-pro:free", Some(1_048_576), Some(65_535));
        check("groq", "openai/gpt-oss-20b", Some(131_072), Some(32_768));
        check("mistral", "mistral-large-2512", Some(262_144), None);
    }

    #[test]
    fn nothing_is_known_about_other_models() {
        for (provider, model) in [
            ("openai", "gpt-4o-audio-preview"),
            ("openai", "gpt-4o-mini-transcribe"),
            ("openai", "m"),
            ("openai", ""),
            ("azure", "my-deployment"),
            ("ollama", "gpt-4o"),
            ("vllm", "gpt-4o"),
            ("groq", "gpt-4o"),
            ("mistral", "mistral-large-latest"),
            ("bedrock", "claude-sonnet-4-5"),
        ] {
            assert_eq!(facts(provider, model), ModelFacts::default(), "{provider}/{model}");
        }
    }

    #[test]
    fn prices_are_those_of_the_vendor_itself() {
        let price = Price { input: 3.0, output: 15.0, cached_input: Some(0.3), cache_write: None };
        assert_eq!(facts("anthropic", "claude-sonnet-4-5").price, Some(price));
        assert_eq!(facts("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0").price, None);
        assert_eq!(facts("azure", "gpt-4o").price, None);
        assert!(facts("responses", "gpt-4o").price.is_some());
    }

    #[test]
    fn every_line_of_the_table_is_complete() {
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words.len(), 7, "{line}");
            assert!(words[2].parse::<u64>().is_ok_and(|tokens| tokens >= 4_096), "{line}");
            assert!(words[3..].iter().all(|word| *word == "-" || word.parse::<f64>().is_ok()), "{line}");
            check(words[0], words[1], words[2].parse().ok(), words[3].parse().ok());
        }
    }
}
