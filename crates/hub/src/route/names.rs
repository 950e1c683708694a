//! Names for the tools of many servers: legal in every dialect, unlike each other, and the same each time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use toolwire_dialect::{disambiguated_tool_name, to_valid_tool_name};

use super::{RESERVED, Route};
use crate::config::ServerName;

/// A server's own name as a prefix is cut here, so that most of the 64 characters are left for the tool's.
const SERVER_LIMIT: usize = 24;

/// Gives each tool its name. `prefixes` has every server, with the prefix that its configuration sets.
///
/// 1. A tool's own name with the configured prefix, made legal.
/// 2. If tools of other servers want that too, or the hub itself: the ones without a configured prefix get their server's
///    name in front.
/// 3. If that is not free either: with a hash of the server and the tool.
///
/// All who want one name give way alike, so that it does not matter who came first.
pub(super) fn give(
    tools: BTreeSet<Route>,
    prefixes: &BTreeMap<&ServerName, Option<&str>>,
) -> BTreeMap<Route, String> {
    let prefix = |route: &Route| prefixes.get(&route.server).copied().flatten();
    let wishes = tools.into_iter().map(|route| {
        let wish = match prefix(&route) {
            Some(prefix) => to_valid_tool_name(&joined(prefix, &route.tool), route.server.as_str()),
            None => to_valid_tool_name(&route.tool, route.server.as_str()),
        };
        (route, wish)
    });
    let (mut named, contested) = sort_out(wishes.collect(), &HashSet::from(RESERVED.map(str::to_owned)));
    let taken = named.values().map(|name| folded(name)).chain(RESERVED.map(str::to_owned)).collect();

    let wishes = contested.into_iter().map(|(route, wish)| match prefix(&route) {
        Some(_) => (route, wish),
        None => {
            let whole = joined(&as_prefix(&route.server), &route.tool);
            let wish = to_valid_tool_name(&whole, route.server.as_str());
            (route, wish)
        }
    });
    let (second, contested) = sort_out(wishes.collect(), &taken);
    let mut taken: HashSet<String> = taken;
    taken.extend(second.values().map(|name| folded(name)));
    named.extend(second);

    for (route, wish) in contested {
        let mut salts = 0..;
        let name = salts
            .by_ref()
            .map(|salt| disambiguated_tool_name(&wish, route.server.as_str(), &route.tool, salt))
            .find(|name| taken.insert(folded(name)))
            .expect("there are more salts than tools");
        named.insert(route, name);
    }
    named
}

/// Parts those who alone want their name, or share it with tools of their own server that differ in case only, from the rest.
fn sort_out(
    wishes: BTreeMap<Route, String>,
    taken: &HashSet<String>,
) -> (BTreeMap<Route, String>, BTreeMap<Route, String>) {
    let mut wanted: HashMap<String, Vec<(&Route, &str)>> = HashMap::new();
    for (route, wish) in &wishes {
        wanted.entry(folded(wish)).or_default().push((route, wish));
    }
    let contested: HashSet<String> = wanted
        .into_iter()
        .filter(|(name, by)| {
            let mut spellings = HashSet::new();
            let one_server = by.iter().all(|(route, _)| route.server == by[0].0.server);
            taken.contains(name) || !one_server || !by.iter().all(|(_, wish)| spellings.insert(*wish))
        })
        .map(|(name, _)| name)
        .collect();
    wishes.into_iter().partition(|(_, wish)| !contested.contains(&folded(wish)))
}

/// Some gateways fold case, so names of different servers differ in more than that.
fn folded(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// A prefix that ends in a separator brings its own.
fn joined(prefix: &str, tool: &str) -> String {
    let separator = if prefix.ends_with(['_', '-']) { "" } else { "_" };
    format!("{prefix}{separator}{tool}")
}

/// A server's name as the beginning of a tool's.
fn as_prefix(server: &ServerName) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let plain: String =
        server.as_str().chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    let plain = plain.trim_matches(['_', '-']);
    let cut = plain.get(..SERVER_LIMIT).unwrap_or(plain).trim_end_matches(['_', '-']);
    match cut.chars().next() {
        // Nothing of it can be written, so it goes by a number that is its own.
        None => disambiguated_tool_name("server", server.as_str(), "", 0),
        Some(first) if first.is_ascii_digit() => format!("_{cut}"),
        Some(_) => cut.to_owned(),
    }
}
