//! `lockkeeper completions`: the script that makes a shell complete this command line.

use std::io::Write;

use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs};
use crate::exit::{self, Failure};

pub(crate) fn completions(options: &CompletionsArgs) -> Result<u8, Failure> {
    // Into memory first: the generator panics where a pipe is closed.
    let mut script = Vec::new();
    clap_complete::generate(
        options.shell,
        &mut Args::command(),
        "lockkeeper",
        &mut script,
    );
    std::io::stdout().write_all(&script)?;
    Ok(exit::OK)
}
