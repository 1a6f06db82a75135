//! A release in two steps: `GET` says that the lock is mine, and by the time of the `DEL` it is not.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lockkeeper_testbed::{Proxy, Redis, Reply};

use crate::Result;
use crate::actor::Deed;
use crate::history::What;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::deleting_somebody_elses_lock::{LONG, judge_deleted_lock, pay_in_one_by_one};
use super::props::{account, granted, judge_deposits, lock_on, read_account, set_nx, wait_for_nx};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "get-then-del-race",
    title: Text {
        en: "The race between GET and DEL",
        zh: "GET 与 DEL 之间的竞态",
    },
    story: Text {
        en: "So the release looks first: GET, and DEL only if the value is one's own. Between the two commands the lease may \
             end and somebody else may take the lock, which is then deleted all the same.",
        zh: "于是释放前先检查：GET 出来的值是自己的才 DEL。但两条命令之间租约可能到期，锁可能已被别人取得，结果照样被删。",
    },
    proves: "N1, N2, L4, bug 15",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "What GET saw is over by the time of the DEL, because nothing holds the two together.",
                zh: "GET 与 DEL 不是一个原子操作，等到 DEL 时，GET 看到的早已过时。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "One script compares and deletes at the server, so however late it arrives it frees nobody else's lock.",
                zh: "比较与删除由服务器上的同一个脚本完成，无论到得多晚，都不会释放别人的锁。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_millis(1500);

fn naive(stage: &Stage) -> Result<Outcome> {
    let (redis, account) = (Redis::start()?, account(stage)?);
    let _truth = stage.watch_key(&redis, "redis", "lock");
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    // On a slow machine the lease may be over before the look: then once more.
    wait_until("client A sees its own name", || {
        set_nx(&mut a, &redis, LEASE)?;
        Ok(a.redis(&redis, &["GET", "lock"])?.as_deref() == Some("client A"))
    })?;
    a.pause()?;
    wait_for_nx(&mut b, &redis, LONG)?;
    let read = read_account(&mut b, &account)?;
    a.resume()?;
    a.redis(&redis, &["DEL", "lock"])?;
    a.gives_back("lock");

    let told = "Client A saw its own name, stood still, and deleted the lock of client B; client C came in beside it.";
    judge_deleted_lock(stage, (&mut b, read), &redis, &account, told)
}

/// The release is on its way while the lease ends and B takes the lock.
fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let (redis, account) = (Redis::start()?, account(stage)?);
    let proxy = Proxy::to(redis.address())?;
    let _truth = stage.watch_lock(&redis.url(), "redis", "lock")?;
    let watchers = peers(&redis)?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let through_proxy = format!("redis://{}", proxy.address());
    granted(&mut a, &lock_on(&through_proxy, LEASE))?;
    proxy.delay_requests(Duration::from_secs(60))?;
    let how = "requests are held back".to_owned();
    stage.note("client A", What::LinkBroken { how });
    let name = "lock".to_owned();
    let release = Deed::Release { name };
    a.begin(&release)?;
    // Time to send it, and not to give up on it; what came of it is seen below.
    sleep(LEASE / 6);
    a.pause()?;
    let ask = lock_on(&redis.url(), LONG);
    granted(&mut b, &ask)?;
    let read = read_account(&mut b, &account)?;
    redis.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "0"])?;
    proxy.heal()?;
    stage.note("client A", What::LinkHealed);
    let arrived = soon_asked(&redis, &watchers)?;
    a.resume()?;
    a.finish(&release)?;

    let told = if arrived {
        "The release of client A reached the server when client B had the lock."
    } else {
        "Client A was stopped before its release was sent, and woke when client B had the lock."
    };
    let mut c = stage.client("client C")?;
    pay_in_one_by_one(&mut b, read, &mut c, &ask, &account)?;
    judge_deposits(&account, told)
}

/// Who is connected to the server.
fn peers(redis: &Redis) -> Result<Vec<String>> {
    let list = redis.ask(&["CLIENT", "LIST"])?.text();
    let others = list
        .lines()
        .filter(|line| !line.contains("cmd=client|list"));
    let address = |line: &str| {
        let mut words = line.split(' ');
        words.find_map(|word| word.strip_prefix("addr=").map(str::to_owned))
    };
    Ok(others.filter_map(address).collect())
}

/// Whether anybody but these soon does something to the lock, by the server's log of commands.
fn soon_asked(redis: &Redis, but: &[String]) -> Result<bool> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        if let Reply::List(entries) = redis.ask(&["SLOWLOG", "GET", "-1"])?
            && entries.iter().any(|entry| is_about_lock(entry, but))
        {
            return Ok(true);
        }
        sleep(Duration::from_millis(10));
    }
    Ok(false)
}

fn is_about_lock(entry: &Reply, but: &[String]) -> bool {
    let text = entry.text();
    let by_them = text.lines().any(|line| but.iter().any(|peer| peer == line));
    !by_them && text.lines().any(|line| line.ends_with(":k:lock"))
}
