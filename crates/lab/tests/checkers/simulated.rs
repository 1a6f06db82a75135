//! A correct lock that is not real: clients, one server with a line, leases and tokens, and a fenced resource, driven
//! by random steps. What it writes down must please every checker.

use std::collections::VecDeque;

use lockkeeper_lab::history::{Event, What};

pub(crate) const LOCK: &str = "x";
const MS: u64 = 1_000_000;
const LEASE: u64 = 1000 * MS;
/// Between two events; more than the blur of the fair order.
const STEP: u64 = 20 * MS;

/// One random step: what happens, and to whom.
pub(crate) type Step = (u8, usize);

#[derive(Clone, Copy, PartialEq)]
enum State {
    Idle,
    Waiting,
    /// With the token, and until when it was told.
    Believing(u64, u64),
    Dead,
}

struct Client {
    name: String,
    state: State,
    paused: bool,
    call: u64,
}

pub(crate) struct Simulation {
    now: u64,
    history: Vec<Event>,
    clients: Vec<Client>,
    line: VecDeque<usize>,
    holder: Option<usize>,
    tokens: u64,
    highest: u64,
}

/// Plays the steps, heals everything, and lets four more clients have the lock in turn.
pub(crate) fn play(steps: &[Step]) -> Vec<Event> {
    let mut simulation = Simulation::new(8);
    for (what, who) in steps {
        simulation.step(*what, who % 4);
    }
    simulation.heal();
    simulation.last_turns();
    let over = What::Note {
        text: "over".to_owned(),
    };
    simulation.now += 10_000 * 1000 * MS;
    simulation.note("server", over);
    simulation.history
}

impl Simulation {
    fn new(clients: usize) -> Simulation {
        let client = |number| Client {
            name: format!("client {number}"),
            state: State::Idle,
            paused: false,
            call: 0,
        };
        Simulation {
            now: 0,
            history: Vec::new(),
            clients: (0..clients).map(client).collect(),
            line: VecDeque::new(),
            holder: None,
            tokens: 0,
            highest: 0,
        }
    }

    fn note(&mut self, lane: &str, what: What) {
        self.now += STEP;
        let (at, lane) = (self.now, lane.to_owned());
        self.history.push(Event { at, lane, what });
    }

    fn note_of(&mut self, who: usize, what: What) {
        let lane = self.clients[who].name.clone();
        self.note(&lane, what);
    }

    fn step(&mut self, what: u8, who: usize) {
        let Client { state, paused, .. } = self.clients[who];
        match (what % 10, state, paused) {
            (_, State::Dead, _) => {}
            (4, _, false) => self.pause(who),
            (5, _, true) => self.resume(who),
            (6, _, _) => self.kill(who),
            (7, _, _) => self.now += LEASE,
            (_, _, true) => {}
            (0 | 8, State::Idle, _) => self.ask(who),
            (9, State::Waiting, _) => self.leave(who),
            (1 | 9, State::Believing(token, _), _) => self.write(who, token),
            (2, State::Believing(..), _) => self.give_back(who),
            (3, State::Believing(..), _) => self.renew(who),
            (8, State::Believing(token, until), _) => self.believe(who, token, until),
            _ => {}
        }
        self.settle();
    }

    fn ask(&mut self, who: usize) {
        self.clients[who].call += 1;
        let (call, deed) = (self.clients[who].call, format!("acquire {LOCK}"));
        self.note_of(who, What::Asked { call, deed });
        let lock = LOCK.to_owned();
        self.note_of(who, What::Waits { lock });
        self.clients[who].state = State::Waiting;
        self.line.push_back(who);
    }

    fn leave(&mut self, who: usize) {
        let (call, why) = (self.clients[who].call, "the deadline is over".to_owned());
        self.note_of(who, What::Failed { call, why });
        self.clients[who].state = State::Idle;
        self.line.retain(|waiting| *waiting != who);
    }

    fn believe(&mut self, who: usize, token: u64, until: u64) {
        if until <= self.now + STEP {
            return self.learn_of_the_loss(who);
        }
        let (token, until) = (Some(token), Some(until));
        let lock = LOCK.to_owned();
        self.note_of(who, What::Believes { lock, token, until });
    }

    fn write(&mut self, who: usize, token: u64) {
        let accepted = token >= self.highest;
        self.highest = self.highest.max(token);
        let write = What::Write {
            resource: "account".to_owned(),
            value: self.clients[who].name.clone(),
            token: Some(token),
            accepted,
            note: String::new(),
        };
        self.note("resource", write);
    }

    fn give_back(&mut self, who: usize) {
        let lock = LOCK.to_owned();
        self.note_of(who, What::GaveBack { lock });
        self.clients[who].state = State::Idle;
        self.free(who);
    }

    fn renew(&mut self, who: usize) {
        let State::Believing(token, before) = self.clients[who].state else {
            return;
        };
        if before <= self.now + STEP || self.holder != Some(who) {
            return self.learn_of_the_loss(who);
        }
        let until = self.now + LEASE;
        let lock = LOCK.to_owned();
        self.note_of(who, What::Renewed { lock, until });
        self.clients[who].state = State::Believing(token, until);
    }

    fn learn_of_the_loss(&mut self, who: usize) {
        let (lock, why) = (LOCK.to_owned(), "the lease is over".to_owned());
        self.note_of(who, What::Lost { lock, why });
        self.clients[who].state = State::Idle;
        self.free(who);
    }

    fn pause(&mut self, who: usize) {
        self.clients[who].paused = true;
        self.note_of(who, What::Paused);
        // A waiter that does not renew loses its place.
        self.line.retain(|waiting| *waiting != who);
    }

    fn resume(&mut self, who: usize) {
        self.clients[who].paused = false;
        self.note_of(who, What::Resumed);
        match self.clients[who].state {
            State::Waiting => self.leave(who),
            // The classic: it writes first and looks at the clock later.
            State::Believing(token, _) => self.write(who, token),
            _ => {}
        }
    }

    fn kill(&mut self, who: usize) {
        self.note_of(who, What::Killed);
        self.clients[who].state = State::Dead;
        self.line.retain(|waiting| *waiting != who);
        self.free(who);
    }

    fn free(&mut self, who: usize) {
        if self.holder == Some(who) {
            self.holder = None;
            let (lock, owner) = (LOCK.to_owned(), None);
            self.note("server", What::Holds { lock, owner });
        }
    }

    /// What the server does by itself: ends leases, grants the lock to who is first.
    fn settle(&mut self) {
        let holder = self.holder.map(|who| (who, self.clients[who].state));
        if let Some((who, State::Believing(_, until))) = holder
            && until < self.now
        {
            self.free(who);
        }
        if self.holder.is_none()
            && let Some(who) = self.line.pop_front()
        {
            self.grant(who);
        }
    }

    fn grant(&mut self, who: usize) {
        self.holder = Some(who);
        let (lock, owner) = (LOCK.to_owned(), Some(self.clients[who].name.clone()));
        self.note("server", What::Holds { lock, owner });
        self.tokens += 1;
        let (call, answer) = (self.clients[who].call, "granted".to_owned());
        self.note_of(who, What::Done { call, answer });
        let (token, until) = (self.tokens, self.now + LEASE);
        self.clients[who].state = State::Believing(token, until);
        self.believe(who, token, until);
    }

    fn heal(&mut self) {
        for who in 0..self.clients.len() {
            if self.clients[who].paused && self.clients[who].state != State::Dead {
                self.resume(who);
            }
        }
        while self.holder.is_some() || !self.line.is_empty() {
            if let Some(who) = self.holder {
                self.give_back(who);
            }
            self.settle();
        }
    }

    /// The clients 4 to 7 come one behind the other, and each writes twice.
    fn last_turns(&mut self) {
        for who in 4..8 {
            self.ask(who);
            self.settle();
        }
        for who in 4..8 {
            let token = self.tokens;
            self.write(who, token);
            self.write(who, token);
            self.give_back(who);
            self.settle();
        }
    }
}
