//! `toolwire import`: copies servers from the configurations of other hosts.

mod hosts;

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Map, Value, json};
use toolwire_contract::text::counted;
use toolwire_hub::config::ConfigProblem;
use toolwire_hub::{Config, Transport};

use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::output;
use crate::servers;
use crate::source::describe_io_error;
use crate::terminal_text::{sanitize, width};
use hosts::{GEMINI_CLI, GOOSE, HOSTS, Host, OPENCODE};

const ADDED: Style = AnsiColor::Green.on_default().bold();
const PROBLEM: Style = AnsiColor::Yellow.on_default().bold();
const QUIET: Style = AnsiColor::BrightBlack.on_default();
const NAME: Style = Style::new().bold();

/// Copy servers from the configurations of other hosts
///
/// Lists the servers of the hosts that are installed, such as Claude Desktop, Cursor, VS Code or Codex. With
/// `--write`, the new ones are added to the file of `--config` or $TOOLWIRE_CONFIG, or else to mcp.json in
/// the user's config folder. A server with a variable that is not set is added as disabled. The values of
/// variables and headers are not printed.
#[derive(Args)]
#[command(after_long_help = include_str!("help/import.txt"))]
pub(crate) struct ImportArgs {
    /// Only from these hosts, separated by commas; can be repeated
    #[arg(long, value_name = "HOST,…", value_delimiter = ',', value_parser = PossibleValuesParser::new(HOSTS.iter().map(|host| host.id)))]
    from: Vec<String>,
    /// Add the new servers to the configuration
    #[arg(long)]
    write: bool,
    /// Also replace servers that are configured differently
    #[arg(long, requires = "write")]
    overwrite: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ImportArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let mut candidates = servers::config_candidates(config);
    // The last candidate is in the user's config folder. If that folder is unknown, the last one is in the
    // current folder, which is not a target.
    let target = candidates.pop().filter(|last| last.must_exist || last.path.is_absolute());
    let target = target.map(|target| target.path).ok_or_else(|| {
        CommandError::usage("cannot find the home folder: HOME is not set")
            .with_hint("name the file with `--config FILE`")
    })?;
    let text = read(&target)?.unwrap_or_default();
    let configured = match text.trim().is_empty() {
        true => Vec::new(),
        false => Config::raw_servers(&text, &target)
            .map_err(|error| CommandError::usage(sanitize(&error.to_string())))?,
    };
    let is_selected = |host: &&Host| args.from.is_empty() || args.from.iter().any(|from| from == host.id);
    let mut files: Vec<HostFile> = Vec::new();
    for host in HOSTS.iter().filter(is_selected) {
        for path in host.existing_files() {
            let file = HostFile::read(host, path, &configured, &files);
            // Settings files without servers are not listed.
            if !file.servers.is_empty() || file.problem.is_some() {
                files.push(file);
            }
        }
    }
    let is_added = |server: &&FoundServer| match server.state {
        ImportState::New => true,
        ImportState::Different => args.overwrite,
        _ => false,
    };
    let found = files.iter().flat_map(|file| &file.servers);
    let added: Vec<&FoundServer> = found.filter(is_added).collect();
    if args.write && !added.is_empty() {
        let entries: Vec<(String, Value)> =
            added.iter().map(|server| (server.name.clone(), server.entry.clone())).collect();
        let inserted = Config::insert_servers(&text, &target, &entries)
            .map_err(|error| CommandError::usage(sanitize(&error.to_string())))?;
        write(&target, &inserted)?;
    }
    let target = sanitize(&target.to_string_lossy());
    match args.json {
        true => output::print_untrusted(&output::to_json(&as_json(&files, &target, &added, args), false))?,
        false => output::print_styled(&page(&files, &target, &added, args.write))?,
    }
    if !args.write && !added.is_empty() && !args.json {
        print_stderr(&format!("{HINT}hint:{HINT:#} add them with `toolwire import --write`\n"));
    }
    if let Some(other) = candidates.iter().find(|candidate| args.write && candidate.path.exists()) {
        print_stderr(&format!(
            "{NOTE}note:{NOTE:#} in this folder, `{}` is used instead of {target}\n\
             {HINT}hint:{HINT:#} add them there with `toolwire import --write --config {0}`\n",
            other.path.display()
        ));
    }
    let has_failed = files.iter().any(|file| file.problem.is_some());
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A configuration of another host.
struct HostFile {
    host: &'static Host,
    path: PathBuf,
    servers: Vec<FoundServer>,
    /// The reason why the file cannot be read.
    problem: Option<String>,
}

struct FoundServer {
    name: String,
    /// Its value, with only the keys that are known here.
    entry: Value,
    /// Its program or the host of its URL.
    summary: String,
    ignored_keys: Vec<String>,
    /// The variables that are not set. It is disabled until they are, because a missing variable is an error.
    needs: Vec<String>,
    is_disabled: bool,
    state: ImportState,
}

enum ImportState {
    New,
    /// The same server is configured.
    Configured,
    /// A server of the same name is configured differently.
    Different,
    /// A server of the same name was found before.
    Found {
        host: &'static str,
    },
    /// It cannot be used.
    Unusable {
        reason: String,
    },
}

impl ImportState {
    const fn name(&self) -> &'static str {
        match self {
            ImportState::New => "new",
            ImportState::Configured => "configured",
            ImportState::Different => "different",
            ImportState::Found { .. } => "duplicate",
            ImportState::Unusable { .. } => "unusable",
        }
    }

    fn description(&self) -> String {
        match self {
            ImportState::New => String::new(),
            ImportState::Configured => "is configured already".to_owned(),
            ImportState::Different => "is configured differently; `--overwrite` replaces it".to_owned(),
            ImportState::Found { host } => format!("has the same name as a server of {host}"),
            ImportState::Unusable { reason } => format!("skipped: {reason}"),
        }
    }
}

impl HostFile {
    fn read(
        host: &'static Host,
        path: PathBuf,
        configured: &[(String, Value)],
        earlier: &[HostFile],
    ) -> HostFile {
        let servers = fs::read_to_string(&path)
            .map_err(|error| describe_io_error(&error))
            .and_then(|text| Config::raw_servers(&text, &path).map_err(|error| error.to_string()));
        let (servers, problem) = match servers {
            Ok(servers) => (servers, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        let mut file = HostFile { host, servers: Vec::new(), path, problem };
        for (name, entry) in servers {
            let mut server = FoundServer::new(&file, name, entry);
            let known = configured.iter().find(|(known, _)| *known == server.name).map(|(_, entry)| entry);
            let has_server =
                |file: &&HostFile| file.servers.iter().any(|earlier| earlier.name == server.name);
            let found = earlier.iter().chain([&file]).find(has_server);
            server.state = match (server.state, known, found) {
                (ImportState::New, Some(known), _) if *known == server.entry => ImportState::Configured,
                (ImportState::New, _, Some(found)) => ImportState::Found { host: found.host.name },
                (ImportState::New, Some(_), None) => ImportState::Different,
                (state, _, _) => state,
            };
            file.servers.push(server);
        }
        file
    }
}

impl FoundServer {
    fn new(file: &HostFile, name: String, mut entry: Value) -> FoundServer {
        adapt(file.host, &mut entry);
        // The path decides what a relative path and `${userHome}` mean; the text is JSON even if the file is
        // TOML or YAML.
        let path = file.path.with_extension("json");
        let parse = |entry: &Value| {
            let text = json!({"mcpServers": {&name: entry}}).to_string();
            Config::parse(&text, &path, &|name| std::env::var(name).ok())
        };
        let mut parsed = parse(&entry);
        let mut needs = Vec::new();
        if let Err(error) = &parsed {
            let missing = error.problems().iter().map(ConfigProblem::missing_variable);
            needs = missing.collect::<Option<Vec<String>>>().unwrap_or_default();
        }
        if !needs.is_empty() {
            needs.sort();
            needs.dedup();
            entry["disabled"] = true.into();
            parsed = parse(&entry);
        }
        let is_disabled = parsed.iter().flat_map(|(config, _)| &config.servers).any(|server| server.disabled);
        let unusable = |reason: String| ImportState::Unusable { reason };
        let (state, summary, ignored_keys) = match parsed {
            _ if entry.to_string().contains("${workspaceFolder") => {
                let reason = "`${workspaceFolder}` depends on the folder that is open in the editor";
                (unusable(reason.to_owned()), String::new(), Vec::new())
            }
            Err(error) => {
                let reasons: Vec<String> = error.problems().iter().map(ConfigProblem::reason).collect();
                (unusable(reasons.join("; ")), String::new(), Vec::new())
            }
            Ok((config, warnings)) => {
                let keys = warnings.iter().filter_map(|warning| warning.unknown_key());
                let keys: Vec<String> = keys.map(str::to_owned).collect();
                let state = match warnings.iter().find_map(|warning| warning.skip_reason()) {
                    Some(reason) => unusable(reason),
                    None => ImportState::New,
                };
                (state, summary(&entry, &config), keys)
            }
        };
        if let Some(fields) = entry.as_object_mut() {
            fields.retain(|key, _| !ignored_keys.contains(key));
        }
        FoundServer { name, entry, summary, ignored_keys, needs, is_disabled, state }
    }
}

/// Rewrites values that have another meaning in the host than in Toolwire.
fn adapt(host: &Host, entry: &mut Value) {
    if host.id == OPENCODE {
        let text = entry.to_string().replace("{env:", "${env:");
        *entry = serde_json::from_str(&text).unwrap_or_default();
    }
    if let Some(fields) = entry.as_object_mut().filter(|_| host.id == GOOSE) {
        // goose writes all its keys.
        fields.retain(|_, value| !(value.is_null() || *value == json!([]) || *value == json!({})));
        for (key, meaning) in [("cmd", "command"), ("envs", "env"), ("uri", "url")] {
            if let Some(value) = fields.shift_remove(key) {
                fields.insert(meaning.to_owned(), value);
            }
        }
    }
    let Some(fields) = entry.as_object_mut().filter(|_| [GEMINI_CLI, OPENCODE].contains(&host.id)) else {
        return;
    };
    if let Some(timeout @ Value::Number(_)) = fields.get_mut("timeout") {
        *timeout = format!("{timeout}ms").into();
    }
    if host.id != GEMINI_CLI {
        return;
    }
    // Gemini CLI also expands variables without braces.
    for key in ["env", "headers"] {
        for value in fields.get_mut(key).and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
        {
            let name = value.as_str().and_then(|text| text.strip_prefix('$'));
            let is_name = |name: &&str| {
                !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            };
            if let Some(name) = name.filter(is_name) {
                *value = format!("${{{name}}}").into();
            }
        }
    }
}

/// Returns the program as it is written, or the host of the URL.
fn summary(entry: &Value, config: &Config) -> String {
    match config.servers.first().map(|server| &server.transport) {
        Some(Transport::Stdio { command, .. }) => entry["command"].as_str().unwrap_or(command).to_owned(),
        Some(Transport::Http { url, .. }) => url.host_str().unwrap_or_default().to_owned(),
        _ => String::new(),
    }
}

fn page(files: &[HostFile], target: &str, added: &[&FoundServer], is_written: bool) -> String {
    let mut text = String::new();
    for file in files {
        let path = sanitize(&file.path.to_string_lossy());
        let _ = writeln!(text, "{NAME}{}{NAME:#}  {QUIET}{path}{QUIET:#}", file.host.name);
        if let Some(problem) = &file.problem {
            let _ = writeln!(text, "  {PROBLEM}!{PROBLEM:#} {}", sanitize(problem));
        }
        let names = file.servers.iter().map(|server| width(&sanitize(&server.name)));
        let column = names.max().unwrap_or(0).min(32);
        for server in &file.servers {
            let name = sanitize(&server.name);
            let padding = " ".repeat(column.saturating_sub(width(&name)));
            let (style, mark) = match &server.state {
                ImportState::New => (ADDED, "+"),
                ImportState::Configured => (QUIET, "="),
                _ => (PROBLEM, "!"),
            };
            let details = match &server.state {
                ImportState::New if !server.needs.is_empty() => {
                    format!("disabled until you set {}", quoted(&server.needs))
                }
                ImportState::New if server.is_disabled => format!("{}, disabled", server.summary),
                ImportState::New => server.summary.clone(),
                state => state.description(),
            };
            let _ = write!(text, "  {style}{mark}{style:#} {name}{padding}  {QUIET}{}", sanitize(&details));
            if !server.ignored_keys.is_empty() {
                let _ = write!(text, " (ignored: {})", sanitize(&quoted(&server.ignored_keys)));
            }
            let _ = writeln!(text, "{QUIET:#}");
        }
        text.push('\n');
    }
    let servers = counted(added.len(), "server");
    let disabled = match added.iter().filter(|server| server.is_disabled).count() {
        0 => String::new(),
        count => format!(", {count} of them disabled"),
    };
    let _ = match (files.is_empty(), is_written) {
        (true, _) => writeln!(text, "no configurations of other hosts found"),
        (false, true) => writeln!(text, "{servers} added to {target}{disabled}"),
        (false, false) => writeln!(text, "{servers} can be added to {target}{disabled}"),
    };
    text
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn as_json(files: &[HostFile], target: &str, added: &[&FoundServer], args: &ImportArgs) -> Value {
    let server = |server: &FoundServer| {
        let mut json = json!({"name": server.name, "state": server.state.name()});
        let description = server.state.description();
        if !description.is_empty() {
            json["reason"] = description.into();
        }
        if !server.ignored_keys.is_empty() {
            json["ignored_keys"] = json!(server.ignored_keys);
        }
        if server.is_disabled {
            json["disabled"] = true.into();
        }
        if !server.needs.is_empty() {
            json["missing_variables"] = json!(server.needs);
        }
        json
    };
    let files = files.iter().map(|file| {
        let servers: Vec<Value> = file.servers.iter().map(server).collect();
        let mut json = json!({"host": file.host.id, "file": file.path.to_string_lossy(), "servers": servers});
        if let Some(problem) = &file.problem {
            json["error"] = problem.as_str().into();
        }
        json
    });
    let added: Vec<&str> = added.iter().map(|server| server.name.as_str()).collect();
    json!({"target": target, "written": args.write, "added": added, "files": files.collect::<Vec<_>>()})
}

/// Returns the text of the target; `None` if it does not exist.
fn read(target: &Path) -> Result<Option<String>, CommandError> {
    match fs::read_to_string(target) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CommandError::usage(format!(
            "cannot read `{}`: {}",
            sanitize(&target.to_string_lossy()),
            describe_io_error(&error)
        ))),
    }
}

/// Writes the target. A new file is only for the user, because servers often have tokens.
fn write(target: &Path, text: &str) -> Result<(), CommandError> {
    if let Some(folder) = target.parent() {
        // An error is reported when the file is written.
        let _ = fs::create_dir_all(folder);
    }
    output::write_private_file(target, text)
}
