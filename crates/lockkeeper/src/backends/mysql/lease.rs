//! Lease mode: one short method per verb. The short way where the claim is alone or its number is known, the long one
//! where the rule has to decide.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use mysql_async::Conn;

use super::alone::Alone;
use super::client::{Client, Told, answers, asked, read};
use super::config::Config;
use super::decide::{self, Decided, Outcome, Question, Verb, id_of, mode_of, name_of};
use super::doorbell::{self, Doorbell};
use super::faults::Fault;
use super::places::{Place, Places};
use super::renewing::{Known, Renewed, found, looking, renewing};
use super::text::{Value, fill};
use crate::backend::{Backend, Bell, Entry, LockView, Query, Released, Standing, Wake, Wakes};
use crate::backends::sql::list::{List, Ring, Row};
use crate::backends::sql::show::{self, Shown};
use crate::claim::{Claim, ClaimId, Party};
use crate::error::Error;
use crate::guarantees::Guarantees;
use crate::{Mode, Name};

/// Lists in tables.
#[derive(Debug)]
pub(super) struct Lease {
    shared: Arc<Shared>,
    guarantees: Guarantees,
}

/// What the verbs and the doorbell share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) client: Arc<Client>,
    pub(super) config: Config,
    alone: Alone,
    /// Where this keeper can be told: the name of the session lock that its doorbell holds.
    pub(super) keeper: String,
    pub(super) places: Places,
    pub(super) bell: Bell,
    pub(super) doorbell: Doorbell,
}

impl Lease {
    pub(super) fn new(
        client: Arc<Client>,
        config: &Config,
        guarantees: Guarantees,
    ) -> Result<Self, Error> {
        let digits: String = ClaimId::random()?
            .as_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let shared = Shared {
            alone: Alone::new(client.clone(), config),
            client,
            config: config.clone(),
            keeper: format!("lockkeeper.bell.{digits}"),
            places: Places::default(),
            bell: Bell::default(),
            doorbell: Doorbell::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            guarantees,
        })
    }
}

impl Shared {
    /// The long way.
    async fn decide(self: &Arc<Self>, name: &Name, verb: Verb) -> Result<Decided, Error> {
        let during = verb.during();
        let listed = match &verb {
            Verb::Renew(claim) => {
                let place = self.places.get(claim.id, name);
                place.is_some_and(|(_, alone)| !alone)
            }
            _ => false,
        };
        let question = Arc::new(Question {
            config: self.config.clone(),
            name: name.clone(),
            verb,
            keeper: self.keeper.clone(),
            listed,
        });
        let this = self.clone();
        let decided = self.client.run(during, move |conn| {
            let (this, question) = (this.clone(), question.clone());
            Box::pin(async move {
                let decided = decide::decide(conn, &question).await?;
                this.ring(conn, &decided.rings).await;
                Ok(decided)
            })
        });
        Ok(decided.await?)
    }

    async fn stand(self: &Arc<Self>, claim: &Claim, verb: Verb) -> Result<Standing, Error> {
        let decided = self.decide(&claim.name, verb).await?;
        let Outcome::Stands(standing) = decided.outcome else {
            return Ok(Standing::Gone);
        };
        let Some((order, mode)) = decided.place.filter(|_| standing != Standing::Gone) else {
            self.places.forget(claim.id);
            return Ok(standing);
        };
        let waits = matches!(standing, Standing::Waits { .. });
        let place = Place {
            name: claim.name.clone(),
            order,
            mode,
            waits,
            alone: decided.alone,
        };
        let waited = self.places.put(claim.id, place.clone());
        if waits && !waited {
            self.doorbell.attend(self);
            doorbell::look_once(self, claim.id, place).await;
        }
        Ok(standing)
    }

    /// Tells those who hold now: other keepers by waking the connection that sleeps for them.
    async fn ring(&self, conn: &mut Conn, rings: &[Ring]) {
        let mut others: Vec<&str> = Vec::new();
        for ring in rings {
            if ring.keeper == self.keeper {
                self.tell(ring.id, ring.holds);
            } else if !others.contains(&ring.keeper.as_str()) {
                others.push(&ring.keeper);
            }
        }
        for keeper in others {
            let wake = fill(
                "KILL QUERY IS_USED_LOCK(?)",
                &[Value::Bytes(keeper.as_bytes())],
            );
            // Nobody sleeps there, or it is another user's: it looks by itself.
            let _it_is_a_courtesy = answers(conn, wake).await;
        }
    }

    /// A claim of this keeper's own is told, once.
    pub(super) fn tell(&self, id: ClaimId, holds: Option<u64>) {
        let waited = self.places.wait_is_over(id);
        match holds {
            Some(order) if waited => self.bell.ring(Wake::Holds { claim: id, order }),
            Some(_) => {}
            None => self.bell.ring(Wake::Look(id)),
        }
    }

    /// Gives back a claim of the list whose number is known; whoever holds then is told.
    async fn release_known(self: &Arc<Self>, claim: &Claim, order: u64) -> Result<Released, Error> {
        let name = Value::Bytes(claim.name.as_str().as_bytes());
        let delete = "DELETE FROM @claims WHERE name = ? AND order_no = ? AND id = ? AND ends_at > UTC_TIMESTAMP(6);\n";
        let values = [
            name,
            Value::Number(order),
            Value::Bytes(claim.id.as_bytes()),
            name,
        ];
        let packet = fill(
            &format!("{delete}{}", include_str!("sql/list.sql")),
            &values,
        );
        let packet = self.config.statement(&packet);
        let this = self.clone();
        let job = self.client.run("releasing", move |conn| {
            let (this, packet) = (this.clone(), packet.clone());
            Box::pin(async move {
                let told = asked(conn, packet, "releasing").await?;
                this.after_release(conn, told).await
            })
        });
        let (released, look) = job.await?;
        if look {
            self.decide(&claim.name, Verb::Purge).await?;
        }
        Ok(released)
    }

    /// Tells whoever holds by the list that is left; whether the list has to be written first.
    async fn after_release(
        &self,
        conn: &mut Conn,
        told: Vec<Told>,
    ) -> Result<(Released, bool), Fault> {
        let mut told = told.into_iter();
        let freed = told.next().is_some_and(|told| told.affected == 1);
        let released = if freed {
            Released::Freed
        } else {
            Released::Gone
        };
        let rows = told.next().map(|told| told.rows).unwrap_or_default();
        let rows = rows.into_iter().map(decide::row_of);
        let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
        let change = List::of(rows).purge();
        let must_write = !change.delete.is_empty() || !change.restart.is_empty();
        if !must_write {
            // What is gone is committed, so these hold by the rule; that they were told is noted when they renew.
            self.ring(conn, &change.rings).await;
        }
        Ok((released, must_write))
    }

    /// Renews all claims whose numbers are known, where they were last; gives those that were found alive.
    async fn renew_known(&self, claims: &[Known<'_>]) -> Result<Vec<Renewed>, Fault> {
        let (alone, listed): (Vec<_>, Vec<_>) = claims.iter().partition(|known| known.2.1);
        let updates = renewing(&alone, true);
        let mut packet = updates.clone();
        packet.extend(renewing(&listed, false));
        packet.extend(looking(&listed, false));
        let mut told = self.renewal(packet).await?.into_iter();
        let of_alone = told.by_ref().take(updates.len());
        let reached: u64 = of_alone.map(|told| told.affected).sum();
        let mut alive = found(told)?;
        // As many as there are: so each of them. Otherwise some have gone or been moved, or one stands in the batch twice.
        if reached == alone.len() as u64 {
            alive.extend(alone.iter().map(|known| Renewed::anew(known)));
        } else {
            alive.extend(found(
                self.renewal(looking(&alone, true).into_iter().collect())
                    .await?,
            )?);
        }
        Ok(alive)
    }

    async fn renewal(&self, statements: Vec<String>) -> Result<Vec<Told>, Fault> {
        let packet = self.config.statement(&statements.join(";\n"));
        self.client.ask("renewing leases", packet).await
    }
}

#[async_trait]
impl Backend for Lease {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        let shared = &self.shared;
        if shared.places.get(claim.id, &claim.name).is_none()
            && let Some(order) = shared.alone.enter(claim, &shared.keeper).await?
        {
            let place = Place {
                name: claim.name.clone(),
                order,
                mode: claim.mode,
                waits: false,
                alone: true,
            };
            shared.places.put(claim.id, place);
            return Ok(Standing::Holds {
                order,
                lease_left: claim.lease,
            });
        }
        // In a box, as all that is rarely done: the short way is not made to carry it.
        Box::pin(shared.stand(claim, Verb::Enter(claim.clone(), entry))).await
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        let shared = &self.shared;
        let mut standings = vec![None; claims.len()];
        let place_of = |claim: &Claim| shared.places.get(claim.id, &claim.name);
        let known = claims.iter().enumerate();
        let known: Vec<_> = known
            .filter_map(|(place, claim)| Some((place, claim, place_of(claim)?)))
            .collect();
        if !known.is_empty() {
            let alive = shared.renew_known(&known).await?;
            for (place, claim, (_, alone)) in known {
                let found = alive.iter().find(|renewed| renewed.id == claim.id);
                standings[place] = match found {
                    Some(renewed) if renewed.granted => {
                        shared.places.wait_is_over(claim.id);
                        Some(Standing::Holds {
                            order: renewed.order,
                            lease_left: renewed.left.min(claim.lease),
                        })
                    }
                    Some(_) => None,
                    // It may have been moved to the list.
                    None if alone => None,
                    None => {
                        shared.places.forget(claim.id);
                        Some(Standing::Gone)
                    }
                };
            }
        }
        let singly = claims
            .iter()
            .zip(&standings)
            .map(|(claim, standing)| async move {
                match standing {
                    Some(standing) => Ok(*standing),
                    None => shared.stand(claim, Verb::Renew(claim.clone())).await,
                }
            });
        join_all(singly).await.into_iter().collect()
    }

    async fn downgrade(&self, claim: &Claim) -> Result<Standing, Error> {
        if matches!(claim.mode, Mode::Permits { .. }) {
            return Err(Error::invalid(format!(
                "a claim of mode {} cannot be downgraded",
                claim.mode
            )));
        }
        self.shared
            .stand(claim, Verb::Downgrade(claim.clone()))
            .await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let shared = &self.shared;
        let released = match shared.places.get(claim.id, &claim.name) {
            Some((_, true)) if shared.alone.leave(claim).await? => Released::Freed,
            Some((order, _)) => Box::pin(shared.release_known(claim, order)).await?,
            None => {
                let decide = shared.decide(&claim.name, Verb::Release(claim.clone()));
                let decided = Box::pin(decide).await?;
                match decided.outcome {
                    Outcome::Released(released) => released,
                    Outcome::Stands(_) | Outcome::Nothing => Released::Gone,
                }
            }
        };
        shared.places.forget(claim.id);
        Ok(released)
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        let show = include_str!("sql/show.sql");
        let packet = match query {
            Query::One(name) => {
                let name = Value::Bytes(name.as_str().as_bytes());
                fill(&show.replace(['[', ']'], ""), &[name, name])
            }
            Query::All => fill(&show.replace("[AND name = ?]", ""), &[]),
        };
        let packet = self.shared.config.statement(&packet);
        let told = self.shared.client.ask("inspecting", packet).await?;
        let rows = told
            .into_iter()
            .next()
            .map(|told| told.rows)
            .unwrap_or_default();
        let shown: Vec<Shown> = rows.into_iter().map(shown).collect::<Result<_, Fault>>()?;
        show::views(shown)
    }

    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        let verb = Verb::Evict(order, why.to_owned());
        match self.shared.decide(name, verb).await?.outcome {
            Outcome::Released(released) => Ok(released),
            Outcome::Stands(_) | Outcome::Nothing => Ok(Released::Gone),
        }
    }

    fn wakes(&self) -> Wakes {
        self.shared.bell.wakes()
    }

    fn guarantees(&self) -> &Guarantees {
        &self.guarantees
    }

    fn place(&self) -> String {
        self.shared.config.place()
    }
}

/// A row of `show.sql`.
fn shown(row: mysql_async::Row) -> Result<Shown, Fault> {
    type Columns = (
        Vec<u8>,
        u64,
        Vec<u8>,
        Vec<u8>,
        i64,
        i64,
        i64,
        Vec<u8>,
        String,
        String,
        u32,
        i64,
    );
    let (name, order, id, mode, left_us, lease_us, granted, keeper, label, host, pid, since_us): Columns = read(row)?;
    Ok(Shown {
        name: name_of(name)?,
        row: Row {
            order,
            id: id_of(id)?,
            mode: mode_of(mode)?,
            left_us: left_us.min(lease_us),
            lease_us,
            granted: granted != 0,
            keeper: String::from_utf8_lossy(&keeper).into_owned(),
        },
        party: Party { label, host, pid },
        since_us,
    })
}
