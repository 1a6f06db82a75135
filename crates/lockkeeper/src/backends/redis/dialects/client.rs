//! The wire: one script per verb, each made of the dialect's gate, the line and the verb; what they
//! answer; and who listens to which channel.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::Mutex;

use super::super::answer::{self, REDIS};
use super::super::doctor::Facts;
use super::super::link::{Link, Script};
use super::config::{Config, Kind, OWN};
use super::ears::Ears;
use crate::claim::{Claim, ClaimId, Party};
use crate::error::Error;

/// About how many names one step of a scan looks at.
const SCAN: usize = 512;

const LINE: &str = include_str!("lua/line.lua");

/// The scripts of one dialect.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) enter: Script,
    pub(super) renew: Script,
    pub(super) release: Script,
    pub(super) evict: Script,
    pub(super) inspect: Script,
    probe: Script,
}

impl Scripts {
    fn of(kind: Kind) -> Self {
        let gate = match kind {
            Kind::Simple => include_str!("lua/simple.lua"),
            Kind::Redisson => include_str!("lua/redisson.lua"),
        };
        let script = |verb: &str| Script::new([gate, LINE, verb].join("\n"));
        Self {
            enter: script(include_str!("lua/enter.lua")),
            renew: script(include_str!("lua/renew.lua")),
            release: script(include_str!("lua/release.lua")),
            evict: script(include_str!("lua/evict.lua")),
            inspect: script(include_str!("lua/inspect.lua")),
            probe: Script::new(include_str!("lua/probe.lua")),
        }
    }
}

/// One keeper's connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) config: Config,
    pub(super) scripts: Scripts,
    pub(super) ears: Arc<Ears>,
    /// The name of this keeper's own channel.
    pub(super) keeper: String,
    link: Arc<Link>,
    /// The strangers' channels that are subscribed to. Subscribing and unsubscribing go one after the other:
    /// their order decides who hears.
    subscribed: Arc<Mutex<HashSet<String>>>,
}

impl Client {
    /// Connects, and asks the server about itself and about what this user may do.
    pub(super) async fn connect(config: &Config) -> Result<(Self, Facts), Error> {
        // Random bits like any claim's.
        let keeper: String = ClaimId::random()?.as_bytes()[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let channel = format!("{OWN}wake:{keeper}");
        let ears = Arc::new(Ears::on(&channel));
        let hearing = ears.clone();
        let link = Link::start(config.node.clone(), move |event| hearing.hear(event));
        let during = "connecting";
        let up = link.ready().await;
        up.map_err(|error| answer::meaning(error, during))?;
        let facts = Facts::of(&link).await?;
        facts.usable(false)?;
        let listening = link.subscribe(channel.as_bytes()).await;
        listening.map_err(|error| answer::meaning(error, during))?;
        let client = Self {
            config: config.clone(),
            scripts: Scripts::of(config.kind),
            ears,
            keeper,
            link: Arc::new(link),
            subscribed: Arc::default(),
        };
        client.may_do_all(&channel).await?;
        Ok((client, facts))
    }

    /// Refuses a user who may not do all that will be needed: a script is not undone half-way.
    async fn may_do_all(&self, own_channel: &str) -> Result<(), Error> {
        let during = "asking what this user may do";
        let key = format!("{OWN}probe:{}", self.keeper);
        let foreign = self.config.channel(&key);
        let channels = [Some(own_channel), foreign.as_deref()];
        let channels: Vec<&[u8]> = channels.into_iter().flatten().map(str::as_bytes).collect();
        let (probe, keys) = (&self.scripts.probe, [&key]);
        let mut lacks = Value::Nil;
        // The text is sent once per server and script, the hash always: both must be allowed.
        for ask in [
            probe.by_text(&keys, &channels),
            probe.by_hash(&keys, &channels),
        ] {
            let told = self.link.command(&ask).await;
            lacks = told.map_err(|error| answer::meaning(error, during))?;
        }
        let lacks: Vec<String> = parsed(lacks)?;
        if !lacks.is_empty() {
            return Err(Error::Denied {
                backend: REDIS,
                what: format!("this user lacks {}; add that to its ACL", lacks.join(" ")),
            });
        }
        if let Some(channel) = &foreign {
            let heard = self.link.subscribe(channel.as_bytes()).await;
            heard.map_err(|error| answer::meaning(error, during))?;
            let unheard = self.link.unsubscribe(channel.as_bytes()).await;
            unheard.map_err(|error| answer::meaning(error, during))?;
        }
        Ok(())
    }

    /// The keys of all names that lockkeepers hold or wait for, in bounded steps. What changes meanwhile may
    /// be seen or not.
    pub(super) async fn all_keys(&self) -> Result<BTreeSet<String>, Error> {
        let (mut cursor, mut keys) = ("0".to_owned(), BTreeSet::new());
        loop {
            let mut scan = redis::cmd("ZSCAN");
            scan.arg(format!("{OWN}names")).arg(&cursor);
            scan.arg("COUNT").arg(SCAN);
            let told = self.link.command(&scan).await;
            let told = told.map_err(|error| answer::meaning(error, "looking for locks"))?;
            let [next, names] = array(told)?;
            let names: Vec<String> = parsed(names)?;
            // Each with its score.
            keys.extend(names.into_iter().step_by(2));
            cursor = parsed(next)?;
            if cursor == "0" {
                return Ok(keys);
            }
        }
    }

    /// Calls a script with the beginning of our own keys before its other arguments.
    pub(super) async fn call(
        &self,
        script: &Script,
        keys: &[String],
        args: &[&str],
        during: &str,
    ) -> Result<Value, Error> {
        let mut all = vec![OWN.as_bytes()];
        all.extend(args.iter().map(|arg| arg.as_bytes()));
        let told = self.link.call(script, keys, &all).await;
        told.map_err(|error| answer::meaning(error, during))
    }

    /// Listens for the word of strangers about this lock, on behalf of the claim. Nobody waits for it: the
    /// claim is told to look when it is done, since what was said until then was not heard.
    pub(super) fn listen(&self, key: &str, claim: ClaimId) {
        if let Some(channel) = self.config.channel(key)
            && self.ears.listen(&channel, claim)
        {
            self.settle(channel);
        }
    }

    /// The claim holds or has left: it needs no word of strangers.
    pub(super) fn forget(&self, key: &str, claim: ClaimId) {
        if let Some(channel) = self.config.channel(key)
            && self.ears.forget(&channel, claim)
        {
            self.settle(channel);
        }
    }

    /// Brings about that the channel is subscribed to if, and only if, somebody wants to hear it.
    fn settle(&self, channel: String) {
        let (ears, link) = (self.ears.clone(), self.link.clone());
        let subscribed = self.subscribed.clone();
        tokio::spawn(async move {
            let mut subscribed = subscribed.lock().await;
            if !ears.listens(&channel) {
                if subscribed.remove(&channel) {
                    let _gone_with_the_connection = link.unsubscribe(channel.as_bytes()).await;
                }
                return;
            }
            if !subscribed.contains(&channel) {
                if link.subscribe(channel.as_bytes()).await.is_err() {
                    // Forbidden, or no connection: whoever looks next, as all do when it is up again, tries anew.
                    ears.forget_all(&channel);
                    let _never_was = link.unsubscribe(channel.as_bytes()).await;
                    return;
                }
                subscribed.insert(channel.clone());
            }
            ears.look(channel.as_bytes());
        });
    }
}

/// What a script says about a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    Gone,
    Holds {
        order: u64,
        left: Duration,
    },
    Waits {
        ahead: usize,
        /// When a lease ahead ends; `None` when it never does.
        first_end: Option<Duration>,
        /// It is the head, and a stranger holds.
        behind_stranger: bool,
    },
}

impl Told {
    pub(super) fn from_value(value: Value) -> Result<Self, Error> {
        let numbers: Vec<i64> = parsed(value)?;
        match numbers[..] {
            [0] => Ok(Self::Gone),
            [1, order, left] => Ok(Self::Holds {
                order: positive(order)?,
                left: milliseconds(left).unwrap_or_default(),
            }),
            [2, ahead, first_end, stranger] => Ok(Self::Waits {
                ahead: positive(ahead)? as usize,
                first_end: milliseconds(first_end),
                behind_stranger: stranger == 1,
            }),
            _ => Err(not_understood(&format!("{numbers:?}"))),
        }
    }
}

/// A lock as `inspect.lua` sees it.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) key: String,
    /// The number that stands for the stranger that holds, and its lease left, if that ends.
    pub(super) stranger: Option<(u64, Option<Duration>)>,
    pub(super) claims: Vec<SeenClaim>,
}

#[derive(Debug)]
pub(super) struct SeenClaim {
    pub(super) order: u64,
    pub(super) holds: bool,
    pub(super) since: Duration,
    pub(super) left: Duration,
    pub(super) party: Party,
}

impl Seen {
    pub(super) fn from_value(value: Value) -> Result<Self, Error> {
        let [key, stranger, claims] = array(value)?;
        let stranger: Vec<i64> = parsed(stranger)?;
        let stranger = match stranger[..] {
            [] => None,
            [number, left] => Some((positive(number)?, milliseconds(left))),
            _ => return Err(not_understood(&format!("{stranger:?}"))),
        };
        let claims: Vec<Value> = parsed(claims)?;
        let claims = claims.into_iter().map(SeenClaim::from_value);
        Ok(Self {
            key: parsed(key)?,
            stranger,
            claims: claims.collect::<Result<_, _>>()?,
        })
    }
}

impl SeenClaim {
    fn from_value(value: Value) -> Result<Self, Error> {
        let [order, holds, since, left, party] = array(value)?;
        let party: String = parsed(party)?;
        Ok(Self {
            order: positive(parsed(order)?)?,
            holds: parsed::<i64>(holds)? == 1,
            since: milliseconds(parsed(since)?).unwrap_or_default(),
            left: milliseconds(parsed(left)?).unwrap_or_default(),
            party: read_party(&party).ok_or_else(|| not_understood(&party))?,
        })
    }
}

/// Who asks, as one word per part whatever the parts hold.
pub(super) fn write_party(claim: &Claim) -> String {
    let Party { label, host, pid } = claim.party.as_ref();
    format!("{pid} x{} x{}", hex(label), hex(host))
}

fn read_party(text: &str) -> Option<Party> {
    let mut parts = text.split(' ');
    let pid = parts.next()?.parse().ok()?;
    let label = unhex(parts.next()?.strip_prefix('x')?)?;
    let host = unhex(parts.next()?.strip_prefix('x')?)?;
    Some(Party { label, host, pid })
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<String> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(pairs.map(byte).collect::<Option<_>>()?).ok()
}

/// `None` for what Redis says of a key that does not end.
fn milliseconds(number: i64) -> Option<Duration> {
    u64::try_from(number).ok().map(Duration::from_millis)
}

fn positive(number: i64) -> Result<u64, Error> {
    u64::try_from(number).map_err(|_| not_understood(&number.to_string()))
}

pub(super) fn parsed<T: redis::FromRedisValue>(value: Value) -> Result<T, Error> {
    redis::from_redis_value(value).map_err(|error| not_understood(&error.to_string()))
}

fn array<const N: usize>(value: Value) -> Result<[Value; N], Error> {
    let values: Vec<Value> = parsed(value)?;
    <[Value; N]>::try_from(values).map_err(|values| not_understood(&format!("{values:?}")))
}

/// The script ran, so what it did is unknown here; asking again with the same claim tells.
fn not_understood(what: &str) -> Error {
    Error::Unreachable {
        backend: REDIS,
        during: format!("reading an answer that makes no sense ({what})"),
        source: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parties_come_back() {
        for (label, host) in [("", ""), ("second 'x'", "host-é"), ("\n\0", " ")] {
            let text = format!("4000000000 x{} x{}", hex(label), hex(host));
            let party = read_party(&text).unwrap();
            assert_eq!((party.label.as_str(), party.host.as_str()), (label, host));
        }
        assert!(read_party("1 xzz x").is_none() && read_party("1").is_none());
    }

    #[test]
    fn answers_are_understood_or_unknown() {
        let told = |numbers: &[i64]| {
            let values = numbers.iter().map(|number| Value::Int(*number));
            Told::from_value(Value::Array(values.collect()))
        };
        assert_eq!(told(&[0]).unwrap(), Told::Gone);
        let forever = told(&[2, 1, -1, 1]).unwrap();
        assert!(matches!(
            forever,
            Told::Waits {
                first_end: None,
                ..
            }
        ));
        assert!(told(&[7]).unwrap_err().is_unknown());
        assert!(told(&[1, -5, 3]).unwrap_err().is_unknown());
    }
}
