//! The work of the other benches measured in instructions, which do not depend on the load of the machine.
//!
//! The program runs itself under Valgrind's callgrind, which counts only inside [`counted`] and writes one file per
//! count. `cargo bench --bench instructions -- corpus` runs one part; the others are `bind`, `decode` and `growth`.

mod material;

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

use material::sized::{SIZES, Shape};
use serde_json::Value;
use toolwire_dialect::{Dialect, Options, Toolset, check_definition};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The environment variable that is set in the measured process.
const MEASURED: &str = "TOOLWIRE_COUNTED";

/// Describes one count: the part of the report, the work, its input, and the divisor of the count.
struct Label {
    part: &'static str,
    what: String,
    case: String,
    per: usize,
}

fn main() -> ExitCode {
    let chosen: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let chosen = |part: &str| chosen.is_empty() || chosen.iter().any(|name| name == part);
    if env::var_os(MEASURED).is_some() {
        run(&chosen);
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
fn run(chosen: &dyn Fn(&str) -> bool) {
    if chosen("corpus") {
        corpus();
    }
    if chosen("bind") {
        bind();
    }
    if chosen("decode") {
        decode();
    }
    if chosen("growth") {
        growth();
    }
}

fn corpus() {
    let material = material::tools();
    let case = format!("{}, {} bytes", material.name, material.bytes);
    let options = Options::default();
    count_one("corpus", "serde_json", &case, material.tools, &|| {
        material.texts.iter().map(|text| material::round_trip(black_box(text))).sum()
    });
    for dialect in Dialect::all() {
        count_one("corpus", dialect.name(), &case, material.tools, &|| {
            let texts = material.texts.iter();
            texts.map(|text| material::conversion(black_box(text), dialect, &options)).sum()
        });
    }
}

fn bind() {
    let servers = material::servers();
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
        let tools = Toolset::from_json(material::TYPICAL_TOOL, dialect, &Options::default());
        let tools = tools.expect("the tool is valid JSON");
        let sent = Value::from(material::typical_call(dialect));
        let decode =
            || tools.decode("search_issues", black_box(&sent)).expect("the call is valid").arguments.len();
        decode();
        // One call alone may happen to meet a slow path of the allocator.
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
            let one = |what: &str, work: &dyn Fn() -> usize| {
                count_one("growth", what, &format!("{} {bytes}", shape.name()), text.len(), work);
            };
            one("serde_json", &|| material::round_trip(black_box(&text)));
            for dialect in
                [Dialect::OpenAi, Dialect::OpenAiStrict, Dialect::Anthropic, Dialect::GeminiOpenApi]
            {
                one(dialect.name(), &|| material::conversion(black_box(&text), dialect, &options));
            }
        }
    }
}

fn count_one(part: &str, what: &str, case: &str, per: usize, work: &dyn Fn() -> usize) {
    black_box(counted(work));
    println!("{part}\t{what}\t{case}\t{per}");
}

/// Callgrind counts inside this function.
#[inline(never)]
fn counted(work: &dyn Fn() -> usize) -> usize {
    black_box(worked(work))
}

/// Callgrind writes its count when this function returns. It cannot do both for the same function.
#[inline(never)]
fn worked(work: &dyn Fn() -> usize) -> usize {
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
        .arg("--dump-after=instructions::worked")
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
    let (what, case) = (fields.next()?.to_owned(), fields.next()?.to_owned());
    Some(Label { part, what, case, per: fields.next()?.parse().ok()? })
}

fn report(counts: &[(Label, u64)]) {
    let of = |part: &str| counts.iter().filter(|(label, _)| label.part == part).collect::<Vec<_>>();
    let each = |label: &Label, count: u64| count as f64 / label.per as f64;
    let corpus = of("corpus");
    if let Some((first, count)) = corpus.first() {
        let base = each(first, *count);
        println!("\n{} tools ({})\n", first.per, first.case);
        println!("| | instructions per tool | relative to a serde_json round trip |\n|---|--:|--:|");
        for (label, count) in &corpus {
            let here = each(label, *count);
            println!("| {} | {here:.0} | {:.2}× |", label.what, here / base);
        }
    }
    for part in [of("bind"), of("decode")] {
        if let Some((first, _)) = part.first() {
            println!("\n{}\n\n| | instructions |\n|---|--:|", first.case);
        }
        for (label, count) in &part {
            println!("| {} | {:.0} |", label.what, each(label, *count));
        }
    }
    let growth = of("growth");
    if !growth.is_empty() {
        println!("\ninstructions per byte, by schema size\n");
        let sizes = SIZES.map(|bytes| bytes.to_string()).join(" | ");
        println!("| | {sizes} |\n|---|{}", "--:|".repeat(SIZES.len()));
        let mut rows: Vec<(String, String)> = Vec::new();
        for (label, count) in &growth {
            let shape = label.case.split(' ').next().unwrap_or_default();
            let name = format!("{shape}, {}", label.what);
            if !rows.iter().any(|(row, _)| *row == name) {
                rows.push((name.clone(), String::new()));
            }
            if let Some((_, cells)) = rows.iter_mut().find(|(row, _)| *row == name) {
                write!(cells, " {:.1} |", each(label, *count)).expect("writing to a string cannot fail");
            }
        }
        for (name, cells) in rows {
            println!("| {name} |{cells}");
        }
    }
}
