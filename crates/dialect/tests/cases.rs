//! Conversions that providers' formats make difficult, one file per case in `cases/`.
//!
//! A case file holds tools, required outcomes and the complete output for every dialect; `cases/README.md`
//! describes it. Each case has its own test: `cargo test -p toolwire-dialect-tests --test cases case_074`.
//! After an intended change, run the tests with `TOOLWIRE_BLESS=1` and review the difference.

#![allow(clippy::unwrap_used)]

mod runner;

use std::collections::BTreeSet;

use runner::{Case, check};
use serde_json::Value;
use toolwire_dialect::{Dialect, Options, Toolset};

/// Declares a test for each case. `case_074_empty_enum` checks `cases/074-empty-enum.json`.
macro_rules! cases {
    ($($test:ident)*) => {
        const TESTS: &[&str] = &[$(stringify!($test)),*];

        $(
            #[test]
            fn $test() {
                check(&case_name(stringify!($test)));
            }
        )*
    };
}

cases! {
    case_001_keywords_as_property_names
    case_002_structural_keywords_as_property_names
    case_003_reference_keywords_as_property_names
    case_004_default_inside_enum_values
    case_005_ref_inside_const_value
    case_006_default_containing_schema_keywords
    case_007_examples_and_example_keywords
    case_008_property_named_enum
    case_009_prototype_property_names
    case_010_annotations_beside_a_type
    case_011_property_order
    case_012_recursive_definition
    case_013_recursion_to_the_root
    case_014_required_recursion
    case_015_ref_with_siblings
    case_016_ref_to_a_property
    case_017_escaped_definition_names
    case_018_definitions_instead_of_defs
    case_019_dangling_ref
    case_020_remote_ref
    case_021_ref_by_anchor
    case_022_ref_relative_to_a_nested_id
    case_023_exponential_references
    case_024_definitions_that_only_reference_each_other
    case_025_dangling_ref_in_an_unused_definition
    case_026_definition_that_is_true
    case_027_root_ref
    case_028_recursion_through_a_property
    case_029_root_any_of
    case_030_root_one_of_with_a_discriminator
    case_031_root_all_of
    case_032_root_any_of_required
    case_033_root_if_then
    case_034_empty_schema
    case_035_object_type_only
    case_036_no_root_type
    case_037_null_properties
    case_038_properties_as_array
    case_039_closed_without_properties
    case_040_root_is_a_string
    case_041_nullable_root
    case_042_upper_case_types
    case_043_no_input_schema
    case_044_true_as_schema
    case_045_schema_as_json_text
    case_046_root_not
    case_047_root_enum
    case_048_root_dependent_required
    case_049_root_one_of_with_an_impossible_branch
    case_050_true_as_property
    case_051_false_as_property
    case_052_false_as_required_property
    case_053_array_without_items
    case_054_array_of_anything
    case_055_items_true
    case_056_array_in_a_type_list
    case_057_array_in_any_of
    case_058_array_of_free_form_objects
    case_059_closed_tuple
    case_060_items_array_of_equal_schemas
    case_061_items_on_a_string
    case_062_items_without_a_type
    case_063_nullable_with_default_null
    case_064_enum_or_null
    case_065_openapi_nullable
    case_066_type_allows_null_enum_does_not
    case_067_enum_allows_null_type_does_not
    case_068_integer_enum
    case_069_mixed_enum
    case_070_empty_string_in_enum
    case_071_string_const
    case_072_null_const
    case_073_integer_const
    case_074_empty_enum
    case_075_repeated_enum_values
    case_076_enum_of_1200_values
    case_077_enum_of_18000_characters
    case_078_enum_values_that_differ_in_case
    case_079_enum_on_a_boolean
    case_080_nested_one_of_with_a_discriminator
    case_081_one_of_beside_any_of
    case_082_one_of_that_overlaps
    case_083_nested_all_of
    case_084_all_of_with_two_minimums
    case_085_all_of_around_a_ref
    case_086_all_of_that_contradicts_itself
    case_087_all_of_with_two_patterns
    case_088_nested_not
    case_089_impossible_alternative_beside_a_string
    case_090_nested_any_of_required
    case_091_any_of_with_one_alternative
    case_092_empty_any_of
    case_093_nested_if_then
    case_094_map_of_strings
    case_095_root_with_additional_properties
    case_096_root_with_additional_properties_as_empty_schema
    case_097_required_free_form_object
    case_098_pattern_properties
    case_099_property_names
    case_100_unevaluated_properties_at_the_root
    case_101_root_all_of_with_a_closed_part
    case_102_min_properties
    case_103_nested_properties_without_a_type
    case_104_boolean_exclusive_minimum
    case_105_exclusive_bounds
    case_106_formats
    case_107_pattern_with_lookahead
    case_108_pattern_python_cannot_compile
    case_109_string_lengths
    case_110_array_bounds
    case_111_exact_number_digits
    case_112_nested_twelve_levels_deep
    case_113_5001_properties
    case_114_30_optional_properties
    case_115_21_tools
    case_116_129_tools
    case_117_long_description
    case_118_required_names_an_undeclared_property
    case_119_required_names_an_undeclared_property_of_a_closed_object
    case_120_required_lists_a_property_twice
    case_121_required_true_on_a_property
    case_122_keyword_among_the_properties
    case_123_unknown_type_names
    case_124_type_list_of_every_type
    case_125_description_only
    case_126_property_keys_with_special_characters
    case_127_property_keys_that_collide_when_renamed
    case_128_nested_property_key_with_a_dollar
    case_129_annotations_of_the_wrong_type
    case_130_minimum_as_string
    case_131_draft_four_id
    case_132_default_of_the_wrong_type
    case_133_empty_property_key
    case_134_patterns_of_ecma
    case_135_alternatives_inside_root_alternatives
    case_136_unevaluated_properties_beside_root_alternatives
    case_137_conditions_inside_root_conditions
    case_n01_dots_in_a_name
    case_n02_names_that_collide_when_sanitized
    case_n03_names_without_a_legal_character
    case_n04_name_lengths
    case_n05_long_names_with_a_common_prefix
    case_n06_names_that_start_with_a_digit_or_dash
    case_n07_empty_names
    case_n08_same_name_on_two_servers
    case_n09_names_that_differ_in_case
    case_n10_name_that_looks_generated
    case_n11_double_underscores
    case_n12_same_tool_twice
}

#[test]
fn every_case_file_has_a_test() {
    let tested: BTreeSet<String> = TESTS.iter().map(|test| case_name(test)).collect();
    let difference: Vec<String> = tested.symmetric_difference(&Case::names()).cloned().collect();
    assert!(difference.is_empty(), "only in the list above or only in `cases/`: {difference:?}");
}

#[test]
fn anthropic_gets_the_same_20_of_21_tools_as_strict_each_time() {
    let case = Case::read("115-21-tools");
    let strict = |tools: &[Value]| -> BTreeSet<String> {
        let text = serde_json::to_string(tools).unwrap();
        let toolset = Toolset::from_json(&text, Dialect::AnthropicStrict, &Options::default()).unwrap();
        let definitions = toolset.definitions();
        assert_eq!(definitions.len(), 21);
        let strict = definitions.iter().filter(|definition| definition["strict"] == true);
        strict.map(|definition| definition["name"].to_string()).collect()
    };
    let tools = &case.listings[0].tools;
    let first = strict(tools);
    assert_eq!(first.len(), 20);
    assert_eq!(strict(tools), first);
    // The order of the list may affect which tool is not strict, but not how many.
    let reversed: Vec<Value> = tools.iter().rev().cloned().collect();
    assert_eq!(strict(&reversed).len(), 20);
}

fn case_name(test: &str) -> String {
    test.trim_start_matches("case_").replace('_', "-")
}
