//! What a worker does, in a runtime of one thread. Those who contend are of any kind; those who look
//! at the engine's lists or keep leases are lockkeeper.

mod contending;
mod keeping;
mod words;

use crate::Result;
use crate::contenders;
use words::Words;

/// The name that all contend for.
const NAME: &str = "contended";

/// Plays a role: `ROLE KIND URL`.
pub(super) fn play(role: &str, kind: &str, url: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let words = Words::listen();
        match role {
            "cycles" => contenders::play(contending::Cycles(words), kind, url).await,
            "relay" => contenders::play(contending::Relay(words), kind, url).await,
            "crowd" => keeping::crowd(url, words).await,
            "warden" => keeping::warden(url, words).await,
            "burst" => keeping::burst(url, words).await,
            "leases" => keeping::leases(url, words).await,
            other => Err(format!("{other:?} is no role").into()),
        }
    })
}
