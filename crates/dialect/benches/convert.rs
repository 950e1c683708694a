//! Converts every tool of the corpus to every dialect, compared with a `serde_json` round trip of the same bytes.
//!
//! Divan's `items` are tools.

mod material;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use toolwire_dialect::{Dialect, Options};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let material = material::tools();
    println!("{}: {} tools, {} bytes", material.name, material.tools, material.bytes);
    divan::main();
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn serde_json_round_trip(bencher: Bencher) {
    let material = material::tools();
    bencher
        .counter(ItemsCount::new(material.tools))
        .bench(|| material.texts.iter().map(|text| material::round_trip(black_box(text))).sum::<usize>());
}

#[divan::bench(args = Dialect::all().map(Dialect::name), sample_count = 20, sample_size = 1)]
fn convert_to(bencher: Bencher, dialect: &str) {
    let dialect: Dialect = dialect.parse().expect("the name is valid");
    let material = material::tools();
    let options = Options::default();
    bencher.counter(ItemsCount::new(material.tools)).bench(|| {
        let written =
            material.texts.iter().map(|text| material::conversion(black_box(text), dialect, &options));
        written.sum::<usize>()
    });
}
