//! The law of conversions for schemas whose definitions refer to each other in every way.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use toolwire_dialect::Dialect;

use crate::graphs::{COMBINATORS, POSITIONS, tool};
use crate::law::{Tally, check_law};
use crate::support::sampler::ArgumentSampler;

/// Depth (how many definitions refer to the next one) and fan-out (how many times each does).
const SIZES: [(usize, usize); 2] = [(2, 2), (3, 2)];

/// The number of draws per schema, dialect and direction.
const DRAWS: usize = 4;

#[test]
fn the_law_holds_for_reference_graphs() {
    let mut graphs = Vec::new();
    for (depth, fan_out) in SIZES {
        for combinator in COMBINATORS {
            for position in POSITIONS {
                let label = format!("{depth} × {fan_out} {combinator} in a {position}");
                graphs.push((label, tool(depth, fan_out, combinator, position)));
            }
        }
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new((Tally::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some((label, tool)) = graphs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let original = ArgumentSampler::new(&tool["inputSchema"]).expect(label);
                    for dialect in Dialect::all() {
                        for reshape in [false, true] {
                            let checked = check_law(tool, &original, dialect, reshape, DRAWS);
                            let mut results = results.lock().expect("no thread panicked");
                            match checked {
                                Ok(tally) => results.0 += tally,
                                Err(broken) => results.1.push(format!("{label}: {broken}")),
                            }
                        }
                    }
                }
            });
        }
    });
    let (tally, mut broken) = results.into_inner().expect("no thread panicked");
    println!("{} graphs: {tally:?}", graphs.len());
    broken.sort();
    assert!(broken.is_empty(), "{} violations\n\n{}", broken.len(), broken.join("\n\n"));
    let least = graphs.len() * Dialect::all().count();
    assert!(tally.from_definition > least, "too few draws from definitions: {tally:?}");
    assert!(tally.from_original > least, "too few draws from originals: {tally:?}");
}
