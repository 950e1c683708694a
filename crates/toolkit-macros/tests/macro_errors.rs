//! What the attribute says to an author who made a mistake: in words, at the right token.

#[test]
fn mistakes_are_explained_where_they_are() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
