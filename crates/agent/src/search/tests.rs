//! The ranking of a few tools.

use serde_json::json;

use super::*;

#[track_caller]
fn check(tools: &[(&str, &str)], query: &str, expected: &[&str]) {
    let tools: Vec<Tool> = tools
        .iter()
        .map(|(name, description)| Tool {
            description: Some((*description).to_owned()),
            ..Tool::new(*name, json!({"type": "object"}))
        })
        .collect();
    let index = ToolIndex::new(tools.into());
    let found: Vec<&str> = index.search(query, 5).iter().map(|hit| hit.tool.name.as_str()).collect();
    assert_eq!(found, expected);
}

const FILES: &[(&str, &str)] = &[
    ("delete_file", "Deletes a file."),
    ("list_files", "Lists the files."),
    ("create_file", "Creates a file."),
    ("rename_folder", "Renames a folder."),
];

#[test]
fn the_action_decides_among_tools_for_the_same_thing() {
    check(FILES, "get rid of the file", &["delete_file", "list_files", "create_file"]);
    check(FILES, "which files do I have?", &["list_files", "delete_file", "create_file"]);
    check(FILES, "a new file", &["create_file", "delete_file", "list_files"]);
}

#[test]
fn an_action_alone_finds_no_tool_for_another_thing() {
    check(FILES, "delete the database", &["delete_file"]);
    check(FILES, "halt a database", &[]);
}

#[test]
fn misspelled_and_compound_words_are_found() {
    check(FILES, "flieder", &[]);
    check(FILES, "foldr", &["rename_folder"]);
    check(FILES, "subfolder", &["rename_folder"]);
    check(FILES, "forlder", &["rename_folder"]);
}

#[test]
fn one_letter_is_a_misspelling() {
    for (one, other, expected) in [
        ("folder", "folder", false),
        ("foldr", "folder", true),
        ("fodler", "folder", true),
        ("holder", "folder", true),
        ("folders", "folder", true),
        ("fold", "folder", false),
        ("", "f", true),
    ] {
        assert_eq!(differ_in_one_letter(one, other), expected, "{one} {other}");
        assert_eq!(differ_in_one_letter(other, one), expected, "{other} {one}");
    }
}

#[test]
fn odd_queries_find_nothing() {
    for query in ["", "?", "  ", "the", "\u{1f600}", "\u{0}"] {
        check(FILES, query, &[]);
        check(&[], query, &[]);
    }
}

#[test]
fn similar_tools_are_found_without_a_common_word() {
    let tools: Vec<Tool> =
        FILES.iter().map(|(name, _)| Tool::new(*name, json!({"type": "object"}))).collect();
    let index = ToolIndex::new(tools.into());
    let check = |query: &str, similarities: &[f32], expected: &[&str]| {
        let similarities = Similarities { texts: similarities.to_vec(), ..Similarities::default() };
        let hits = index.search_similar(query, &similarities, 2);
        assert_eq!(hits.iter().map(|hit| hit.tool.name.as_str()).collect::<Vec<_>>(), expected, "{query}");
    };
    // The similarity of unrelated texts is not zero.
    check("directory tree", &[0.7, 0.7, 0.7, 0.9], &["rename_folder"]);
    // A little more similarity does not outweigh the action; much more does.
    check("get rid of the file", &[0.34, 0.35, 0.2, 0.1], &["delete_file", "list_files"]);
    check("get rid of the file", &[0.2, 0.35, 0.2, 0.1], &["list_files", "delete_file"]);
    // Similarities that are missing, equal or not finite change nothing.
    for similarities in [&[] as &[f32], &[0.5; 4], &[f32::NAN; 4], &[-1.0, f32::INFINITY, 0.0, 0.0]] {
        check("create file", similarities, &["create_file", "delete_file"]);
    }
}

#[test]
fn related_words_are_found() {
    let tools: Vec<Tool> =
        FILES.iter().map(|(name, _)| Tool::new(*name, json!({"type": "object"}))).collect();
    let index = ToolIndex::new(tools.into());
    // Words that only one tool has are not compared.
    assert_eq!(index.words(), ["file"]);
    let related = HashMap::from([(stem("container"), vec![("folder".to_owned(), 0.3)])]);
    let similarities = Similarities { related, ..Similarities::default() };
    let hits = index.search_similar("the container", &similarities, 2);
    assert_eq!(hits.iter().map(|hit| hit.tool.name.as_str()).collect::<Vec<_>>(), ["rename_folder"]);
    assert!(index.search("the container", 2).is_empty());
}
