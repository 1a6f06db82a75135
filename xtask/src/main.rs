//! The house's chores: `cargo xtask test` runs everything that must be green, `cargo xtask bench`
//! measures.

#![forbid(unsafe_code)]

mod packages;
mod second_look;
mod steps;

use std::process::ExitCode;

const HELP: &str = "The house's chores.

usage: cargo xtask COMMAND

commands:
  test            install the Debian packages that are missing (as root or with `sudo -n`;
                  otherwise stop with the list), then format, lints, features, all tests, docs
  bench NAME...   build the programs in release mode and measure; arguments are passed on
  help            this text";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("test") if arguments.len() == 1 => test(),
        Some("bench") => steps::bench(&arguments[1..]),
        Some("help" | "--help" | "-h") => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

fn test() -> Result<(), String> {
    packages::ensure()?;
    steps::test()
}
