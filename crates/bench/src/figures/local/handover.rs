//! Hand-over from process to process: from the start of a release to the end of the acquire that it
//! lets in. Two processes alone, then in a queue of two hundred; and what that queue costs while
//! nothing happens.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::contenders::{FLOOR, OURS};
use crate::place::Place;
use crate::report::{Figure, Target};
use crate::statistics::{median, percentile};
use crate::turns::Turns;
use crate::workers::Worker;
use crate::{Result, cpu};

const CROWD: usize = 200;
/// One round of the crowd is one turn of everybody.
const ROUNDS: u32 = 3;
/// Turns of each of two processes in a round.
const TURNS: u32 = 75;
const IDLE_FOR: Duration = Duration::from_secs(12);
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) fn measure(place: &Place) -> Result<Vec<Figure>> {
    let stage = Stage::set(place)?;
    let idle = stage.idle()?;
    let gaps = stage.rounds()?;
    let detail = gaps.json();
    let figure = |what: &str, values: [f64; 2], target| Figure {
        what: what.into(),
        limit: format!("flock {:.0} us", values[0]),
        ours: format!("{:.0} us", values[1]),
        value: values[1] / 1e3,
        unit: "ms",
        target,
        detail: detail.clone(),
    };
    let (pair, crowd) = (median(&gaps.pair), median(&gaps.crowd));
    let at_99 = [&gaps.flock, &gaps.pair].map(|gaps| percentile(gaps, 99.0));
    Ok(vec![
        figure(
            "hand-over, 2 processes, p50",
            [median(&gaps.flock), pair],
            Target::AtMost(1.0),
        ),
        figure("hand-over, 2 processes, p99", at_99, Target::AtMost(5.0)),
        Figure {
            what: format!("hand-over, {CROWD} processes waiting, p50"),
            limit: format!("2 processes {pair:.0} us"),
            ours: format!("{crowd:.0} us"),
            value: crowd / pair,
            unit: "x",
            target: Target::AtMost(2.0),
            detail: detail.clone(),
        },
        idle,
    ])
}

/// The processes of all parts. Those who do not have their turn wait: for a word, or in the queue.
struct Stage {
    /// Holds the crowd's lock whenever the crowd shall wait, and takes its turn like all others.
    warden: Worker,
    crowd: Vec<Worker>,
    pair: [Worker; 2],
    flock: [Worker; 2],
}

/// Microseconds of each hand-over.
#[derive(Default)]
struct Gaps {
    flock: Vec<f64>,
    pair: Vec<f64>,
    crowd: Vec<f64>,
}

impl Stage {
    fn set(place: &Place) -> Result<Self> {
        let (crowd_url, pair_url) = (place.url("crowd")?, place.url("pair")?);
        let relay = |kind, url: &str| Worker::start("relay", kind, url);
        let mut stage = Self {
            warden: Worker::start("warden", OURS, &crowd_url)?,
            crowd: Vec::new(),
            pair: [relay(OURS, &pair_url)?, relay(OURS, &pair_url)?],
            flock: [relay(FLOOR, &pair_url)?, relay(FLOOR, &pair_url)?],
        };
        stage.warden.tell("take")?;
        stage.warden.hear_turns()?;
        for _ in 0..CROWD {
            let mut worker = relay(OURS, &crowd_url)?;
            // One turn more than there are rounds: at the end of the last one all wait again.
            worker.tell(&format!("go {}", ROUNDS + 1))?;
            stage.crowd.push(worker);
        }
        stage.wait_for_crowd()?;
        Ok(stage)
    }

    fn wait_for_crowd(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            let [waiting] = self.warden.ask("count")?;
            if waiting == CROWD as u64 {
                sleep(SETTLE);
                return Ok(());
            }
            if start.elapsed() > Duration::from_secs(30) {
                return Err(format!("only {waiting} of {CROWD} processes wait in line").into());
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// The processor time of the crowd while it waits.
    fn idle(&self) -> Result<Figure> {
        let pids: Vec<u32> = self.crowd.iter().map(Worker::pid).collect();
        let (before, start) = (cpu::of_all(&pids)?, Instant::now());
        sleep(IDLE_FOR);
        let (used, watched) = (cpu::of_all(&pids)? - before, start.elapsed());
        let percent = 100.0 * used.as_secs_f64() / watched.as_secs_f64();
        Ok(Figure {
            what: format!("{CROWD} idle waiting processes together"),
            limit: "-".into(),
            ours: format!(
                "{:.1} ms in {:.0} s",
                used.as_secs_f64() * 1e3,
                watched.as_secs_f64()
            ),
            value: percent,
            unit: "% of a core",
            target: Target::Below(1.0),
            detail: json!({ "cpu_ms": used.as_secs_f64() * 1e3, "watched_s": watched.as_secs_f64() }),
        })
    }

    fn rounds(mut self) -> Result<Gaps> {
        let mut gaps = Gaps::default();
        let mut turns = Vec::new();
        for _ in 0..ROUNDS {
            gaps.flock.extend(duel(&mut self.flock)?);
            gaps.pair.extend(duel(&mut self.pair)?);
            // The warden lets go and lines up again, behind everybody.
            self.warden.tell("pass")?;
            turns.extend(self.warden.hear_turns()?);
        }
        for worker in &mut self.crowd {
            for _ in 0..ROUNDS {
                turns.extend(worker.hear_turns()?);
            }
        }
        gaps.crowd = Turns::in_order(turns)?.gaps();
        let expected = (CROWD as u32 * ROUNDS) as usize;
        if gaps.crowd.len() < expected {
            return Err(format!("{} hand-overs instead of {expected}", gaps.crowd.len()).into());
        }
        Ok(gaps)
    }
}

impl Gaps {
    fn json(&self) -> Value {
        let one = |gaps: &[f64]| {
            json!({
                "hand_overs": gaps.len(),
                "p10_us": percentile(gaps, 10.0), "p50_us": percentile(gaps, 50.0),
                "p90_us": percentile(gaps, 90.0), "p99_us": percentile(gaps, 99.0),
                "max_us": percentile(gaps, 100.0),
            })
        };
        json!({ "flock": one(&self.flock), "pair": one(&self.pair), "crowd": one(&self.crowd) })
    }
}

/// Two processes take turns.
fn duel(two: &mut [Worker; 2]) -> Result<Vec<f64>> {
    for worker in two.iter_mut() {
        worker.tell(&format!("go {TURNS}"))?;
    }
    let mut turns = Vec::new();
    for worker in two.iter_mut() {
        for _ in 0..TURNS {
            turns.extend(worker.hear_turns()?);
        }
    }
    Ok(Turns::in_order(turns)?.gaps())
}
