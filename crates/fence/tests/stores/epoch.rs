//! Epoch marking, exhaustively: every interleaving of two writers and their messages over three copies, with
//! the copies' own code. And the same with each of its parts left out, where the harm must be found.

use std::collections::HashSet;

use lockkeeper_fence::epoch::{
    CopyState, Epoch, EpochError, MemoryCopy, Reading, Written, majority, read,
};
use lockkeeper_fence::{Pass, Token};

use crate::stage::runtime;

const COPIES: usize = 3;

fn pass_of(writer: usize) -> Pass {
    Pass::from(Token::new(writer as u64 + 1, 0).unwrap())
}

/// What is left out of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// The new holder reads a majority, but does not mark it.
    NoMark,
    /// One marked copy is thought to be enough.
    MarkOne,
    /// Copies take every write.
    NoComparison,
}

/// One writer: which messages have arrived, what they brought, what it has decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Writer {
    marks_arrived: u8,
    marked: u8,
    /// The latest value that its marks have brought.
    learned: Option<Written<usize>>,
    /// It has seen enough marks: what it starts from.
    begun: Option<Option<usize>>,
    writes_arrived: u8,
    accepted: u8,
}

impl Writer {
    fn acknowledged(&self) -> bool {
        self.accepted.count_ones() as usize >= majority(COPIES)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct World {
    copies: [CopyState<usize>; COPIES],
    writers: [Writer; 2],
}

impl World {
    /// All worlds that are one step away: a message arrives somewhere, or a writer goes on. A message that
    /// never arrives, and a writer that never goes on, are worlds where others step for ever.
    fn next(&self, bug: Bug) -> Vec<World> {
        let mut worlds = Vec::new();
        for writer in 0..self.writers.len() {
            for copy in 0..COPIES {
                worlds.extend(self.mark_arrives(writer, copy, bug));
                worlds.extend(self.write_arrives(writer, copy, bug));
            }
            worlds.extend(self.writer_begins(writer, bug));
        }
        worlds
    }

    fn mark_arrives(&self, writer: usize, copy: usize, bug: Bug) -> Option<World> {
        let bit = 1 << copy;
        if self.writers[writer].marks_arrived & bit != 0 {
            return None;
        }
        let mut world = self.clone();
        let me = &mut world.writers[writer];
        me.marks_arrived |= bit;
        let answer = match bug {
            Bug::NoMark => Ok(world.copies[copy].written.clone()),
            _ => world.copies[copy].mark(&pass_of(writer)),
        };
        // What comes after the decision is not listened to.
        if let (Ok(found), None) = (answer, &me.begun) {
            me.marked |= bit;
            let rank = |written: &Option<Written<usize>>| written.as_ref().map(|w| w.pass.token());
            if rank(&found) > rank(&me.learned) {
                me.learned = found;
            }
        }
        Some(world)
    }

    fn writer_begins(&self, writer: usize, bug: Bug) -> Option<World> {
        let me = &self.writers[writer];
        let needed = if bug == Bug::MarkOne {
            1
        } else {
            majority(COPIES)
        };
        if me.begun.is_some() || (me.marked.count_ones() as usize) < needed {
            return None;
        }
        let mut world = self.clone();
        world.writers[writer].begun = Some(me.learned.as_ref().map(|written| written.value));
        Some(world)
    }

    fn write_arrives(&self, writer: usize, copy: usize, bug: Bug) -> Option<World> {
        let bit = 1 << copy;
        let me = &self.writers[writer];
        if me.begun.is_none() || me.writes_arrived & bit != 0 {
            return None;
        }
        let mut world = self.clone();
        let new = Written {
            pass: pass_of(writer),
            turn: 1,
            value: writer,
        };
        let taken = match bug {
            Bug::NoComparison => {
                world.copies[copy].written = Some(new);
                true
            }
            _ => world.copies[copy].write(&new).is_ok(),
        };
        world.writers[writer].writes_arrived |= bit;
        world.writers[writer].accepted |= if taken { bit } else { 0 };
        Some(world)
    }

    /// What no reader and no holder may ever meet.
    fn harm(&self) -> Option<&'static str> {
        let [old, new] = &self.writers;
        // Any two copies are a majority that somebody may read.
        let reads = (0..COPIES).map(|left_out| {
            let read = self
                .copies
                .iter()
                .enumerate()
                .filter(|(copy, _)| *copy != left_out);
            let written = read.filter_map(|(_, copy)| copy.written.as_ref());
            written
                .max_by_key(|written| written.pass.token())
                .map(|written| written.value)
        });
        if new.acknowledged() && reads.clone().any(|value| value != Some(1)) {
            return Some("a stale write stands over an acknowledged one");
        }
        if old.acknowledged() && reads.clone().any(|value| value.is_none()) {
            return Some("an acknowledged write is lost");
        }
        if old.acknowledged() && new.begun == Some(None) {
            return Some("the old holder completed a write that the new one does not know of");
        }
        None
    }
}

/// Walks through all worlds; tells how many there are, and a harm if one was met.
fn explore(bug: Bug) -> (usize, Option<&'static str>) {
    let mut seen = HashSet::from([World::default()]);
    let mut open = vec![World::default()];
    while let Some(world) = open.pop() {
        if let Some(harm) = world.harm() {
            return (seen.len(), Some(harm));
        }
        for next in world.next(bug) {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    (seen.len(), None)
}

// proves: F4
#[test]
fn no_interleaving_leaves_a_stale_write_standing() {
    let (worlds, harm) = explore(Bug::None);
    println!("{worlds} worlds");
    assert_eq!(harm, None);
    assert!(worlds > 1_000, "{worlds} worlds are not all");
}

// proves: F4
#[test]
fn each_part_of_it_is_needed() {
    for bug in [Bug::NoMark, Bug::MarkOne, Bug::NoComparison] {
        let (worlds, harm) = explore(bug);
        println!("{bug:?}: {harm:?} after {worlds} worlds");
        assert!(
            harm.is_some(),
            "{bug:?} does no harm: this test can prove nothing"
        );
    }
}

// proves: F4
#[test]
fn an_epoch_is_begun_written_and_ended_by_the_next() {
    let copies: Vec<MemoryCopy<&str>> = (0..5).map(|_| MemoryCopy::default()).collect();
    runtime().block_on(async {
        let mut old = Epoch::begin(&copies, pass_of(0)).await.unwrap();
        assert_eq!(old.latest(), None);
        old.write("first").await.unwrap();
        old.write("second").await.unwrap();
        let mut new = Epoch::begin(&copies, pass_of(1)).await.unwrap();
        assert_eq!(new.latest(), Some(&"second"));
        let late = old.write("late").await.unwrap_err();
        let EpochError::Refused(refusal) = late else {
            panic!("{late:?}");
        };
        assert_eq!(
            (refusal.offered(), refusal.highest()),
            (pass_of(0).token(), pass_of(1).token())
        );
        new.write("third").await.unwrap();
        // A majority has it; the others may lag behind.
        let value = match read(&copies).await.unwrap() {
            Reading::Settled(value) => value,
            Reading::Unsettled(value) => Some(value),
        };
        assert_eq!(value, Some("third"));
        // The same claim may begin again, and goes on counting.
        let mut again = Epoch::begin(&copies, pass_of(1)).await.unwrap();
        again.write("fourth").await.unwrap();
        assert_eq!(again.latest(), Some(&"fourth"));
        assert!(Epoch::begin(&copies, pass_of(0)).await.is_err());
    });
}
