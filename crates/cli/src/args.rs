//! The command line, in one table: what `--help`, the completions and the manual page say.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use lockkeeper::{Name, Sequencer};

use crate::span;

/// Distributed locks for the shell, and a look at who holds them
#[derive(Debug, Parser)]
#[command(name = "lockkeeper", version, max_term_width = 100, after_long_help = EXIT_STATUS)]
pub(crate) struct Args {
    /// Where the locks live [default: local:]
    ///
    /// `local:` keeps them in your own directory on this machine, without a server; `local:/DIR` in a
    /// directory that you share with others. On servers: `redis://HOST`, `redis+sentinel://H1,H2/MASTER`,
    /// `redis+cluster://H1,H2`, `redlock://H1,H2,H3`, `etcd://H1,H2,H3`, `zookeeper://H1,H2,H3/PATH`,
    /// `postgres://HOST/DATABASE`, `mysql://HOST/DATABASE`. A URL with a password belongs into the environment, not on
    /// the command line, which others can read.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "LOCKKEEPER_URL",
        hide_env_values = true,
        hide_default_value = true,
        default_value = "local:"
    )]
    pub(crate) on: String,

    #[command(subcommand)]
    pub(crate) task: Task,
}

const EXIT_STATUS: &str = "\
Exit status:
  0    all went well; of `run`, whatever the command returned (128+n if signal n ended it)
  1    the answer is no: `check` found the sequencer stale, `break` found nobody to break
  2    wrong usage
  69   the engine cannot be reached
  75   the lock was not obtained
  76   the lock was lost while the command ran
  77   denied or refused
  78   bad configuration or URL
  126  the command cannot be executed; the lock is free again
  127  the command was not found; the lock is free again";

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Run a command while holding a lock
    Run(RunArgs),
    /// List the locks: who holds, who waits
    Ls(LsArgs),
    /// Show one lock: who holds, who waits
    Show(ShowArgs),
    /// Watch the locks live: a full-screen view on a terminal, else one line per change
    Watch(WatchArgs),
    /// Break a lock: take it away from whoever holds it now
    Break(BreakArgs),
    /// Ask whether a sequencer is still valid: exit status 0 if it is, 1 if it is stale
    Check(CheckArgs),
    /// Show what the engine promises, and under which assumptions
    Guarantees(GuaranteesArgs),
    /// Make the tables of an engine that needs them (SQL servers)
    Init(InitArgs),
    /// Sweep out what the dead have left in an engine's tables (SQL servers)
    Gc,
    /// Let the failure stories of distributed locks really happen, on servers of their own
    Lab(LabArgs),
    /// Print the completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page, for `man -l -`
    Man,
}

const RUN_NOTES: &str = "\
The command sees LOCKKEEPER_NAME, LOCKKEEPER_TOKEN and LOCKKEEPER_SEQUENCER. Signals are passed on to it. \
Its standard input and output are its own: lockkeeper speaks on standard error only.

The lock is held until COMMAND itself ends; what it left running in the background is not protected.

When the lock is lost, the command and all that it started get TERM before the lease ends, and KILL by \
its end. Nobody does that if lockkeeper itself is killed with KILL: then the command goes on without \
the lock. Where that matters, let the system end it too:

    lockkeeper run NAME -- setpriv --pdeathsig KILL COMMAND

A stopped lockkeeper (Ctrl-Z) does not renew: after the lease the lock is lost, and the command is \
killed when it is continued.";

#[derive(Debug, clap::Args)]
#[command(after_long_help = RUN_NOTES)]
pub(crate) struct RunArgs {
    /// The lock to hold
    pub(crate) name: Name,

    /// Wait at most this long, like 500ms, 10s or 1h30m [default: without limit]
    #[arg(long, value_name = "DUR", value_parser = span::parse, conflicts_with = "try_once")]
    pub(crate) wait: Option<Duration>,

    /// Do not wait at all
    #[arg(long = "try")]
    pub(crate) try_once: bool,

    /// How long the lock outlives a lockkeeper that can no longer renew it
    #[arg(long, value_name = "DUR", value_parser = span::parse, default_value = "30s")]
    pub(crate) lease: Duration,

    /// How long others are kept out when the lock is lost, so that what was under way can arrive; not
    /// after a release, and not on engines that free a dead process's locks at once
    #[arg(long, value_name = "DUR", value_parser = span::parse)]
    pub(crate) lock_delay: Option<Duration>,

    /// Hold it together with other shared holders
    #[arg(long, conflicts_with = "permits")]
    pub(crate) shared: bool,

    /// Take this many permits of a semaphore
    #[arg(long, value_name = "K", requires = "of")]
    pub(crate) permits: Option<u32>,

    /// How many permits the semaphore has in all
    #[arg(long, value_name = "N", requires = "permits")]
    pub(crate) of: Option<u32>,

    /// What to do with the command when the lock is lost
    #[arg(long, value_name = "WHAT", default_value = "term")]
    pub(crate) on_lost: OnLost,

    /// How long before the end of the lease the command gets TERM [default: a third of the lease, at
    /// most 10s]
    #[arg(long, value_name = "DUR", value_parser = span::parse)]
    pub(crate) grace: Option<Duration>,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// TERM before the lease ends, KILL by its end
    Term,
    /// Only say so, and let the command finish
    Warn,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LsArgs {
    /// Only names that match: `*` stands for any text, `?` for one character
    pub(crate) pattern: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The lock to show
    pub(crate) name: Name,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_long_help = "It looks once a second: what happens in between is not seen.")]
pub(crate) struct WatchArgs {
    /// Only names that match: `*` stands for any text, `?` for one character
    pub(crate) pattern: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Whoever held it learns of it with its next renewal at the latest, and may work on \
    until then: only a resource that checks fencing tokens is safe from that."
)]
pub(crate) struct BreakArgs {
    /// The lock to break
    pub(crate) name: Name,

    /// Why; it is recorded
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,

    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// What a holder got as LOCKKEEPER_SEQUENCER, like lk1:x:8448:orders/42
    pub(crate) sequencer: Sequencer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GuaranteesArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "It may run again and again: tables that are there stay as they are. Keepers make missing tables \
    themselves where their user may, unless the URL says create=no."
)]
pub(crate) struct InitArgs {
    /// Only print the statements, and the rights that a user who takes locks needs
    #[arg(long)]
    pub(crate) print: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) task: LabTask,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabTask {
    /// List the scenarios
    List,
    /// Play scenarios: the naive lock, where the harm must be seen, and the way out
    Run(LabRunArgs),
    /// A client of a scenario; the lab starts it
    #[command(hide = true)]
    Actor {
        /// Its name
        name: String,
    },
}

#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Everything happens on this machine: servers, clients and their faults are processes of the \
    lab, and are gone with it. Exit status 1: a scenario did not go as it is told; 69: one could not be played."
)]
pub(crate) struct LabRunArgs {
    /// The scenarios to play
    #[arg(value_name = "NAME", required_unless_present = "all")]
    pub(crate) names: Vec<String>,

    /// All of them
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,

    /// Also write a page with all the pictures, each picture, and each history as JSON lines
    #[arg(long, value_name = "DIR")]
    pub(crate) html: Option<PathBuf>,

    /// Repeats the lengths of time of an earlier run
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// How many scenarios are played at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) at_once: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_table_is_sound() {
        super::Args::command().debug_assert();
    }
}
