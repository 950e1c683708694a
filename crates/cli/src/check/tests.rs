//! Pages as people see them, without colour.

use anstream::adapter::strip_str;
use toolwire_dialect::{Change, Dialect, Effect, Refusal, Report, Status};

use super::survey::Survey;
use super::{asked_for, page};

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
    let strict = |dialect: Dialect| dialect.name().ends_with("-strict");
    let reports = dialects
        .iter()
        .map(|dialect| {
            let mut weather = vec![("/properties/units", "default", Effect::Dropped, "default \"celsius\"")];
            if strict(*dialect) {
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
                ("/properties/tag", "pattern", Effect::Widened, "`^[a-z]+$` is said in the description");
            if *dialect == Dialect::Gemini {
                photos.changes = report("", *dialect, &[pattern]).changes;
                photos.status = Status::Lossy;
            }
            vec![report("get_weather", *dialect, &weather), photos, refused("find\u{1b}[2J", *dialect)]
        })
        .collect();
    Survey::of(dialects, reports)
}

fn plain(survey: &Survey, columns: usize) -> String {
    let text = strip_str(&page(survey, columns)).to_string();
    for line in text.lines() {
        assert!(crate::terminal_text::width(line) <= columns, "`{line}` is wider than {columns}");
    }
    text
}

#[test]
fn a_few_dialects_have_their_names_above() {
    insta::assert_snapshot!(plain(
        &few_tools(vec![Dialect::OpenAi, Dialect::OpenAiStrict, Dialect::Gemini]),
        80
    ));
}

#[test]
fn many_dialects_stand_on_a_staircase() {
    insta::assert_snapshot!(plain(&few_tools(asked_for(&[])), 80));
}

#[test]
fn a_narrow_terminal_gets_several_tables() {
    insta::assert_snapshot!(plain(&few_tools(asked_for(&[])), 44));
}

#[test]
fn one_tool_that_is_exact_everywhere_needs_no_reasons() {
    let survey = Survey::of(vec![Dialect::Anthropic], vec![vec![report("ping", Dialect::Anthropic, &[])]]);
    insta::assert_snapshot!(plain(&survey, 80));
}

#[test]
fn five_tools_and_more_are_counted_by_dialect() {
    let dialects = vec![Dialect::OpenAi, Dialect::Gemini];
    let widened = ("/properties/a", "pattern", Effect::Widened, "said in the description");
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
    insta::assert_snapshot!(plain(&Survey::of(dialects, reports), 80));
}

#[test]
fn many_places_are_cut_short() {
    let places: Vec<String> = (0..20).map(|index| format!("/properties/field_{index}")).collect();
    let changes: Vec<_> =
        places.iter().map(|place| (place.as_str(), "default", Effect::Dropped, "default 0")).collect();
    let survey = Survey::of(vec![Dialect::OpenAi], vec![vec![report("fill", Dialect::OpenAi, &changes)]]);
    insta::assert_snapshot!(plain(&survey, 80));
}

#[test]
fn no_tools_are_said_in_words() {
    assert_eq!(page(&Survey::of(vec![Dialect::OpenAi], vec![vec![]]), 80), "no tools\n");
}

#[test]
fn dialects_come_in_the_order_they_were_asked_for_and_once() {
    let asked = asked_for(&[Dialect::Gemini, Dialect::OpenAi, Dialect::Gemini]);
    assert_eq!(asked, [Dialect::Gemini, Dialect::OpenAi]);
    assert_eq!(asked_for(&[]).len(), Dialect::all().len() - 1);
}
