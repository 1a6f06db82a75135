//! What a command costs that runs under a lock: the whole process, next to `flock` and to nothing.

use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;

use crate::Result;
use crate::place::Place;
use crate::report::{Figure, Target};
use crate::statistics::{median, median_ratio, percentile};

const ROUNDS: usize = 400;
/// Throw-away rounds first: the programs are read from the disk, the directory is made.
const WARM_UP: usize = 5;

pub(crate) fn measure(place: &Place) -> Result<Vec<Figure>> {
    let (program, url) = (place.program()?, place.url("start")?);
    let file = place.room("start")?.join("flock");
    let mut commands = [
        Command::new("true"),
        Command::new("flock"),
        Command::new(program),
    ];
    commands[1].arg(file).arg("true");
    commands[2].args(["--on", &url, "run", "start", "--", "true"]);
    let mut millis = [const { Vec::new() }; 3];
    for round in 0..ROUNDS + WARM_UP {
        for (command, millis) in commands.iter_mut().zip(&mut millis) {
            let took = run(command)?;
            if round >= WARM_UP {
                millis.push(took);
            }
        }
    }
    let [bare, flock, ours] = &millis;
    Ok(vec![Figure {
        what: "`lockkeeper run n -- true`".into(),
        limit: format!(
            "flock {:.2} ms (true {:.2} ms)",
            median(flock),
            median(bare)
        ),
        ours: format!("{:.2} ms", median(ours)),
        value: median_ratio(ours, flock),
        unit: "x",
        target: Target::AtMost(1.5),
        detail: json!({
            "rounds": ROUNDS,
            "true_ms": median(bare), "flock_ms": median(flock), "ours_ms": median(ours),
            "ratio_of_medians": median(ours) / median(flock),
            "ratio_of_p10": percentile(ours, 10.0) / percentile(flock, 10.0),
            "flock_p99_ms": percentile(flock, 99.0), "ours_p99_ms": percentile(ours, 99.0),
        }),
    }])
}

/// Milliseconds from the start of a command to its end.
fn run(command: &mut Command) -> Result<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let status = command.status();
    let took = start.elapsed().as_secs_f64() * 1e3;
    match status {
        Ok(status) if status.success() => Ok(took),
        Ok(status) => Err(format!("{command:?} failed: {status}").into()),
        Err(error) => Err(format!("{command:?}: {error}").into()),
    }
}
