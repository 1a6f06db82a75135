//! What the stories of Redlock share: five nodes behind links that can fail, and the algorithm as it is published,
//! played step by step so that a story can stop its client between any two.

use std::time::{Duration, Instant};

use lockkeeper_testbed::{Proxy, Redis, RedisFive, Setup};

use crate::Result;
use crate::actor::{Answer, Ask, Client, Deed};
use crate::history::What;
use crate::scenario::Outcome;
use crate::stage::{Stage, Truth, wait_until};

use super::props::{deposit, granted, judge_deposits, read_account};

const MAJORITY: usize = 3;
/// How often somebody asks for what it must not get.
const TRIES: usize = 10;
/// No story lasts so long: it ends when the link is healed.
const FOR_EVER: Duration = Duration::from_secs(3600);
/// Deletes the key if it is still one's own.
const GIVE_BACK: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Five Redis servers, each behind a link of its own. They are numbered from 1.
pub(super) struct Five {
    servers: RedisFive,
    links: Vec<Proxy>,
}

impl Five {
    pub(super) fn start(setup: &Setup) -> Result<Five> {
        let servers = RedisFive::start_with(setup)?;
        let links = servers.addresses().into_iter().map(Proxy::to);
        let links = links.collect::<std::result::Result<_, _>>()?;
        Ok(Five { servers, links })
    }

    pub(super) fn node(&self, number: usize) -> &Redis {
        &self.servers.nodes()[number - 1]
    }

    /// As lockkeeper knows them. No lease is longer than this, and a node that lost its data rests for so long.
    pub(super) fn url(&self, longest_lease: Duration) -> String {
        let addresses = self.links.iter().map(|link| link.address().to_string());
        let addresses: Vec<String> = addresses.collect();
        let longest = longest_lease.as_millis();
        format!(
            "redlock://{}?longest-lease={longest}ms&fresh=yes",
            addresses.join(",")
        )
    }

    /// Nobody reaches these nodes any more.
    pub(super) fn cut(&self, stage: &Stage, numbers: &[usize]) -> Result<()> {
        for number in numbers {
            self.links[number - 1].cut()?;
            let how = "cut".to_owned();
            stage.note(&lane(*number), What::LinkBroken { how });
        }
        Ok(())
    }

    /// These nodes are still told everything, but nobody gets their answers.
    pub(super) fn hold_answers_back(&self, stage: &Stage, numbers: &[usize]) -> Result<()> {
        for number in numbers {
            self.links[number - 1].delay_replies(FOR_EVER)?;
            let how = "answers are held back".to_owned();
            stage.note(&lane(*number), What::LinkBroken { how });
        }
        Ok(())
    }

    pub(super) fn heal(&self, stage: &Stage, numbers: &[usize]) -> Result<()> {
        for number in numbers {
            self.links[number - 1].heal()?;
            stage.note(&lane(*number), What::LinkHealed);
        }
        Ok(())
    }

    /// Kills a node, which comes back with nothing.
    pub(super) fn restart_empty(&self, stage: &Stage, number: usize) -> Result<()> {
        let server = self.node(number).server();
        stage.kill(&lane(number), server)?;
        stage.restart(&lane(number), server, false)
    }

    /// Sets the clock of a node further on.
    pub(super) fn clock_forward(&self, stage: &Stage, number: usize, by: Duration) -> Result<()> {
        stage.clock_forward(&lane(number), self.node(number).server(), by)
    }

    /// On how many nodes this key is now.
    pub(super) fn with_key(&self, key: &str) -> Result<usize> {
        let mut found = 0;
        for node in self.servers.nodes() {
            found += usize::from(node.ask(&["EXISTS", key])?.text() == "1");
        }
        Ok(found)
    }

    /// Writes down who has the vote of each node, by the keys of the published algorithm.
    pub(super) fn watch(&self, stage: &Stage) -> Vec<Truth> {
        let watch = |number| stage.watch_key(self.node(number), &lane(number), "lock");
        (1..=5).map(watch).collect()
    }

    /// Asks one node for its vote; the answer is awaited with [`Client::finish`].
    pub(super) fn vote(&self, client: &Client, number: usize, lease: Duration) -> Deed {
        let lease = lease.as_millis().to_string();
        self.deed(number, &["SET", "lock", client.name(), "NX", "PX", &lease])
    }

    /// Asks all nodes for their votes, one after the other, as most libraries do.
    pub(super) fn ask_all(&self, client: &mut Client, lease: Duration) -> Result<Votes> {
        let mut votes = Votes::none(lease);
        for number in 1..=5 {
            let answer = client.ask(self.vote(client, number, lease))?;
            votes.count(&answer);
        }
        Ok(votes)
    }

    /// Asks until a majority has voted for this client and time is left; fewer votes are given back each time. On a machine
    /// too slow for the lease it takes a longer one.
    pub(super) fn take(&self, client: &mut Client, mut lease: Duration) -> Result<Votes> {
        let mut won = Votes::none(lease);
        wait_until(&format!("{} gets the lock", client.name()), || {
            won = self.ask_all(client, lease)?;
            let holds = won.are_majority() && won.are_valid();
            if !holds {
                self.give_back(client)?;
            }
            if won.are_majority() && !holds {
                lease *= 2;
            }
            Ok(holds)
        })?;
        client.believes("lock", Some(won.time_left()));
        Ok(won)
    }

    /// Takes back whatever votes this client has.
    pub(super) fn give_back(&self, client: &mut Client) -> Result<()> {
        for number in 1..=5 {
            let deed = self.deed(number, &["EVAL", GIVE_BACK, "1", "lock", client.name()]);
            client.ask(deed)?;
        }
        Ok(())
    }

    fn deed(&self, number: usize, command: &[&str]) -> Deed {
        let address = self.links[number - 1].address().to_string();
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Deed::Redis { address, command }
    }
}

/// The votes that a client has got, and since when it asks.
#[derive(Debug)]
pub(super) struct Votes {
    since: Instant,
    lease: Duration,
    pub(super) number: usize,
}

impl Votes {
    pub(super) fn none(lease: Duration) -> Votes {
        Votes {
            since: Instant::now(),
            lease,
            number: 0,
        }
    }

    pub(super) fn count(&mut self, answer: &Answer) {
        self.number += usize::from(answer.text() == Some("OK"));
    }

    pub(super) fn are_majority(&self) -> bool {
        self.number >= MAJORITY
    }

    /// The validity check: lease, less the time of asking, less what clocks may drift apart.
    pub(super) fn are_valid(&self) -> bool {
        !self.time_left().is_zero()
    }

    pub(super) fn time_left(&self) -> Duration {
        let drift = self.lease / 100 + Duration::from_millis(2);
        self.lease.saturating_sub(self.since.elapsed() + drift)
    }
}

fn lane(number: usize) -> String {
    format!("redis {number}")
}

/// Lets a client of lockkeeper ask several times for what somebody else holds; `None` if it was let in. Only what the
/// nodes answered counts.
fn tries_in_vain(client: &mut Client, ask: &Ask) -> Result<Option<usize>> {
    let at_once = Ask {
        within_ms: 0,
        ..ask.clone()
    };
    let (mut refused, mut let_in) = (0, false);
    wait_until("the nodes answer", || {
        match client.acquire(&at_once)? {
            Answer::Nothing => refused += 1,
            Answer::Unknown(_) => {}
            Answer::Granted { .. } => let_in = true,
            other => return Err(other.words().into()),
        }
        Ok(let_in || refused == TRIES)
    })?;
    Ok((!let_in).then_some(refused))
}

/// Client A holds and has read; client B asks meanwhile, several times. If it is let in, both pay in at once, else one
/// after the other.
pub(super) fn keeps_out(
    (a, read): (&mut Client, i64),
    b: &mut Client,
    ask: &Ask,
    account: &Redis,
    how: &str,
) -> Result<Outcome> {
    let Some(tries) = tries_in_vain(b, ask)? else {
        let read_by_b = read_account(b, account)?;
        deposit(b, account, read_by_b, 20, None)?;
        deposit(a, account, read, 10, None)?;
        return judge_deposits(account, "Client B got the lock of client A.");
    };
    deposit(a, account, read, 10, None)?;
    a.release(&ask.name)?;
    granted(b, ask)?;
    let read_by_b = read_account(b, account)?;
    deposit(b, account, read_by_b, 20, None)?;
    let told = format!(
        "{how}, and client B asked {tries} times in vain until client A had given the lock back."
    );
    judge_deposits(account, &told)
}

/// Published Redlock: client A has its votes and has read; client B gets a majority too, and both pay in.
pub(super) fn second_majority(
    five: &Five,
    (a, votes, read): (&mut Client, &Votes, i64),
    b: &mut Client,
    lease: Duration,
    account: &Redis,
) -> Result<Outcome> {
    let votes_of_b = five.take(b, lease)?;
    let read_by_b = read_account(b, account)?;
    deposit(b, account, read_by_b, 20, None)?;
    let left = votes.time_left().as_secs_f64();
    deposit(a, account, read, 10, None)?;
    let told = format!(
        "Client A had {} votes and {left:.0} s left of its lease when client B got {} votes.",
        votes.number, votes_of_b.number
    );
    judge_deposits(account, &told)
}
