//! `lockkeeper break`: an operator takes a lock away from whoever holds it now.

use std::io::{BufRead, IsTerminal, Write};

use lockkeeper::Keeper;
use lockkeeper::backend::{LockView, Released};

use crate::args::BreakArgs;
use crate::exit::{self, Failure};
use crate::show;
use crate::visible::visible;

pub(crate) async fn break_hold(keeper: &Keeper, options: &BreakArgs) -> Result<u8, Failure> {
    if options.reason.trim().is_empty() {
        return Err(Failure::new(
            exit::USAGE,
            "--reason must say why: it is recorded",
        ));
    }
    let view = show::one(keeper, &options.name).await?;
    if view.holders.is_empty() {
        let sentence = format!("nobody holds {:?}: there is nothing to break", options.name);
        return Err(Failure::new(exit::NO, sentence));
    }
    if !options.yes && !confirmed(&view)? {
        return Err(Failure::new(exit::NO, "nothing was broken"));
    }
    evict_all(keeper, &view, &options.reason).await
}

/// Exactly the holders that were shown, by their tokens: whoever came meanwhile is left alone.
async fn evict_all(keeper: &Keeper, view: &LockView, why: &str) -> Result<u8, Failure> {
    let mut broken = 0;
    for claim in &view.holders {
        let party = claim.party.to_string();
        match keeper.evict(&view.name, claim.token, why).await? {
            Released::Freed => {
                broken += 1;
                let line = format!(
                    "broken: {} held token {} of {:?}",
                    party, claim.token, view.name
                );
                writeln!(std::io::stdout(), "{}", visible(&line))?;
            }
            Released::Gone => exit::say(&format!("{party} had let go already")),
        }
    }
    Ok(if broken > 0 { exit::OK } else { exit::NO })
}

fn confirmed(view: &LockView) -> Result<bool, Failure> {
    let (stdin, mut stderr) = (std::io::stdin(), std::io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        let sentence = "there is no terminal to ask on: say --yes to break without asking";
        return Err(Failure::new(exit::USAGE, sentence));
    }
    let question = format!(
        "{}\nThe holder is not asked and may still be at work. Break it? [y/N] ",
        show::for_people(view).trim_end()
    );
    let mut answer = String::new();
    let asked = stderr.write_all(question.as_bytes());
    asked
        .and_then(|()| stdin.lock().read_line(&mut answer))
        .map_err(|error| Failure::new(exit::SYSTEM, format!("cannot ask: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
