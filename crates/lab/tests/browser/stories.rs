//! Made-up runs of made-up scenarios, as a real one would have written them down.

use std::time::Duration;

use lockkeeper_lab::history::{Event, What};
use lockkeeper_lab::scenario::{Expects, Outcome, Part, Scenario, Text, Verdict};
use lockkeeper_lab::stage::Stage;
use lockkeeper_lab::told::{Played, Told};

const MS: u64 = 1_000_000;
const LOCK: &str = "orders/4711";
const A: &str = "client A";
const B: &str = "client B";

/// Text that would act if it were not made harmless.
pub(crate) const HOSTILE: &str =
    "\"><img src=x onerror=alert(1)></svg><script>document.title='owned'</script>";

static PAUSE: Scenario = Scenario {
    name: "pause-after-check",
    title: Text {
        en: "A pause after the last check",
        zh: "最后一次检查之后的暂停",
    },
    story: Text {
        en: "A client checks that it holds, and then stands still, as garbage collectors and hypervisors make it \
             do. Its lease ends, somebody else gets the lock and writes. Then it goes on, and writes as well.",
        zh: "客户端确认自己持有锁之后停住了（垃圾回收、虚拟机迁移）。租约到期，别的客户端拿到锁并写入。随后它恢复运行，也写了一次。",
    },
    proves: "N1, F3",
    parts: &[NAIVE, FENCED],
};

const NAIVE: Part = Part {
    name: "naive",
    expects: Expects::Harm,
    why: Text {
        en: "Nothing tells the resource that the writer's time is over.",
        zh: "资源无从知道写入者的期限已过。",
    },
    play: never,
};

const FENCED: Part = Part {
    name: "fence",
    expects: Expects::NoHarm,
    why: Text {
        en: "The resource has seen token 34 and refuses 33.",
        zh: "资源见过 token 34，因此拒绝 33。",
    },
    play: never,
};

static CROWD: Scenario = Scenario {
    name: "crowd",
    title: Text {
        en: "Three clients, one server that falters",
        zh: "三个客户端与一台不稳定的服务器",
    },
    story: Text {
        en: "Everything that can happen, close together.",
        zh: "所有可能的事情挤在一起发生。",
    },
    proves: "N3",
    parts: &[FENCED],
};

const ACTING: Text = Text {
    en: HOSTILE,
    zh: HOSTILE,
};

static STRANGE: Scenario = Scenario {
    name: "strange",
    title: ACTING,
    story: ACTING,
    proves: HOSTILE,
    parts: &[FENCED],
};

fn never(_: &Stage) -> lockkeeper_lab::Result<Outcome> {
    Err("it is only told, not played".into())
}

/// All of them, as they are told.
pub(crate) fn all() -> Vec<Told> {
    let harm = Outcome::Harm(
        "client A overwrote what client B had written, 412 ms after its lease".to_owned(),
    );
    let refused =
        Outcome::Refused("the write with token 33 was refused, 34 had been seen".to_owned());
    let strange = Outcome::Prevented(HOSTILE.to_owned());
    vec![
        told(
            &PAUSE,
            vec![
                (&NAIVE, harm, naive()),
                (&FENCED, refused.clone(), fenced()),
            ],
        ),
        told(&CROWD, vec![(&FENCED, refused, crowd())]),
        told(&STRANGE, vec![(&FENCED, strange, hostile())]),
    ]
}

fn told(scenario: &'static Scenario, parts: Vec<(&'static Part, Outcome, Vec<Event>)>) -> Told {
    let played = |(part, outcome, history): (&'static Part, Outcome, Vec<Event>)| Played {
        part,
        verdict: Verdict::of(part.expects, &outcome),
        outcome,
        history,
        took: Duration::from_millis(2345),
    };
    let parts = parts.into_iter().map(played).collect();
    Told { scenario, parts }
}

fn at(ms: u64, lane: &str, what: What) -> Event {
    let (at, lane) = (ms * MS, lane.to_owned());
    Event { at, lane, what }
}

fn believes(token: Option<u64>, until_ms: Option<u64>) -> What {
    let until = until_ms.map(|ms| ms * MS);
    let lock = LOCK.to_owned();
    What::Believes { lock, token, until }
}

fn holds(owner: Option<&str>) -> What {
    let (lock, owner) = (LOCK.to_owned(), owner.map(str::to_owned));
    What::Holds { lock, owner }
}

fn write(value: &str, token: Option<u64>, accepted: bool, note: &str) -> What {
    let (resource, value) = ("stock".to_owned(), value.to_owned());
    let note = note.to_owned();
    What::Write {
        resource,
        value,
        token,
        accepted,
        note,
    }
}

/// A question that is answered after so many milliseconds.
fn call(ms: u64, lane: &str, number: u64, deed: &str, answer: (u64, &str)) -> [Event; 2] {
    let (call, deed) = (number, deed.to_owned());
    let asked = at(ms, lane, What::Asked { call, deed });
    let answered = What::Done {
        call,
        answer: answer.1.to_owned(),
    };
    [asked, at(ms + answer.0, lane, answered)]
}

fn naive() -> Vec<Event> {
    let set = "SET orders/4711 A NX PX 1000";
    let mut history = vec![
        at(45, A, believes(None, None)),
        at(50, "redis", holds(Some(A))),
        at(300, A, What::Paused),
        at(1045, "redis", holds(None)),
        at(1210, B, believes(None, None)),
        at(1215, "redis", holds(Some(B))),
        at(
            1400,
            "resource",
            write("1", None, true, "by client B, over \"2\""),
        ),
        at(1800, A, What::Resumed),
        at(
            1857,
            "resource",
            write("0", None, true, "by client A, over \"1\""),
        ),
    ];
    history.extend(call(40, A, 1, set, (5, "OK")));
    history.extend(call(600, B, 1, set, (4, "nothing")));
    history.extend(call(900, B, 2, set, (4, "nothing")));
    history.extend(call(1205, B, 3, set, (5, "OK")));
    history.extend(call(1394, B, 4, "write stock = 1", (6, "done")));
    history.extend(call(1851, A, 2, "write stock = 0", (6, "done")));
    history.sort_by_key(|event| event.at);
    history
}

fn fenced() -> Vec<Event> {
    let lost = What::Lost {
        lock: LOCK.to_owned(),
        why: "the lease ended while this process stood still".to_owned(),
    };
    let renewed = What::Renewed {
        lock: LOCK.to_owned(),
        until: 1380 * MS,
    };
    let waits = What::Waits {
        lock: LOCK.to_owned(),
    };
    let mut history = vec![
        at(48, A, believes(Some(33), Some(1040))),
        at(50, "etcd", holds(Some(A))),
        at(150, B, waits),
        at(382, A, renewed),
        at(420, A, What::Paused),
        at(1385, "etcd", holds(Some(B))),
        at(1390, B, believes(Some(34), Some(2380))),
        at(1502, "resource", write("1", Some(34), true, "by client B")),
        at(1800, A, What::Resumed),
        at(
            1806,
            "resource",
            write("0", Some(33), false, "token 33 is older than 34"),
        ),
        at(1812, A, lost),
        at(
            1950,
            B,
            What::GaveBack {
                lock: LOCK.to_owned(),
            },
        ),
        at(1955, "etcd", holds(None)),
    ];
    history.extend(fenced_calls());
    history.sort_by_key(|event| event.at);
    history
}

fn fenced_calls() -> Vec<Event> {
    let mut calls = Vec::new();
    calls.extend(call(
        40,
        A,
        1,
        "acquire orders/4711",
        (8, "granted, token 33"),
    ));
    calls.extend(call(
        150,
        B,
        1,
        "acquire orders/4711",
        (1240, "granted, token 34"),
    ));
    calls.extend(call(
        1495,
        B,
        2,
        "write stock = 1",
        (7, "accepted, token 34"),
    ));
    calls.extend(call(
        1801,
        A,
        2,
        "write stock = 0",
        (5, "refused: token 33, but 34 was seen"),
    ));
    calls.extend(call(1950, B, 3, "release orders/4711", (4, "released")));
    calls
}

fn crowd() -> Vec<Event> {
    let mut history = Vec::new();
    for turn in 0..60_u64 {
        let lane = match turn % 3 {
            0 => A,
            1 => B,
            // It is killed at that time.
            _ if turn < 50 => "client C",
            _ => A,
        };
        let (begin, token) = (turn * 100, 100 + turn);
        history.push(at(
            begin + 10,
            lane,
            believes(Some(token), Some(begin + 400)),
        ));
        history.push(at(begin + 12, "redis 1", holds(Some(lane))));
        let value = (60 - turn).to_string();
        history.push(at(
            begin + 40,
            "resource",
            write(&value, Some(token), true, ""),
        ));
        history.push(at(
            begin + 90,
            lane,
            What::GaveBack {
                lock: LOCK.to_owned(),
            },
        ));
        for step in 0..9 {
            let number = turn * 10 + step;
            history.extend(call(begin + 10 * step, lane, number, "PING", (3, "PONG")));
        }
    }
    history.extend(crowd_faults());
    history.sort_by_key(|event| event.at);
    history
}

fn crowd_faults() -> Vec<Event> {
    let note = |text: &str| What::Note {
        text: text.to_owned(),
    };
    let broken = What::LinkBroken {
        how: "replies are dropped".to_owned(),
    };
    let counted = What::Counted {
        of: "wake-ups".to_owned(),
        number: 59,
    };
    vec![
        at(1000, "redis 1", What::ClockMoved { by_ms: 60_000 }),
        at(1400, "redis 1", What::ClockMoved { by_ms: -1500 }),
        at(2000, "redis 1", What::Killed),
        at(2600, "redis 1", What::Restarted { with_data: false }),
        at(3000, B, broken),
        at(3900, B, What::LinkHealed),
        at(
            3100,
            A,
            note("here it begins to be interesting for who reads all of this"),
        ),
        at(3130, A, note("and again")),
        at(3160, A, note("and a third time, close by")),
        at(5000, "client C", What::Killed),
        at(
            5300,
            "resource",
            write("7", Some(110), false, "token 110 is older than 152"),
        ),
        at(6000, "redis 1", counted),
    ]
}

fn hostile() -> Vec<Event> {
    let text = || HOSTILE.to_owned();
    let until = Some(90 * MS);
    let token = Some(7);
    vec![
        at(
            1,
            HOSTILE,
            What::Asked {
                call: 1,
                deed: text(),
            },
        ),
        at(2, HOSTILE, What::Waits { lock: text() }),
        at(
            9,
            HOSTILE,
            What::Failed {
                call: 1,
                why: text(),
            },
        ),
        at(
            10,
            HOSTILE,
            What::Believes {
                lock: text(),
                token,
                until,
            },
        ),
        at(
            12,
            "server",
            What::Holds {
                lock: text(),
                owner: Some(text()),
            },
        ),
        at(20, "server", What::LinkBroken { how: text() }),
        at(30, HOSTILE, write(HOSTILE, Some(7), true, HOSTILE)),
        at(40, HOSTILE, write(HOSTILE, Some(6), false, HOSTILE)),
        at(
            50,
            HOSTILE,
            What::Lost {
                lock: text(),
                why: text(),
            },
        ),
        at(60, HOSTILE, What::Note { text: text() }),
        at(
            70,
            HOSTILE,
            What::Counted {
                of: text(),
                number: 1,
            },
        ),
    ]
}
