//! The task of one claim of session mode, with its connection: takes the lock or waits for it in the server, shows signs of life,
//! notices the end of the connection, and gives the lock back.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::client::{Told, asked, read, shut};
use super::decide::lease_us;
use super::faults::{Fault, silent, sort, unreachable};
use super::pinned::{Order, Pinned, Stands};
use super::session::Shared;
use super::taking::{GRANTED, WAITED, taken};
use super::text::{Value, fill};
use crate::backend::{Entry, Released, Wake};
use crate::backends::sql::shortened;
use crate::error::Error;

pub(super) const DURING: &str = "asking for a lock";
/// A sign of life this often: within twice that a holder knows that its connection has ended.
const PULSE: Duration = Duration::from_millis(400);
/// How long an answer of the server is waited for.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long a claim waits in the server before it asks whether anybody still wants it to.
const LONGEST_TURN: Duration = Duration::from_secs(10);

/// What it works with.
pub(super) struct Task {
    pub(super) shared: Arc<Shared>,
    pub(super) pinned: Arc<Pinned>,
    told: watch::Sender<Stands>,
    inbox: mpsc::Receiver<Order>,
    /// The number with which it came to hold, or 0.
    held: u64,
}

/// How the task ended with its connection.
enum End {
    /// Nothing is locked on it any more.
    Clean(Conn),
    /// Whatever is on it ends with it.
    Dirty(Conn),
    Lost,
}

impl Task {
    pub(super) fn new(
        shared: Arc<Shared>,
        pinned: Arc<Pinned>,
        told: watch::Sender<Stands>,
        inbox: mpsc::Receiver<Order>,
    ) -> Self {
        Self {
            shared,
            pinned,
            told,
            inbox,
            held: 0,
        }
    }

    pub(super) async fn run(mut self, entry: Entry) {
        let end = self.live(entry).await;
        self.shared.over(&self.pinned);
        let (end, outcome) = match end {
            Ok(end) => (end, Ok(())),
            Err(fault) => (End::Lost, Err(Error::from(fault))),
        };
        match end {
            End::Clean(conn) => self.shared.give_back(conn, self.pinned.ends().1),
            End::Dirty(conn) => shut(conn).await,
            End::Lost => {}
        }
        let before = self.told.send_replace(Stands::Over(outcome));
        if matches!(before, Stands::Waits | Stands::Holds(_)) {
            self.shared.bell.ring(Wake::Look(self.pinned.claim.id));
        }
        if self.held > 0 {
            self.shared.spent(self.held).await;
        }
    }

    async fn live(&mut self, entry: Entry) -> Result<End, Fault> {
        let lease = self.pinned.claim.lease;
        let (mut conn, is_new) = self.shared.take_connection(lease).await?;
        let taken = match self.take_or_check(&mut conn).await {
            // It had rested too long, or is about to be ended for what it was; nothing is known to be locked on it.
            Err(_) if !is_new => {
                shut(conn).await;
                conn = self.shared.new_connection(lease).await?;
                self.take_or_check(&mut conn).await
            }
            taken => taken,
        };
        let taken = match taken {
            Ok(taken) => taken,
            Err(fault) => {
                shut(conn).await;
                return Err(fault);
            }
        };
        if let Some(order) = taken {
            self.held = order;
            self.told.send_replace(Stands::Holds(order));
            return Ok(self.hold(conn).await);
        }
        match entry {
            Entry::Try => Ok(End::Clean(conn)),
            Entry::Queue => self.wait(conn).await,
        }
    }

    /// Stands in the server's line, in turns, until it holds or nobody wants it to.
    async fn wait(&mut self, mut conn: Conn) -> Result<End, Fault> {
        if let Err(fault) = self.line_up(&mut conn).await {
            shut(conn).await;
            return Err(fault);
        }
        self.told.send_replace(Stands::Waits);
        let lock = self.shared.lock_name(&self.pinned.claim.name);
        let order = loop {
            let turn = self.turn();
            let values = [
                Value::Variable(GRANTED),
                Value::Bytes(lock.as_bytes()),
                Value::Number(turn.as_secs()),
            ];
            // The number is drawn by the same packet: nobody is asked anything between the lock and its number.
            let packet = fill("SET ? = GET_LOCK(?, ?); EXECUTE lockkeeper_take", &values);
            let blocked = async {
                let told = timeout(turn + PATIENCE, asked(&mut conn, packet, DURING)).await;
                let told = told.map_err(|_| Fault::Told(silent(DURING, turn + PATIENCE)))?;
                taken(told.and_then(last))
            };
            let left = next_order(&mut self.inbox, &self.shared, &self.pinned);
            tokio::select! {
                granted = blocked => match granted {
                    Ok(Some(order)) => break order,
                    Ok(None) => {}
                    Err(_) => return Ok(self.lost(conn).await),
                },
                order = left => return Ok(self.stop_waiting(conn, order).await),
            }
        };
        self.held = order;
        self.told.send_replace(Stands::Holds(order));
        let claim = self.pinned.claim.id;
        self.shared.bell.ring(Wake::Holds { claim, order });
        // Whoever waited for it goes on first.
        tokio::task::yield_now().await;
        if self.leave_the_line(&mut conn).await.is_err() {
            return Ok(self.lost(conn).await);
        }
        Ok(self.hold(conn).await)
    }

    /// As long as the lease allows, in whole seconds.
    fn turn(&self) -> Duration {
        let half = self.pinned.ends().1 / 2;
        Duration::from_secs(half.min(LONGEST_TURN).as_secs().max(1))
    }

    /// Shows to others that it waits, under a number.
    async fn line_up(&self, conn: &mut Conn) -> Result<(), Fault> {
        let claim = &self.pinned.claim;
        let lock = self.shared.lock_name(&claim.name);
        let (label, host) = (shortened(&claim.party.label), shortened(&claim.party.host));
        let own = Value::Bytes(self.pinned.wait_lock.as_bytes());
        let values = [
            own,
            Value::Bytes(lock.as_bytes()),
            own,
            Value::Number(conn.id().into()),
            Value::Number(lease_us(claim)),
            Value::Text(label),
            Value::Text(host),
            Value::Number(claim.party.pid.into()),
        ];
        let packet = self
            .shared
            .statement(include_str!("sql/line_up.sql"), &values);
        // Read by the server while there is time: when the lock comes, it has but to be carried out.
        let take = self.taking_waited(conn.id()).replace('\'', "''");
        let packet = format!(
            "{packet}; SET @{WAITED} = LAST_INSERT_ID(); PREPARE lockkeeper_take FROM '{take}'"
        );
        let told = bounded(asked(conn, packet, DURING)).await?;
        let number = told.get(1).map_or(0, |told| told.insert_id);
        self.pinned.waits_as(number);
        Ok(())
    }

    /// It is shown to hold by now. Its lock of the line goes with the lock itself: whoever is looking meanwhile sees the
    /// tables as they were, and must not see that lock gone.
    async fn leave_the_line(&self, conn: &mut Conn) -> Result<(), Fault> {
        let own = Value::Number(self.pinned.waited());
        let packet = "DELETE FROM @claims WHERE order_no = ?";
        let packet = self.shared.statement(packet, &[own]);
        bounded(asked(conn, packet, DURING)).await.map(drop)
    }

    /// The connection is no longer what it was.
    async fn lost(&self, conn: Conn) -> End {
        shut(conn).await;
        self.shared.clear_up(&self.pinned).await;
        End::Lost
    }

    /// Nobody wants it to wait any more. What the server is still doing for it is ended, and the connection with it.
    async fn stop_waiting(
        &self,
        conn: Conn,
        order: Option<oneshot::Sender<Result<Released, Error>>>,
    ) -> End {
        let end = self.lost(conn).await;
        self.shared.over(&self.pinned);
        if let Some(tell) = order {
            let _nobody_listens = tell.send(Ok(Released::Freed));
        }
        end
    }

    /// Holds until it is given back, its lease ends, or the connection does.
    async fn hold(&mut self, mut conn: Conn) -> End {
        let mut set = self.pinned.claim.lease;
        loop {
            let (ends, lease) = *self.pinned.ends();
            let now = self.shared.clock.now();
            let pulse = PULSE.min(lease / 3).min(ends - now);
            let order = match timeout(pulse, self.inbox.recv()).await {
                Ok(Some(order)) => Some(order),
                Ok(None) => return self.let_go(conn, None).await,
                Err(_) if self.shared.clock.now() >= self.pinned.ends().0 => {
                    return self.let_go(conn, None).await;
                }
                Err(_) => None,
            };
            let tell = match order {
                Some(Order::Leave(tell)) => return self.let_go(conn, Some(tell)).await,
                Some(Order::Prove(tell)) => Some(tell),
                None => None,
            };
            let lease = self.pinned.ends().1;
            let lives = bounded(sign_of_life(&mut conn, &mut set, lease))
                .await
                .is_ok();
            if lives {
                tell.map(|tell| tell.send(true));
                continue;
            }
            shut(conn).await;
            self.shared.over(&self.pinned);
            tell.map(|tell| tell.send(false));
            return End::Lost;
        }
    }

    async fn let_go(
        &self,
        mut conn: Conn,
        tell: Option<oneshot::Sender<Result<Released, Error>>>,
    ) -> End {
        let freed = bounded(released(&mut conn)).await;
        let expired = self.shared.clock.now() >= self.pinned.ends().0;
        self.shared.over(&self.pinned);
        let (end, released) = match freed {
            Ok((0,)) => (End::Dirty(conn), Ok(Released::Gone)),
            Ok(_) if expired => (End::Clean(conn), Ok(Released::Gone)),
            Ok(_) => (End::Clean(conn), Ok(Released::Freed)),
            Err(fault) => (End::Dirty(conn), gone_or_unknown(fault)),
        };
        if let Some(tell) = tell {
            let _nobody_listens = tell.send(released);
        }
        end
    }
}

/// Frees all that is locked on this connection; says how many locks there were.
async fn released(conn: &mut Conn) -> Result<(i64,), Fault> {
    let row = conn.exec_first("SELECT RELEASE_ALL_LOCKS()", ()).await;
    let row: Option<mysql_async::Row> = row.map_err(|error| sort(error, "releasing"))?;
    match row {
        Some(row) => read(row),
        None => Err(Fault::Told(unreachable("releasing"))),
    }
}

/// What the last statement of a packet told.
fn last(mut told: Vec<Told>) -> Result<Told, Fault> {
    let told = told.pop();
    told.ok_or_else(|| Fault::Told(unreachable("reading an answer that is empty")))
}

/// A connection that has ended had lost the lock before; one that does not answer may have it still.
fn gone_or_unknown(fault: Fault) -> Result<Released, Error> {
    match Error::from(fault) {
        Error::Unreachable {
            source: Some(_), ..
        } => Ok(Released::Gone),
        error => Err(error),
    }
}

/// The next wish to leave; `None` when the lease has ended.
async fn next_order(
    inbox: &mut mpsc::Receiver<Order>,
    shared: &Shared,
    pinned: &Pinned,
) -> Option<oneshot::Sender<Result<Released, Error>>> {
    loop {
        let ends = pinned.ends().0;
        tokio::select! {
            order = inbox.recv() => match order {
                Some(Order::Leave(tell)) => return Some(tell),
                Some(Order::Prove(tell)) => {
                    let _it_does_not_hold = tell.send(true);
                }
                None => return None,
            },
            () = shared.clock.sleep_until(ends) => {
                if shared.clock.now() >= pinned.ends().0 {
                    return None;
                }
            }
        }
    }
}

/// Asks the server for an answer. By the session's time-out it notices that we are gone, so that is as long as the lease.
async fn sign_of_life(conn: &mut Conn, set: &mut Duration, lease: Duration) -> Result<(), Fault> {
    if *set == lease {
        return conn
            .ping()
            .await
            .map_err(|error| sort(error, "showing a sign of life"));
    }
    asked(conn, wait_timeout(lease), "renewing leases").await?;
    *set = lease;
    Ok(())
}

/// The server ends the session, and with it the lock, after so long without a word.
pub(super) fn wait_timeout(lease: Duration) -> String {
    let seconds = lease.as_secs() + u64::from(lease.subsec_nanos() > 0);
    format!("SET SESSION wait_timeout = {}", seconds.max(1))
}

pub(super) async fn bounded<T>(call: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let told = timeout(PATIENCE, call).await;
    told.unwrap_or_else(|_| Err(Fault::Told(silent(DURING, PATIENCE))))
}
