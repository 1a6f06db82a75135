//! How a keeper that waits is woken by a server that does not push: one of its connections sleeps in the server, and whoever
//! promotes a claim ends that sleep. Having slept, it looks which of the keeper's claims hold.
//!
//! Looking and falling asleep are one statement. So no ring is lost between them: whoever commits before the look is seen
//! by it, and whoever commits after it finds the statement running.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mysql_async::Conn;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::client::{answers, asked, read, shut};
use super::faults::{Fault, silent, sort};
use super::lease::Shared;
use super::places::Place;
use super::text::{Value, fill};
use crate::Mode;
use crate::backend::Wake;
use crate::claim::ClaimId;

const DURING: &str = "waiting";
/// How long it sleeps when nobody wakes it: what a ring that another user may not ring costs at most.
const NAP: Duration = Duration::from_secs(2);
/// Without an answer for so much longer, the connection is given up.
const GRACE: Duration = Duration::from_secs(3);
/// A connection that nobody waits on is kept for so long.
const IDLE: Duration = Duration::from_secs(5);
/// Before the next connection after one that failed.
const PAUSE: Duration = Duration::from_millis(500);
/// The most claims that are looked at in one go; the others are found out by their renewals.
const MOST: usize = 200;
/// What the server says of a statement that was ended.
const INTERRUPTED: u16 = 1317;

/// The state of the sleeper.
#[derive(Debug, Default)]
pub(super) struct Doorbell {
    runs: AtomicBool,
    /// Somebody waits.
    called: Arc<Notify>,
}

impl Doorbell {
    /// Sees to it that somebody sleeps for those who wait.
    pub(super) fn attend(&self, shared: &Arc<Shared>) {
        if !self.runs.swap(true, Ordering::SeqCst) {
            tokio::spawn(run(Arc::downgrade(shared), self.called.clone()));
        }
        self.called.notify_one();
    }
}

/// Sleeps and looks for as long as the keeper lives.
async fn run(shared: Weak<Shared>, called: Arc<Notify>) {
    let mut sleeper: Option<Conn> = None;
    while let Some(strong) = shared.upgrade() {
        let waiting = strong.places.waiting(MOST);
        if waiting.is_empty() {
            drop(strong);
            let nobody = timeout(IDLE, called.notified()).await.is_err();
            if let Some(conn) = sleeper.take_if(|_| nobody) {
                shut(conn).await;
            }
            continue;
        }
        let conn = match sleeper.take() {
            Some(conn) => Ok(conn),
            None => open(&strong).await,
        };
        let statement = nap_statement(&strong, &waiting);
        drop(strong);
        let napped = match conn {
            Ok(conn) => nap(conn, statement).await,
            Err(fault) => Err(fault),
        };
        let Some(strong) = shared.upgrade() else {
            if let Ok((conn, _)) = napped {
                shut(conn).await;
            }
            return;
        };
        let looked = match napped {
            Ok((conn, rung)) => look(&strong, conn, rung).await,
            Err(fault) => Err(fault),
        };
        match looked {
            Ok(conn) => sleeper = Some(conn),
            Err(_) => {
                // What rang meanwhile was not heard.
                strong.bell.ring(Wake::LookAll);
                drop(strong);
                sleep(PAUSE).await;
            }
        }
    }
    if let Some(conn) = sleeper {
        shut(conn).await;
    }
}

/// A connection that others find by the keeper's name.
async fn open(shared: &Shared) -> Result<Conn, Fault> {
    let mut conn = shared.client.open(DURING).await?;
    let name = Value::Bytes(shared.keeper.as_bytes());
    // The one before it may not have ended yet.
    let packet = fill("SELECT GET_LOCK(?, 2)", &[name]);
    match timeout(GRACE, asked(&mut conn, packet, DURING)).await {
        Ok(Ok(_)) => Ok(conn),
        Ok(Err(fault)) => {
            shut(conn).await;
            Err(fault)
        }
        Err(_) => {
            shut(conn).await;
            Err(Fault::Told(silent(DURING, GRACE)))
        }
    }
}

/// Sleeps in the server until somebody rings, unless there is news already; says whether it was rung.
async fn nap(mut conn: Conn, statement: String) -> Result<(Conn, bool), Fault> {
    let patience = NAP + GRACE;
    let fault = match timeout(patience, answers(&mut conn, statement)).await {
        // A sleep that was ended is an error here and a 1 there.
        Ok(Ok(told)) => {
            let row = told.into_iter().flat_map(|told| told.rows).next();
            let slept = row.map(read::<(i64,)>).transpose()?;
            return Ok((conn, slept == Some((1,))));
        }
        Ok(Err(mysql_async::Error::Server(told))) if told.code == INTERRUPTED => {
            return Ok((conn, true));
        }
        Ok(Err(error)) => sort(error, DURING),
        Err(_) => Fault::Told(silent(DURING, patience)),
    };
    shut(conn).await;
    Err(fault)
}

fn nap_statement(shared: &Shared, waiting: &[(ClaimId, Place)]) -> String {
    let seconds = NAP.as_secs();
    let glances = glances(shared, waiting);
    format!(
        "SELECT IF(EXISTS (SELECT 1 FROM ({glances}) AS looked WHERE alive = 0 OR blocked = 0), 0, SLEEP({seconds}))"
    )
}

/// Looks at all who wait, and tells those who hold, or are in the list no more.
async fn look(shared: &Shared, mut conn: Conn, rung: bool) -> Result<Conn, Fault> {
    let waiting = shared.places.waiting(MOST);
    if waiting.is_empty() {
        return Ok(conn);
    }
    let packet = glances(shared, &waiting);
    let told = match timeout(GRACE, asked(&mut conn, packet, DURING)).await {
        Ok(Ok(told)) => told,
        Ok(Err(fault)) => {
            shut(conn).await;
            return Err(fault);
        }
        Err(_) => {
            shut(conn).await;
            return Err(Fault::Told(silent(DURING, GRACE)));
        }
    };
    for row in told.into_iter().flat_map(|told| told.rows) {
        let seen: (usize, i64, i64) = read(row)?;
        tell(shared, &waiting, seen, rung);
    }
    Ok(conn)
}

fn tell(shared: &Shared, waiting: &[(ClaimId, Place)], seen: (usize, i64, i64), rung: bool) {
    let (place, alive, blocked) = seen;
    let Some((id, place)) = waiting.get(place) else {
        return;
    };
    let is_permit = matches!(place.mode, Mode::Permits { .. });
    match (alive != 0, blocked != 0) {
        (false, _) => shared.tell(*id, None),
        (true, false) => shared.tell(*id, Some(place.order)),
        // How many fit is for the rule to say.
        (true, true) if is_permit && rung => shared.tell(*id, None),
        (true, true) => {}
    }
}

/// Of each claim, whether it is in the list, and whether somebody ahead keeps it from holding. Also one whose lease has ended
/// does so, as long as its row is there: it may be renewed at this very moment.
pub(super) fn glances(shared: &Shared, waiting: &[(ClaimId, Place)]) -> String {
    let glance = |(number, (id, place)): (usize, &(ClaimId, Place))| {
        let blocks = match place.mode {
            Mode::Exclusive => "EXISTS (SELECT 1 FROM @claims WHERE name = ? AND order_no < ?)",
            Mode::Shared => {
                "EXISTS (SELECT 1 FROM @claims WHERE name = ? AND order_no < ? AND mode <> x'73')"
            }
            _ => "? IS NOT NULL AND ? IS NOT NULL",
        };
        let (name, order) = (place.name.as_str().as_bytes(), Value::Number(place.order));
        let statement = format!(
            "SELECT {number} AS place, EXISTS (SELECT 1 FROM @claims WHERE name = ? AND order_no = ? AND id = ? \
             AND ends_at > UTC_TIMESTAMP(6)) AS alive, {blocks} AS blocked"
        );
        let (name, id) = (Value::Bytes(name), Value::Bytes(id.as_bytes()));
        fill(&statement, &[name, order, id, name, order])
    };
    let all: Vec<String> = waiting.iter().enumerate().map(glance).collect();
    shared.config.statement(&all.join(" UNION ALL "))
}

/// One claim that has just begun to wait is looked at once more: it may have been promoted before anybody slept for it.
pub(super) async fn look_once(shared: &Arc<Shared>, id: ClaimId, place: Place) {
    let waiting = [(id, place)];
    let Ok(told) = shared.client.ask(DURING, glances(shared, &waiting)).await else {
        return;
    };
    for row in told.into_iter().flat_map(|told| told.rows) {
        if let Ok(seen) = read(row) {
            tell(shared, &waiting, seen, false);
        }
    }
}
