//! The `lockkeeper` program: run a command under a lock, see who holds what, break what hangs.
#![forbid(unsafe_code)]

mod args;
mod break_hold;
mod check;
mod completions;
mod exit;
mod gc;
mod glob;
mod guarantees;
mod init;
mod json;
mod lab;
mod ls;
mod man;
mod run;
mod show;
mod signals;
mod span;
mod table;
mod visible;
mod watch;

use std::future::Future;

use args::{Args, Task};
use clap::Parser;
use exit::Failure;
use lockkeeper::Keeper;

fn main() {
    let args = Args::parse();
    let code = perform(&args).unwrap_or_else(Failure::report);
    // Not a return: destructors of a runtime that nobody needs any more only cost time.
    std::process::exit(code.into())
}

fn perform(args: &Args) -> Result<u8, Failure> {
    let on = args.on.as_str();
    match &args.task {
        Task::Run(options) => run::run(on, options),
        Task::Ls(options) => wait_for(async { ls::ls(&connect(on).await?, options).await }),
        Task::Show(options) => wait_for(async { show::show(&connect(on).await?, options).await }),
        Task::Watch(options) => {
            wait_for(async { watch::watch(&connect(on).await?, options).await })
        }
        Task::Break(options) => {
            wait_for(async { break_hold::break_hold(&connect(on).await?, options).await })
        }
        Task::Check(options) => {
            wait_for(async { check::check(&connect(on).await?, options).await })
        }
        Task::Guarantees(options) => {
            wait_for(async { guarantees::guarantees(&connect(on).await?, options) })
        }
        Task::Init(options) => wait_for(init::init(on, options)),
        Task::Gc => wait_for(gc::gc(on)),
        Task::Lab(options) => lab::lab(options),
        Task::Completions(options) => completions::completions(options),
        Task::Man => man::man(),
    }
}

async fn connect(on: &str) -> Result<Keeper, Failure> {
    Ok(Keeper::builder().label("lockkeeper").connect(on).await?)
}

/// Runs one task to its end on a runtime of its own. One thread: starting more would cost more than
/// most commands do.
fn wait_for<T>(task: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(exit::SYSTEM, format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(task);
    // The process ends now; waiting for the runtime's threads would only make that slower.
    std::mem::forget(runtime);
    outcome
}
