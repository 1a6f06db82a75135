//! `lockkeeper run`: a command that runs while a lock is held, and no longer.

mod acquire;
mod descendants;
mod supervise;

use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use lockkeeper::{Error, Guard, Keeper, Mode};
use rustix::process::Signal;

use self::acquire::NotObtained;
use self::supervise::{Ending, Supervisor};
use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::signals::{Arrived, Signals};
use crate::span;

/// What the command can be sent through us, and news of its end.
const SIGNALS: [Signal; 9] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::TSTP,
    Signal::CONT,
    Signal::CHILD,
];

/// How long a failed or interrupted run may spend on taking its claim back.
const CLOSING: Duration = Duration::from_secs(2);

pub(crate) fn run(on: &str, options: &RunArgs) -> Result<u8, Failure> {
    // Before anybody is asked: what cannot be right on any engine.
    grace(options, options.lease)?;
    if let (Some(take), Some(of)) = (options.permits, options.of) {
        Mode::permits(take, of).map_err(|error| Failure::new(exit::USAGE, error.to_string()))?;
    }
    crate::wait_for(under_lock(on, options))
}

async fn under_lock(on: &str, options: &RunArgs) -> Result<u8, Failure> {
    let mut signals = Signals::listen(&SIGNALS).map_err(cannot_start)?;
    let connecting = Keeper::builder().label(label(options)).connect(on);
    let keeper = match acquire::unless_ended(&mut signals, connecting).await {
        Ok(keeper) => keeper,
        Err(reason) => return not_obtained(reason),
    };
    let delay = options.lock_delay.unwrap_or_default();
    let silence = keeper.guarantees().longest_silence;
    let believed = options.lease.min(silence.saturating_sub(delay));
    let grace = grace(options, believed)?;
    let guard = match acquire::acquire(&keeper, options, &mut signals).await {
        Ok(guard) => guard,
        Err(reason) => {
            close(&keeper).await;
            return not_obtained(reason);
        }
    };
    let child = match spawn(options, &guard) {
        Ok(child) => child,
        Err(failure) => {
            let _the_first_failure_counts = guard.release().await;
            close(&keeper).await;
            return Err(failure);
        }
    };
    let supervisor = Supervisor::new(child, &guard, &mut signals, options.on_lost, grace);
    let ending = supervisor.watch().await.map_err(cannot_start)?;
    let code = finish(guard, &ending).await;
    // Ctrl-C must also end the script around us, and a shell asks the signal for that, not the
    // status: 130 alone would let it go on.
    if let (Some(signal), true) = (ending.signal, code != exit::LOST) {
        end_like_the_command(signal, ending.interrupted);
    }
    Ok(code)
}

/// Lets go and tells the exit status of the whole.
async fn finish(guard: Guard, ending: &Ending) -> u8 {
    if ending.lost {
        let _lost_anyway = guard.release().await;
        return exit::LOST;
    }
    match guard.release().await {
        Ok(()) => ending.code,
        Err(error @ Error::Lost { .. }) => {
            exit::say(&error.to_string());
            exit::LOST
        }
        Err(error) => {
            exit::say(&format!("the lock may stay until its lease ends: {error}"));
            ending.code
        }
    }
}

fn end_like_the_command(signal: Signal, interrupted: Option<Signal>) {
    if interrupted == Some(signal) {
        // If this fails, the exit status tells the same.
        let _status_tells = signal_hook::low_level::emulate_default_handler(signal.as_raw());
    }
}

fn not_obtained(reason: NotObtained) -> Result<u8, Failure> {
    match reason {
        NotObtained::Failed(failure) => Err(failure),
        NotObtained::Ended(Arrived {
            signal,
            from_terminal,
        }) => {
            end_like_the_command(signal, from_terminal.then_some(signal));
            Ok(signal_code(signal.as_raw()))
        }
    }
}

async fn close(keeper: &Keeper) {
    if let Ok(closing) = tokio::time::timeout(CLOSING, keeper.close()).await {
        for left in closing.not_released {
            exit::say(&format!(
                "{:?} may stay until its lease ends: {}",
                left.name, left.why
            ));
        }
    }
}

fn spawn(options: &RunArgs, guard: &Guard) -> Result<Child, Failure> {
    let (program, arguments) = match options.command.split_first() {
        Some((program, arguments)) => (program, arguments),
        None => return Err(Failure::new(exit::USAGE, "there is no command to run")),
    };
    // Orphans of the command become our children, so that none of them outlives a lost lock unseen.
    // A kernel without this only finds fewer of them.
    let _older_kernel = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let spawned = Command::new(program)
        .args(arguments)
        .env("LOCKKEEPER_NAME", options.name.as_str())
        .env("LOCKKEEPER_TOKEN", guard.token().to_string())
        .env("LOCKKEEPER_SEQUENCER", guard.sequencer().to_string())
        .spawn();
    spawned.map_err(|error| {
        let code = match error.kind() {
            io::ErrorKind::NotFound => exit::NOT_FOUND,
            _ => exit::NOT_EXECUTABLE,
        };
        let program = program.to_string_lossy();
        Failure::new(
            code,
            format!("cannot run {program}: {error}; the lock is free again"),
        )
    })
}

/// Who we say we are: the command, since ten jobs called `lockkeeper` tell an operator nothing.
fn label(options: &RunArgs) -> String {
    let program = options.command.first().map(Path::new);
    let name = program.and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// How long the command gets between TERM and KILL, if a hold is good for so long after a renewal.
fn grace(options: &RunArgs, believed: Duration) -> Result<Duration, Failure> {
    const LONGEST: Duration = Duration::from_secs(10);
    let grace = options.grace.unwrap_or((believed / 3).min(LONGEST));
    // Two thirds of that are left when a renewal is due: a longer grace would end commands whose lock
    // is in no danger.
    if grace > believed / 2 {
        let most = span::show(believed / 2);
        let sentence = format!(
            "--grace can be at most half of what a hold is good for, {most} here: shorten it or lengthen --lease"
        );
        return Err(Failure::new(exit::USAGE, sentence));
    }
    Ok(grace)
}

fn signal_code(signal: i32) -> u8 {
    exit::SIGNAL.saturating_add(u8::try_from(signal).unwrap_or(0))
}

fn cannot_start(error: io::Error) -> Failure {
    Failure::new(exit::SYSTEM, format!("the system refuses: {error}"))
}
