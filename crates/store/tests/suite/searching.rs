//! All backends find the same messages.

use toolwire_contract::conversations::{Conversations, SearchHit, SearchResults};
use toolwire_contract::{Message, Role};

use crate::backends::Backend;
use crate::storing::begin_with;

#[track_caller]
fn sequences(found: &SearchResults) -> Vec<u64> {
    assert!(found.is_complete);
    found.hits.iter().map(|hit| hit.sequence).collect()
}

async fn check(store: &dyn Conversations, query: &str, expected: &[u64]) {
    let found = store.search(query, 100).await.unwrap();
    assert_eq!(sequences(&found), expected, "{query}");
    assert!(found.hits.iter().all(|hit| !hit.snippet.is_empty()), "{query}");
}

pub(crate) async fn search_ignores_case_and_accents(backend: &Backend) {
    let store = backend.open().await;
    let id =
        begin_with(&*store, "Food", &["The weather in PARIS", "Crème brûlée, please", "weathering"]).await;
    let call: Message = serde_json::from_str(
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"get_weather","input":{"location":"Oslo"}}]}"#,
    )
    .unwrap();
    store.append(&id, vec![call.into()], None).await.unwrap();
    check(&*store, "weather", &[4, 3, 1]).await;
    check(&*store, "paris WEATHER", &[1]).await;
    check(&*store, "creme BRULEE", &[2]).await;
    check(&*store, "Crème", &[2]).await;
    check(&*store, "oslo", &[4]).await;
    check(&*store, "eather", &[]).await;
    let hit = store.search("paris", 10).await.unwrap().hits.remove(0);
    let time = store.load(&id, 0).await.unwrap().entries[0].time;
    let expected = SearchHit {
        conversation: id,
        title: Some("Food".to_owned()),
        sequence: 1,
        time,
        role: Role::User,
        snippet: "The weather in PARIS".to_owned(),
    };
    assert_eq!(hit, expected);
}

pub(crate) async fn search_supports_every_script(backend: &Backend) {
    let store = backend.open().await;
    let messages = [
        "今日の東京は雨です",
        "Погода в Осло",
        "ΟΔΥΣΣΕΥΣ",
        "สวัสดีชาวโลก",
        "a 🦀 at the beach",
        "안녕하세요 세계",
        "नमस्ते दुनिया",
    ];
    begin_with(&*store, "", &messages).await;
    let queries = [
        ("東京", 1),
        ("雨", 1),
        ("погода осл", 2),
        ("Ὀδυσσεύς", 3),
        ("โลก", 4),
        ("🦀", 5),
        ("세계", 6),
        ("नमस्ते", 7),
    ];
    for (query, expected) in queries {
        check(&*store, query, &[expected]).await;
    }
    check(&*store, "京東", &[]).await;
}

pub(crate) async fn hits_come_newest_first_up_to_the_limit(backend: &Backend) {
    let store = backend.open().await;
    let first = begin_with(&*store, "", &["needle 1", "other", "needle 2"]).await;
    let second = begin_with(&*store, "", &["needle 3"]).await;
    // The order is the order of the list, independent of the clock.
    let listed = store.list(2, None).await.unwrap().conversations;
    let expected: Vec<(_, u64)> = listed
        .iter()
        .flat_map(|conversation| {
            let numbers = if conversation.id == first { vec![3, 1] } else { vec![1] };
            numbers.into_iter().map(|number| (conversation.id.clone(), number))
        })
        .collect();
    assert!(listed.iter().any(|conversation| conversation.id == second));
    for limit in [1, 2, 3, 4] {
        let found = store.search("needle", limit).await.unwrap();
        let hits: Vec<_> = found.hits.into_iter().map(|hit| (hit.conversation, hit.sequence)).collect();
        assert_eq!(hits, expected[..limit.min(3)]);
    }
    assert_eq!(store.search("needle", 0).await.unwrap().hits, []);
    for (limit, expected) in [(10, vec![3, 1]), (1, vec![3]), (0, vec![])] {
        let found = store.search_in(&first, "needle", limit).await.unwrap();
        assert_eq!(found.hits.iter().map(|hit| hit.sequence).collect::<Vec<_>>(), expected);
        assert!(found.hits.iter().all(|hit| hit.conversation == first) && found.is_complete);
    }
    assert_eq!(store.search_in(&first, "", 10).await.unwrap().hits, []);
    store.remove(&first).await.unwrap();
    assert_eq!(store.search_in(&first, "needle", 10).await.unwrap().hits, []);
}

pub(crate) async fn a_query_without_terms_finds_nothing(backend: &Backend) {
    let store = backend.open().await;
    begin_with(&*store, "", &["\"quoted\" AND (words) * ^ : -"]).await;
    for query in ["", "  ", "\"", "*", "-", "()", "\u{0}"] {
        check(&*store, query, &[]).await;
    }
    // Quotes and operators have no special meaning.
    for query in ["\"quoted", "quoted AND", "words)", "NOT-quoted OR", "words:"] {
        let expected: &[u64] = if query.contains("OR") { &[] } else { &[1] };
        check(&*store, query, expected).await;
    }
}

pub(crate) async fn removed_messages_are_not_found(backend: &Backend) {
    let store = backend.open().await;
    let removed = begin_with(&*store, "", &["needle", "needle"]).await;
    begin_with(&*store, "", &["needle"]).await;
    store.remove(&removed).await.unwrap();
    check(&*store, "needle", &[1]).await;
    begin_with(&*store, "", &["other", "other", "other"]).await;
    check(&*store, "needle", &[1]).await;
}

pub(crate) async fn a_long_query_works(backend: &Backend) {
    let store = backend.open().await;
    let terms: Vec<String> = (0..2000).map(|number| format!("w{number}")).collect();
    begin_with(&*store, "", &[&terms.join(" ")]).await;
    check(&*store, &terms.join(" "), &[1]).await;
    check(&*store, &format!("{} absent", terms.join(" ")), &[]).await;
}
