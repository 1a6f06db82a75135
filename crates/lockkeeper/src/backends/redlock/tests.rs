//! Every order of events of a small Redlock, searched through: clients that crash between any two
//! steps, replies that are lost, leases that end, nodes that lose their data. The decisions are those
//! of `quorum.rs`, which the backend makes too; the nodes' side is what the scripts say.
//!
//! The widest searches, of millions of states, are made by `cargo test --release`.
//!
//! Time has no numbers here. What the clocks are trusted with is said instead: a grant's record does
//! not end on a node while its client believes in it, a client whose record ended while it still asked
//! knows by its own clock that it is too late, and a node abstains until the claims that it forgot are
//! over.

use std::collections::HashSet;
use std::fmt::Write;
use std::time::Duration;

use super::quorum::{Count, Quorum, Vote, above, accepts, validity};

/// Which parts of the algorithm are in force.
#[derive(Debug, Clone, Copy)]
struct Rules {
    write_back: bool,
    abstention: bool,
    seeding: bool,
    validity: bool,
}

const ALL: Rules = Rules {
    write_back: true,
    abstention: true,
    seeding: true,
    validity: true,
};

/// How far the search goes.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// How often each client asks anew.
    attempts: u8,
    /// How often a node loses its data, over all nodes.
    losses: u8,
}

/// The claim of a client's present attempt has the client's number. What an attempt that is over left on
/// a node only withholds that node's vote from others, as its silence would, so it is left out.
type ClaimNumber = u8;

#[derive(Debug, Clone)]
struct World<const N: usize, const C: usize> {
    nodes: [Node; N],
    clients: [Client<N>; C],
    /// The highest number that ever won.
    last_token: u64,
    /// The highest number that whoever re-seeds a node has read of the others so far.
    read: u64,
    losses: u8,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    record: Option<(ClaimNumber, u64)>,
    /// The highest number seen; `None` while the node abstains.
    counter: Option<u64>,
    /// The claims whose records were lost here and that are not over, as a set of bits.
    forgotten: u8,
    /// Whether whoever re-seeds another node has read this one's counter.
    was_read: bool,
}

#[derive(Debug, Clone, Copy)]
struct Client<const N: usize> {
    attempt: u8,
    /// The highest number that it has heard of.
    seen: u64,
    state: State<N>,
}

#[derive(Debug, Clone, Copy)]
enum State<const N: usize> {
    Idle,
    /// Offers a number together with its question.
    Asks {
        offer: u64,
        votes: [Option<Vote>; N],
        late: bool,
    },
    /// Has a majority and writes a number back.
    Writes {
        number: u64,
        votes: [Option<Vote>; N],
        late: bool,
    },
    Holds(u64),
}

/// What can happen next: client and node by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Starts(usize),
    /// The node carries out what the client asked; the reply comes, or is lost.
    Answers(usize, usize, Reply),
    Decides(usize),
    /// Crashes, gives up, releases, or sees its lease end.
    Ends(usize),
    /// A record is deleted, or its lease ends.
    Expires(usize),
    /// A holder puts its claim back on a node that does not have it.
    Restores(usize, usize),
    LosesData(usize),
    /// Whoever re-seeds another node reads this one's counter.
    IsRead(usize),
    CountsAgain(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Comes,
    IsLost,
}

/// What must never be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    TwoHolders,
    TokenNotAbove { before: u64, now: u64 },
}

impl<const N: usize, const C: usize> World<N, C> {
    const QUORUM: fn() -> Quorum = || Quorum::of(N);

    fn new() -> Self {
        let node = Node {
            record: None,
            counter: Some(0),
            forgotten: 0,
            was_read: false,
        };
        let client = Client {
            attempt: 0,
            seen: 0,
            state: State::Idle,
        };
        Self {
            nodes: [node; N],
            clients: [client; C],
            last_token: 0,
            read: 0,
            losses: 0,
        }
    }

    /// The same for worlds that differ only in the names of their nodes.
    fn key(&self) -> Vec<u8> {
        let mut columns: Vec<Vec<u8>> = (0..N).map(|n| self.column(n)).collect();
        columns.sort_unstable();
        let mut key = columns.concat();
        key.extend([self.last_token as u8, self.read as u8, self.losses]);
        for client in &self.clients {
            let (kind, number, late) = match client.state {
                State::Idle => (0, 0, false),
                State::Asks { offer, late, .. } => (1, offer, late),
                State::Writes { number, late, .. } => (2, number, late),
                State::Holds(order) => (3, order, false),
            };
            let attempt = client.attempt;
            key.extend([
                attempt,
                client.seen as u8,
                kind,
                number as u8,
                u8::from(late),
            ]);
        }
        key
    }

    /// A node, and what the clients have heard from it.
    fn column(&self, n: usize) -> Vec<u8> {
        let node = &self.nodes[n];
        let (claim, order) = node.record.unwrap_or((u8::MAX, 0));
        let counter = node.counter.map_or(u8::MAX, |counter| counter as u8);
        let read = u8::from(node.was_read);
        let mut column = vec![claim, order as u8, counter, node.forgotten, read];
        column.extend(self.clients.iter().map(|client| match client.state {
            State::Asks { votes, .. } | State::Writes { votes, .. } => match votes[n] {
                None => 0,
                Some(Vote::Mine { order }) => 2 + order as u8,
                Some(_) => 1,
            },
            State::Idle | State::Holds(_) => 0,
        }));
        column
    }

    /// Ends the client's attempt or hold.
    fn ends(&mut self, c: usize, bounds: Bounds) {
        let client = &mut self.clients[c];
        client.state = State::Idle;
        if client.attempt == bounds.attempts {
            client.seen = 0;
        }
        for node in &mut self.nodes {
            if node
                .record
                .is_some_and(|(claim, _)| usize::from(claim) == c)
            {
                node.record = None;
            }
            node.forgotten &= !(1 << c);
        }
    }

    fn steps(&self, rules: Rules, bounds: Bounds) -> Vec<Step> {
        let mut steps = Vec::new();
        for c in 0..C {
            self.steps_of_client(c, bounds, &mut steps);
        }
        for n in 0..N {
            self.steps_of_node(n, rules, bounds, &mut steps);
        }
        steps
    }

    fn steps_of_client(&self, c: usize, bounds: Bounds, steps: &mut Vec<Step>) {
        let client = &self.clients[c];
        match &client.state {
            State::Idle => {
                if client.attempt < bounds.attempts {
                    steps.push(Step::Starts(c));
                }
            }
            State::Asks { votes, .. } | State::Writes { votes, .. } => {
                for n in (0..N).filter(|n| votes[*n].is_none()) {
                    steps.push(Step::Answers(c, n, Reply::Comes));
                    // A lost refusal is a refusal.
                    let record = self.nodes[n].record;
                    if record.is_none_or(|(claim, _)| usize::from(claim) == c) {
                        steps.push(Step::Answers(c, n, Reply::IsLost));
                    }
                }
                let came: Vec<Vote> = votes.iter().flatten().copied().collect();
                // Whoever has lost just ends, as it may at any time.
                let count = Self::QUORUM().count(&came);
                if matches!(count, Count::Won(_) | Count::Unnumbered) {
                    steps.push(Step::Decides(c));
                }
                steps.push(Step::Ends(c));
            }
            State::Holds(_) => {
                let missing = (0..N).filter(|n| self.nodes[*n].record.is_none());
                steps.extend(missing.map(|n| Step::Restores(c, n)));
                steps.push(Step::Ends(c));
            }
        }
    }

    fn steps_of_node(&self, n: usize, rules: Rules, bounds: Bounds, steps: &mut Vec<Step>) {
        let node = &self.nodes[n];
        let believed = |claim: ClaimNumber| {
            let owner = self.clients.get(usize::from(claim));
            owner.is_some_and(|client| matches!(client.state, State::Holds(_)))
        };
        if node.record.is_some_and(|(claim, _)| !believed(claim)) {
            steps.push(Step::Expires(n));
        }
        if self.losses < bounds.losses {
            steps.push(Step::LosesData(n));
        }
        let rested =
            |node: &Node| node.counter.is_none() && (node.forgotten == 0 || !rules.abstention);
        if node.counter.is_some() && !node.was_read && self.nodes.iter().any(rested) {
            steps.push(Step::IsRead(n));
        }
        if !rested(node) {
            return;
        }
        if Self::QUORUM().seed(&self.counters_read()).is_some() {
            steps.push(Step::CountsAgain(n));
        }
    }

    /// One entry for each node that was read; the highest is all that counts.
    fn counters_read(&self) -> Vec<u64> {
        let read = self.nodes.iter().filter(|node| node.was_read);
        read.map(|_| self.read).collect()
    }

    fn take(&self, step: Step, rules: Rules, bounds: Bounds) -> (Self, Option<Harm>) {
        let mut next = self.clone();
        let harm = match step {
            Step::Starts(c) => {
                next.clients[c].attempt += 1;
                next.clients[c].state = State::Asks {
                    offer: above(next.clients[c].seen),
                    votes: [None; N],
                    late: false,
                };
                None
            }
            Step::Answers(c, n, reply) => {
                next.answers(c, n, reply);
                None
            }
            Step::Decides(c) => next.decides(c, rules, bounds),
            Step::Ends(c) => {
                next.ends(c, bounds);
                None
            }
            Step::Expires(n) => {
                next.expires(n);
                None
            }
            Step::Restores(c, n) => {
                if let State::Holds(order) = next.clients[c].state {
                    next.nodes[n].record = Some((c as u8, order));
                    let counter = &mut next.nodes[n].counter;
                    *counter = counter.map(|seen| seen.max(order));
                }
                None
            }
            Step::LosesData(n) => {
                next.losses += 1;
                let node = &mut next.nodes[n];
                if let Some((claim, _)) = node.record {
                    node.forgotten |= 1 << claim;
                }
                (node.record, node.counter) = (None, None);
                None
            }
            Step::IsRead(n) => {
                next.nodes[n].was_read = true;
                next.read = next.read.max(next.nodes[n].counter.unwrap_or(0));
                None
            }
            Step::CountsAgain(n) => {
                let seed = Self::QUORUM().seed(&next.counters_read());
                next.nodes[n].counter = if rules.seeding { seed } else { Some(0) };
                next.nodes[n].forgotten = 0;
                next.read = 0;
                next.nodes.iter_mut().for_each(|node| node.was_read = false);
                None
            }
        };
        (next, harm)
    }

    /// The node's side: what `enter.lua` and `number.lua` do.
    fn answers(&mut self, c: usize, n: usize, reply: Reply) {
        let claim = c as u8;
        let node = &mut self.nodes[n];
        let client = &mut self.clients[c];
        let (vote, votes) = match &mut client.state {
            State::Asks { offer, votes, .. } => (node.is_asked(claim, *offer), votes),
            State::Writes { number, votes, .. } => (node.is_numbered(claim, *number), votes),
            State::Idle | State::Holds(_) => return,
        };
        match reply {
            Reply::Comes => {
                // Every vote against is alike, to the count as well.
                let mine = matches!(vote, Vote::Mine { .. });
                votes[n] = Some(if mine { vote } else { Vote::Failed });
                client.seen = client.seen.max(node.counter.unwrap_or(0));
            }
            Reply::IsLost => votes[n] = Some(Vote::Failed),
        }
    }

    /// The client's side, after any number of answers.
    fn decides(&mut self, c: usize, rules: Rules, bounds: Bounds) -> Option<Harm> {
        let client = &mut self.clients[c];
        let (State::Asks { votes, late, .. } | State::Writes { votes, late, .. }) = client.state
        else {
            return None;
        };
        let came: Vec<Vote> = votes.iter().flatten().copied().collect();
        let lease = Duration::from_secs(1);
        let elapsed = if late { lease } else { Duration::ZERO };
        let in_time = !rules.validity || validity(lease, elapsed).is_some();
        match Self::QUORUM().count(&came) {
            Count::Won(order) if in_time => self.wins(c, order),
            Count::Unnumbered if in_time && !rules.write_back => {
                let number = above(client.seen);
                self.wins(c, number)
            }
            Count::Unnumbered if in_time => {
                client.state = State::Writes {
                    number: above(client.seen),
                    votes: [None; N],
                    late,
                };
                None
            }
            _ => {
                self.ends(c, bounds);
                None
            }
        }
    }

    fn wins(&mut self, c: usize, order: u64) -> Option<Harm> {
        let holds = |client: &Client<N>| matches!(client.state, State::Holds(_));
        let before = std::mem::replace(&mut self.last_token, order);
        let harm = if self.clients.iter().any(holds) {
            Some(Harm::TwoHolders)
        } else if order <= before {
            Some(Harm::TokenNotAbove { before, now: order })
        } else {
            None
        };
        self.clients[c].state = State::Holds(order);
        harm
    }

    fn expires(&mut self, n: usize) {
        let Some((claim, _)) = self.nodes[n].record.take() else {
            return;
        };
        let owner = self.clients.get_mut(usize::from(claim));
        if let Some(State::Asks { late, .. } | State::Writes { late, .. }) =
            owner.map(|client| &mut client.state)
        {
            *late = true;
        }
    }
}

impl Node {
    fn is_asked(&mut self, claim: ClaimNumber, offer: u64) -> Vote {
        match (self.record, self.counter) {
            (Some((owner, order)), _) if owner == claim => Vote::Mine { order },
            (_, None) => Vote::Abstains,
            (Some((_, order)), _) => Vote::Taken { order },
            (None, Some(seen)) => {
                let order = if accepts(seen, offer) { offer } else { 0 };
                self.counter = Some(seen.max(order));
                self.record = Some((claim, order));
                Vote::Mine { order }
            }
        }
    }

    fn is_numbered(&mut self, claim: ClaimNumber, number: u64) -> Vote {
        match (self.record, self.counter) {
            (Some((owner, _)), Some(seen)) if owner == claim && accepts(seen, number) => {
                self.counter = Some(number);
                self.record = Some((claim, number));
                Vote::Mine { order: number }
            }
            _ => Vote::Failed,
        }
    }
}

/// What a search found.
struct Found {
    states: usize,
    grants: usize,
    /// The shortest way to harm.
    harm: Option<(Harm, Vec<Step>)>,
}

/// Searches breadth first, so that a way to harm is a shortest one.
fn search<const N: usize, const C: usize>(rules: Rules, bounds: Bounds) -> Found {
    let mut known = HashSet::new();
    let mut came: Vec<(u32, Option<Step>)> = vec![(0, None)];
    let mut layer = vec![(0_u32, World::<N, C>::new())];
    let mut grants = 0;
    while !layer.is_empty() {
        let mut next_layer = Vec::new();
        for (place, world) in layer {
            for step in world.steps(rules, bounds) {
                let (next, harm) = world.take(step, rules, bounds);
                grants += usize::from(next.last_token > world.last_token);
                if let Some(harm) = harm {
                    let mut way = way_to(&came, place);
                    way.push(step);
                    let states = known.len();
                    return Found {
                        states,
                        grants,
                        harm: Some((harm, way)),
                    };
                }
                if known.insert(next.key()) {
                    next_layer.push((came.len() as u32, next));
                    came.push((place, Some(step)));
                }
            }
        }
        layer = next_layer;
    }
    let states = known.len();
    Found {
        states,
        grants,
        harm: None,
    }
}

fn way_to(came: &[(u32, Option<Step>)], place: u32) -> Vec<Step> {
    let mut way = Vec::new();
    let mut at = place;
    while let (before, Some(step)) = came[at as usize] {
        way.push(step);
        at = before;
    }
    way.reverse();
    way
}

/// Asserts that the search was exhaustive, met grants, and found no harm.
fn holds(found: &Found) {
    println!("{} states, {} grants", found.states, found.grants);
    assert!(found.grants > 100, "the model grants nothing");
    assert!(found.harm.is_none(), "{}", told(found));
}

fn told(found: &Found) -> String {
    let Some((harm, way)) = &found.harm else {
        return "no harm".into();
    };
    let mut text = format!("{harm:?} after {} steps:\n", way.len());
    for step in way {
        let _infallible = writeln!(text, "  {step:?}");
    }
    text
}

const ONCE: Bounds = Bounds {
    attempts: 1,
    losses: 1,
};

const TWICE: Bounds = Bounds {
    attempts: 2,
    losses: 0,
};

// proves: Q1, Q6, F1, L1
#[cfg(not(debug_assertions))]
#[test]
fn three_nodes_two_clients_that_ask_twice() {
    holds(&search::<3, 2>(ALL, TWICE));
}

// proves: Q1, Q5, Q6, F1, L1
#[test]
fn three_nodes_one_of_which_loses_its_data() {
    holds(&search::<3, 2>(ALL, ONCE));
}

// proves: Q1, Q6, F1, L1
#[cfg(not(debug_assertions))]
#[test]
fn three_nodes_three_clients() {
    holds(&search::<3, 3>(ALL, Bounds { losses: 0, ..ONCE }));
}

// proves: Q1, Q5, Q6, F1, L1
#[cfg(not(debug_assertions))]
#[test]
fn five_nodes_one_of_which_loses_its_data() {
    holds(&search::<5, 2>(ALL, ONCE));
}

// proves: Q6
#[test]
fn without_the_write_back_a_token_comes_twice() {
    let rules = Rules {
        write_back: false,
        ..ALL
    };
    let found = search::<3, 2>(rules, TWICE);
    println!("{}", told(&found));
    let harm = found.harm.map(|(harm, _)| harm);
    assert!(matches!(harm, Some(Harm::TokenNotAbove { .. })), "{harm:?}");
}

// proves: Q5
#[test]
fn without_abstention_two_hold() {
    let rules = Rules {
        abstention: false,
        ..ALL
    };
    let found = search::<3, 2>(rules, ONCE);
    println!("{}", told(&found));
    let harm = found.harm.map(|(harm, _)| harm);
    assert_eq!(harm, Some(Harm::TwoHolders));
}

// proves: Q5, Q6
#[test]
fn without_seeding_a_token_comes_twice() {
    let rules = Rules {
        seeding: false,
        ..ALL
    };
    let found = search::<3, 2>(rules, ONCE);
    println!("{}", told(&found));
    let harm = found.harm.map(|(harm, _)| harm);
    assert!(matches!(harm, Some(Harm::TokenNotAbove { .. })), "{harm:?}");
}

// proves: Q1, L6
// bug 27
#[test]
fn without_the_validity_check_two_hold() {
    let rules = Rules {
        validity: false,
        ..ALL
    };
    let found = search::<3, 2>(rules, Bounds { losses: 0, ..ONCE });
    println!("{}", told(&found));
    let harm = found.harm.map(|(harm, _)| harm);
    assert_eq!(harm, Some(Harm::TwoHolders));
}
