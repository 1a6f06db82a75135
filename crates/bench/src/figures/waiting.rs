//! Two hundred keepers in line for one name: what the engine hears of them while nothing changes, and
//! what one hand-over costs it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Measured;
use crate::Result;
use crate::contenders::OURS;
use crate::engines::{Counts, Engine};
use crate::report::{Figure, Target};
use crate::workers::Worker;

const CROWD: u64 = 200;
/// Fewer, to see whether the number matters.
const GROUP: u64 = 10;
const LINE_UP_WITHIN: Duration = Duration::from_secs(60);
/// Everybody renews once meanwhile, and so hears of all that changed before.
const SETTLE: Duration = Duration::from_secs(12);
const IDLE_FOR: Duration = Duration::from_secs(12);
const BUSY_FOR: Duration = Duration::from_secs(2);

/// What distinguishes the engines.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) engine: Engine,
    /// Commands per second of all that wait, without keep-alives.
    pub(super) idle: Target,
    /// Commands for each hand-over, where that is a target.
    pub(super) commands_at_most: Option<f64>,
    /// Messages from the engine to those who wait for each hand-over, where the engine can tell.
    pub(super) notices_at_most: Option<f64>,
}

/// One of the counts.
type Counted = fn(&Counts) -> u64;

/// What a crowd cost.
struct Cost {
    idle: Counts,
    idle_seconds: f64,
    busy: Counts,
    hand_overs: f64,
}

impl Waiting {
    pub(super) fn measure(&self) -> Result<Measured> {
        let group = self.crowd(GROUP)?;
        let crowd = self.crowd(CROWD)?;
        let per_turn = |cost: &Cost, counted: Counted| counted(&cost.busy) as f64 / cost.hand_overs;
        let detail = json!({
            "waiters": CROWD, "idle_s": crowd.idle_seconds,
            "idle_commands": crowd.idle.commands, "idle_keep_alives": crowd.idle.keep_alives,
            "idle_notices": crowd.idle.notices, "hand_overs": crowd.hand_overs,
            "commands_per_hand_over": per_turn(&crowd, |counts| counts.commands),
            "script_calls_per_hand_over": per_turn(&crowd, |counts| counts.inner),
            "notices_per_hand_over": per_turn(&crowd, |counts| counts.notices),
            "with_fewer": {
                "waiters": GROUP, "hand_overs": group.hand_overs,
                "commands_per_hand_over": per_turn(&group, |counts| counts.commands),
                "script_calls_per_hand_over": per_turn(&group, |counts| counts.inner),
                "notices_per_hand_over": per_turn(&group, |counts| counts.notices),
            },
        });
        let what = |text: &str| format!("{}: {CROWD} waiters, {text}", self.engine.name());
        let mut figures = vec![Figure {
            what: what("nothing changes"),
            limit: format!("{} keep-alives", crowd.idle.keep_alives),
            ours: format!(
                "{} commands in {:.0} s",
                crowd.idle.commands, crowd.idle_seconds
            ),
            value: crowd.idle.commands as f64 / crowd.idle_seconds,
            unit: "commands/s",
            target: self.idle,
            detail: detail.clone(),
        }];
        let counted: [(Option<f64>, &'static str, Counted); 2] = [
            (self.commands_at_most, "commands", |counts| counts.commands),
            (self.notices_at_most, "notices", |counts| counts.notices),
        ];
        for (at_most, unit, counted) in counted {
            let (few, many) = (per_turn(&group, counted), per_turn(&crowd, counted));
            let commands = per_turn(&crowd, |counts| counts.commands);
            let inner = per_turn(&crowd, |counts| counts.inner);
            figures.extend(at_most.map(|at_most| Figure {
                what: what(&format!("{unit} per hand-over")),
                limit: format!("{GROUP} waiters {few:.2}"),
                ours: format!("{commands:.2} commands, {inner:.1} calls in scripts"),
                value: many,
                unit,
                target: Target::AtMost(at_most),
                detail: detail.clone(),
            }));
        }
        Ok(figures.into())
    }

    fn crowd(&self, size: u64) -> Result<Cost> {
        let engine = self.engine.start_counting()?;
        let meter = engine.meter()?;
        let url = meter.url();
        let mut warden = Worker::start("warden", OURS, &url)?;
        warden.tell("take")?;
        warden.hear_turns()?;
        let mut crowd = Worker::start("crowd", OURS, &url)?;
        let [_turns] = crowd.ask(&format!("go {size}"))?;
        wait_for(size, &mut warden)?;

        let (before, start) = (meter.read()?, Instant::now());
        sleep(IDLE_FOR);
        let (idle, idle_seconds) = (meter.read()? - before, start.elapsed().as_secs_f64());

        warden.tell("leave")?;
        warden.hear_turns()?;
        sleep(Duration::from_millis(200));
        let [turns_before] = crowd.ask("count")?;
        let before = meter.read()?;
        sleep(BUSY_FOR);
        // In the same order as before: what happens in between belongs to both ends alike.
        let [turns] = crowd.ask("count")?;
        let busy = meter.read()? - before;
        crowd.ask::<1>("stop")?;
        Ok(Cost {
            idle,
            idle_seconds,
            busy,
            hand_overs: (turns - turns_before) as f64,
        })
    }
}

fn wait_for(size: u64, warden: &mut Worker) -> Result<()> {
    let start = Instant::now();
    loop {
        let [waiting] = warden.ask("count")?;
        if waiting == size {
            sleep(SETTLE);
            return Ok(());
        }
        if start.elapsed() > LINE_UP_WITHIN {
            return Err(format!("only {waiting} of {size} keepers wait in line").into());
        }
        sleep(Duration::from_millis(50));
    }
}
