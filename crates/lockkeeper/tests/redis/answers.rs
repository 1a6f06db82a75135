//! Each answer of a server in trouble has its outcome: a real server is put into each state.

use std::time::{Duration, Instant};

use lockkeeper::backend::{Backend, Entry, Released, Standing};
use lockkeeper::{Error, Mode};
use lockkeeper_testbed::{Redis, Setup};

use crate::stage::{LONG, backend, claim, exclusive, immortal, insist, order, try_backend};

/// What the table promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Denied,
    Refused,
    Invalid,
    Unknown,
}

fn outcome(error: &Error) -> Outcome {
    match error {
        Error::Denied { .. } => Outcome::Denied,
        Error::Refused { .. } => Outcome::Refused,
        Error::Invalid { .. } => Outcome::Invalid,
        Error::Unreachable { .. } => Outcome::Unknown,
        other => panic!("{other}"),
    }
}

struct State {
    name: &'static str,
    begin: &'static [&'static [&'static str]],
    end: &'static [&'static [&'static str]],
    outcome: Outcome,
}

const STATES: &[State] = &[
    State {
        name: "OOM",
        begin: &[&["CONFIG", "SET", "maxmemory", "1"]],
        end: &[&["CONFIG", "SET", "maxmemory", "0"]],
        outcome: Outcome::Refused,
    },
    State {
        name: "NOREPLICAS",
        begin: &[&["CONFIG", "SET", "min-replicas-to-write", "1"]],
        end: &[&["CONFIG", "SET", "min-replicas-to-write", "0"]],
        outcome: Outcome::Refused,
    },
    State {
        name: "READONLY",
        begin: &[&["REPLICAOF", "127.0.0.1", "1"]],
        end: &[&["REPLICAOF", "NO", "ONE"]],
        outcome: Outcome::Unknown,
    },
    State {
        name: "MASTERDOWN",
        begin: &[
            &["CONFIG", "SET", "replica-serve-stale-data", "no"],
            &["REPLICAOF", "127.0.0.1", "1"],
        ],
        end: &[
            &["REPLICAOF", "NO", "ONE"],
            &["CONFIG", "SET", "replica-serve-stale-data", "yes"],
        ],
        outcome: Outcome::Unknown,
    },
    State {
        name: "NOPERM for the call",
        begin: &[&["ACL", "SETUSER", "default", "-evalsha"]],
        end: &[&["ACL", "SETUSER", "default", "+@all"]],
        outcome: Outcome::Denied,
    },
    State {
        name: "NOPERM for a command in the script",
        begin: &[&["ACL", "SETUSER", "default", "-set"]],
        end: &[&["ACL", "SETUSER", "default", "+@all"]],
        outcome: Outcome::Unknown,
    },
    State {
        name: "NOPERM for the keys",
        begin: &[&["ACL", "SETUSER", "default", "resetkeys", "~other:*"]],
        end: &[&["ACL", "SETUSER", "default", "allkeys"]],
        outcome: Outcome::Denied,
    },
];

/// A claim is asked for in this state: told in time, with this outcome, and nothing is left of it.
async fn told_in(one: &dyn Backend, state: &str, expected: Outcome) {
    let claim = exclusive("fresh");
    let start = Instant::now();
    let told = one.enter(&claim, Entry::Queue).await;
    let took = start.elapsed();
    let error = told.expect_err(state);
    assert_eq!(outcome(&error), expected, "{state}: {error}");
    assert!(took < Duration::from_secs(5), "{state}: {took:?}");
}

/// All is well again: the old claim still holds, the one that was refused has left nothing.
async fn well_again(one: &dyn Backend, held: &lockkeeper::claim::Claim, state: &str) {
    order(insist(|| one.renew(std::slice::from_ref(held))).await[0]);
    let fresh = exclusive("fresh");
    let told = insist(|| one.enter(&fresh, Entry::Try)).await;
    assert!(matches!(told, Standing::Holds { .. }), "{state}: {told:?}");
    assert_eq!(insist(|| one.release(&fresh)).await, Released::Freed);
}

// proves: L5
#[tokio::test]
async fn each_trouble_has_its_outcome() {
    for state in STATES {
        let server = Redis::start().unwrap();
        let one = backend(&server.url()).await;
        let held = exclusive("held");
        order(one.enter(&held, Entry::Queue).await.unwrap());
        for command in state.begin {
            server.ask(command).unwrap();
        }
        told_in(&*one, state.name, state.outcome).await;
        let renewed = one.renew(std::slice::from_ref(&held)).await;
        let gone = renewed.is_ok_and(|told| told[0] == Standing::Gone);
        assert!(
            !gone,
            "{}: a claim that is there is called gone",
            state.name
        );
        for command in state.end {
            server.ask(command).unwrap();
        }
        well_again(&*one, &held, state.name).await;
    }
}

/// A right that is taken away while we are connected: a script that may not run one of its commands has run those
/// before. Nothing without an end is left, nobody holds who should not, and no refusal counts
/// as definite.
// proves: L1, L5, L12
#[tokio::test]
async fn a_right_taken_away_leaves_nothing_for_ever_and_nobody_beside_another() {
    for right in [
        "pexpire",
        "pexpireat",
        "set",
        "get",
        "time",
        "zadd",
        "hset",
        "publish",
        "zrem",
    ] {
        let server = Redis::start().unwrap();
        let one = backend(&server.url()).await;
        let enter = async |name: &str, mode| {
            let claim = claim(name, mode, LONG);
            (one.enter(&claim, Entry::Queue).await, claim)
        };
        let readers = [
            enter("read", Mode::Shared).await.1,
            enter("read", Mode::Shared).await.1,
        ];
        let writer = enter("read", Mode::Exclusive).await.1;
        enter("alone", Mode::Exclusive).await.0.unwrap();
        let take = |sign: &str| {
            ["ACL", "SETUSER", "default"]
                .map(str::to_owned)
                .into_iter()
                .chain([format!("{sign}{right}")])
                .collect::<Vec<_>>()
        };
        let ask = |words: Vec<String>| {
            server
                .ask(&words.iter().map(String::as_str).collect::<Vec<_>>())
                .unwrap()
        };
        ask(take("-"));
        for told in [
            enter("fresh", Mode::Exclusive).await.0.map(drop),
            enter("alone", Mode::Exclusive).await.0.map(drop),
            enter("read", Mode::Exclusive).await.0.map(drop),
            one.release(&readers[0]).await.map(drop),
        ] {
            let outcome = told.map_err(|error| outcome(&error));
            match outcome {
                Ok(()) | Err(Outcome::Unknown) => {}
                Err(other) => panic!("-{right}: {other:?}"),
            }
        }
        ask(take("+"));
        assert_eq!(immortal(&server), Vec::<String>::new(), "-{right}");
        let both = [readers[1].clone(), writer];
        let told = one.renew(&both).await.unwrap();
        let held = told
            .iter()
            .filter(|told| matches!(told, Standing::Holds { .. }));
        assert!(held.count() <= 1, "-{right}: {told:?}");
    }
}

#[tokio::test]
async fn a_foreign_key_is_named_and_left_alone() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    let (held, other) = (exclusive("n"), exclusive("other"));
    order(one.enter(&held, Entry::Queue).await.unwrap());
    order(one.enter(&other, Entry::Queue).await.unwrap());
    let keys = crate::stage::keys_left(&server);
    let key = keys.iter().find(|key| key.ends_with(":n")).unwrap();
    for foreign in [
        ["SET", key, "theirs"],
        ["LPUSH", key, "theirs"],
        ["SADD", key, "theirs"],
    ] {
        server.ask(&["DEL", key]).unwrap();
        server.ask(&foreign).unwrap();
        let calls = [
            one.enter(&exclusive("n"), Entry::Queue).await.map(drop),
            one.enter(&exclusive("n"), Entry::Try).await.map(drop),
            one.release(&held).await.map(drop),
            one.downgrade(&held).await.map(drop),
        ];
        for told in calls {
            assert_eq!(outcome(&told.unwrap_err()), Outcome::Invalid);
        }
        // In a batch the claim is gone, and the others keep their leases.
        let both = one.renew(&[held.clone(), other.clone()]).await.unwrap();
        assert_eq!(both[0], Standing::Gone);
        order(both[1]);
        let kind = server.ask(&["TYPE", key]).unwrap().text();
        assert!(["string", "list", "set"].contains(&kind.as_str()), "{kind}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_save_refuses_until_it_can() {
    let setup = Setup::new().setting("enable-protected-configs", "yes");
    let server = Redis::start_with(&setup).unwrap();
    let one = backend(&server.url()).await;
    let held = exclusive("held");
    order(one.enter(&held, Entry::Queue).await.unwrap());
    let gone = tempfile::tempdir().unwrap();
    let path = gone.path().display().to_string();
    server.ask(&["CONFIG", "SET", "dir", &path]).unwrap();
    drop(gone);
    server.ask(&["CONFIG", "SET", "save", "3600 1"]).unwrap();
    let _fails = server.ask(&["BGSAVE"]);
    let fails = Instant::now() + Duration::from_secs(5);
    while server
        .ask(&["INFO", "persistence"])
        .unwrap()
        .text()
        .contains("last_bgsave_status:ok")
    {
        assert!(Instant::now() < fails, "the save should fail");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    told_in(&*one, "MISCONF", Outcome::Refused).await;
    let renewed = one.renew(std::slice::from_ref(&held)).await;
    let released = one.release(&held).await;
    for told in [renewed.map(drop), released.map(drop)] {
        assert_eq!(outcome(&told.unwrap_err()), Outcome::Refused);
    }
    server.ask(&["CONFIG", "SET", "save", ""]).unwrap();
    // Refused means that nothing changed: it still holds.
    well_again(&*one, &held, "MISCONF").await;
    assert_eq!(one.release(&held).await.unwrap(), Released::Freed);
}

#[tokio::test]
async fn a_server_that_loads_is_asked_again() {
    let server = Redis::start_with(&Setup::new().durable()).unwrap();
    let one = backend(&server.url()).await;
    let held = exclusive("held");
    order(one.enter(&held, Entry::Queue).await.unwrap());
    // Clients are told once per thousand commands that are loaded.
    let fill = "for i = 1, 5000 do redis.call('SET', 'filler' .. i, 'x') end";
    server.ask(&["EVAL", fill, "0"]).unwrap();
    server
        .ask(&["CONFIG", "SET", "key-load-delay", "200"])
        .unwrap();
    server
        .ask(&[
            "CONFIG",
            "SET",
            "loading-process-events-interval-bytes",
            "1024",
        ])
        .unwrap();
    let address = server.address();
    let loads = std::thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        std::io::Write::write_all(&mut stream, b"DEBUG LOADAOF\r\n").unwrap();
        let _done = std::io::Read::read(&mut stream, &mut [0; 16]);
    });
    let begins = Instant::now() + Duration::from_secs(5);
    loop {
        let told = one.enter(&held, Entry::Queue).await;
        if let Err(error) = told {
            assert_eq!(outcome(&error), Outcome::Unknown, "{error}");
            assert!(
                format!("{error:?}").contains("LOADING") || error.to_string().contains("oading"),
                "{error}"
            );
            break;
        }
        assert!(Instant::now() < begins, "it should load");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server_config_eventually(&server);
    loads.join().unwrap();
    well_again(&*one, &held, "LOADING").await;
}

/// While loading, only some commands are answered.
fn server_config_eventually(server: &Redis) {
    let _refused = server.ask(&["CONFIG", "SET", "key-load-delay", "0"]);
}

#[tokio::test]
async fn a_server_busy_with_somebody_elses_script_is_asked_again() {
    let setup = Setup::new().setting("busy-reply-threshold", "50");
    let server = Redis::start_with(&setup).unwrap();
    let one = backend(&server.url()).await;
    let held = exclusive("held");
    order(one.enter(&held, Entry::Queue).await.unwrap());
    let address = server.address();
    let runs = std::thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let command = b"EVAL \"while true do end\" 0\r\n";
        std::io::Write::write_all(&mut stream, command).unwrap();
        let _killed = std::io::Read::read(&mut stream, &mut [0; 16]);
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    told_in(&*one, "BUSY", Outcome::Unknown).await;
    server.ask(&["SCRIPT", "KILL"]).unwrap();
    runs.join().unwrap();
    well_again(&*one, &held, "BUSY").await;
}

#[tokio::test]
async fn at_the_door() {
    let server = Redis::start().unwrap();
    server.ask(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let told = try_backend(&server.url()).await.unwrap_err();
    assert_eq!(outcome(&told), Outcome::Refused, "{told}");
    assert!(told.to_string().contains("replica"), "{told}");
    server.ask(&["REPLICAOF", "NO", "ONE"]).unwrap();

    // Full: the one question that asks for it takes the only place.
    let _holds_the_place = std::net::TcpStream::connect(server.address()).unwrap();
    server.ask(&["CONFIG", "SET", "maxclients", "1"]).unwrap();
    let told = try_backend(&server.url()).await.unwrap_err();
    assert_eq!(outcome(&told), Outcome::Unknown, "{told}");
}
