//! `lockkeeper gc`: sweeps out what the dead have left in an engine's tables.

use std::io::Write;

use lockkeeper::Upkeep;

use crate::exit::{self, Failure};

pub(crate) async fn gc(on: &str) -> Result<u8, Failure> {
    let swept = Upkeep::of(on)?.gc().await?;
    let (claims, names) = (swept.claims, swept.names);
    writeln!(
        std::io::stdout(),
        "swept: {claims} claims of the dead, {names} unused names"
    )?;
    Ok(exit::OK)
}
