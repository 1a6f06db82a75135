//! The laws that every backend must keep, one file per chapter.
//!
//! One line gives a backend every law, so none can be forgotten:
//!
//! ```text
//! lockkeeper::conformance!(memory, MemoryEngine);
//! ```
//!
//! It makes a module `memory` with one test per law; `MemoryEngine` implements [`Engine`], and the
//! crate that writes the line depends on tokio with `macros` and `rt-multi-thread`. What a backend
//! does not promise in its guarantees it must refuse: no law is skipped.
//!
//! The laws speak to the engine as the trait demands: while an outcome is unknown they ask again with
//! the same claim. So a network that loses replies, or delivers twice, must keep all of them too.

mod cancel;
mod entering;
mod faults;
mod holding;
mod inspection;
mod lease;
mod metronome;
mod modes;
mod ownership;
mod primitives;
mod queue;
mod refusals;
mod stage;
mod tokens;
mod wakes;
mod watchdog;
pub mod wrappers;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use metronome::Metronome;
pub use stage::Engine;
use stage::Stage;

/// A law that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// One law: a promise of the trait, or of what is built on it, that every backend must keep.
pub struct Law {
    /// The chapter it stands in.
    pub chapter: &'static str,
    /// What it says.
    pub name: &'static str,
    run: for<'a> fn(&'a Stage) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
}

impl fmt::Debug for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.chapter, self.name)
    }
}

impl Law {
    /// Tries the law on an engine; the error says how it was broken.
    ///
    /// # Errors
    /// When the law is broken, hangs, or leaves claims behind.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped trial goes on by itself.
    pub async fn judge(&'static self, engine: Arc<dyn Engine>) -> Result<(), String> {
        let trial = tokio::spawn(async move {
            let stage = Stage::new(engine);
            (self.run)(&stage).await;
            stage.assert_swept().await;
        });
        let ending = trial.abort_handle();
        match tokio::time::timeout(LIMIT, trial).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(panic)) => Err(format!("{self:?} is broken: {}", text(panic))),
            Err(_) => {
                ending.abort();
                Err(format!("{self:?} hangs"))
            }
        }
    }
}

fn text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "the runtime ended".into();
    };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no words").to_owned()
}

/// So often a law is tried on a machine that stands still meanwhile.
const TRIALS: usize = 8;

/// Tries the named law on a fresh engine; panics when it is broken. A verdict from a time in which the machine
/// stood still is none: it is said aloud, and the law is tried again. The macro calls it.
///
/// # Cancel safety
/// Not cancel safe, see [`Law::judge`].
#[doc(hidden)]
pub async fn run<E: Engine>(chapter: &str, name: &str) {
    let law = LAWS
        .iter()
        .find(|law| law.chapter == chapter && law.name == name)
        .expect("the macro and the list come from one place");
    for trial in 1.. {
        let engine = Arc::new(E::start().await);
        let beats = Metronome::start();
        match (law.judge(engine).await, beats.stall()) {
            (Ok(()), _) => return,
            (Err(broken), Some(stall)) if trial < TRIALS => {
                eprintln!("no verdict, the machine stood still for {stall:?}: {broken}");
            }
            (Err(broken), Some(stall)) => {
                panic!(
                    "no verdict in {trial} trials, at last it stood still for {stall:?}: {broken}"
                )
            }
            (Err(broken), None) => panic!("{broken}"),
        }
    }
}

/// The list of laws exists once, below: it makes [`LAWS`] and the macro. A law that is missing there
/// is dead code, and the compiler says so.
macro_rules! laws {
    ($dollar:tt $($chapter:ident { $($law:ident,)* })*) => {
        /// Every law, in the order of the chapters.
        pub const LAWS: &[Law] = &[$($(Law {
            chapter: stringify!($chapter),
            name: stringify!($law),
            run: |stage| Box::pin($chapter::$law(stage)),
        },)*)*];

        /// Makes a module of this name with a test for every law, on the given
        /// [`Engine`](crate::conformance::Engine).
        #[macro_export]
        macro_rules! conformance {
            ($dollar backend:ident, $dollar engine:ty) => {
                mod $dollar backend {
                    #[allow(unused_imports)]
                    use super::*;
                    type Tried = $dollar engine;
                    $(mod $chapter {
                        $(#[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
                        async fn $law() {
                            $crate::conformance::run::<super::Tried>(
                                stringify!($chapter),
                                stringify!($law),
                            )
                            .await;
                        })*
                    })*
                }
            };
        }
    };
}

laws! { $
    entering {
        an_exclusive_claim_holds_alone,
        a_try_that_would_wait_leaves_nothing,
        a_try_holds_when_it_can,
        a_second_claim_of_the_same_keeper_waits,
        entering_again_keeps_the_place,
        entering_again_finds_the_own_grant,
        any_name_is_a_name_of_its_own,
        a_storm_never_makes_two_holders,
    }
    ownership {
        a_stranger_cannot_release,
        a_stranger_cannot_renew,
        an_expired_holder_cannot_release_its_successor,
        a_second_release_frees_nothing,
        an_id_counts_for_its_own_name_only,
        a_renewal_never_creates_a_claim,
        a_batch_is_answered_in_its_order,
        many_claims_are_renewed_in_one_batch,
    }
    lease {
        a_dead_holder_blocks_for_its_lease_and_no_longer,
        a_renewed_holder_holds_on,
        a_renewal_after_the_end_does_not_revive,
        entering_again_starts_the_lease_anew,
        a_dead_waiter_drops_out,
        a_waiter_that_expired_is_never_granted,
        a_waiter_that_renews_is_never_dropped,
        nobody_shortens_the_lease_of_another,
        the_lease_left_is_told,
        a_changed_lease_counts_from_the_renewal,
    }
    queue {
        first_come_first_served,
        a_waiter_that_leaves_delays_nobody,
        a_dead_waiter_in_the_middle_delays_nobody,
        a_try_does_not_overtake,
        a_hundred_waiters_leave_nothing,
        random_histories_obey_the_rule,
    }
    modes {
        readers_share_and_a_writer_waits_for_all,
        no_reader_overtakes_a_waiting_writer,
        releasing_a_reader_does_not_free_the_writer,
        a_downgrade_lets_readers_in_and_no_writer,
        a_downgrade_keeps_place_and_token,
        a_downgrade_of_nothing_is_gone,
        permits_never_exceed_their_number,
        a_large_request_is_not_starved_by_small_ones,
        dead_holders_give_their_permits_back_once,
        readers_and_permits_do_not_mix,
    }
    wakes {
        a_release_wakes_the_next_and_nobody_else,
        a_release_wakes_all_readers_up_to_the_writer,
        breaking_and_downgrading_wake_too,
        a_writer_that_withdraws_wakes_the_readers_behind_it,
        what_changes_nothing_wakes_nobody,
        the_time_to_look_again_finds_the_lease_ended,
        a_push_that_says_holds_is_true,
        a_new_stream_hears_what_rings_after_it,
    }
    tokens {
        they_rise_in_the_order_of_grants,
        they_rise_over_every_way_to_end,
        they_rise_over_keepers,
        they_do_not_change_while_held,
        they_fit_the_token,
    }
    inspection {
        it_tells_who_holds_and_who_waits,
        it_leaves_out_the_dead,
        it_changes_nothing,
        it_shows_all_names_in_use_and_no_other,
        it_never_shows_an_id,
        an_operator_breaks_a_holder,
        an_operator_breaks_a_waiter,
        a_wrong_number_breaks_nobody,
    }
    refusals {
        modes_that_are_not_promised_are_refused,
        the_guarantees_say_something,
        the_place_is_stable_and_without_secrets,
        everything_is_gone_when_everybody_left,
    }
    holding {
        a_guard_excludes_until_it_is_given_back,
        a_bounded_wait_ends_in_time_and_names_the_holder,
        attempts_are_counted,
        everybody_gets_it_before_their_time_is_up,
        a_long_wait_still_gives_a_whole_lease,
        the_time_of_asking_counts_against_the_lease,
        guards_of_one_process_exclude_each_other,
        many_tasks_of_many_keepers_never_hold_together,
        an_owner_enters_again_and_the_last_release_frees,
        a_sequencer_is_valid_exactly_while_it_is_held,
        correctness_is_refused_where_it_is_not_given,
        what_cannot_be_kept_is_refused_before_it_is_asked,
    }
    watchdog {
        a_guard_is_kept_beyond_its_lease,
        a_fixed_guard_ends_with_its_lease,
        a_silent_engine_means_lost_by_the_local_deadline,
        a_failing_renewal_is_a_risk_first,
        a_renewal_that_failed_is_repeated,
        a_broken_hold_is_reported_and_never_renewed,
        a_renewal_under_another_number_is_a_loss,
        no_renewal_follows_a_release,
        renewals_go_in_batches,
        a_guard_that_is_dropped_is_given_back,
        a_lock_delay_holds_back_what_was_lost,
        closing_tells_waiters_and_guards,
    }
    cancel {
        acquiring_at_every_await,
        waiting_at_every_await,
        at_any_moment_of_a_slow_exchange,
        releasing_goes_on_without_its_caller,
        an_acquire_that_is_not_polled_blocks_for_one_lease_only,
        a_timeout_beside_a_grant_is_one_of_both,
        answers_belong_to_their_questions,
    }
    faults {
        the_nth_call_fails_and_nothing_is_lost_or_left,
        a_waiter_whose_answers_are_lost_keeps_its_place,
        an_engine_that_hangs_ends_no_call_late,
        an_engine_that_comes_back_is_used_again,
        a_lost_push_costs_bounded_time,
        waiting_asks_seldom,
        a_release_that_got_no_answer_is_repeated,
    }
    primitives {
        a_read_write_lock,
        two_readers_that_upgrade_never_deadlock,
        a_semaphore,
        several_names_all_or_none,
        an_election,
        a_latch_opens_for_all_once_enough_have_come,
        a_barrier_lets_nobody_pass_early,
    }
}
