//! What every picture must be, whatever happened.

use super::*;
use crate::checkers::planted::{
    asked, at, believes, done, failed, gave_back, holds, trusts, waits_for, write,
};
use crate::history::What;

fn english(history: &[Event]) -> String {
    svg(history, &Words::new(Language::English, "a test"))
}

/// A is paused beyond its lease, B gets the lock, A's write is refused.
fn classic() -> Vec<Event> {
    vec![
        at(0, "a", believes("x", 33, 100)),
        at(1, "etcd", holds("x", Some("a"))),
        at(20, "a", What::Paused),
        at(110, "etcd", holds("x", Some("b"))),
        at(111, "b", believes("x", 34, 220)),
        at(120, "resource", write(Some(34), true)),
        at(150, "a", What::Resumed),
        at(155, "resource", write(Some(33), false)),
        at(190, "b", gave_back("x")),
    ]
}

// proves: N3
#[test]
fn the_picture_shows_who_believed_who_held_and_what_was_refused() {
    let picture = english(&classic());
    for part in [
        "belief c0",
        "belief c1",
        "past c0",
        "outline c0",
        "hold c0",
        "hold c1",
        "lease c0",
        "pause",
        "accepted",
        "refused",
        "lease-over",
    ] {
        assert!(picture.contains(&format!("class=\"{part}\"")), "no {part}");
    }
    for text in [
        ">x · token 33<",
        ">= 100 refused (token 33)<",
        ">= 100 (token 34)<",
        ">paused 130 ms<",
    ] {
        assert!(picture.contains(text), "no {text}");
    }
    assert!(!picture.contains("class=\"harm\"") && !picture.contains("class=\"together\""));
}

// proves: N3
#[test]
fn harm_is_shown() {
    let stale = [
        at(1, "r", write(Some(8), true)),
        at(9, "r", write(Some(7), true)),
    ];
    let picture = english(&stale);
    assert!(picture.contains("class=\"harm\"") && picture.contains("class=\"harm-line\""));
    assert!(picture.contains("although it had taken the newer token 8"));
    let both = [
        at(1, "a", trusts("x")),
        at(5, "b", trusts("x")),
        at(9, "b", gave_back("x")),
    ];
    assert!(english(&both).contains("class=\"together\""));
}

#[test]
fn faults_are_shown() {
    let cut = What::LinkBroken {
        how: "slow".to_owned(),
    };
    let history = [
        at(1, "s", What::ClockMoved { by_ms: -1500 }),
        at(2, "s", What::Killed),
        at(3, "s", What::Restarted { with_data: false }),
        at(4, "c", cut),
        at(5, "c", waits_for("x")),
        at(90, "c", What::LinkHealed),
    ];
    let picture = english(&history);
    for text in [
        "clock −1500 ms",
        "killed",
        "restarted empty",
        "link broken: slow",
        "waits",
    ] {
        assert!(picture.contains(text), "no {text}");
    }
    for class in [
        "clock",
        "killed",
        "dead",
        "restarted",
        "cut",
        "cut-sign",
        "wait",
    ] {
        assert!(
            picture.contains(&format!("class=\"{class}\"")),
            "no {class}"
        );
    }
}

#[test]
fn lanes_come_in_the_order_of_appearance_and_resources_last() {
    let history = [
        at(0, "resource", write(Some(1), true)),
        at(1, "zoo", What::Paused),
        at(2, "ant", What::Paused),
    ];
    let words = Words::default();
    let names: Vec<_> = lanes(&history, &words)
        .iter()
        .map(|lane| lane.name)
        .collect();
    assert_eq!(names, ["zoo", "ant", "account"]);
}

#[test]
fn the_same_history_gives_the_same_picture() {
    assert_eq!(english(&classic()), english(&classic()));
    assert!(!english(&classic()).contains(" id="));
}

#[test]
fn the_legend_explains_what_is_there_in_its_language() {
    let picture = english(&classic());
    assert!(picture.contains("write refused") && !picture.contains("clock moved"));
    let chinese = svg(&classic(), &Words::new(Language::Chinese, "测试"));
    assert!(chinese.contains("写入被拒绝") && !chinese.contains("write refused"));
}

#[test]
fn many_calls_become_a_strip() {
    let calls = |number: u64| -> Vec<Event> {
        (0..number)
            .flat_map(|n| [at(n, "a", asked(n)), at(n, "a", done(n))])
            .collect()
    };
    assert!(!english(&calls(40)).contains("class=\"many\""));
    let dense = english(&calls(5000));
    assert!(
        dense.contains("class=\"many\"") && dense.len() < 60_000,
        "{}",
        dense.len()
    );
    let failures: Vec<_> = (0..3000)
        .flat_map(|n| [at(n, "a", asked(n)), at(n, "a", failed(n))])
        .collect();
    assert!(
        english(&failures).len() < 100_000,
        "{}",
        english(&failures).len()
    );
    let holds: Vec<_> = (0..20_000)
        .flat_map(|n| {
            [
                at(n, "a", believes("x", n, n + 9)),
                at(n, "a", gave_back("x")),
            ]
        })
        .collect();
    assert!(english(&holds).len() < 600_000, "{}", english(&holds).len());
}

#[test]
fn odd_histories_have_pictures() {
    assert!(english(&[]).contains("nothing happened"));
    let extremes = [
        at(0, "", What::Paused),
        at(u64::MAX / 1_000_000, "", What::Killed),
    ];
    for history in [&extremes[..1], &extremes[1..], &extremes] {
        let picture = english(history);
        assert!(
            !picture.contains("NaN") && !picture.contains("inf"),
            "{picture}"
        );
    }
}

/// Security test S10: whatever stands in a history, the picture has only its own elements.
#[test]
fn hostile_text_becomes_no_element() {
    let hostile = "\"/><script>alert(1)</script><image href='x'/>";
    let text = || hostile.to_owned();
    let history = [
        at(
            0,
            hostile,
            What::Asked {
                call: 1,
                deed: text(),
            },
        ),
        at(
            1,
            hostile,
            What::Done {
                call: 1,
                answer: text(),
            },
        ),
        at(2, hostile, trusts(hostile)),
        at(3, "s", holds(hostile, Some(hostile))),
        at(4, hostile, What::Note { text: text() }),
        at(90, hostile, What::LinkBroken { how: text() }),
    ];
    let picture = svg(&history, &Words::new(Language::English, hostile));
    let known = [
        "svg", "style", "rect", "line", "path", "circle", "text", "title",
    ];
    for element in picture.split('<').skip(1) {
        let name = element.trim_start_matches('/');
        let end = name
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(name.len());
        assert!(known.contains(&&name[..end]), "<{element}");
    }
}
