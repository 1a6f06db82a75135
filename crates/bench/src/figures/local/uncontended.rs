//! Acquire + release of one task, next to two bare SQLite transactions on the same disk.

use std::path::Path;
use std::time::Instant;

use lockkeeper::Keeper;
use rusqlite::{Connection, params};
use serde_json::json;

use super::runtime;
use crate::Result;
use crate::place::Place;
use crate::report::{Figure, Target};
use crate::statistics::{median, median_ratio, percentile};

const ROUNDS: usize = 31;
const CYCLES: u32 = 400;

pub(crate) fn measure(place: &Place) -> Result<Vec<Figure>> {
    let bare = Bare::open(&place.room("bare")?)?;
    let url = place.url("uncontended")?;
    let (limit, ours) = runtime()?.block_on(async move {
        let keeper = Keeper::connect(&url).await?;
        // In a task of its own: a future that block_on polls itself is treated differently by tokio.
        tokio::spawn(rounds(bare, keeper)).await?
    })?;
    let (limit_us, ours_us) = (median(&limit), median(&ours));
    Ok(vec![Figure {
        what: "uncontended acquire + release".into(),
        limit: format!("two SQLite transactions {limit_us:.1} us"),
        ours: format!("{ours_us:.1} us"),
        value: median_ratio(&ours, &limit),
        unit: "x",
        target: Target::AtMost(1.5),
        detail: json!({
            "rounds": ROUNDS, "cycles_per_round": CYCLES,
            // A second view, of the quickest rounds; it is not steadier than the value.
            "ratio_of_p10": percentile(&ours, 10.0) / percentile(&limit, 10.0),
            "limit_us": limit, "ours_us": ours,
        }),
    }])
}

/// Rounds of both, taking turns; microseconds per cycle.
async fn rounds(mut bare: Bare, keeper: Keeper) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut limit, mut ours) = (Vec::new(), Vec::new());
    // The first round fills caches and is thrown away.
    for round in 0..=ROUNDS {
        let start = Instant::now();
        for _ in 0..CYCLES {
            bare.transaction()?;
            bare.transaction()?;
        }
        let bare_us = start.elapsed().as_secs_f64() * 1e6 / f64::from(CYCLES);
        let start = Instant::now();
        for _ in 0..CYCLES {
            let guard = keeper.lock("uncontended").acquire().await?;
            guard.release().await?;
        }
        let ours_us = start.elapsed().as_secs_f64() * 1e6 / f64::from(CYCLES);
        if round > 0 {
            limit.push(bare_us);
            ours.push(ours_us);
        }
    }
    Ok((limit, ours))
}

/// The least that a lock table in SQLite has to do: write who holds, write that nobody does. Flushes
/// are set as the backend sets them; everything else as SQLite comes.
struct Bare {
    connection: Connection,
    token: i64,
}

impl Bare {
    fn open(room: &Path) -> Result<Self> {
        let connection = Connection::open(room.join("bare.db"))?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
             CREATE TABLE locks (
                 name TEXT PRIMARY KEY, holder BLOB, token INTEGER NOT NULL, ends INTEGER NOT NULL
             ) WITHOUT ROWID;",
        )?;
        Ok(Self {
            connection,
            token: 0,
        })
    }

    fn transaction(&mut self) -> Result<()> {
        const UPSERT: &str = "INSERT INTO locks (name, holder, token, ends) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (name) DO UPDATE
             SET holder = excluded.holder, token = excluded.token, ends = excluded.ends";
        self.token += 1;
        let holder = u128::from(self.token.unsigned_abs()).to_le_bytes();
        let statement = |sql| self.connection.prepare_cached(sql);
        statement("BEGIN IMMEDIATE")?.execute([])?;
        statement(UPSERT)?.execute(params![
            "uncontended",
            holder,
            self.token,
            self.token + 30_000_000_000
        ])?;
        statement("COMMIT")?.execute([])?;
        Ok(())
    }
}
