//! The process of a client: deeds come in by line, answers and news go out by line.

use std::io::Write;

use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::deeds::{Answer, Deed, Said};
use super::hands::Hands;
use crate::Result;
use crate::history::monotonic;

/// Does what standard input says until it closes. `label` is what operators see as the holder.
///
/// # Errors
/// When a line is not a deed, or there is nobody left to answer to.
pub fn play(label: &str) -> Result<()> {
    // One that is stopped when its lab is killed would never see its input close.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut hands = Hands::new(label);
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Some(line) = lines.next_line().await? {
            let deed: Deed = serde_json::from_str(&line)?;
            let answer = hands.perform(deed).await;
            let answer = answer.unwrap_or_else(|error| Answer::Failed(error.to_string()));
            say(&Said::Answer {
                at: monotonic(),
                answer,
            })?;
        }
        Ok(())
    })
}

/// One write per line, so that lines of several tasks do not mix.
pub(super) fn say(said: &Said) -> Result<()> {
    let line = serde_json::to_string(said)? + "\n";
    Ok(std::io::stdout().write_all(line.as_bytes())?)
}
