//! The scripts on one node, without a keeper: the quick ways do what the long ones would have done, whatever was done
//! before, and the flag is there whenever somebody waits.

use std::time::Duration;

use lockkeeper_testbed::Redis;

macro_rules! lua {
    ($($part:literal),+) => {
        concat!($(include_str!(concat!("../../src/backends/redlock/", $part, ".lua"))),+)
    };
}

const GREET: &str = lua!("claims", "greet");
pub(crate) const SEED: &str = lua!("claims", "seed");
const NUMBER: &str = lua!("claims", "number");
const RENEW: &str = lua!("claims", "renew");
const RESTORE: &str = lua!("claims", "restore");
const STAND_BACK: &str = lua!("claims", "stand_back");
const EVICT: &str = lua!("claims", "evict");

const IDS: [&str; 3] = ["aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "cccccccccccccccc"];
const KEEPER: &str = "kkkkkkkkkkkkkkkk";
const PARTY: &str = "7 1 lh";
const LEASE: &str = "60000";
/// Both names count in one bucket.
const COUNTER: &str = "5:d";

/// One set of keys on the node, and the scripts that have a quick way.
struct Way {
    prefix: &'static str,
    enter: &'static str,
    release: &'static str,
}

const QUICK: Way = Way {
    prefix: "quick",
    enter: lua!("enter_free", "claims", "enter"),
    release: lua!("release_alone", "claims", "release"),
};

const LONG: Way = Way {
    prefix: "long",
    enter: lua!("claims", "enter"),
    release: concat!("local deleted = false\n", lua!("claims", "release")),
};

#[derive(Debug, Clone, Copy)]
enum Act {
    Enter,
    Queue,
    EnterFromAnotherSet,
    Release,
    ReleaseById,
    StandBack,
    Renew,
    Number,
    Restore,
    Evict,
    LeaseEnds,
    QueueEnds,
    Rest,
    Seed,
    LosesMarker,
}

/// The more often it is here, the more often it happens.
const ACTS: [Act; 24] = [
    Act::Enter,
    Act::Enter,
    Act::Enter,
    Act::Queue,
    Act::Queue,
    Act::Queue,
    Act::Release,
    Act::Release,
    Act::Release,
    Act::Release,
    Act::ReleaseById,
    Act::StandBack,
    Act::Renew,
    Act::Renew,
    Act::Number,
    Act::Restore,
    Act::Evict,
    Act::LeaseEnds,
    Act::QueueEnds,
    Act::EnterFromAnotherSet,
    Act::Rest,
    Act::Seed,
    Act::Seed,
    Act::LosesMarker,
];

/// Something that is done to both sets of keys alike.
#[derive(Debug, Clone)]
struct Deed {
    act: Act,
    id: &'static str,
    name: &'static str,
    offer: u64,
    /// What the claim is to have, or has.
    record: String,
}

impl Way {
    fn key(&self, kind: &str, name: &str) -> String {
        format!("{}:{kind}:{name}", self.prefix)
    }

    fn eval(&self, redis: &Redis, script: &str, keys: &[&str], args: &[&str]) -> String {
        let count = keys.len().to_string();
        let call = [&["EVAL", script, &count], keys, args].concat();
        redis.ask(&call).unwrap().text()
    }

    /// What the node answers.
    fn does(&self, redis: &Redis, deed: &Deed) -> String {
        let Deed { id, name, .. } = *deed;
        let (offer, record) = (format!("{:016}", deed.offer), deed.record.as_str());
        let (lock, flag) = (self.key("lock", name), self.key("flag", name));
        let node = format!("{}:node", self.prefix);
        let (both, flagged) = ([lock.as_str(), &node], [lock.as_str(), &flag]);
        let eval = |script, keys: &[&str], args: &[&str]| self.eval(redis, script, keys, args);
        match deed.act {
            Act::Enter => eval(self.enter, &both, &[record, LEASE, COUNTER, &offer]),
            Act::Queue => {
                let args = [record, LEASE, COUNTER, &offer, KEEPER];
                eval(self.enter, &both, &args)
            }
            Act::EnterFromAnotherSet => eval(self.enter, &both, &[record, LEASE, "5:e", &offer]),
            Act::Release => eval(self.release, &flagged, &[record, self.prefix]),
            Act::ReleaseById => eval(self.release, &flagged, &[id, self.prefix]),
            Act::StandBack => eval(STAND_BACK, &both, &[id, COUNTER, LEASE, KEEPER, PARTY]),
            Act::Renew => eval(RENEW, &[&node, &lock], &["d", id, COUNTER, LEASE, &offer]),
            Act::Number => eval(NUMBER, &both, &[id, COUNTER, &offer]),
            Act::Restore => eval(RESTORE, &both, &[id, COUNTER, LEASE, &offer, PARTY]),
            Act::Evict => eval(EVICT, &[&lock, "broken"], &[id, self.prefix, "why"]),
            Act::LeaseEnds => redis.ask(&["DEL", &lock]).unwrap().text(),
            Act::QueueEnds => {
                let [line, waiting] = ["line", "wait"].map(|kind| self.key(kind, name));
                redis.ask(&["DEL", &line, &waiting, &flag]).unwrap();
                String::new()
            }
            Act::LosesMarker => redis.ask(&["DEL", &node]).unwrap().text(),
            Act::Rest => {
                redis.ask(&["HSET", &node, "run", "another"]).unwrap();
                greet(redis, &node, "1");
                String::new()
            }
            Act::Seed => {
                greet(redis, &node, "1");
                std::thread::sleep(Duration::from_millis(2));
                let rest = redis.ask(&["HGET", &node, "until"]).unwrap().text();
                eval(SEED, &[&node], &["d", "1700000000000000", &rest, "0"])
            }
        }
    }

    /// What the node has, but for times.
    fn state(&self, redis: &Redis) -> String {
        const STATE: &str = "
            local prefix, told = ARGV[1], {}
            for _, name in ipairs({'n', 'm'}) do
                local lock = redis.call('GET', prefix .. ':lock:' .. name) or ''
                told[#told + 1] = name .. ' ' .. lock:sub(1, 32) .. lock:sub(49)
                for _, part in ipairs(redis.call('ZRANGE', prefix .. ':line:' .. name, 0, -1, 'WITHSCORES')) do
                    told[#told + 1] = part
                end
                local waiting = redis.call('HGETALL', prefix .. ':wait:' .. name)
                for i = 1, #waiting, 2 do
                    told[#told + 1] = waiting[i] .. waiting[i + 1]:sub(17, 32) .. waiting[i + 1]:sub(49)
                end
            end
            for _, field in ipairs(redis.call('HMGET', prefix .. ':node', 'digest', 'floor', 'saved', '5:d', '5:e')) do
                told[#told + 1] = field or 'nothing'
            end
            return told";
        self.eval(redis, STATE, &[], &[self.prefix])
    }

    /// A counter, which is as good as a vote, is there only while the node votes.
    fn counts_while_it_votes(&self, redis: &Redis) -> bool {
        let node = format!("{}:node", self.prefix);
        let has = |field| redis.ask(&["HEXISTS", &node, field]).unwrap().text() == "1";
        has("floor") || !has(COUNTER)
    }

    /// Somebody waits if and only if the flag says so, and it does not end before the line.
    fn flags_are_true(&self, redis: &Redis) -> bool {
        let ends = |kind: &str, name: &str| {
            let told = redis.ask(&["PEXPIRETIME", &self.key(kind, name)]);
            told.unwrap().text().parse::<i64>().unwrap()
        };
        ["n", "m"].iter().all(|name| {
            let (line, flag) = (ends("line", name), ends("flag", name));
            flag >= line && (flag > 0) == (line > 0)
        })
    }
}

/// Greets a node of the set `d`, which rests for so long, in milliseconds, if it must.
/// Returns what it answers.
pub(crate) fn greet(redis: &Redis, node: &str, longest_lease: &str) -> String {
    let greeting = ["EVAL", GREET, "1", node, "d", "the set", "0", longest_lease];
    redis.ask(&greeting).unwrap().text()
}

/// The same for the same seed, on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

impl Deed {
    /// What is done next, after these were given the lock.
    fn next(dice: &mut Dice, given: &[Self], highest: u64) -> Self {
        let (id, name) = (dice.one_of(&IDS), dice.one_of(&["n", "m"]));
        // Now and then somebody has not heard of the latest number.
        let offer = highest + u64::from(dice.below(4) > 0);
        let act = dice.one_of(&ACTS);
        match (act, given.last()) {
            (Act::Release, Some(given)) => Self {
                act,
                ..given.clone()
            },
            _ => Self {
                act,
                id,
                name,
                offer,
                record: format!("{id}{offer:016}-001700000000000{PARTY}"),
            },
        }
    }

    /// An answer without times, and a short one at length.
    fn told(&self, answer: &str) -> Vec<String> {
        if matches!(self.act, Act::Enter | Act::Queue) && answer == "1" {
            return vec![
                answer.into(),
                self.offer.to_string(),
                self.offer.to_string(),
            ];
        }
        answer.lines().take(3).map(str::to_owned).collect()
    }
}

/// How often anybody was told anything.
fn messages(redis: &Redis) -> u64 {
    let stats = redis.ask(&["INFO", "commandstats"]).unwrap().text();
    let calls = stats.split_once("cmdstat_publish:calls=");
    let calls = calls.and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
    calls.unwrap_or(0)
}

// proves: L1, F1, Q5, Q6, W5
#[test]
fn a_quick_way_does_what_the_long_one_would() {
    let redis = Redis::start().unwrap();
    let mut quick_grants = 0;
    for seed in 0..8 {
        redis.ask(&["FLUSHALL"]).unwrap();
        let (mut dice, mut highest) = (Dice(seed), 1_700_000_000_000_000);
        let (mut past, mut given): (Vec<Deed>, Vec<Deed>) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            let deed = Deed::next(&mut dice, &given, highest);
            past.push(deed.clone());
            let after = format!(
                "seed {seed}, after {:#?}",
                &past[past.len().saturating_sub(8)..]
            );
            // What was before a rest is told apart from it by the millisecond.
            std::thread::sleep(Duration::from_millis(match deed.act {
                Act::Rest | Act::Seed => 2,
                _ => 0,
            }));
            let [quick, long] = [QUICK, LONG].map(|way| {
                let before = messages(&redis);
                let answer = way.does(&redis, &deed);
                (answer, messages(&redis) - before)
            });
            let told = deed.told(&quick.0);
            assert_eq!((&told, quick.1), (&deed.told(&long.0), long.1), "{after}");
            let [has, should] = [QUICK, LONG].map(|way| way.state(&redis));
            assert_eq!(has, should, "{after}");
            assert!(QUICK.flags_are_true(&redis), "{after}");
            assert!(QUICK.counts_while_it_votes(&redis), "{after}");
            let seen = told.get(2).and_then(|seen| seen.parse().ok());
            highest = highest.max(seen.unwrap_or(0));
            if told.len() == 3 && quick.0 == "1" {
                given.push(deed);
            }
        }
        quick_grants += given.len();
    }
    assert!(quick_grants > 30, "only {quick_grants} quick grants");
}

// proves: Q6
#[test]
fn a_greeting_tells_the_highest_number_of_all_counters() {
    let redis = Redis::start().unwrap();
    let highest = |told: String| told.lines().nth(2).unwrap().parse::<u64>().unwrap();
    let deed = |act, offer: u64| Deed {
        act,
        id: IDS[0],
        name: "n",
        offer,
        record: format!("{}{offer:016}-001700000000000{PARTY}", IDS[0]),
    };
    let base = 1_700_000_000_000_000;
    for deed in [
        deed(Act::Seed, 0),
        deed(Act::Enter, base + 3),
        deed(Act::ReleaseById, 0),
        deed(Act::Enter, base + 7),
    ] {
        QUICK.does(&redis, &deed);
    }
    assert_eq!(highest(greet(&redis, "quick:node", "1")), base + 7);
    QUICK.does(&redis, &deed(Act::Rest, 0));
    assert_eq!(highest(greet(&redis, "quick:node", "1")), base + 7);
}
