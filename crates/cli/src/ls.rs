//! `lockkeeper ls`: all locks that anybody holds or waits for.

use std::io::{IsTerminal, Write};

use lockkeeper::backend::{LockView, Query};
use lockkeeper::{Keeper, Name};

use crate::args::LsArgs;
use crate::exit::{self, Failure};
use crate::{glob, json, table};

pub(crate) async fn ls(keeper: &Keeper, options: &LsArgs) -> Result<u8, Failure> {
    let views = matching(keeper, options.pattern.as_deref()).await?;
    let text = if options.json {
        let locks: Vec<_> = views.iter().map(json::Lock::of).collect();
        serde_json::to_string(&locks).map_err(std::io::Error::from)? + "\n"
    } else if views.is_empty() {
        if std::io::stdout().is_terminal() {
            exit::say(&format!(
                "nobody holds or waits for such a lock on {}",
                keeper.place()
            ));
        }
        String::new()
    } else {
        table::text(&table::rows(&views))
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(exit::OK)
}

/// The locks whose names match, by name.
pub(crate) async fn matching(
    keeper: &Keeper,
    pattern: Option<&str>,
) -> Result<Vec<LockView>, Failure> {
    let pattern = pattern.unwrap_or("*");
    // One name is asked for by itself: an engine with a million locks need not list them.
    let query = match Name::new(pattern) {
        Ok(name) if glob::is_plain(pattern) => Query::One(name),
        _ => Query::All,
    };
    let mut views = keeper.inspect(&query).await?;
    views.retain(|view| {
        let in_use = !view.holders.is_empty() || !view.waiters.is_empty();
        in_use && glob::matches(pattern, view.name.as_str())
    });
    views.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(views)
}
