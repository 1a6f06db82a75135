//! Fencing tokens from another engine. A lock on a best-effort engine may be granted twice after a fault, and its numbers
//! may fall; a number that a second engine gives out after each grant rises as that engine promises, and the fence
//! then refuses whoever was granted first.
//!
//! The number is the order of a shared claim in the second engine. It is asked for after the grant, and a caller whose
//! number does not arrive while the grant is good gets none: so whoever is granted after another's grant has ended
//! has the higher number; and where a fault makes two holders at once, one of them is higher, and the fence lets
//! that one pass alone. The claim lives as long as the hold and says which one it numbers, so that looking at locks
//! tells tokens.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::backend::{ClaimView, LockView, Query};
use crate::error::Error;
use crate::guarantees::Class;
use crate::guard::Guard;
use crate::keeper::Keeper;
use crate::lifecycle::deadline::Moment;
use crate::{Name, Token};

/// Before the name of the lock whose grants are numbered.
const PREFIX: &str = "lockkeeper/token/";
/// Before the order number that the first engine gave.
const LABEL: &str = "numbers ";
const LONGEST_NAME: usize = 256;

/// The engine that numbers the grants of another one.
#[derive(Debug, Clone)]
pub(crate) struct Numbering {
    source: Keeper,
}

impl Numbering {
    /// Refused where the numbers would be no better.
    pub(crate) fn by(source: Keeper) -> Result<Self, Error> {
        let promise = source.guarantees();
        let why = if promise.class == Class::BestEffort {
            format!("its class is best effort, too: {}", promise.class_reason)
        } else if !promise.modes.shared {
            "it has no shared claims, which are what numbers are made of".into()
        } else {
            return Ok(Self { source });
        };
        Err(Error::Refused {
            backend: promise.backend,
            why: format!("it cannot give tokens to locks of another engine: {why}"),
        })
    }

    /// What the numbers are good for.
    pub(crate) fn promise(&self) -> String {
        let promise = self.source.guarantees();
        format!("from {}: {}", promise.backend, promise.token)
    }

    pub(crate) fn source(&self) -> &Keeper {
        &self.source
    }

    /// A number for the grant with this order; it stands in the second engine for as long as the guard lives.
    ///
    /// Boxed: a lock is acquired in order to acquire a lock.
    pub(crate) fn number(
        &self,
        name: &Name,
        order: u64,
        lease: Duration,
        until: Moment,
    ) -> Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send>> {
        let promise = self.source.guarantees();
        let lease = lease.clamp(promise.shortest_lease, promise.longest_lease);
        let lock = self.source.rw_lock(name_there(name)).read();
        let lock = lock.lease(lease).labelled(format!("{LABEL}{order}"));
        let backend = promise.backend;
        Box::pin(async move {
            lock.acquire_until(until)
                .await
                .map_err(|error| match error {
                    Error::Timeout { .. } => Error::Unreachable {
                        backend,
                        during: "numbering a grant, which took longer than the grant is good for"
                            .into(),
                        source: None,
                    },
                    error => error,
                })
        })
    }

    /// The views with tokens instead of the first engine's orders. Who has no number yet does not hold yet: their
    /// caller has not been told.
    pub(crate) async fn translate(
        &self,
        query: &Query,
        mut views: Vec<LockView>,
    ) -> Result<Vec<LockView>, Error> {
        let query = match query {
            Query::One(name) => Query::One(Name::new(name_there(name))?),
            Query::All => Query::All,
        };
        let numbered = self.source.inspect(&query).await?;
        for view in &mut views {
            let there = name_there(&view.name);
            let numbers = numbered.iter().find(|other| other.name.as_str() == there);
            let numbers = numbers.map_or(&[][..], |other| &other.holders);
            let mut unnumbered = Vec::new();
            for mut holder in std::mem::take(&mut view.holders) {
                match number_of(numbers, holder.token.order()) {
                    Some(token) => {
                        holder.token = token;
                        view.holders.push(holder);
                    }
                    None => unnumbered.push(holder),
                }
            }
            unnumbered.append(&mut view.waiters);
            view.waiters = unnumbered;
        }
        Ok(views)
    }

    /// The order in the first engine of what was shown under this token.
    pub(crate) async fn order_behind(&self, name: &Name, token: Token) -> Result<u64, Error> {
        let query = Query::One(Name::new(name_there(name))?);
        let numbered = self.source.inspect(&query).await?;
        let mut holders = numbered.iter().flat_map(|view| &view.holders);
        let holder = holders.find(|holder| holder.token.order() == token.order());
        let order = holder.and_then(|holder| holder.party.label.strip_prefix(LABEL)?.parse().ok());
        // A waiter has no number: it is shown under its order.
        Ok(order.unwrap_or(token.order()))
    }
}

fn number_of(numbers: &[ClaimView], order: u64) -> Option<Token> {
    let label = format!("{LABEL}{order}");
    let holder = numbers.iter().find(|number| number.party.label == label);
    holder.map(|holder| holder.token)
}

/// The name of the numbers of a name. Names that are too long share theirs with others by chance, which is harmless:
/// shared claims do not exclude each other, and numbers rise all the same.
fn name_there(name: &Name) -> String {
    let whole = format!("{PREFIX}{}", name.as_str());
    if whole.len() <= LONGEST_NAME {
        return whole;
    }
    // FNV-1a.
    let digest = name
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let start = whole.floor_char_boundary(LONGEST_NAME - 17);
    format!("{}#{digest:016x}", &whole[..start])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_name_there() {
        for name in ["a".to_owned(), "x".repeat(256), "\u{1f512}".repeat(64)] {
            let there = name_there(&Name::new(name).unwrap());
            assert!(there.starts_with(PREFIX), "{there}");
            Name::new(there).unwrap();
        }
    }
}
