//! The two tools of the demo server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use toolwire_toolkit::{Instruction, Outcome, tool};

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Units {
    #[default]
    Celsius,
    Fahrenheit,
}

/// Generated weather of a place.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Weather {
    location: String,
    temperature: i32,
    units: Units,
    conditions: String,
    /// Percent
    humidity: u8,
    /// Where the data comes from
    source: String,
}

/// Get the weather at a place. The data is generated, and always the same for a place.
#[tool(read_only)]
pub(crate) async fn get_weather(
    /// City or address
    location: String,
    /// The unit of the temperature
    #[tool(default)]
    units: Units,
) -> Outcome<Weather> {
    let place = location.trim();
    if place.is_empty() {
        return Outcome::failure("no_location", "`location` is empty")
            .with_instruction(Instruction::ask_for("the place"));
    }
    let seed = seed(place);
    let celsius = (seed % 38) as i32 - 5;
    let temperature = match units {
        Units::Celsius => celsius,
        Units::Fahrenheit => celsius * 9 / 5 + 32,
    };
    const CONDITIONS: [&str; 6] = ["sunny", "partly cloudy", "cloudy", "light rain", "windy", "foggy"];
    Outcome::ok(Weather {
        location: place.to_owned(),
        temperature,
        units,
        conditions: CONDITIONS[(seed / 38 % 6) as usize].to_owned(),
        humidity: 30 + (seed / 228 % 60) as u8,
        source: "generated data of the demo server".to_owned(),
    })
}

/// Hashes the place, ignoring case, with the same result on every machine (FNV-1a).
fn seed(place: &str) -> u64 {
    place
        .to_lowercase()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A calculation and its result.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Calculation {
    expression: String,
    result: Number,
}

/// Calculate the sum, difference, product or quotient of two numbers.
#[tool(read_only)]
pub(crate) async fn calculate(
    /// The operation
    operator: Operator,
    /// The first number
    argument1: f64,
    /// The second number
    argument2: f64,
) -> Outcome<Calculation> {
    let (sign, result) = match operator {
        Operator::Add => ('+', argument1 + argument2),
        Operator::Subtract => ('-', argument1 - argument2),
        Operator::Multiply => ('*', argument1 * argument2),
        Operator::Divide if argument2 == 0.0 => {
            return Outcome::failure("division_by_zero", format!("{argument1} cannot be divided by zero"))
                .with_instruction(Instruction::ask_for("another divisor"));
        }
        Operator::Divide => ('/', argument1 / argument2),
    };
    let Some(result) = number(result) else {
        return Outcome::failure("out_of_range", "the result is too large for a number");
    };
    Outcome::ok(Calculation { expression: format!("{argument1} {sign} {argument2}"), result })
}

/// Converts to a JSON number, a whole number without decimals: 42, not 42.0.
fn number(value: f64) -> Option<Number> {
    /// Floats represent every integer up to this one exactly.
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= MAX_EXACT_INTEGER {
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_no_decimals() {
        for (value, expected) in
            [(42.0, Some("42")), (-0.0, Some("0")), (2.5, Some("2.5")), (f64::INFINITY, None)]
        {
            assert_eq!(number(value).map(|number| number.to_string()).as_deref(), expected);
        }
    }

    #[tokio::test]
    async fn the_weather_of_a_place_is_always_the_same() {
        let first = get_weather().call(" oslo".to_owned(), Units::Celsius).await.value.expect("weather");
        let second = get_weather().call("Oslo".to_owned(), Units::Fahrenheit).await.value.expect("weather");
        assert_eq!(first.temperature * 9 / 5 + 32, second.temperature);
        assert_eq!((first.conditions, first.humidity), (second.conditions, second.humidity));
    }
}
