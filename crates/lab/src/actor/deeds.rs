//! What a client can be told to do, and what it answers: a line of JSON each.

use serde::{Deserialize, Serialize};

/// What a client does when told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "deed", rename_all = "snake_case")]
pub enum Deed {
    /// A command on a connection to a Redis server. Nil is [`Answer::Nothing`].
    Redis {
        /// Where the server is.
        address: String,
        /// The command's words.
        command: Vec<String>,
    },
    /// Statements on one lasting connection to a SQL server, `postgres://` or `mysql://`. Gives the first column of
    /// the first row, or the number of rows changed.
    Sql {
        /// Where the server is.
        url: String,
        /// One statement.
        statement: String,
    },
    /// A verb of ZooKeeper on the one session of this client.
    ZooKeeper {
        /// Where the server is.
        address: String,
        /// How long the session outlives its client, in milliseconds; of the first verb.
        session_ms: u64,
        /// The verb.
        verb: ZooKeeperVerb,
    },
    /// A program, run to its end. Gives what it printed.
    Program {
        /// The program and its arguments.
        words: Vec<String>,
    },
    /// Acquires a lock of lockkeeper.
    Acquire(Ask),
    /// Gives back what was acquired under this name.
    Release {
        /// The name.
        name: String,
    },
    /// Asks the guard of this name whether it still holds.
    Check {
        /// The name.
        name: String,
    },
    /// Writes to the resource, a key of a Redis server: behind its fence with the pass of a lock of lockkeeper,
    /// with a number that came from elsewhere, or as it is.
    Write {
        /// Where the resource is.
        address: String,
        /// Its key.
        key: String,
        /// What to write.
        value: String,
        /// The pass to show.
        pass: Option<Shown>,
    },
    /// Many do the same at once, each with connections and sessions of its own. Answers when all have begun.
    Crowd {
        /// How many.
        size: usize,
        /// What each of them does.
        each: Box<Deed>,
    },
    /// Gives how many of the crowds have done what they were told, and failed at nothing.
    CrowdDone,
}

/// What a write shows to the fence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// The pass of the guard of this name, whether it still holds or not.
    OfGuard(String),
    /// A bare number.
    Number(u64),
}

/// The verbs of ZooKeeper that the stories need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZooKeeperVerb {
    /// Makes an ephemeral node; gives its path, or [`Answer::Nothing`] if there is one already.
    Create {
        /// Its path.
        path: String,
        /// Whether the server appends a rising number.
        sequential: bool,
    },
    /// Makes a lasting node, unless there is one.
    CreateLasting {
        /// Its path.
        path: String,
    },
    /// Deletes a node.
    Delete {
        /// Its path.
        path: String,
    },
    /// Gives the sorted names of a node's children, one per line.
    Children {
        /// Its path.
        path: String,
    },
    /// Waits until the node is deleted; answers at once if it is not there.
    AwaitDeletion {
        /// Its path.
        path: String,
    },
    /// Gives what is in a node: for an ephemeral one, the name of who made it.
    Read {
        /// Its path.
        path: String,
    },
    /// The lock of one common node: makes it, or waits with everybody else for its deletion and tries again.
    LockCommon {
        /// Its path.
        path: String,
    },
}

/// What to acquire, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The engine.
    pub url: String,
    /// The lock.
    pub name: String,
    /// The lease, in milliseconds.
    pub lease_ms: u64,
    /// How long to wait for it, in milliseconds; 0: not at all.
    pub within_ms: u64,
    /// Whether the lease is never renewed.
    pub fixed: bool,
    /// Others are kept out this long after a loss, in milliseconds.
    pub lock_delay_ms: Option<u64>,
    /// Whether this enters a lock again that this client holds already.
    pub again: bool,
    /// Where the numbers come from, if not from the engine.
    pub tokens: Option<String>,
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was done, and this was said.
    Text(String),
    /// It was done, and the answer is nothing (a nil, no rows, not granted without an error).
    Nothing,
    /// The lock is held.
    Granted {
        /// Its fencing token.
        token: u64,
        /// Until when it may be believed, on the machine's monotonic clock.
        until: u64,
    },
    /// The fence took the write.
    Accepted {
        /// The token that came.
        token: u64,
    },
    /// The fence refused the write.
    Refused {
        /// The token that came.
        offered: u64,
        /// The highest that was seen.
        highest: u64,
    },
    /// The lock is not held (any more).
    Lost(String),
    /// It was not done.
    Failed(String),
    /// It may have been done.
    Unknown(String),
}

/// What a client's process says, unasked or asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said {
    /// The answer to the deed that it was told last.
    Answer {
        /// When it was done, on the machine's monotonic clock.
        at: u64,
        /// How it went.
        answer: Answer,
    },
    /// A renewal was answered.
    Renewed {
        /// When.
        at: u64,
        /// The lock.
        lock: String,
        /// Until when it may be believed.
        until: u64,
    },
    /// A lock was lost.
    Lost {
        /// When the client learned it.
        at: u64,
        /// The lock.
        lock: String,
        /// What it was told.
        why: String,
    },
}

impl Deed {
    /// As a person would write it.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Deed::Redis { command, .. } => command.join(" "),
            Deed::Sql { statement, .. } => statement.clone(),
            Deed::ZooKeeper { verb, .. } => match verb {
                ZooKeeperVerb::Create { path, sequential } if *sequential => {
                    format!("create -e -s {path}")
                }
                ZooKeeperVerb::Create { path, .. } => format!("create -e {path}"),
                ZooKeeperVerb::CreateLasting { path } => format!("create {path}"),
                ZooKeeperVerb::Delete { path } => format!("delete {path}"),
                ZooKeeperVerb::Children { path } => format!("ls {path}"),
                ZooKeeperVerb::AwaitDeletion { path } => format!("watch {path}"),
                ZooKeeperVerb::Read { path } => format!("get {path}"),
                ZooKeeperVerb::LockCommon { path } => format!("lock {path}"),
            },
            Deed::Program { words } => words.join(" "),
            Deed::Acquire(ask) => format!("acquire {}", ask.name),
            Deed::Release { name } => format!("release {name}"),
            Deed::Check { name } => format!("check {name}"),
            Deed::Write { key, value, .. } => format!("write {key} = {value}"),
            Deed::Crowd { size, each } => format!("{size} times: {}", each.words()),
            Deed::CrowdDone => "how many are done".to_owned(),
        }
    }
}

impl Answer {
    /// As a person would write it.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Answer::Text(text) => text.clone(),
            Answer::Nothing => "nothing".to_owned(),
            Answer::Granted { token, .. } => format!("granted, token {token}"),
            Answer::Accepted { token } => format!("accepted, token {token}"),
            Answer::Refused { offered, highest } => {
                format!("refused: token {offered}, but {highest} was seen")
            }
            Answer::Lost(why) => format!("not held: {why}"),
            Answer::Failed(why) => format!("failed: {why}"),
            Answer::Unknown(why) => format!("unknown: {why}"),
        }
    }

    /// What was said, if it was done.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Answer::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether the lock is held.
    #[must_use]
    pub fn is_granted(&self) -> bool {
        matches!(self, Answer::Granted { .. })
    }

    /// The token of a grant.
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        match self {
            Answer::Granted { token, .. } => Some(*token),
            _ => None,
        }
    }
}
