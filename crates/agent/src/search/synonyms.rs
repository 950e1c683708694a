//! Groups of words with similar meanings in the names and descriptions of tools.
//!
//! Users write "make a picture" where a tool is named `generate_image`. The groups describe what tools do in
//! general; they contain no words of specific services or tools.

use std::collections::HashMap;

use super::terms::stem;

/// One group per line.
const GROUPS: &str = "
get fetch retrieve read view show display see load obtain
list show enumerate exist available overview
find search look lookup query discover
create make new add generate build register put insert draw produce compose
add put insert append attach include join
delete remove clear clean empty erase drop discard wipe destroy purge
update edit change modify patch alter rename adjust set
replace overwrite substitute
send post deliver write submit
write save store put
stop cancel abort end halt interrupt terminate kill
start run launch begin execute trigger open
run execute invoke call perform
restore recover undelete back undo
copy duplicate clone fork
move transfer relocate
share publish release
download export save
upload import
approve accept confirm allow
deny reject refuse decline
enable activate on
disable deactivate off
check verify validate test inspect audit
analyze analyse examine investigate diagnose
diagnose troubleshoot debug
error fail failure problem exception bug crash
image picture photo graphic
screenshot capture
video film movie clip
audio sound voice speech
song track music
message chat text
email mail
file document
folder directory
repository repo
user person people member
account profile
recent last latest lately newest current
previous past history historical earlier
price cost quote value
stock share equity ticker
crypto cryptocurrency bitcoin btc ethereum eth coin
order buy sell purchase trade
bar candle ohlc
calculate compute evaluate calculation math
expression formula
translate translation language
page website site web url
browser tab window
function method symbol procedure
code source body
table relation
column field attribute
row record entry item
item entry element object
example sample item
top most best highest
rise rose gain gainer up
fall fell lose loser down
schedule calendar timer appointment
record recording
password secret credential
trash bin deleted
state status value reading
sensor entity device
light device
chart graph plot diagram
setting configuration config option preference
log entry
notify notification alert remind reminder
label tag
comment reply note
issue ticket bug
task todo
people who user
where location place address
when date time
count number many amount
slow performance speed fast
";

/// Returns, for each term, the other terms of its groups.
pub(super) fn by_term() -> HashMap<String, Vec<String>> {
    let mut synonyms: HashMap<String, Vec<String>> = HashMap::new();
    for line in GROUPS.lines() {
        let group: Vec<String> = line.split_whitespace().map(stem).collect();
        for term in &group {
            let others = group.iter().filter(|other| *other != term).cloned();
            synonyms.entry(term.clone()).or_default().extend(others);
        }
    }
    synonyms
}
