//! Compile errors of `#[tool]`: each mistake is explained, at the right token.

#[test]
fn mistakes_are_reported_at_the_right_token() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
