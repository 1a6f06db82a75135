//! One request for a name: its unguessable id, what it asks for, and who asks.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use siphasher::sip128::SipHasher;

use crate::error::Error;
use crate::{ClaimMark, Mode, Name};

/// One request for a name, in any state: entering, waiting, holding, released.
///
/// The id exists before the first byte leaves, so that a repeated question finds its own grant.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The secret that release, renew and re-entry compare.
    pub id: ClaimId,
    /// The name asked for.
    pub name: Name,
    /// How it is asked for.
    pub mode: Mode,
    /// How long the claim lives unless it is renewed.
    pub lease: Duration,
    /// Who asks, for people to read.
    pub party: Arc<Party>,
}

/// Who stands behind a claim, for people to read; no decision rests on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// What the program calls itself.
    pub label: String,
    /// The machine.
    pub host: String,
    /// The process on that machine.
    pub pid: u32,
}

impl Party {
    /// This process on this machine under the given label.
    pub fn here(label: impl Into<String>) -> Self {
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        Self {
            label: label.into(),
            host,
            pid: std::process::id(),
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever named itself or its machine must not write to somebody else's terminal.
        let (label, host) = (self.label.escape_debug(), self.host.escape_debug());
        write!(f, "{label} (pid {} on {host})", self.pid)
    }
}

/// Random bits that name a claim. Whoever knows them can release the claim, so they are never
/// shown: `Debug` prints a few bits of a digest only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId([u8; 16]);

/// The bit of an id that no two keepers know.
const OWN: u8 = 0x80;

impl ClaimId {
    /// A fresh id from the operating system's generator, for one keeper alone.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the generator does not answer.
    pub fn random() -> Result<Self, Error> {
        let [id] = Self::several()?;
        Ok(id)
    }

    fn several<const N: usize>() -> Result<[Self; N], Error> {
        let mut all = [[0; 16]; N];
        getrandom::fill(all.as_flattened_mut()).map_err(|source| Error::Unreachable {
            backend: "the system's random generator",
            during: "making a claim id".into(),
            source: Some(Arc::new(source)),
        })?;
        Ok(all.map(|mut bytes| {
            bytes[0] |= OWN;
            Self(bytes)
        }))
    }

    /// An id that several keepers know, from bits that they agree on: the claim is theirs together.
    pub fn common(mut bits: [u8; 16]) -> Self {
        bits[0] &= !OWN;
        Self(bits)
    }

    /// Whether several keepers may know it.
    pub fn is_common(&self) -> bool {
        self.0[0] & OWN == 0
    }

    /// The id as bytes, for the wire.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// What a fence may know of this claim: it is the same for as long as the claim lives, differs from all
    /// others, and does not give the id away.
    pub fn mark(&self) -> ClaimMark {
        let hash = SipHasher::new_with_key(&self.0).hash(b"the mark of a claim at a fence");
        ClaimMark::from_bytes(hash.as_bytes())
    }

    /// The id from the wire.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

/// Fresh ids for one keeper, several from each question to the operating system's generator. They are the keeper's and not
/// the process's: a process that is forked has other keepers, or none that works.
#[derive(Default)]
pub(crate) struct ClaimIds(Mutex<Vec<ClaimId>>);

impl ClaimIds {
    /// An id that nobody has had.
    pub(crate) fn next(&self) -> Result<ClaimId, Error> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = spare.pop() {
            return Ok(id);
        }
        let [id, others @ ..] = ClaimId::several::<32>()?;
        spare.extend(others);
        Ok(id)
    }
}

impl fmt::Debug for ClaimIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClaimIds")
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // FNV-1a folded to 16 bits: enough to tell claims apart in a log, useless for guessing.
        let digest = self.0.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        write!(f, "claim#{:04x}", (digest >> 48) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: L4
    #[test]
    fn ids_are_distinct_and_never_printed() {
        let ids: std::collections::HashSet<_> =
            (0..100_000).map(|_| ClaimId::random().unwrap()).collect();
        assert_eq!(ids.len(), 100_000);
        let spare = ClaimIds::default();
        let more = (0..1000).map(|_| spare.next().unwrap());
        assert_eq!(
            ids.into_iter()
                .chain(more)
                .collect::<std::collections::HashSet<_>>()
                .len(),
            101_000
        );
        let id = ClaimId::from_bytes([0xab; 16]);
        assert!(!format!("{id:?}").contains("abab"), "{id:?}");
    }

    // proves: F3
    #[test]
    fn a_mark_is_the_claims_own_and_does_not_tell_its_id() {
        let ids: Vec<_> = (0..10_000).map(|_| ClaimId::random().unwrap()).collect();
        let marks: std::collections::HashSet<_> = ids.iter().map(ClaimId::mark).collect();
        assert_eq!(marks.len(), ids.len());
        for id in ids {
            assert_eq!(id.mark(), id.mark());
            assert_ne!(id.mark().as_bytes(), id.as_bytes());
        }
    }
}
