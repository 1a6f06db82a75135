//! The steps of `test` and `bench`: each is one command, timed, and the first that fails ends it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::second_look::{self, Failures};

/// A cargo command line, as one would type it, and what it needs in the environment.
struct Step {
    command: &'static str,
    environment: &'static [(&'static str, &'static str)],
}

const fn plain(command: &'static str) -> Step {
    Step {
        command,
        environment: &[],
    }
}

/// All test programs, also after one of them failed: what failed is looked at again.
const TESTS: &str = "cargo test --workspace --all-features --no-fail-fast";

/// The default features are all, or what `--no-default-features` leaves: each must build alone.
const TEST_STEPS: &[Step] = &[
    plain("cargo fmt --all --check"),
    plain("cargo clippy --workspace --all-targets --all-features -- -D warnings"),
    plain("cargo check -p lockkeeper --no-default-features"),
    plain("cargo check -p lockkeeper --no-default-features --features local"),
    plain("cargo check -p lockkeeper --no-default-features --features redis"),
    plain("cargo check -p lockkeeper --no-default-features --features etcd"),
    plain("cargo check -p lockkeeper --no-default-features --features zookeeper"),
    plain("cargo check -p lockkeeper --no-default-features --features postgres"),
    plain("cargo check -p lockkeeper --no-default-features --features mysql"),
    plain("cargo check -p lockkeeper-fence --no-default-features"),
    Step {
        command: TESTS,
        // Most tests wait for leases to end most of the time.
        environment: &[("RUST_TEST_THREADS", "3")],
    },
    Step {
        command: "cargo doc --workspace --no-deps --all-features",
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
];

/// The program itself is measured too, so it is built the same way first.
const BENCH_BUILD: Step = plain("cargo build --release -p lockkeeper-cli -p lockkeeper-bench");

/// Everything that must be green.
pub(crate) fn test() -> Result<(), String> {
    let mut done = Vec::new();
    let outcome = TEST_STEPS
        .iter()
        .try_for_each(|step| run_timed(step, &mut done));
    println!("\n{}", summary(&done));
    outcome
}

/// Builds and measures.
pub(crate) fn bench(arguments: &[String]) -> Result<(), String> {
    run_timed(&BENCH_BUILD, &mut Vec::new())?;
    let mut command = cargo();
    command.args([
        "run",
        "--release",
        "--quiet",
        "-p",
        "lockkeeper-bench",
        "--",
    ]);
    run(command.args(arguments), "lockkeeper-bench")
}

struct Done {
    command: &'static str,
    took: Duration,
    green: bool,
    /// Tests that failed at first.
    unsteady: Vec<String>,
}

fn run_timed(step: &Step, done: &mut Vec<Done>) -> Result<(), String> {
    println!("\nxtask: {}", step.command);
    let mut command = cargo();
    command
        .args(step.command.split(' ').skip(1))
        .envs(step.environment.iter().copied());
    let start = Instant::now();
    let outcome = if step.command == TESTS {
        run_tests(&mut command)
    } else {
        run(&mut command, step.command).map(|()| Vec::new())
    };
    let (took, green) = (start.elapsed(), outcome.is_ok());
    done.push(Done {
        command: step.command,
        took,
        green,
        unsteady: outcome.clone().unwrap_or_default(),
    });
    let word = if green { "green" } else { "RED" };
    println!(
        "xtask: {word} after {:.1} s: {}",
        took.as_secs_f64(),
        step.command
    );
    outcome.map(|_| ())
}

/// Gives the tests that failed at first and passed when they ran alone.
fn run_tests(command: &mut Command) -> Result<Vec<String>, String> {
    let (green, output) = run_aloud(command)?;
    if green {
        return Ok(Vec::new());
    }
    let red = || format!("RED: {TESTS}");
    let failures = Failures::deserving(&output).ok_or_else(red)?;
    println!(
        "xtask: failed, and is looked at again alone: {:?}",
        failures.tests
    );
    let mut passed = 0;
    for arguments in failures.commands() {
        let (green, output) = run_aloud(cargo().args(arguments))?;
        if !green {
            return Err(red());
        }
        passed += second_look::passed(&output);
    }
    // A name that no program knows any more would pass by not being there.
    if passed < failures.tests.len() {
        return Err(red());
    }
    Ok(failures.tests)
}

/// Runs it and shows what it prints as it comes; gives whether it succeeded, and what it printed.
fn run_aloud(command: &mut Command) -> Result<(bool, String), String> {
    let failed = |error: std::io::Error| format!("{TESTS}: {error}");
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(failed)?;
    let printed = Mutex::new(String::new());
    thread::scope(|scope| {
        if let Some(out) = child.stdout.take() {
            scope.spawn(|| pass_on(out, &mut std::io::stdout(), &printed));
        }
        if let Some(err) = child.stderr.take() {
            scope.spawn(|| pass_on(err, &mut std::io::stderr(), &printed));
        }
    });
    let status = child.wait().map_err(failed)?;
    let printed = printed.into_inner().unwrap_or_default();
    Ok((status.success(), printed))
}

fn pass_on(from: impl Read, to: &mut impl Write, printed: &Mutex<String>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from
        .read_until(b'\n', &mut line)
        .is_ok_and(|bytes| bytes > 0)
    {
        // Nobody reads: the exit status still tells.
        let _ignored = to.write_all(&line).and_then(|()| to.flush());
        if let Ok(mut printed) = printed.lock() {
            printed.push_str(&String::from_utf8_lossy(&line));
        }
        line.clear();
    }
}

fn run(command: &mut Command, name: &str) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|error| format!("{name}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("RED: {name} ({status})"))
    }
}

/// The very cargo that runs this, from the root of the workspace.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    // The packages were seen to: a test with another language's client must not go without it.
    command.env("LOCKKEEPER_FOREIGN", "required");
    command
}

fn summary(done: &[Done]) -> String {
    let mut lines = vec!["     s  result  step".to_owned()];
    for Done {
        command,
        took,
        green,
        unsteady,
    } in done
    {
        let word = if *green { "green" } else { "RED" };
        lines.push(format!("{:6.1}  {word:<6}  {command}", took.as_secs_f64()));
        let told = unsteady
            .iter()
            .map(|test| format!("        UNSTEADY: failed at first, passed alone: {test}"));
        lines.extend(told);
    }
    let total: Duration = done.iter().map(|one| one.took).sum();
    let skipped = TEST_STEPS.len().saturating_sub(done.len());
    let rest = if skipped > 0 {
        format!(", {skipped} not run")
    } else {
        String::new()
    };
    lines.push(format!("{:6.1}          all{rest}", total.as_secs_f64()));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_step_ends_it_and_shows_in_the_summary() {
        let mut done = Vec::new();
        let red = plain("cargo no-such-command");
        let green = plain("cargo --version");
        let steps = [green, red, plain("cargo --version")];
        let outcome = steps.iter().try_for_each(|step| run_timed(step, &mut done));
        assert!(
            outcome
                .unwrap_err()
                .starts_with("RED: cargo no-such-command")
        );
        assert_eq!(done.len(), 2);
        let text = summary(&done);
        assert!(text.contains("RED     cargo no-such-command"), "{text}");
        let rest = format!("{} not run", TEST_STEPS.len() - done.len());
        assert!(text.contains(&rest), "{text}");
    }
}
