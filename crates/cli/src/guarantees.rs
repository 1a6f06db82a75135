//! `lockkeeper guarantees`: what the engine promises, and under which assumptions.

use std::fmt::Write as _;
use std::io::Write as _;

use lockkeeper::Keeper;
use lockkeeper::guarantees::{Class, DeadAfter, Guarantees, Order, WakeBy};
use unicode_width::UnicodeWidthStr;

use crate::args::GuaranteesArgs;
use crate::exit::{self, Failure};
use crate::json::millis;
use crate::{span, table};

/// Where the values begin.
const INDENT: usize = 16;

pub(crate) fn guarantees(keeper: &Keeper, options: &GuaranteesArgs) -> Result<u8, Failure> {
    let promised = keeper.guarantees();
    let text = if options.json {
        as_json(promised, &keeper.place()).to_string() + "\n"
    } else {
        for_people(promised, &keeper.place())
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(exit::OK)
}

fn for_people(promised: &Guarantees, place: &str) -> String {
    let mut text = String::new();
    let width = table::terminal_width().map_or(usize::MAX, |width| width.saturating_sub(INDENT));
    let mut line = |title: &str, value: &str| {
        let mut title = title;
        for part in wrapped(value, width) {
            // Writing to a string cannot fail.
            let _infallible = writeln!(text, "{title:<INDENT$}{part}");
            title = "";
        }
    };
    line("engine", promised.backend);
    line("place", &crate::visible::visible(place));
    line("class", class(promised.class).1);
    line("", &promised.class_reason);
    for (index, fault) in promised.survives.iter().enumerate() {
        line(if index == 0 { "survives" } else { "" }, fault);
    }
    for (index, caveat) in promised.caveats.iter().enumerate() {
        line(if index == 0 { "mind" } else { "" }, caveat);
    }
    line("clock", promised.clock);
    line("token", &promised.token);
    line("waiters", order(promised.order).1);
    line("", wake(promised.wake).1);
    line("dead holders", dead_after(promised.dead_after).1);
    line("modes", &modes(promised).join(", "));
    let (shortest, longest) = (promised.shortest_lease, promised.longest_lease);
    line(
        "leases",
        &format!("{} to {}", span::show(shortest), span::show(longest)),
    );
    text
}

/// The text in lines of at most this width, if its words allow; nothing for no text.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn as_json(promised: &Guarantees, place: &str) -> serde_json::Value {
    serde_json::json!({
        "backend": promised.backend,
        "place": place,
        "class": class(promised.class).0,
        "class_reason": promised.class_reason,
        "survives": promised.survives,
        "caveats": promised.caveats,
        "clock": promised.clock,
        "token": promised.token,
        "wake": wake(promised.wake).0,
        "order": order(promised.order).0,
        "modes": modes(promised),
        "shortest_lease_ms": millis(promised.shortest_lease),
        "longest_lease_ms": millis(promised.longest_lease),
        "dead_after": dead_after(promised.dead_after).0,
    })
}

fn modes(promised: &Guarantees) -> Vec<&'static str> {
    let optional = [
        (promised.modes.shared, "shared"),
        (promised.modes.permits, "permits"),
    ];
    let granted = optional
        .into_iter()
        .filter(|(yes, _)| *yes)
        .map(|(_, name)| name);
    std::iter::once("exclusive").chain(granted).collect()
}

/// For programs, and for people; so are the following three.
fn class(class: Class) -> (&'static str, &'static str) {
    match class {
        Class::BestEffort => (
            "best-effort",
            "best effort: saves work; some single fault can make two holders",
        ),
        Class::Durable => (
            "durable",
            "durable: one store decides; grants and tokens survive its restart",
        ),
        Class::Consensus => (
            "consensus",
            "consensus: a majority decides; grants and tokens survive the loss of a minority",
        ),
        _ => ("other", "other"),
    }
}

fn wake(by: WakeBy) -> (&'static str, &'static str) {
    match by {
        WakeBy::Push => ("push", "told at once when it is their turn"),
        WakeBy::Poll => ("poll", "ask again and again, at a bounded rate"),
        _ => ("other", "other"),
    }
}

fn order(order: Order) -> (&'static str, &'static str) {
    match order {
        Order::Arrival => ("arrival", "served strictly in the order of their arrival"),
        Order::Chance => ("chance", "served as chance has it"),
        _ => ("other", "other"),
    }
}

fn dead_after(after: DeadAfter) -> (&'static str, &'static str) {
    match after {
        DeadAfter::Lease => ("lease", "gone when their lease ends"),
        DeadAfter::ProcessEnd => ("process-end", "gone at once when their process ends"),
        _ => ("other", "other"),
    }
}
