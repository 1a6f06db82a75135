//! The scripts, one per verb. What most calls need stands first in each, so that it does not pay for the
//! rest; the middle is shared.

use std::sync::LazyLock;

use super::link::Script;

/// A script made of files, in this order.
macro_rules! script {
    ($($file:literal),*) => {
        LazyLock::new(|| Script::new(concat!($(include_str!(concat!("lua/", $file, ".lua"))),*)))
    };
}

/// Scripts that do the same, but for the number that they give and what they try first: see [`super::counters`].
pub(super) struct Numbering {
    pub(super) lifting: LazyLock<Script>,
    pub(super) counting: LazyLock<Script>,
    pub(super) behind: LazyLock<Script>,
}

pub(super) static ENTER: Numbering = Numbering {
    lifting: script!("enter_alone", "names", "list", "enter"),
    counting: script!(
        "enter_next",
        "names",
        "enter_behind",
        "enter_alone",
        "list",
        "enter"
    ),
    behind: script!("names", "enter_behind", "enter_alone", "list", "enter"),
};
pub(super) static RELEASE: LazyLock<Script> =
    script!("release_alone", "names", "release_next", "list", "release");
pub(super) static RENEW: LazyLock<Script> = script!("now", "names", "list", "renew");
pub(super) static DOWNGRADE: LazyLock<Script> = script!("now", "names", "list", "downgrade");
pub(super) static INSPECT: LazyLock<Script> = script!("now", "names", "list", "inspect");
pub(super) static PROBE: LazyLock<Script> = script!("probe");
pub(super) static EVICT: LazyLock<Script> = script!("now", "names", "list", "evict");
