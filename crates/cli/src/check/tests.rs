//! The complete output, without colours.

use anstream::adapter::strip_str;
use toolwire_dialect::{Change, Dialect, Effect, Refusal, Report, Status};

use super::survey::{ServerTools, Survey};
use super::{page, selected_dialects};

fn report(tool: &str, dialect: Dialect, changes: &[(&str, &str, Effect, &str)]) -> Report {
    let lossy = changes.iter().any(|change| matches!(change.2, Effect::Widened | Effect::Narrowed));
    Report {
        tool: tool.to_owned(),
        name: tool.to_owned(),
        dialect,
        status: match changes {
            [] => Status::Exact,
            _ if lossy => Status::Lossy,
            _ => Status::Rewritten,
        },
        reason: None,
        changes: changes
            .iter()
            .map(|(pointer, keyword, effect, detail)| Change {
                pointer: (*pointer).to_owned(),
                keyword: (*keyword).to_owned(),
                effect: *effect,
                detail: (*detail).to_owned(),
            })
            .collect(),
    }
}

fn refused(tool: &str, dialect: Dialect) -> Report {
    let reason = Refusal {
        code: "dangling_ref",
        pointer: "/properties/filter".to_owned(),
        message: "`#/$defs/Filter` is not in the schema".to_owned(),
    };
    Report { status: Status::Refused, reason: Some(reason), ..report(tool, dialect, &[]) }
}

fn few_tools(dialects: Vec<Dialect>) -> Survey {
    let is_strict = |dialect: Dialect| dialect.name().ends_with("-strict");
    let reports = dialects
        .iter()
        .map(|dialect| {
            let mut weather = vec![("/properties/units", "default", Effect::Dropped, "default \"celsius\"")];
            if is_strict(*dialect) {
                weather.push((
                    "/properties/units",
                    "required",
                    Effect::Rewritten,
                    "optional became nullable",
                ));
            }
            let mut photos = report("写真に印を付ける🎈", *dialect, &[]);
            if !matches!(dialect, Dialect::Ollama) {
                photos.name = "tool_5f1c".to_owned();
            }
            let pattern =
                ("/properties/tag", "pattern", Effect::Widened, "`^[a-z]+$` moved to the description");
            if *dialect == Dialect::Gemini {
                photos.changes = report("", *dialect, &[pattern]).changes;
                photos.status = Status::Lossy;
            }
            vec![report("get_weather", *dialect, &weather), photos, refused("find\u{1b}[2J", *dialect)]
        })
        .collect();
    Survey::from_reports(dialects, reports)
}

fn plain(survey: &Survey, columns: usize) -> String {
    let text = strip_str(&page(survey, false, columns)).to_string();
    for line in text.lines() {
        assert!(crate::terminal_text::width(line) <= columns, "`{line}` is wider than {columns}");
    }
    text
}

#[test]
fn a_few_dialects_are_named_above_their_columns() {
    insta::assert_snapshot!(plain(
        &few_tools(vec![Dialect::OpenAi, Dialect::OpenAiStrict, Dialect::Gemini]),
        80
    ));
}

#[test]
fn many_dialects_are_named_in_a_staircase() {
    insta::assert_snapshot!(plain(&few_tools(selected_dialects(&[])), 80));
}

#[test]
fn a_narrow_terminal_needs_several_tables() {
    insta::assert_snapshot!(plain(&few_tools(selected_dialects(&[])), 44));
}

#[test]
fn exact_tools_have_no_reasons() {
    let survey =
        Survey::from_reports(vec![Dialect::Anthropic], vec![vec![report("ping", Dialect::Anthropic, &[])]]);
    insta::assert_snapshot!(plain(&survey, 80));
}

#[test]
fn five_tools_or_more_have_a_summary() {
    let dialects = vec![Dialect::OpenAi, Dialect::Gemini];
    let widened = ("/properties/a", "pattern", Effect::Widened, "moved to the description");
    let reports = dialects
        .iter()
        .map(|dialect| {
            let tool = |index: usize| match (index, dialect) {
                (0, _) => refused("tool_0", *dialect),
                (1..4, Dialect::Gemini) => report(&format!("tool_{index}"), *dialect, &[widened]),
                _ => report(&format!("tool_{index}"), *dialect, &[]),
            };
            (0..30).map(tool).collect()
        })
        .collect();
    insta::assert_snapshot!(plain(&Survey::from_reports(dialects, reports), 80));
}

#[test]
fn long_lists_of_reasons_are_truncated() {
    let places: Vec<String> = (0..20).map(|index| format!("/properties/field_{index}")).collect();
    let changes: Vec<_> =
        places.iter().map(|place| (place.as_str(), "default", Effect::Dropped, "default 0")).collect();
    let survey =
        Survey::from_reports(vec![Dialect::OpenAi], vec![vec![report("fill", Dialect::OpenAi, &changes)]]);
    insta::assert_snapshot!(plain(&survey, 80));
}

#[test]
fn words_that_are_too_long_are_broken() {
    let pattern = format!("pattern \"^{}$\" moved to the description", "[a-z]{2}".repeat(20));
    let changes = [("/properties/tag", "pattern", Effect::Widened, pattern.as_str())];
    let survey =
        Survey::from_reports(vec![Dialect::Gemini], vec![vec![report("find", Dialect::Gemini, &changes)]]);
    plain(&survey, 60);
}

#[test]
fn descriptions_are_below_their_pointers_on_a_narrow_terminal() {
    let pattern = "pattern \"^[a-z]+$\" moved to the description; this API cannot compile it";
    let changes = [
        ("/properties/destination/properties/airport", "pattern", Effect::Widened, pattern),
        ("/properties/day", "default", Effect::Dropped, "default 1"),
    ];
    let survey =
        Survey::from_reports(vec![Dialect::Gemini], vec![vec![report("find", Dialect::Gemini, &changes)]]);
    for columns in [24, 30, 40] {
        plain(&survey, columns);
    }
    insta::assert_snapshot!(plain(&survey, 40));
}

#[test]
fn tools_of_servers_are_summarized_and_only_losses_are_listed() {
    let mut survey = few_tools(selected_dialects(&[]));
    let server = |name: &str, count| ServerTools { server: name.to_owned(), count, ..ServerTools::default() };
    survey.servers = vec![server("weather", 1), server("photos\u{7}", 2), server("down", 0)];
    for columns in [44, 80] {
        insta::assert_snapshot!(format!("summary_of_servers_{columns}"), plain(&survey, columns));
    }
    let all = strip_str(&page(&survey, true, 80)).to_string();
    survey.servers.clear();
    let table = strip_str(&page(&survey, false, 80)).to_string();
    let (_, table) = table.split_once('\n').expect("a headline");
    assert!(all.ends_with(table), "{all}");
}

#[test]
fn servers_without_losses_are_not_listed() {
    let reports = vec![vec![report("ping", Dialect::Anthropic, &[])]];
    let mut survey = Survey::from_reports(vec![Dialect::Anthropic], reports);
    survey.servers = vec![ServerTools { server: "net".to_owned(), count: 1, ..ServerTools::default() }];
    insta::assert_snapshot!(plain(&survey, 80));
}

#[test]
fn an_empty_list_of_tools_is_reported() {
    assert_eq!(page(&Survey::from_reports(vec![Dialect::OpenAi], vec![vec![]]), false, 80), "no tools\n");
}

#[test]
fn selected_dialects_keep_their_order_and_have_no_duplicates() {
    let selected = selected_dialects(&[Dialect::Gemini, Dialect::OpenAi, Dialect::Gemini]);
    assert_eq!(selected, [Dialect::Gemini, Dialect::OpenAi]);
    assert_eq!(selected_dialects(&[]).len(), Dialect::all().len() - 1);
}
