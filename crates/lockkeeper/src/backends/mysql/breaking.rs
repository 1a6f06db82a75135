//! Ending connections of session mode: of a claim that an operator breaks, and of a wait that nobody wants any more. `KILL` knows
//! connections, not claims; so it must be seen to that the connection does not become another claim's meanwhile.

use std::time::Duration;

use mysql_async::Conn;
use tokio::time::{sleep, timeout};

use super::client::{answers, asked, read};
use super::doctor::first_row;
use super::faults::{Fault, sort, unreachable};
use super::pinned::Pinned;
use super::session::Shared;
use super::text::{Value, fill};
use crate::Name;
use crate::backend::Released;
use crate::backends::sql::shortened;
use crate::error::Error;

const DURING: &str = "breaking a claim";
/// How long the server may take to end a connection.
const BREAKS_WITHIN: Duration = Duration::from_secs(3);
/// How long to wait for the end of a connection that waited, in seconds.
const ENDS_WITHIN_S: u64 = 3;
/// How long to wait for somebody else who ends the same connection, in seconds.
const TURN_S: u64 = 1;
/// What the server says when a connection that should end has ended already.
const NO_SUCH_CONNECTION: u16 = 1094;

/// The lock of whoever is about to end a connection. It is taken **before** they look whether the connection is still the claim's. A
/// connection is given to another claim only if it is free **after** its former claim has let go. So either they see that
/// the claim is gone, or the connection's owner sees them.
pub(super) fn doom(connection: u32) -> String {
    format!("lockkeeper.doom.{connection}")
}

impl Shared {
    /// Ends the connection of the claim with this number.
    pub(super) async fn break_claim(
        &self,
        name: &Name,
        order: u64,
        why: &str,
    ) -> Result<Released, Error> {
        let find = self.finding(name, order);
        let told = self.client.ask(DURING, find.clone()).await?;
        let row = told.into_iter().flat_map(|told| told.rows).next();
        let Some((connection,)) = row.map(read::<(u32,)>).transpose()? else {
            return Ok(Released::Gone);
        };
        let (why, doom) = (shortened(why), doom(connection));
        let noted = [
            Value::Bytes(name.as_str().as_bytes()),
            Value::Number(order),
            Value::Text(why),
        ];
        let note = "INSERT INTO @broken (broken_at, name, order_no, label, host, pid, why) \
            VALUES (UTC_TIMESTAMP(6), ?, ?, x'', x'', 0, ?)";
        let doom = [Value::Bytes(doom.as_bytes())];
        let job = Breaking {
            connection,
            begin: fill(&format!("SELECT GET_LOCK(?, {TURN_S})"), &doom),
            find,
            note: self.statement(note, &noted),
            sweep: self.sweeping(name, order),
            end: fill("DO RELEASE_LOCK(?)", &doom),
        };
        // On one connection throughout: if it ends, so does the turn; and no number outlives the server that gave it.
        let broken = self.client.run(DURING, move |conn| {
            let job = job.clone();
            Box::pin(async move { job.run(conn).await })
        });
        Ok(broken.await?)
    }

    /// Finds the connection of the claim with this number, if the server says that it holds or waits.
    fn finding(&self, name: &Name, order: u64) -> String {
        let lock = self.lock_name(name);
        let (lock, order) = (Value::Bytes(lock.as_bytes()), Value::Number(order));
        let find = include_str!("sql/find.sql");
        let name = Value::Bytes(name.as_str().as_bytes());
        self.statement(find, &[lock, name, order, order])
    }

    /// Takes the row of a claim that waited out of the table; its own keeper may be slow to do so, or gone.
    fn sweeping(&self, name: &Name, order: u64) -> String {
        let lock = self.lock_name(name);
        let values = [Value::Number(order), Value::Bytes(lock.as_bytes())];
        let sweep = "DELETE FROM @claims WHERE order_no = ? AND lock_name = ?";
        self.statement(sweep, &values)
    }

    /// Takes a claim that waited out of sight, and ends what the server may still be doing for it. Its connection is never
    /// another claim's: it was shut, and not given back.
    pub(super) async fn clear_up(&self, pinned: &Pinned) {
        let lock = Value::Bytes(pinned.wait_lock.as_bytes());
        let packet = "DELETE FROM @claims WHERE order_no = ?; SELECT IS_USED_LOCK(?)";
        let packet = self.statement(packet, &[Value::Number(pinned.waited()), lock]);
        let ended = fill(
            &format!("DO GET_LOCK(?, {ENDS_WITHIN_S}), RELEASE_LOCK(?)"),
            &[lock, lock],
        );
        let cleared = self.client.run("withdrawing", move |conn| {
            let (packet, ended) = (packet.clone(), ended.clone());
            Box::pin(async move {
                let told = asked(conn, packet, "withdrawing").await?;
                let (Some(connection),) = read(first_row(told.into_iter().nth(1))?)? else {
                    return Ok(());
                };
                end(conn, connection, "withdrawing").await?;
                // Until then it may still be granted what it waited for.
                asked(conn, ended, "withdrawing").await.map(drop)
            })
        });
        let _it_ends_by_itself_with_its_lease = cleared.await;
    }
}

/// Ends a connection, unless it has ended.
async fn end(conn: &mut Conn, connection: u32, during: &str) -> Result<(), Fault> {
    match answers(conn, format!("KILL {connection}")).await {
        Err(mysql_async::Error::Server(told)) if told.code == NO_SUCH_CONNECTION => Ok(()),
        told => told.map(drop).map_err(|error| sort(error, during)),
    }
}

/// The steps of ending one connection, as statements.
#[derive(Debug, Clone)]
struct Breaking {
    connection: u32,
    begin: String,
    find: String,
    note: String,
    sweep: String,
    end: String,
}

impl Breaking {
    async fn run(&self, conn: &mut Conn) -> Result<Released, Fault> {
        let turn = asked(conn, self.begin.clone(), DURING).await?;
        if read::<(Option<i64>,)>(first_row(turn.into_iter().next())?)? != (Some(1),) {
            return Err(Fault::Told(unreachable(
                "breaking a claim (somebody else ends its connection)",
            )));
        }
        let released = self.in_turn(conn).await?;
        asked(conn, self.end.clone(), DURING).await?;
        Ok(released)
    }

    async fn in_turn(&self, conn: &mut Conn) -> Result<Released, Fault> {
        if !self.is_there(conn).await? {
            return Ok(Released::Gone);
        }
        asked(conn, self.note.clone(), DURING).await?;
        end(conn, self.connection, DURING).await?;
        let ends = async {
            while self.is_there(conn).await? {
                sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        };
        let ended = timeout(BREAKS_WITHIN, ends).await;
        ended.unwrap_or_else(|_| {
            Err(Fault::Told(unreachable(
                "breaking a claim (its connection is still there)",
            )))
        })?;
        asked(conn, self.sweep.clone(), DURING).await?;
        Ok(Released::Freed)
    }

    /// Whether the claim is still where it was.
    async fn is_there(&self, conn: &mut Conn) -> Result<bool, Fault> {
        let told = asked(conn, self.find.clone(), DURING).await?;
        let row = told.into_iter().flat_map(|told| told.rows).next();
        let found = row.map(read::<(u32,)>).transpose()?;
        Ok(found.is_some_and(|(connection,)| connection == self.connection))
    }
}
