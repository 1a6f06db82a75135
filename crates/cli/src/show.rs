//! `lockkeeper show`: one lock, who holds it and who waits for it.

use std::fmt::Write as _;
use std::io::Write as _;

use lockkeeper::backend::{ClaimView, LockView, Query};
use lockkeeper::{Keeper, Mode, Name, Sequencer};

use crate::args::ShowArgs;
use crate::exit::{self, Failure};
use crate::json;
use crate::span;
use crate::visible::visible;

pub(crate) async fn show(keeper: &Keeper, options: &ShowArgs) -> Result<u8, Failure> {
    let view = one(keeper, &options.name).await?;
    let text = if options.json {
        serde_json::to_string(&json::Lock::of(&view)).map_err(std::io::Error::from)? + "\n"
    } else {
        for_people(&view)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(exit::OK)
}

/// The present state of one name, also when nobody uses it.
pub(crate) async fn one(keeper: &Keeper, name: &Name) -> Result<LockView, Failure> {
    let views = keeper.inspect(&Query::One(name.clone())).await?;
    let found = views.into_iter().find(|view| view.name == *name);
    Ok(found.unwrap_or_else(|| LockView {
        name: name.clone(),
        holders: Vec::new(),
        waiters: Vec::new(),
    }))
}

/// Who holds, who waits, in words.
pub(crate) fn for_people(view: &LockView) -> String {
    let name = visible(view.name.as_str());
    let mut text = String::new();
    if view.holders.is_empty() {
        text = format!("{name} is free\n");
    }
    for claim in &view.holders {
        let sequencer = Sequencer::new(view.name.clone(), claim.mode, claim.token);
        // Writing to a string cannot fail.
        let _infallible = writeln!(
            text,
            "{name} is held {}by {} for {}\n  token      {}\n  sequencer  {sequencer}\n  lease      {} left",
            manner(claim),
            visible(&claim.party.to_string()),
            span::show(claim.since),
            claim.token,
            span::show(claim.lease_left),
        );
    }
    for (place, claim) in view.waiters.iter().enumerate() {
        let _infallible = writeln!(
            text,
            "waits {}: {}{} for {}",
            place + 1,
            manner(claim),
            visible(&claim.party.to_string()),
            span::show(claim.since)
        );
    }
    text
}

fn manner(claim: &ClaimView) -> String {
    match claim.mode {
        Mode::Shared => "shared ".into(),
        Mode::Permits { take, of } => format!("with {take} of {of} permits "),
        _ => String::new(),
    }
}
