//! `lockkeeper check`: is what a sequencer says still so?

use std::io::Write;

use lockkeeper::{Keeper, Validity};

use crate::args::CheckArgs;
use crate::exit::{self, Failure};

pub(crate) async fn check(keeper: &Keeper, options: &CheckArgs) -> Result<u8, Failure> {
    let (word, code) = match keeper.check(&options.sequencer).await? {
        Validity::Valid => ("valid", exit::OK),
        // Whatever a later version may add: only `Valid` is valid.
        _ => ("stale", exit::NO),
    };
    writeln!(std::io::stdout(), "{word}").or_else(ignore_closed)?;
    Ok(code)
}

/// The answer is the exit status; a closed standard output must not turn *stale* into success.
fn ignore_closed(error: std::io::Error) -> std::io::Result<()> {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    }
}
