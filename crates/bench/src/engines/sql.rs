//! SQL servers count the statements that they carry out. The questions of the meter itself are not counted.

use std::cell::Cell;

use lockkeeper_testbed::{MariaDb, Postgres, Setup};

use super::{Counts, Meter};
use crate::Result;

/// Two hundred keepers have a few connections each.
const CONNECTIONS: &str = "1200";
/// A database of its own, as a team would have.
const DATABASE: &str = "bench";

/// Where PostgreSQL counts each statement; its own numbers of transactions come up to ten seconds late.
const STATEMENTS: &str = "pg_stat_statements";
const CALLS: &str = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements \
    WHERE query NOT LIKE '%pg_stat_statements%'";
/// Everything but pings.
const QUESTIONS: &str = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
    WHERE VARIABLE_NAME = 'QUESTIONS'";

/// Settings of a server that has room for a crowd.
pub(super) fn roomy() -> Setup {
    Setup::new().setting("max_connections", CONNECTIONS)
}

/// A PostgreSQL that counts statements, for those sections that are about their number.
pub(super) fn counting_postgres() -> Result<Postgres> {
    let setup = roomy().setting("shared_preload_libraries", STATEMENTS);
    let server = Postgres::start_with(&setup)?;
    server.sql(&format!("CREATE EXTENSION {STATEMENTS}"))?;
    Ok(server)
}

pub(super) fn mariadb() -> Result<MariaDb> {
    let server = MariaDb::start_with(&roomy())?;
    server.sql(&format!("CREATE DATABASE {DATABASE}"))?;
    Ok(server)
}

/// The URL of the database of its own.
pub(super) fn mariadb_url(server: &MariaDb) -> String {
    format!("mysql://root@{}/{DATABASE}", server.address())
}

/// A server's own count, asked for by its client program.
pub(super) struct Counter<'a> {
    url: String,
    ask: Box<dyn Fn() -> Result<u64> + 'a>,
    /// What one question of the meter adds to the count, and how many there were.
    own: u64,
    asked: Cell<u64>,
}

impl<'a> Counter<'a> {
    pub(super) fn of_postgres(server: &'a Postgres, url: String) -> Self {
        Self {
            url,
            ask: Box::new(|| Ok(server.sql(CALLS)?.parse()?)),
            own: 0,
            asked: Cell::new(0),
        }
    }

    /// To be made while nobody else asks.
    pub(super) fn of_mariadb(server: &'a MariaDb, url: String) -> Result<Self> {
        let ask = || Ok(server.sql(QUESTIONS)?.parse::<u64>()?);
        let first: u64 = ask()?;
        Ok(Self {
            url,
            own: ask()? - first,
            ask: Box::new(ask),
            asked: Cell::new(0),
        })
    }
}

impl Meter for Counter<'_> {
    fn url(&self) -> String {
        self.url.clone()
    }

    fn read(&self) -> Result<Counts> {
        self.asked.set(self.asked.get() + 1);
        Ok(Counts {
            commands: (self.ask)()? - self.own * self.asked.get(),
            ..Counts::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends statements.
    type Ask<'a> = &'a dyn Fn(&str);

    /// A client program may ask something of its own when it connects: so what more statements add is looked at.
    #[test]
    fn statements_are_counted_and_the_meter_is_not() {
        let postgres = counting_postgres().unwrap();
        let mariadb = mariadb().unwrap();
        let on_postgres = |text: &str| drop(postgres.sql(text).unwrap());
        let on_mariadb = |text: &str| drop(mariadb.sql(text).unwrap());
        let both: [(Counter<'_>, Ask<'_>); 2] = [
            (Counter::of_postgres(&postgres, String::new()), &on_postgres),
            (
                Counter::of_mariadb(&mariadb, String::new()).unwrap(),
                &on_mariadb,
            ),
        ];
        for (meter, ask) in both {
            let counted = |text: &str| {
                let before = meter.read().unwrap();
                ask(text);
                (meter.read().unwrap() - before).commands
            };
            let one = counted("SELECT 1");
            let four = counted("SELECT 1; SELECT 1; SELECT 1; SELECT 1");
            assert_eq!(four - one, 3);
            let before = meter.read().unwrap();
            assert_eq!((meter.read().unwrap() - before).commands, 0);
        }
    }
}
