//! The requirements for every store: one suite of cases for all backends.
//!
//! Each case gets an empty store, which it may open a second time. The test starts its own Redis server.

#![allow(clippy::unwrap_used)]

mod backends;
mod files;
mod forking;
mod keys;
mod redis_sentinels;
mod redis_servers;
mod searching;
mod state;
mod storing;
mod transfer;
mod writers;

/// Runs each case on each backend, and all of them in sequence on a cluster and on a master with sentinels.
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
            // With many conversations, every node must have some keys.
            for node in cluster.nodes() {
                assert_ne!(node.command(&["DBSIZE"]), "0");
            }
        }

        #[tokio::test]
        async fn on_a_master_with_sentinels() {
            let sentinels = toolwire_testkit::RedisSentinels::start_with(Some("of-redis"), Some("of-sentinels"));
            let sentinels = std::sync::Arc::new(sentinels);
            let mut modules = std::collections::BTreeSet::new();
            $(
                // There is a failover before the cases of each module.
                if modules.insert(stringify!($module)) {
                    sentinels.fail_over();
                }
                println!("{}", stringify!($case));
                let backend = crate::backends::Backend::sentinels(&sentinels, stringify!($case));
                crate::$module::$case(&backend).await;
            )*
        }
    };
}

on_every_backend! {
    storing::a_new_conversation_is_empty,
    storing::messages_round_trip,
    storing::load_returns_the_entries_after_a_position,
    storing::a_range_has_at_most_as_many_entries_as_requested,
    storing::several_messages_are_appended_together,
    storing::a_message_of_a_hundred_thousand_characters_is_stored,
    storing::a_message_that_is_nested_too_deeply_is_rejected,
    storing::usage_and_model_come_from_the_messages,
    storing::the_list_starts_with_the_latest_change,
    storing::the_list_has_pages,
    storing::a_title_can_be_set_and_removed,
    storing::a_removed_conversation_does_not_exist,
    storing::an_unknown_conversation_is_reported,
    forking::a_fork_has_the_first_messages_and_is_independent,
    forking::a_fork_outlives_its_parent,
    forking::a_fork_past_the_end_is_rejected,
    forking::the_forks_of_a_conversation_are_listed,
    searching::search_ignores_case_and_accents,
    searching::search_supports_every_script,
    searching::hits_come_newest_first_up_to_the_limit,
    searching::a_query_without_terms_finds_nothing,
    searching::removed_messages_are_not_found,
    searching::a_long_query_works,
    transfer::an_export_round_trips,
    transfer::an_import_with_a_used_id_is_rejected,
    transfer::a_damaged_import_stores_nothing,
    writers::a_taken_position_is_a_conflict,
    writers::concurrent_writers_lose_and_reorder_no_message,
    writers::writers_with_expected_positions_take_turns,
    keys::keys_are_stored_and_revoked,
    keys::concurrent_requests_never_exceed_the_limits_of_a_minute,
    keys::concurrent_requests_never_exceed_the_budget_of_a_month,
    keys::used_tokens_replace_reserved_ones,
    keys::the_tokens_of_a_process_that_ended_are_free_again,
    keys::a_request_counts_although_its_reservation_has_expired,
    state::a_document_belongs_to_its_owner,
    state::a_document_expires,
    state::only_one_holder_has_a_claim,
    state::only_the_holder_of_a_claim_writes,
    state::a_claim_and_a_log_expire,
    state::unfinished_work_is_listed_when_it_is_due,
}
