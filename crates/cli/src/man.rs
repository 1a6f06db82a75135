//! `lockkeeper man`: one manual page for the whole program, made from the command line's own table.

use std::io::Write;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::Args;
use crate::exit::{self, Failure};

const ENVIRONMENT: [(&str, &str); 4] = [
    (
        "LOCKKEEPER_URL",
        "Where the locks live, unless --on says so.",
    ),
    (
        "LOCKKEEPER_NAME",
        "Set for the command of run: the name of the lock.",
    ),
    (
        "LOCKKEEPER_TOKEN",
        "Set for the command of run: the fencing token, a number that rises with every grant of the \
         name. A resource that refuses lower ones than it has seen is safe from late writes.",
    ),
    (
        "LOCKKEEPER_SEQUENCER",
        "Set for the command of run: name, mode and token as one string, for check.",
    ),
];

pub(crate) fn man() -> Result<u8, Failure> {
    let mut page = Vec::new();
    write_page(&mut page)?;
    std::io::stdout().write_all(&page)?;
    Ok(exit::OK)
}

fn write_page(page: &mut Vec<u8>) -> std::io::Result<()> {
    let mut program = Args::command();
    program.build();
    let main = Man::new(program.clone()).manual("User Commands");
    main.render_title(page)?;
    main.render_name_section(page)?;
    main.render_synopsis_section(page)?;
    main.render_description_section(page)?;
    main.render_options_section(page)?;
    for command in program.get_subcommands().filter(|c| c.get_name() != "help") {
        write_command(page, command)?;
    }
    let mut environment = Roff::new();
    environment.control("SH", ["ENVIRONMENT"]);
    for (name, meaning) in ENVIRONMENT {
        environment
            .control("TP", [])
            .text([bold(name)])
            .text([roman(meaning)]);
    }
    environment.to_writer(page)?;
    main.render_extra_section(page)?;
    main.render_version_section(page)
}

/// One command as a section of its own: a page that only lists them would send the reader to
/// nine others.
fn write_command(page: &mut Vec<u8>, command: &Command) -> std::io::Result<()> {
    let heading = format!("lockkeeper {}", command.get_name());
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let mut head = Roff::new();
    head.control("SH", [heading.as_str()])
        .text([roman(about + ".")])
        .control("PP", [])
        .text([bold(usage.trim_start_matches("Usage: "))]);
    head.to_writer(page)?;
    let own = command.clone().mut_args(|arg| {
        let inherited = ["on", "help"].contains(&arg.get_id().as_str());
        arg.hide(inherited)
    });
    let mut options = Vec::new();
    Man::new(own).render_options_section(&mut options)?;
    page.extend(
        String::from_utf8_lossy(&options)
            .replace(".SH OPTIONS\n", ".PP\n")
            .bytes(),
    );
    if let Some(notes) = command.get_after_long_help() {
        let mut tail = Roff::new();
        for paragraph in notes.to_string().split("\n\n") {
            tail.control("PP", []).text([roman(paragraph.trim())]);
        }
        tail.to_writer(page)?;
    }
    Ok(())
}
