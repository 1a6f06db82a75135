//! Who can be measured: lockkeeper, the bare limits and floors beneath it, and its peers in Rust, all
//! behind one trait, so that every measurement treats them alike.

mod etcd;
mod etcd_wire;
mod flock;
mod keeper;
mod mysql;
mod postgres;
mod redis;
mod rslock;
mod sql;
mod zookeeper;

use crate::Result;

/// The one that all this is about.
pub(crate) const OURS: &str = "lockkeeper";
/// The least that a lock must write: once to take it, once to give it back. Nobody can wait for it.
pub(crate) const BARE: &str = "bare";
/// The same, with a number that rises from lock to lock.
pub(crate) const NUMBERED: &str = "bare with a number";
/// The quickest way from one waiting process to the next that the engine has.
pub(crate) const FLOOR: &str = "floor";

/// How long a lease of a limit or of a peer lasts: long enough to need no renewal in a round.
const LEASE_MS: u32 = 30_000;

/// Somebody who wants one name again and again. No boxes in between: they would cost a large future
/// more than a small one.
pub(crate) trait Contender: Send + 'static {
    fn acquire(&mut self) -> impl Future<Output = Result<()>> + Send;
    fn release(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// What the contenders of one process share: a connection, a session, a keeper.
pub(crate) trait Client {
    type Contender: Contender;

    async fn contender(&self, name: &str) -> Result<Self::Contender>;
}

/// What is done with a client, whatever its kind.
pub(crate) trait Role {
    async fn play(self, client: impl Client) -> Result<()>;
}

/// Connects one of a kind to the place at the URL, which is the one that lockkeeper would be given, and
/// lets it play.
pub(crate) async fn play(role: impl Role, kind: &str, url: &str) -> Result<()> {
    let (scheme, place) = url.split_once(':').ok_or("a URL is expected")?;
    let place = without_settings(place);
    match (kind, scheme) {
        (OURS, _) => role.play(keeper::connect(url).await?).await,
        (FLOOR, "local") => role.play(flock::open(url)?).await,
        (BARE, "redis" | "redlock") => role.play(redis::Bare::connect(place).await?).await,
        (NUMBERED, "redis") => role.play(redis::Bare::numbered(place).await?).await,
        (FLOOR, "redis") => role.play(redis::List::connect(place)?).await,
        ("rslock", "redis" | "redlock") => role.play(rslock::connect(place)).await,
        (BARE, "etcd") => role.play(etcd::Bare::connect(place).await?).await,
        (FLOOR, "etcd") => role.play(etcd::Watch::connect(place).await?).await,
        ("v3lock", "etcd") => role.play(etcd::V3Lock::connect(place).await?).await,
        (BARE, "zookeeper") => role.play(zookeeper::Bare::connect(place).await?).await,
        (FLOOR, "zookeeper") => role.play(zookeeper::Watch::connect(place).await?).await,
        (_, "postgres") => beneath::<postgres::Postgres>(role, kind, url).await,
        (_, "mysql") => beneath::<mysql::MySql>(role, kind, url).await,
        _ => Err(format!("there is no {kind:?} for {scheme}").into()),
    }
}

/// The limit or the floor beneath an SQL server's mode.
async fn beneath<C: sql::Connection>(role: impl Role, kind: &str, url: &str) -> Result<()> {
    let is_session = url.contains("mode=session");
    let (_, place) = url.split_once(':').ok_or("a URL is expected")?;
    let place = without_settings(place);
    match kind {
        BARE if is_session => role.play(sql::Sessions::<C>::with_token(place)).await,
        BARE => role.play(sql::Bare::<C>::connect(place).await?).await,
        FLOOR => role.play(sql::Sessions::<C>::alone(place)).await,
        _ => Err(format!("there is no {kind:?} for SQL").into()),
    }
}

/// Settings are lockkeeper's alone.
fn without_settings(place: &str) -> &str {
    let place = place.split('?').next().unwrap_or_default();
    place.trim_start_matches('/')
}
