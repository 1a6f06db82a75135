//! `lockkeeper init`: makes the tables of an engine that keeps its locks in tables.

use std::io::Write;

use lockkeeper::Upkeep;

use crate::args::InitArgs;
use crate::exit::{self, Failure};

pub(crate) async fn init(on: &str, options: &InitArgs) -> Result<u8, Failure> {
    let upkeep = Upkeep::of(on)?;
    if options.print {
        write!(std::io::stdout(), "{}", upkeep.script())?;
        return Ok(exit::OK);
    }
    upkeep.init().await?;
    exit::say("the tables are there");
    Ok(exit::OK)
}
