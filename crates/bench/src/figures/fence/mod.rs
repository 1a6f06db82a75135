//! What a fence costs: for each store a fenced write beside the same write without the fence, in turns,
//! in one run.

mod file;
mod http;
mod object;
mod redis;
mod sql;
mod tokens;

use std::time::Instant;

use lockkeeper_fence::{Pass, Token};
use serde_json::json;

use super::{Measure, Section};
use crate::Result;
use crate::report::{Figure, Target};
use crate::statistics::{median, median_ratio};

pub(super) const SECTIONS: &[Section] = &[
    Section::new("postgres", Measure::Local(sql::postgres)),
    Section::new("mysql", Measure::Local(sql::mysql)),
    Section::new("sqlite", Measure::Local(sql::sqlite)),
    Section::new("redis", Measure::Local(redis::measure)),
    Section::new("file", Measure::Local(file::measure)),
    Section::new("object", Measure::Local(object::measure)),
    Section::new("http", Measure::Local(http::measure)),
    Section::new("tokens", Measure::Local(tokens::measure)),
];

/// Rounds of plain and fenced writes next to each other; the first one warms up.
const ROUNDS: usize = 31;

/// A fenced write may cost this much of a plain one.
const MOST: f64 = 1.2;

fn pass(order: u64) -> Result<Pass> {
    Ok(Pass::from(Token::new(order, 0)?))
}

/// The value of a write, another one each time.
fn value(number: u64) -> String {
    format!("{number:0100}")
}

/// Two ways to write, measured in turns.
struct Pair {
    what: &'static str,
    target: Target,
    per_round: u64,
    plain: Vec<f64>,
    fenced: Vec<f64>,
}

impl Pair {
    fn new(what: &'static str, per_round: u64) -> Self {
        Self {
            what,
            target: Target::AtMost(MOST),
            per_round,
            plain: Vec::new(),
            fenced: Vec::new(),
        }
    }

    /// Shown for comparison only.
    fn without_target(mut self) -> Self {
        self.target = Target::None;
        self
    }

    /// Runs both ways in turns; each is given the number of the write.
    async fn measure(
        mut self,
        mut plain: impl AsyncFnMut(u64) -> Result<()>,
        mut fenced: impl AsyncFnMut(u64) -> Result<()>,
    ) -> Result<Figure> {
        let mut number = 0;
        for round in 0..=ROUNDS {
            let start = Instant::now();
            for _ in 0..self.per_round {
                number += 1;
                plain(number).await?;
            }
            let by_plain = start.elapsed();
            let start = Instant::now();
            for _ in 0..self.per_round {
                number += 1;
                fenced(number).await?;
            }
            let by_fenced = start.elapsed();
            if round > 0 {
                let each =
                    |took: std::time::Duration| took.as_secs_f64() * 1e6 / self.per_round as f64;
                self.plain.push(each(by_plain));
                self.fenced.push(each(by_fenced));
            }
        }
        Ok(self.figure())
    }

    fn figure(self) -> Figure {
        Figure {
            what: self.what.into(),
            limit: format!("plain {:.1} us", median(&self.plain)),
            ours: format!("fenced {:.1} us", median(&self.fenced)),
            value: median_ratio(&self.fenced, &self.plain),
            unit: "x",
            target: self.target,
            detail: json!({
                "rounds": ROUNDS, "per_round": self.per_round, "plain_us": self.plain, "fenced_us": self.fenced,
            }),
        }
    }
}
