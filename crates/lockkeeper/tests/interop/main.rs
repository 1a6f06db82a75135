//! Locks shared with other people's clients, the real ones, in processes of their own: each waits for
//! us, we wait for it, releases wake across, and neither frees the other's lock.
//!
//! Every story in [`stories`] is told with every client that speaks a dialect: one line each. What only
//! some of them have, or what needs none of them, has a file of its own.

mod five_nodes;
mod operator;
mod redisson;
mod rights;
mod stage;
mod stories;
mod tampered;
mod tokens;
mod waiting;

/// Makes a module with every story, told with one client.
macro_rules! interop {
    ($client:ident, $kind:expr) => {
        mod $client {
            use crate::{stage, stories};

            interop!(@ $kind,
                it_waits_for_us,
                we_wait_for_it,
                it_cannot_free_our_lock,
                we_cannot_free_its_lock,
                what_was_taken_from_us_is_not_ours,
                our_watchdog_outlasts_its_wait,
                its_crash_frees_after_its_lease,
                our_crash_frees_after_our_lease,
                tokens_rise_over_its_holds,
                together_they_never_hold_at_once,
            );
        }
    };
    (@ $kind:expr, $($story:ident,)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $story() {
            if let Some(stage) = stage::Stage::with(&$kind) {
                stories::$story(stage).await;
            }
        })*
    };
}

interop!(redis_py, stage::REDIS_PY);
interop!(npm_redlock, stage::NPM_REDLOCK);
interop!(redisson_rlock, stage::REDISSON);
