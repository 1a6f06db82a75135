//! A write that is still on its way when its writer loses the lock: a resource without a fence takes it whenever it comes.

use std::time::Duration;

use lockkeeper_testbed::{Proxy, Redis};

use crate::Result;
use crate::actor::{Client, Deed};
use crate::history::What;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{account, deposit, granted, judge_deposits, lock_on, read_account};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "lock-delay",
    title: Text {
        en: "A write on its way outlives the lock",
        zh: "还在路上的写入比锁活得更久",
    },
    story: Text {
        en: "A client sends its write in time, the network holds it back, and the client stands still until its lease is over. \
             The resource cannot compare tokens, so the old write lands on top of the next holder's.",
        zh: "客户端按时发出写入，网络却把它扣在路上，客户端自己又停到了租约到期。资源不会比较令牌，于是旧的写入落在了下一个\
             持有者的写入之上。",
    },
    proves: "N1, N2, F6",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "The lock was free as soon as the lease was over, while what its holder had sent was still on the wire.",
                zh: "租约一到期锁就空了出来，而持有者发出的请求还在网线上。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "With a lock-delay a lock that was lost keeps others out until what its holder had sent has arrived, if that \
                     takes no longer than the delay.",
                zh: "设了 lock-delay，失去的锁会继续把别人挡在外面，等持有者发出的请求都到达；前提是路上的时间不超过这个延迟。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_millis(800);
/// How long the write is on its way where a delay must outlast it.
const ON_THE_WAY: Duration = Duration::from_millis(1200);
const DELAY: Duration = Duration::from_millis(3000);
/// The story ends it.
const FOR_EVER: Duration = Duration::from_secs(3600);

fn naive(stage: &Stage) -> Result<Outcome> {
    let (redis, account) = (Redis::start()?, account(stage)?);
    let link = Proxy::to(account.address())?;
    let _truth = stage.watch_key(&redis, "redis", "lock");
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let lease = LEASE.as_millis().to_string();
    connect(&mut a, &link)?;
    a.redis(&redis, &["SET", "lock", "client A", "NX", "PX", &lease])?;
    a.believes("lock", Some(LEASE));
    let read = read_account(&mut a, &account)?;
    let write = send(stage, &mut a, &link, read + 10, FOR_EVER)?;
    a.pause()?;

    let take = ["SET", "lock", "client B", "NX", "PX", "30000"];
    wait_until("client B gets the lock", || {
        Ok(b.redis(&redis, &take)?.is_some())
    })?;
    b.believes("lock", None);
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    link.heal()?;
    stage.note("resource", What::LinkHealed);
    a.resume()?;
    a.finish(&write)?;
    b.redis(&redis, &["DEL", "lock"])?;
    b.gives_back("lock");
    judge_deposits(
        &account,
        &format!(
            "Client A's write was on its way when its lease of {LEASE:?} ended, and arrived after client B's."
        ),
    )
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let (redis, account) = (Redis::start()?, account(stage)?);
    let link = Proxy::to(account.address())?;
    let mut ask = lock_on(&redis.url(), LEASE);
    ask.lock_delay_ms = Some(u64::try_from(DELAY.as_millis())?);
    let _truth = stage.watch_lock(&ask.url, "redis", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    connect(&mut a, &link)?;
    granted(&mut a, &ask)?;
    let read = read_account(&mut a, &account)?;
    let write = send(stage, &mut a, &link, read + 10, ON_THE_WAY)?;
    a.pause()?;

    // Nothing but the delay keeps client B from being too early.
    granted(&mut b, &ask)?;
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    a.resume()?;
    a.finish(&write)?;
    judge_deposits(
        &account,
        &format!(
            "Client A's write was on its way for {ON_THE_WAY:?}; client B was kept out for {DELAY:?} more than the lease, and \
             found {read_by_b} in the account."
        ),
    )
}

/// Connected before, so that nothing but the write is on its way.
fn connect(client: &mut Client, link: &Proxy) -> Result<()> {
    let address = link.address().to_string();
    let command = vec!["PING".to_owned()];
    client.ask(Deed::Redis { address, command })?;
    Ok(())
}

/// Sends a write over a link that holds it back; returns when it is on its way.
fn send(stage: &Stage, client: &mut Client, link: &Proxy, sum: i64, by: Duration) -> Result<Deed> {
    link.delay_requests(by)?;
    let how = "requests are held back".to_owned();
    stage.note("resource", What::LinkBroken { how });
    let write = Deed::Write {
        address: link.address().to_string(),
        key: "account".to_owned(),
        value: sum.to_string(),
        pass: None,
    };
    client.begin(&write)?;
    wait_until("the write is on its way", || Ok(link.on_the_way() > 0))?;
    Ok(write)
}
