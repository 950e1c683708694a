//! What every store must do: one suite of cases, on each backend.
//!
//! A case is handed an empty store, which it may open a second time. Redis comes from a server that the test starts.

#![allow(clippy::unwrap_used)]

mod backends;
mod files;
mod forking;
mod keeping;
mod searching;
mod servers;
mod transfer;
mod writers;

/// Runs each case on each backend, and on a cluster all of them one after the other.
macro_rules! on_every_backend {
    ($($module:ident :: $case:ident,)*) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $case() {
                crate::$module::$case(&crate::backends::Backend::sqlite()).await;
            })*
        }

        mod on_redis {
            $(#[tokio::test]
            async fn $case() {
                crate::$module::$case(&crate::backends::Backend::redis()).await;
            })*
        }

        mod in_memory {
            $(#[tokio::test]
            async fn $case() {
                crate::$module::$case(&crate::backends::Backend::memory()).await;
            })*
        }

        #[tokio::test]
        async fn on_a_cluster_of_three() {
            let cluster = std::sync::Arc::new(toolwire_testkit::RedisCluster::start());
            $(
                println!("{}", stringify!($case));
                crate::$module::$case(&crate::backends::Backend::cluster(&cluster, stringify!($case))).await;
            )*
            // Keys of many conversations: all nodes must have had some of them.
            for node in cluster.nodes() {
                assert_ne!(node.command(&["DBSIZE"]), "0");
            }
        }
    };
}

on_every_backend! {
    keeping::a_conversation_begins_empty,
    keeping::messages_come_back_as_they_were,
    keeping::only_what_is_new_is_loaded,
    keeping::several_messages_are_added_together,
    keeping::a_message_of_a_hundred_thousand_characters_is_kept,
    keeping::what_could_not_be_read_back_is_refused,
    keeping::usage_and_model_are_those_of_the_messages,
    keeping::the_list_shows_what_changed_last_first,
    keeping::the_list_has_pages,
    keeping::a_title_can_be_set_and_taken_away,
    keeping::what_was_removed_is_gone,
    keeping::an_unknown_conversation_is_told,
    forking::a_fork_has_the_first_messages_and_its_own_life,
    forking::a_fork_outlives_its_parent,
    forking::a_fork_past_the_end_is_told,
    searching::words_are_found_without_case_and_accents,
    searching::every_script_is_found,
    searching::hits_come_newest_first_up_to_the_limit,
    searching::what_is_no_word_finds_nothing,
    searching::removed_messages_are_not_found,
    searching::a_long_query_is_answered,
    transfer::an_export_comes_back_whole,
    transfer::an_import_under_a_used_id_is_refused,
    transfer::a_garbled_file_leaves_nothing_behind,
    writers::a_position_that_was_taken_is_a_conflict,
    writers::two_writers_lose_and_reorder_nothing,
    writers::those_who_expect_a_position_take_turns,
}
