//! Decodes and validates one call: JSON text as a model sends it.

mod inputs;

use divan::{Bencher, black_box};
use serde_json::Value;
use toolwire_dialect::arguments::Decoded;
use toolwire_dialect::{Dialect, Options, Toolset};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

/// A call of a tool that was called before.
#[divan::bench(args = ["openai", "openai-strict", "anthropic", "gemini-openapi"])]
fn a_typical_call(bencher: Bencher, dialect: &str) {
    let dialect: Dialect = dialect.parse().expect("a dialect name");
    let tools = bind(dialect);
    let sent = Value::from(inputs::typical_call(dialect));
    decode(&tools, &sent);
    bencher.bench(|| decode(&tools, black_box(&sent)));
}

/// The first call of a tool, which also compiles its schema.
#[divan::bench(args = ["openai", "openai-strict", "anthropic", "gemini-openapi"])]
fn the_first_call(bencher: Bencher, dialect: &str) {
    let dialect: Dialect = dialect.parse().expect("a dialect name");
    let sent = Value::from(inputs::typical_call(dialect));
    bencher.with_inputs(|| bind(dialect)).bench_refs(|tools| decode(tools, black_box(&sent)));
}

fn bind(dialect: Dialect) -> Toolset {
    Toolset::from_json(inputs::TYPICAL_TOOL, dialect, &Options::default()).expect("a valid tool")
}

fn decode(tools: &Toolset, sent: &Value) -> Decoded {
    tools.decode("search_issues", sent).expect("a valid call")
}
