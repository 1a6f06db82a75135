//! The long way of a verb, on one connection: lock the name's row, read its list, let the rule decide, write what it says.

use mysql_async::{Conn, Row as SqlRow};

use super::client::{asked, read};
use super::config::Config;
use super::faults::{Fault, unreachable};
use super::text::{Value, fill};
use crate::backend::{Entry, Released, Standing};
use crate::backends::sql::list::{Change, Entered, Insert, List, Ring, Row, micros};
use crate::backends::sql::shortened;
use crate::claim::{Claim, ClaimId};
use crate::error::Error;
use crate::{Mode, Name};

const BUMP: &str = "BEGIN; INSERT INTO @names (name, last_no, state) VALUES (?, LAST_INSERT_ID(1), 'list') \
    ON DUPLICATE KEY UPDATE last_no = LAST_INSERT_ID(last_no + 1);\n";
const LOCK: &str = "BEGIN; SELECT last_no FROM @names WHERE name = ? FOR UPDATE;\n";
const TO_LIST: &str = include_str!("sql/to_list.sql");
const LIST: &str = include_str!("sql/list.sql");
const NOTE: &str = "INSERT INTO @broken (broken_at, name, order_no, label, host, pid, why) \
    SELECT UTC_TIMESTAMP(6), name, order_no, label, host, pid, ? FROM @claims WHERE name = ? AND order_no = ?";

/// What is to be done with a name's list.
#[derive(Debug, Clone)]
pub(super) enum Verb {
    Enter(Claim, Entry),
    Renew(Claim),
    Downgrade(Claim),
    Release(Claim),
    Evict(u64, String),
    /// Only those whose lease has ended leave.
    Purge,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(super) struct Decided {
    pub(super) outcome: Outcome,
    /// Number and mode of the claim that was asked about, if it is in the list.
    pub(super) place: Option<(u64, Mode)>,
    /// Whether it is alone, in the name's row.
    pub(super) alone: bool,
    /// Who has to be told, now that it is written.
    pub(super) rings: Vec<Ring>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome {
    Stands(Standing),
    Released(Released),
    Nothing,
}

/// What the decision rests on.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) config: Config,
    pub(super) name: Name,
    pub(super) verb: Verb,
    /// Where this keeper can be told.
    pub(super) keeper: String,
    /// It is about a claim that stands in the list, so nobody stands in the name's row.
    pub(super) listed: bool,
}

impl Verb {
    pub(super) fn during(&self) -> &'static str {
        match self {
            Self::Enter(..) => "asking for a lock",
            Self::Renew(_) => "renewing leases",
            Self::Downgrade(_) => "downgrading",
            Self::Release(_) => "releasing",
            Self::Evict(..) => "breaking a claim",
            Self::Purge => "promoting the next",
        }
    }

    fn claim(&self) -> Option<&Claim> {
        match self {
            Self::Enter(claim, _)
            | Self::Renew(claim)
            | Self::Downgrade(claim)
            | Self::Release(claim) => Some(claim),
            Self::Evict(..) | Self::Purge => None,
        }
    }
}

/// Answers the question; nobody else changes the name's list meanwhile.
pub(super) async fn decide(conn: &mut Conn, question: &Question) -> Result<Decided, Fault> {
    let during = question.verb.during();
    let Locked { rows, next, moved } = locked_list(conn, question).await?;
    let own = question.verb.claim().map(|claim| claim.id);
    let known = rows.iter().find(|row| Some(row.id) == own);
    let known = known.map(|row| (row.order, row.mode));
    let read = rows.len();
    let (change, outcome, inserts) = decided(rows, question, next)?;
    let (end, alone) = if change.is_empty() {
        // Not even the number is used up; and who was alone still is.
        ("ROLLBACK".into(), moved)
    } else {
        // All who were in the list had died.
        let alone = change.insert == Some(Insert::Holding) && change.delete.len() == read;
        (written(&change, question, next, alone), alone)
    };
    asked(conn, end, during).await?;
    let place = match &question.verb {
        Verb::Enter(claim, _) if inserts => Some((next, claim.mode)),
        Verb::Downgrade(_) => known.map(|(order, _)| (order, Mode::Shared)),
        _ => known,
    };
    Ok(Decided {
        outcome,
        place,
        alone,
        rings: change.rings,
    })
}

/// The list of a name whose row is locked.
struct Locked {
    rows: Vec<Row>,
    /// The number that is next, if one was asked for.
    next: u64,
    /// The only claim in it stood in the name's row until now.
    moved: bool,
}

async fn locked_list(conn: &mut Conn, question: &Question) -> Result<Locked, Fault> {
    let lock = match question.verb {
        Verb::Enter(..) => BUMP,
        _ => LOCK,
    };
    let name = Value::Bytes(question.name.as_str().as_bytes());
    // The rows too: a renewal, which does not touch the name's row, must not slip in between reading and writing.
    let packet = if question.listed {
        fill(&format!("{lock}{LIST} FOR UPDATE"), &[name, name])
    } else {
        let packet = format!("{lock}{TO_LIST}{LIST} FOR UPDATE");
        fill(&packet, &[name, name, name, name])
    };
    let packet = question.config.statement(&packet);
    let told = asked(conn, packet, question.verb.during()).await?;
    let mut told = told.into_iter().skip(1);
    let next = told.next().map_or(0, |told| told.insert_id);
    let moved = !question.listed && told.next().is_some_and(|told| told.affected == 1);
    let rows = told.last().map(|told| told.rows).unwrap_or_default();
    let rows = rows.into_iter().map(row_of).collect::<Result<_, _>>()?;
    Ok(Locked { rows, next, moved })
}

fn decided(
    rows: Vec<Row>,
    question: &Question,
    next: u64,
) -> Result<(Change, Outcome, bool), Fault> {
    let list = List::of(rows);
    let stands = |(change, standing)| (change, Outcome::Stands(standing), false);
    let released = |(change, released)| (change, Outcome::Released(released), false);
    Ok(match &question.verb {
        Verb::Enter(claim, entry) => {
            let (change, entered) = list.enter(claim, *entry);
            let inserts = !matches!(entered, Entered::Known(_));
            (
                change,
                Outcome::Stands(entered.standing(next, claim.lease)),
                inserts,
            )
        }
        Verb::Renew(claim) => stands(list.renew(claim)),
        Verb::Downgrade(claim) => stands(list.downgrade(claim)?),
        Verb::Release(claim) => released(list.release(claim.id)),
        Verb::Evict(order, _) => released(list.evict(*order)),
        Verb::Purge => (list.purge(), Outcome::Nothing, false),
    })
}

/// The change as statements, and the end of the transaction.
fn written(change: &Change, question: &Question, next: u64, alone: bool) -> String {
    let name = Value::Bytes(question.name.as_str().as_bytes());
    let mut packet = String::new();
    let mut add = |statement: &str, values: &[Value<'_>]| {
        packet.push_str(&fill(statement, values));
        packet.push(';');
    };
    if let (Verb::Evict(order, why), Some(true)) = (&question.verb, evicts(change, question)) {
        let why = shortened(why);
        add(NOTE, &[Value::Text(why), name, Value::Number(*order)]);
    }
    for (orders, statement) in [
        (&change.delete, "DELETE FROM @claims"),
        (
            &change.restart,
            "UPDATE @claims SET ends_at = UTC_TIMESTAMP(6) + INTERVAL lease_us MICROSECOND",
        ),
        (
            &change.grant,
            "UPDATE @claims SET granted_at = UTC_TIMESTAMP(6)",
        ),
    ] {
        if let Some(list) = numbers(orders) {
            add(
                &format!("{statement} WHERE name = ? AND order_no IN ({list})"),
                &[name],
            );
        }
    }
    if let Some(order) = change.share {
        let share = "UPDATE @claims SET mode = 's' WHERE name = ? AND order_no = ?";
        add(share, &[name, Value::Number(order)]);
    }
    if let (Some(order), Some(claim)) = (change.renew, question.verb.claim()) {
        let lease = Value::Number(lease_us(claim));
        let renew = "UPDATE @claims SET lease_us = ?, ends_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
            WHERE name = ? AND order_no = ?";
        add(renew, &[lease, lease, name, Value::Number(order)]);
    }
    if let (Some(insert), Some(claim)) = (change.insert, question.verb.claim()) {
        packet.push_str(&entering(claim, question, insert, next, alone));
        packet.push(';');
    }
    packet.push_str("COMMIT");
    question.config.statement(&packet)
}

/// The claim enters, under this number.
fn entering(claim: &Claim, question: &Question, insert: Insert, next: u64, alone: bool) -> String {
    let (mode, lease) = (claim.mode.to_string(), Value::Number(lease_us(claim)));
    let (label, host) = (shortened(&claim.party.label), shortened(&claim.party.host));
    let mut values = vec![
        Value::Number(next),
        Value::Bytes(claim.id.as_bytes()),
        Value::Bytes(mode.as_bytes()),
        lease,
        lease,
        Value::Bytes(question.keeper.as_bytes()),
        Value::Text(label),
        Value::Text(host),
        Value::Number(claim.party.pid.into()),
        Value::Bytes(claim.name.as_str().as_bytes()),
    ];
    if alone {
        return fill(include_str!("sql/be_alone.sql"), &values);
    }
    values.push(Value::Number(u64::from(insert == Insert::Holding)));
    fill(include_str!("sql/insert.sql"), &values)
}

fn evicts(change: &Change, question: &Question) -> Option<bool> {
    match &question.verb {
        Verb::Evict(order, _) => {
            Some(change.delete.last() == Some(order) && !change.rings.is_empty())
        }
        _ => None,
    }
}

fn numbers(orders: &[u64]) -> Option<String> {
    let list: Vec<String> = orders.iter().map(ToString::to_string).collect();
    (!list.is_empty()).then(|| list.join(","))
}

pub(super) fn lease_us(claim: &Claim) -> u64 {
    u64::try_from(micros(claim.lease)).unwrap_or_default()
}

/// A row of `list.sql`.
pub(super) fn row_of(row: SqlRow) -> Result<Row, Fault> {
    type Columns = (u64, Vec<u8>, Vec<u8>, i64, i64, i64, Vec<u8>);
    let (order, id, mode, left_us, lease_us, granted, keeper): Columns = read(row)?;
    Ok(Row {
        order,
        id: id_of(id)?,
        mode: mode_of(mode)?,
        left_us,
        lease_us,
        granted: granted != 0,
        keeper: String::from_utf8_lossy(&keeper).into_owned(),
    })
}

pub(super) fn id_of(bytes: Vec<u8>) -> Result<ClaimId, Fault> {
    let bytes = bytes.try_into().map_err(|_| foreign())?;
    Ok(ClaimId::from_bytes(bytes))
}

pub(super) fn mode_of(bytes: Vec<u8>) -> Result<Mode, Fault> {
    let text = String::from_utf8(bytes).map_err(|_| foreign())?;
    text.parse().map_err(|_| foreign())
}

pub(super) fn name_of(bytes: Vec<u8>) -> Result<Name, Fault> {
    let text = String::from_utf8(bytes).map_err(|_| foreign())?;
    Name::new(text).map_err(|_| foreign())
}

fn foreign() -> Fault {
    Fault::Told(Error::from(Fault::Told(unreachable(
        "reading a row that lockkeeper did not write",
    ))))
}
