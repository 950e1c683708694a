//! The work of the other benchmarks, measured in instructions, which do not depend on the load of the
//! machine.
//!
//! The program runs itself under Valgrind's callgrind, which counts only inside [`counted`] and writes one
//! file per count. `cargo bench --bench instructions -- corpus` runs one part; the others are `bind`,
//! `decode` and `growth`.

mod inputs;

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

use inputs::sized::{SIZES, Shape};
use serde_json::Value;
use toolwire_dialect::{Dialect, Options, Toolset, check_definition};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The environment variable that is set in the measured process.
const MEASURED: &str = "TOOLWIRE_COUNTED";

/// Describes one count: the part of the report, the work, its input, and the divisor of the count.
struct Label {
    part: &'static str,
    name: String,
    case: String,
    per: usize,
}

fn main() -> ExitCode {
    let selected: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_selected = |part: &str| selected.is_empty() || selected.iter().any(|name| name == part);
    if env::var_os(MEASURED).is_some() {
        run(&is_selected);
        return ExitCode::SUCCESS;
    }
    match count() {
        Ok(counts) => {
            report(&counts);
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Does the work and prints one label per count, in order.
fn run(is_selected: &dyn Fn(&str) -> bool) {
    if is_selected("corpus") {
        corpus();
    }
    if is_selected("bind") {
        bind();
    }
    if is_selected("decode") {
        decode();
    }
    if is_selected("growth") {
        growth();
    }
}

fn corpus() {
    let corpus_texts = inputs::tools();
    let case = format!("{}, {} bytes", corpus_texts.name, corpus_texts.bytes);
    let options = Options::default();
    count_one("corpus", "serde_json", &case, corpus_texts.tools, &|| {
        corpus_texts.texts.iter().map(|text| inputs::round_trip(black_box(text))).sum()
    });
    for dialect in Dialect::all() {
        count_one("corpus", dialect.name(), &case, corpus_texts.tools, &|| {
            let texts = corpus_texts.texts.iter();
            texts.map(|text| inputs::conversion(black_box(text), dialect, &options)).sum()
        });
    }
}

fn bind() {
    let servers = inputs::servers();
    let case = "binding the tools of the corpus, per tool";
    let options = Options::default();
    let count = servers.iter().map(Vec::len).sum();
    count_one("bind", "check_definition", case, count, &|| {
        servers.iter().flatten().filter(|tool| check_definition(black_box(tool)).is_ok()).count()
    });
    for dialect in
        [Dialect::OpenAi, Dialect::OpenAiStrict, Dialect::Anthropic, Dialect::GeminiOpenApi, Dialect::Mcp]
    {
        count_one("bind", dialect.name(), case, count, &|| {
            let toolsets = servers.iter().map(|tools| Toolset::new(black_box(tools), dialect, &options));
            toolsets.map(|toolset| toolset.definitions().len()).sum()
        });
    }
}

fn decode() {
    for dialect in Dialect::all() {
        let tools = Toolset::from_json(inputs::TYPICAL_TOOL, dialect, &Options::default());
        let tools = tools.expect("a valid tool");
        let sent = Value::from(inputs::typical_call(dialect));
        let decode =
            || tools.decode("search_issues", black_box(&sent)).expect("a valid call").arguments.len();
        decode();
        // A single call may happen to take a slow path of the allocator.
        let calls = 1_000;
        count_one("decode", dialect.name(), "decoding a typical call", calls, &|| {
            (0..calls).map(|_| decode()).sum()
        });
    }
}

fn growth() {
    let options = Options::default();
    for shape in Shape::ALL {
        for bytes in SIZES {
            let text = shape.tool(bytes);
            let count = |name: &str, work: &dyn Fn() -> usize| {
                count_one("growth", name, &format!("{} {bytes}", shape.name()), text.len(), work);
            };
            count("serde_json", &|| inputs::round_trip(black_box(&text)));
            for dialect in
                [Dialect::OpenAi, Dialect::OpenAiStrict, Dialect::Anthropic, Dialect::GeminiOpenApi]
            {
                count(dialect.name(), &|| inputs::conversion(black_box(&text), dialect, &options));
            }
        }
    }
}

fn count_one(part: &str, name: &str, case: &str, per: usize, work: &dyn Fn() -> usize) {
    black_box(counted(work));
    println!("{part}\t{name}\t{case}\t{per}");
}

/// Runs the work. Callgrind counts inside this function.
#[inline(never)]
fn counted(work: &dyn Fn() -> usize) -> usize {
    black_box(run_work(work))
}

/// Runs the work. Callgrind writes its count when this function returns; it cannot do both for one function.
#[inline(never)]
fn run_work(work: &dyn Fn() -> usize) -> usize {
    black_box(work())
}

/// Runs this program under callgrind and reads the counts.
fn count() -> Result<Vec<(Label, u64)>, String> {
    let program = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("instructions-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create `{}`: {error}", folder.display()))?;
    let files = folder.join("count");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--toggle-collect=instructions::counted"])
        .arg("--dump-after=instructions::run_work")
        .arg(format!("--callgrind-out-file={}", files.display()))
        .arg(program)
        .args(env::args().skip(1))
        .env(MEASURED, "1")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run `valgrind`: {error}"))?;
    if !output.status.success() {
        return Err(format!("valgrind ended with {}", output.status));
    }
    let labels = String::from_utf8_lossy(&output.stdout);
    let counts = labels.lines().filter_map(label).enumerate().map(|(index, label)| {
        let path = folder.join(format!("count.{}", index + 1));
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        let total =
            text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
        let total = total.and_then(|total| total.trim().parse().ok());
        Ok((label, total.ok_or_else(|| format!("`{}` has no total", path.display()))?))
    });
    let counts = counts.collect();
    // The files are useful only after an error.
    let _ = fs::remove_dir_all(&folder);
    counts
}

fn label(line: &str) -> Option<Label> {
    let mut fields = line.split('\t');
    let part = match fields.next()? {
        "corpus" => "corpus",
        "bind" => "bind",
        "decode" => "decode",
        "growth" => "growth",
        _ => return None,
    };
    let (name, case) = (fields.next()?.to_owned(), fields.next()?.to_owned());
    Some(Label { part, name, case, per: fields.next()?.parse().ok()? })
}

fn report(counts: &[(Label, u64)]) {
    let counts_of = |part: &str| counts.iter().filter(|(label, _)| label.part == part).collect::<Vec<_>>();
    let per_item = |label: &Label, count: u64| count as f64 / label.per as f64;
    let corpus = counts_of("corpus");
    if let Some((first, count)) = corpus.first() {
        let base = per_item(first, *count);
        println!("\n{} tools ({})\n", first.per, first.case);
        println!("| | instructions per tool | relative to a serde_json round trip |\n|---|--:|--:|");
        for (label, count) in &corpus {
            let instructions = per_item(label, *count);
            println!("| {} | {instructions:.0} | {:.2}× |", label.name, instructions / base);
        }
    }
    for part in [counts_of("bind"), counts_of("decode")] {
        if let Some((first, _)) = part.first() {
            println!("\n{}\n\n| | instructions |\n|---|--:|", first.case);
        }
        for (label, count) in &part {
            println!("| {} | {:.0} |", label.name, per_item(label, *count));
        }
    }
    let growth = counts_of("growth");
    if !growth.is_empty() {
        println!("\ninstructions per byte, by schema size\n");
        let sizes = SIZES.map(|bytes| bytes.to_string()).join(" | ");
        println!("| | {sizes} |\n|---|{}", "--:|".repeat(SIZES.len()));
        let mut rows: Vec<(String, String)> = Vec::new();
        for (label, count) in &growth {
            let shape = label.case.split(' ').next().unwrap_or_default();
            let name = format!("{shape}, {}", label.name);
            if !rows.iter().any(|(row, _)| *row == name) {
                rows.push((name.clone(), String::new()));
            }
            if let Some((_, cells)) = rows.iter_mut().find(|(row, _)| *row == name) {
                write!(cells, " {:.1} |", per_item(label, *count)).expect("writing to a string cannot fail");
            }
        }
        for (name, cells) in rows {
            println!("| {name} |{cells}");
        }
    }
}
