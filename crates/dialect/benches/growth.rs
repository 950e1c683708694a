//! Converts one tool of 1 KB to 10 MB in the shapes that could make an engine slow.
//!
//! If the cost is linear, the bytes per second stay the same.

mod inputs;

use std::fmt;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use inputs::sized::{SIZES, Shape};
use toolwire_dialect::{Dialect, Options};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

struct Case(Shape, usize);

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.name(), self.1)
    }
}

fn cases() -> impl Iterator<Item = Case> {
    Shape::ALL.into_iter().flat_map(|shape| SIZES.into_iter().map(move |bytes| Case(shape, bytes)))
}

#[divan::bench(args = cases(), max_time = 1)]
fn serde_json_round_trip(bencher: Bencher, case: &Case) {
    let text = case.0.tool(case.1);
    bencher.counter(BytesCount::of_str(&text)).bench(|| inputs::round_trip(black_box(&text)));
}

#[divan::bench(args = cases(), max_time = 1)]
fn to_openai(bencher: Bencher, case: &Case) {
    grow(bencher, case, Dialect::OpenAi);
}

#[divan::bench(args = cases(), max_time = 1)]
fn to_openai_strict(bencher: Bencher, case: &Case) {
    grow(bencher, case, Dialect::OpenAiStrict);
}

#[divan::bench(args = cases(), max_time = 1)]
fn to_gemini_openapi(bencher: Bencher, case: &Case) {
    grow(bencher, case, Dialect::GeminiOpenApi);
}

fn grow(bencher: Bencher, Case(shape, bytes): &Case, dialect: Dialect) {
    let text = shape.tool(*bytes);
    let options = Options::default();
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| inputs::conversion(black_box(&text), dialect, &options));
}
