//! `lockkeeper watch`: the locks live, by looking once a second.

mod changes;
mod screen;

use std::io::{IsTerminal, Write};
use std::time::{Duration, SystemTime};

use lockkeeper::Keeper;

use crate::args::WatchArgs;
use crate::exit::Failure;
use crate::ls;

/// How often it looks: often enough for people, seldom enough for the engine.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn watch(keeper: &Keeper, options: &WatchArgs) -> Result<u8, Failure> {
    let pattern = options.pattern.as_deref();
    if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        return screen::watch(keeper, pattern).await;
    }
    let mut before = Vec::new();
    loop {
        let now = ls::matching(keeper, pattern).await?;
        let mut lines = String::new();
        let time = changes::utc(SystemTime::now());
        for change in changes::between(&before, &now) {
            lines.push_str(&format!("{time} {change}\n"));
        }
        let mut stdout = std::io::stdout();
        stdout.write_all(lines.as_bytes())?;
        stdout.flush()?;
        before = now;
        tokio::time::sleep(LOOK).await;
    }
}
