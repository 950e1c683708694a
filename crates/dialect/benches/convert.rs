//! Converts every tool of the corpus to every dialect, compared with a `serde_json` round trip of the same
//! bytes.
//!
//! Divan's `items` are tools.

mod inputs;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use toolwire_dialect::{Dialect, Options};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let corpus_texts = inputs::tools();
    println!("{}: {} tools, {} bytes", corpus_texts.name, corpus_texts.tools, corpus_texts.bytes);
    divan::main();
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn serde_json_round_trip(bencher: Bencher) {
    let corpus_texts = inputs::tools();
    bencher
        .counter(ItemsCount::new(corpus_texts.tools))
        .bench(|| corpus_texts.texts.iter().map(|text| inputs::round_trip(black_box(text))).sum::<usize>());
}

#[divan::bench(args = Dialect::all().map(Dialect::name), sample_count = 20, sample_size = 1)]
fn convert_to(bencher: Bencher, dialect: &str) {
    let dialect: Dialect = dialect.parse().expect("a dialect name");
    let corpus_texts = inputs::tools();
    let options = Options::default();
    bencher.counter(ItemsCount::new(corpus_texts.tools)).bench(|| {
        let lengths =
            corpus_texts.texts.iter().map(|text| inputs::conversion(black_box(text), dialect, &options));
        lengths.sum::<usize>()
    });
}
