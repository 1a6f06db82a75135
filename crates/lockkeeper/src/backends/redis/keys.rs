//! How names become keys.
//!
//! `PREFIX:{BUCKET}:k:NAME` and its like. The name is the last part, as it is, so that any name is a key
//! of its own. The bucket, a hash of the name, is what a cluster places keys by: all keys of a name are
//! on one node, and so is the counter of its bucket. Counters are as many as buckets, not as names.

use std::sync::Arc;

use crate::Name;
use crate::error::Error;

/// How many buckets there are. Claims of one bucket can be renewed in one call on a cluster too, so they
/// are few; a cluster spreads them over its nodes, so they are not very few. Two digits at most.
pub(super) const BUCKETS: u32 = 64;

/// The longest prefix.
const LONGEST_PREFIX: usize = 64;

/// The keys and channels under one prefix.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
    buckets: Arc<[Bucket]>,
}

#[derive(Debug)]
struct Bucket {
    /// Where the keys of its claims begin.
    claims: Vec<u8>,
    /// The last order number given in it.
    order: Vec<u8>,
}

/// Whatever a claim that enters needs.
pub(super) struct Entrance<'a> {
    pub(super) bucket: u32,
    /// The claims of the name.
    pub(super) claims: Vec<u8>,
    /// The last order number given in its bucket.
    pub(super) order: &'a [u8],
}

impl Keys {
    /// Keys under a prefix of letters, digits and `-_.:/`; anything else could be mistaken for a hash tag
    /// or a pattern.
    pub(super) fn under(prefix: &str) -> Result<Self, Error> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
        let fits = (1..=LONGEST_PREFIX).contains(&prefix.len());
        if !fits || !prefix.chars().all(allowed) {
            return Err(Error::invalid(format!(
                "{prefix:?} is no prefix: 1 to {LONGEST_PREFIX} letters, digits or any of -_.:/"
            )));
        }
        let buckets = (0..BUCKETS).map(|bucket| Bucket {
            claims: of(prefix, bucket, ":k:"),
            order: of(prefix, bucket, ":order"),
        });
        Ok(Self {
            prefix: prefix.to_owned(),
            buckets: buckets.collect(),
        })
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The bucket of a name.
    pub(super) fn bucket(name: &Name) -> u32 {
        // FNV-1a: the same in every process and every version.
        let hash = name.as_str().bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        hash % BUCKETS
    }

    /// The claims of a name; the scripts make the other keys of the list from it.
    pub(super) fn claims(&self, name: &Name) -> Vec<u8> {
        self.entrance(name).claims
    }

    /// Whatever a claim that enters needs.
    pub(super) fn entrance(&self, name: &Name) -> Entrance<'_> {
        let number = Self::bucket(name);
        let bucket = &self.buckets[number as usize];
        Entrance {
            bucket: number,
            claims: [&bucket.claims, name.as_str().as_bytes()].concat(),
            order: &bucket.order,
        }
    }

    /// What operators broke in a bucket.
    pub(super) fn broken(&self, bucket: u32) -> Vec<u8> {
        of(&self.prefix, bucket, ":broken")
    }

    /// Where a keeper hears that its claims hold.
    pub(super) fn channel(&self, keeper: &str) -> String {
        format!("{}:wake:{keeper}", self.prefix)
    }

    /// A key that nobody uses.
    pub(super) fn probe(&self, keeper: &str) -> Vec<u8> {
        format!("{}:{{0}}:probe:{keeper}", self.prefix).into_bytes()
    }

    /// A pattern that the claims of all names match, and nothing else under this prefix.
    pub(super) fn all_claims(&self) -> String {
        format!("{}:{{*}}:k:*", self.prefix)
    }

    /// The name whose claims are at this key.
    pub(super) fn name(&self, key: &[u8]) -> Option<Name> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?;
        let (bucket, name) = rest.strip_prefix(":{")?.split_once("}:k:")?;
        let name = Name::new(name).ok()?;
        // Somebody else's key that only looks like one of these.
        (bucket == Self::bucket(&name).to_string()).then_some(name)
    }
}

/// `PREFIX:{BUCKET}` and what comes behind it.
fn of(prefix: &str, bucket: u32, kind: &str) -> Vec<u8> {
    format!("{prefix}:{{{bucket}}}{kind}").into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // Hash tags, separators, patterns and zero bytes in names included.
        #[test]
        fn any_name_comes_back_from_its_key(text in r"[\{\}:*?\[\]\\\x00k qe\PC]{1,40}") {
            prop_assume!(Name::new(text.as_str()).is_ok());
            let name = Name::new(text.as_str()).unwrap();
            let keys = Keys::under("lk").unwrap();
            let key = keys.claims(&name);
            prop_assert_eq!(keys.name(&key), Some(name.clone()));
            let tag = format!("lk:{{{}}}:k:", Keys::bucket(&name)).into_bytes();
            prop_assert!(key.starts_with(&tag));
        }
    }

    #[test]
    fn prefixes_are_plain() {
        for bad in ["", "a{b", "a}b", "a*", "a b", "a\0", &"x".repeat(65)] {
            assert!(Keys::under(bad).is_err(), "{bad:?}");
        }
        assert!(Keys::under("team-1/locks:v2").is_ok());
        let other = Keys::under("lk").unwrap();
        assert_eq!(other.name(b"lk:{63}:k:"), None);
        assert_eq!(other.name(b"lk:{x}:k:a"), None);
        assert_eq!(other.name(b"lk2:{0}:k:a"), None);
    }
}
