//! The verbs, each in a few words; how they work is in the files beside this one.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::claims::{Known, Stands};
use super::faults::unreachable;
use super::shared::Shared;
use super::watch::Target;
use crate::Name;
use crate::backend::{Backend, Entry, LockView, Query, Released, Standing, Wakes};
use crate::claim::Claim;
use crate::error::Error;
use crate::guarantees::Guarantees;

/// One keeper's connection. When it is dropped, its leases are revoked.
pub(super) struct EtcdBackend(pub(super) Arc<Shared>);

#[async_trait]
impl Backend for EtcdBackend {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        self.0.enter(claim, entry).await
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        self.0.renew(claims).await
    }

    async fn downgrade(&self, claim: &Claim) -> Result<Standing, Error> {
        self.0.downgrade(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let shared = &self.0;
        let limit = shared.patience(claim.lease);
        let struck = match shared.known(claim) {
            Known::Alive(entry) => {
                if entry.stands != Stands::Holds {
                    shared.watcher.forget(Target::Claim(claim.id));
                }
                shared.claims().change(claim.id, |entry| entry.leaving += 1);
                let struck = shared.strike_out(&entry, limit).await?;
                let left = shared.claims().remove(claim.id);
                // Somebody may have read the list meanwhile, and found it waiting.
                if left
                    .as_ref()
                    .is_none_or(|left| left.stands != Stands::Holds)
                {
                    shared.watcher.forget(Target::Claim(claim.id));
                }
                if let Some(left) = left
                    && struck.is_final()
                    && left.is_certain()
                    && !claim.id.is_common()
                {
                    shared.claims().set_aside(left);
                }
                if struck.not_called_off {
                    shared.delete_in_background(vec![*entry]);
                }
                struck
            }
            // Over by our own clock: the reaper takes it out, if it has not done so.
            Known::Over => return Ok(Released::Gone),
            // Whoever knows the id may release it, also if another keeper entered it.
            Known::Not => shared.strike_out_unknown(claim, limit).await?,
        };
        match struck.deleted {
            0 if struck.repeated => Err(unreachable(
                "releasing: the first answer was lost, and now the claim is not there",
            )),
            0 => Ok(Released::Gone),
            _ => Ok(Released::Freed),
        }
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        self.0.inspect(query).await
    }

    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        self.0.evict(name, order, why).await
    }

    fn wakes(&self) -> Wakes {
        self.0.bell.wakes()
    }

    fn guarantees(&self) -> &Guarantees {
        &self.0.guarantees
    }

    fn place(&self) -> String {
        self.0.place.clone()
    }
}

impl Drop for EtcdBackend {
    fn drop(&mut self) {
        // If the runtime has gone too, the leases end by themselves.
        let shared = self.0.clone();
        let runtime = shared.runtime.clone();
        runtime.spawn(async move { shared.leases.revoke_all().await });
    }
}

impl fmt::Debug for EtcdBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdBackend")
            .field("place", &self.0.place)
            .finish_non_exhaustive()
    }
}
