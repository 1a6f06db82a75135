//! The suite finds planted bugs: each broken backend is rejected, by the laws that are named.

#[path = "broken_backends/sloppy.rs"]
mod sloppy;

use std::sync::Arc;

use lockkeeper::conformance::LAWS;
use sloppy::{Bug, SloppyEngine};

// Without a bug it is a backend like any other: what goes red below is the bug's doing.
lockkeeper::conformance!(without_a_bug, SloppyEngine);

/// The named laws must all be red. One after the other, so that a crowded machine does not hide by
/// slowness what is too early.
async fn rejects(bug: Bug, expected: &[&str]) {
    for name in expected {
        let law = LAWS.iter().find(|law| format!("{law:?}") == *name);
        let law = law.unwrap_or_else(|| panic!("{name} is no law"));
        let verdict = law.judge(Arc::new(SloppyEngine::with(bug))).await;
        assert!(verdict.is_err(), "{bug:?} passed {name}");
    }
}

/// Prints which laws catch which bug: the whole table, for whoever writes laws.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a table to read, not a test; takes minutes"]
async fn which_laws_catch_which_bug() {
    for bug in Bug::ALL {
        let mut trials = tokio::task::JoinSet::new();
        for law in LAWS {
            let engine = Arc::new(SloppyEngine::with(*bug));
            trials.spawn(async move { law.judge(engine).await.err().map(|_| format!("{law:?}")) });
        }
        let mut red: Vec<String> = trials.join_all().await.into_iter().flatten().collect();
        red.sort();
        println!("{bug:?} ({}): {}", red.len(), red.join(", "));
    }
}

macro_rules! rejected {
    ($($name:ident: $bug:ident, [$($law:literal),+ $(,)?];)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            rejects(Bug::$bug, &[$($law),+]).await;
        })*
    };
}

rejected! {
    a_release_that_compares_no_id: ReleaseComparesNoId, [
        "ownership::a_stranger_cannot_release",
        "ownership::an_expired_holder_cannot_release_its_successor",
        "ownership::a_second_release_frees_nothing",
    ];
    a_renewal_that_compares_no_id: RenewComparesNoId, [
        "ownership::a_stranger_cannot_renew",
    ];
    a_renewal_that_revives: RenewRevives, [
        "ownership::a_renewal_never_creates_a_claim",
        "lease::a_renewal_after_the_end_does_not_revive",
        "lease::a_waiter_that_expired_is_never_granted",
    ];
    a_renewal_that_does_not_lengthen: RenewDoesNotLengthen, [
        "lease::a_renewed_holder_holds_on",
    ];
    a_renewal_that_touches_everybody: RenewTouchesEverybody, [
        "lease::nobody_shortens_the_lease_of_another",
    ];
    a_renewal_that_skips_waiters: RenewSkipsWaiters, [
        "lease::a_waiter_that_renews_is_never_dropped",
    ];
    a_batch_that_is_answered_backwards: RenewAnswersBackwards, [
        "ownership::a_batch_is_answered_in_its_order",
    ];
    entering_twice_that_takes_two_places: EnterTwiceTakesTwoPlaces, [
        "entering::entering_again_keeps_the_place",
        "entering::entering_again_finds_the_own_grant",
    ];
    entering_again_that_forgets_the_lease: EnterAgainForgetsTheLease, [
        "lease::entering_again_starts_the_lease_anew",
    ];
    entering_that_looks_first_and_writes_later: EnterLooksThenWrites, [
        "entering::a_storm_never_makes_two_holders",
    ];
    a_try_that_queues: TryQueues, [
        "entering::a_try_that_would_wait_leaves_nothing",
    ];
    a_token_that_repeats: TokenRepeats, [
        "tokens::they_rise_in_the_order_of_grants",
    ];
    a_token_that_starts_anew: TokenStartsAnewWhenEmpty, [
        "tokens::they_rise_over_keepers",
        "tokens::they_rise_over_every_way_to_end",
    ];
    a_token_that_goes_back_after_an_eviction: TokenGoesBackAfterEviction, [
        "tokens::they_rise_over_every_way_to_end",
    ];
    a_queue_that_serves_the_last_first: LastInFirstOut, [
        "queue::first_come_first_served",
        "tokens::they_rise_in_the_order_of_grants",
    ];
    a_reader_that_overtakes_a_writer: ReaderOvertakesWriter, [
        "modes::no_reader_overtakes_a_waiting_writer",
    ];
    one_permit_too_many: OnePermitTooMany, [
        "modes::permits_never_exceed_their_number",
        "queue::random_histories_obey_the_rule",
    ];
    a_release_that_wakes_everybody: ReleaseWakesAll, [
        "wakes::a_release_wakes_the_next_and_nobody_else",
    ];
    a_release_that_wakes_the_wrong_one: ReleaseWakesTheLast, [
        "wakes::a_release_wakes_the_next_and_nobody_else",
    ];
    a_release_that_wakes_nobody: ReleaseWakesNobody, [
        "wakes::a_release_wakes_the_next_and_nobody_else",
        "wakes::a_writer_that_withdraws_wakes_the_readers_behind_it",
    ];
    an_eviction_that_wakes_nobody: EvictionWakesNobody, [
        "wakes::breaking_and_downgrading_wake_too",
    ];
    a_waiter_that_looks_again_too_late: LooksAgainTooLate, [
        "wakes::the_time_to_look_again_finds_the_lease_ended",
    ];
    a_lease_that_never_ends: LeaseNeverEnds, [
        "lease::a_dead_holder_blocks_for_its_lease_and_no_longer",
        "lease::a_dead_waiter_drops_out",
        "modes::dead_holders_give_their_permits_back_once",
    ];
    a_lease_that_ends_early: LeaseEndsEarly, [
        "lease::a_dead_holder_blocks_for_its_lease_and_no_longer",
    ];
    an_inspection_that_shows_the_dead: InspectShowsTheDead, [
        "inspection::it_leaves_out_the_dead",
    ];
    an_inspection_that_shows_ids: InspectShowsIds, [
        "inspection::it_never_shows_an_id",
    ];
    an_inspection_that_renews: InspectRenews, [
        "inspection::it_changes_nothing",
    ];
    a_downgrade_that_gives_the_hold_up: DowngradeGivesTheHoldUp, [
        "modes::a_downgrade_lets_readers_in_and_no_writer",
        "modes::a_downgrade_keeps_place_and_token",
    ];
    a_downgrade_that_takes_a_new_token: DowngradeTakesANewToken, [
        "modes::a_downgrade_keeps_place_and_token",
    ];
    an_eviction_that_takes_the_first: EvictTakesTheFirst, [
        "inspection::an_operator_breaks_a_waiter",
        "inspection::a_wrong_number_breaks_nobody",
    ];
    a_release_that_leaves_a_row: ReleaseLeavesARow, [
        "refusals::everything_is_gone_when_everybody_left",
    ];
    names_that_fold: NamesFold, [
        "entering::any_name_is_a_name_of_its_own",
    ];
    a_mode_that_is_granted_without_promise: GrantsWhatItDoesNotPromise, [
        "refusals::modes_that_are_not_promised_are_refused",
    ];
}
