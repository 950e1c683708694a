//! Names for the tools of all servers: legal in every dialect, unique and stable.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use toolwire_dialect::names::{disambiguated_tool_name, to_valid_tool_name};

use super::{RESERVED_NAMES, Route};
use crate::config::ServerName;

/// A server's name is cut to this length as a prefix, to leave most of the 64 characters for the tool's name.
const MAX_SERVER_PREFIX_CHARS: usize = 24;

/// Assigns a name to each tool. `prefixes` contains every server, with its configured prefix.
///
/// 1. The tool's name on the server, with the configured prefix, converted to a legal name.
/// 2. If tools of other servers have the same name, or the hub reserves it, the tools without a configured
///    prefix get the name of their server as a prefix.
/// 3. If that name is not free either, a hash of the server and the tool is appended.
///
/// All tools that compete for a name are renamed, so the result does not depend on their order.
pub(super) fn assign(
    tools: BTreeSet<Route>,
    prefixes: &BTreeMap<&ServerName, Option<&str>>,
) -> BTreeMap<Route, String> {
    let prefix = |route: &Route| prefixes.get(&route.server).copied().flatten();
    let preferred = tools.into_iter().map(|route| {
        let name = match prefix(&route) {
            Some(prefix) => to_valid_tool_name(&with_prefix(prefix, &route.tool), route.server.as_str()),
            None => to_valid_tool_name(&route.tool, route.server.as_str()),
        };
        (route, name)
    });
    let mut taken = HashSet::from(RESERVED_NAMES.map(str::to_owned));
    let (mut assigned, contested) = split_contested(preferred.collect(), &taken);
    taken.extend(assigned.values().map(|name| folded(name)));

    let prefixed = contested.into_iter().map(|(route, name)| match prefix(&route) {
        Some(_) => (route, name),
        None => {
            let name = with_prefix(&server_prefix(&route.server), &route.tool);
            let name = to_valid_tool_name(&name, route.server.as_str());
            (route, name)
        }
    });
    let (second, contested) = split_contested(prefixed.collect(), &taken);
    taken.extend(second.values().map(|name| folded(name)));
    assigned.extend(second);

    for (route, name) in contested {
        let name = (0..)
            .map(|salt| disambiguated_tool_name(&name, route.server.as_str(), &route.tool, salt))
            .find(|name| taken.insert(folded(name)))
            .expect("there are more salts than tools");
        assigned.insert(route, name);
    }
    assigned
}

/// Separates free names from contested ones. Names of tools on the same server may differ only in case.
fn split_contested(
    names: BTreeMap<Route, String>,
    taken: &HashSet<String>,
) -> (BTreeMap<Route, String>, BTreeMap<Route, String>) {
    let mut by_folded_name: HashMap<String, Vec<(&Route, &str)>> = HashMap::new();
    for (route, name) in &names {
        by_folded_name.entry(folded(name)).or_default().push((route, name));
    }
    let contested: HashSet<String> = by_folded_name
        .into_iter()
        .filter(|(folded_name, tools)| {
            let mut spellings = HashSet::new();
            let is_one_server = tools.iter().all(|(route, _)| route.server == tools[0].0.server);
            taken.contains(folded_name)
                || !is_one_server
                || !tools.iter().all(|(_, name)| spellings.insert(*name))
        })
        .map(|(folded_name, _)| folded_name)
        .collect();
    names.into_iter().partition(|(_, name)| !contested.contains(&folded(name)))
}

/// Folds the case of a name. Some gateways ignore case, so names of different servers must differ in more.
fn folded(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// Adds a separator unless the prefix ends with one.
fn with_prefix(prefix: &str, tool: &str) -> String {
    let separator = if prefix.ends_with(['_', '-']) { "" } else { "_" };
    format!("{prefix}{separator}{tool}")
}

/// Converts a server's name to a legal start of a tool name.
fn server_prefix(server: &ServerName) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let plain: String =
        server.as_str().chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    let plain = plain.trim_matches(['_', '-']);
    let cut = plain.get(..MAX_SERVER_PREFIX_CHARS).unwrap_or(plain).trim_end_matches(['_', '-']);
    match cut.chars().next() {
        // No character of the name is legal, so a hash identifies the server.
        None => disambiguated_tool_name("server", server.as_str(), "", 0),
        Some(first) if first.is_ascii_digit() => format!("_{cut}"),
        Some(_) => cut.to_owned(),
    }
}
