//! What the real server says about itself, and what can therefore be promised.

use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

use super::answer::{REDIS, meaning};
use super::link::{Link, Told, limited};
use super::route::Route;
use super::{scripts, wire};
use crate::error::Error;
use crate::guarantees::{Class, Guarantees};

const FSYNC: &str = "appendfsync";
const LAX: &str = "no-appendfsync-on-rewrite";

/// What a server says about itself, as far as it lets itself be asked.
#[derive(Debug, Default)]
pub(super) struct Facts {
    info: Option<String>,
    fsync: Option<String>,
    /// Whether it goes on without writing to disk while its log is rewritten.
    lax_while_rewriting: bool,
}

impl Facts {
    /// Asks the server. What the user may not ask stays unknown.
    pub(super) async fn of(link: &Link) -> Result<Self, Error> {
        let info = allowed(link.command(&redis::cmd("INFO")).await)?;
        let mut config = redis::cmd("CONFIG");
        config.arg("GET").arg(FSYNC).arg(LAX);
        let config = allowed(link.command(&config).await)?;
        let setting = |name| config.as_ref().and_then(|all| value_of(all, name));
        Ok(Self {
            info: info.as_ref().and_then(text),
            fsync: setting(FSYNC),
            lax_while_rewriting: setting(LAX).as_deref() == Some("yes"),
        })
    }

    fn says(&self, field: &str) -> Option<&str> {
        let lines = self.info.as_deref()?.lines();
        let mut fields = lines.filter_map(|line| line.split_once(':'));
        fields
            .find(|(name, _)| *name == field)
            .map(|(_, said)| said.trim())
    }

    fn version(&self) -> Option<u32> {
        // Valkey goes on numbering where Redis was, under a name of its own.
        let version = self.says("redis_version")?;
        version.split('.').next()?.parse().ok()
    }

    /// Refuses a server that cannot keep locks at all.
    pub(super) fn usable(&self, is_cluster: bool) -> Result<(), Error> {
        let why = if self.version().is_some_and(|major| major < 7) {
            "the server is too old: version 7.0 or later is needed"
        } else if self.says("role") == Some("slave") {
            "the server is a replica, which cannot be written to: name its master"
        } else if self.says("cluster_enabled") == Some("1") && !is_cluster {
            "the server is part of a cluster: write redis+cluster://"
        } else {
            return Ok(());
        };
        Err(Error::Refused {
            backend: REDIS,
            why: why.into(),
        })
    }

    /// Why grants may not survive everything; empty when they do.
    fn weaknesses(&self) -> Vec<String> {
        let mut found = Vec::new();
        let Some(_) = &self.info else {
            return vec!["this user may not ask the server how it stores (allow INFO)".into()];
        };
        if self.says("aof_enabled") != Some("1") {
            found.push("a restart forgets who holds (appendonly is off)".into());
        } else if self.fsync.as_deref() != Some("always") {
            let known = self.fsync.as_deref().unwrap_or("unknown");
            found.push(format!(
                "a crash may forget the last grants (appendfsync is {known}, not always)"
            ));
        } else if self.lax_while_rewriting {
            let why = "a crash while its log is rewritten may forget the last grants (no-appendfsync-on-rewrite is yes)";
            found.push(why.into());
        }
        if self
            .says("connected_slaves")
            .is_some_and(|count| count != "0")
        {
            found.push("it has replicas, and one that is promoted may lack the last grants".into());
        }
        if let Some(policy) = self.says("maxmemory_policy").filter(|p| *p != "noeviction") {
            found.push(format!(
                "when memory is full it drops locks that are held (maxmemory-policy is {policy}, not noeviction)"
            ));
        }
        found
    }
}

/// Refuses a user who may not run all that the scripts run: a script is not undone half-way.
pub(super) async fn may_run_scripts(
    route: &Route,
    key: Vec<u8>,
    channel: &str,
) -> Result<(), Error> {
    let during = "asking what this user may do";
    let (keys, args) = ([key], [channel.as_bytes()]);
    let probe = route.call(&scripts::PROBE, &keys, &args, Told::InTurn);
    let missing = limited(probe).await;
    let missing = missing.map_err(|error| meaning(error, during))?;
    let missing = wire::items(&missing).unwrap_or_default();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing
        .iter()
        .filter_map(text)
        .map(|word| format!("+{}", word.to_lowercase()));
    let missing = missing.collect::<Vec<_>>().join(" ");
    Err(Error::Denied {
        backend: REDIS,
        what: format!("this user lacks {missing}; add that to its ACL"),
    })
}

/// The promises that this server makes possible.
pub(super) fn guarantees(servers: &[Facts], more: &[&str]) -> Guarantees {
    let mut caveats: Vec<String> = more.iter().map(|more| (*more).to_owned()).collect();
    for weakness in servers.iter().flat_map(Facts::weaknesses) {
        if !caveats.contains(&weakness) {
            caveats.push(weakness);
        }
    }
    let class = if caveats.is_empty() {
        Class::Durable
    } else {
        Class::BestEffort
    };
    let class_reason = match class {
        Class::Durable => "one server decides; while it is down nobody is granted anything".into(),
        _ => caveats.join("; "),
    };
    caveats.extend([
        "a step of the server's clock ends leases early or late".into(),
        "FLUSHALL, or anybody who may write the keys, ends holds; the token still rises".into(),
        "the server's settings are asked for when connecting: what is changed later is not seen"
            .into(),
    ]);
    Guarantees {
        class_reason,
        survives: vec![
            "lost replies and lost pushes",
            "killed and paused holders, with the token checked by the resource",
            "SCRIPT FLUSH and CLIENT KILL",
        ],
        caveats,
        clock: "the server's wall clock",
        token: "one more than the last number of the bucket, which every new connection and the first claim in 50 ms lift to the server's time in microseconds; after data loss it rises if the clock of the server, or of the one that follows it, is not behind by more than the outage took".into(),
        ..Guarantees::of(REDIS, class)
    }
}

/// What this user may not ask, or nobody may, is no failure.
fn allowed(answer: Result<Value, RedisError>) -> Result<Option<Value>, Error> {
    let disabled = |error: &RedisError| {
        let said = error.detail().unwrap_or_default();
        said.contains("unknown command")
    };
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm) => Ok(None),
        Err(error) if disabled(&error) => Ok(None),
        Err(error) => Err(meaning(error, "asking the server about itself")),
    }
}

fn text(value: &Value) -> Option<String> {
    let text = match value {
        Value::VerbatimString { text, .. } => text.clone(),
        other => String::from_utf8_lossy(wire::bytes(other)?).into_owned(),
    };
    Some(text)
}

/// The value of this name in a map.
fn value_of(map: &Value, name: &str) -> Option<String> {
    let Value::Map(pairs) = map else { return None };
    let mut pairs = pairs.iter();
    let (_, value) = pairs.find(|(key, _)| text(key).as_deref() == Some(name))?;
    text(value)
}
