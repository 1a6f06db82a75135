//! One page over all that was played: no scripts, nothing from elsewhere.

use std::fmt::Write;

use super::text::{escape, time};
use super::words::{Language, Word, Words, verdict};
use super::{draw, style};
use crate::history::{nanos, to_lines};
use crate::told::{Played, Told};

/// The browser is to load and run nothing at all, whatever a name in the history says.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// All scenarios with their pictures, as one self-contained HTML page.
#[must_use]
pub fn page(told: &[Told], language: Language) -> String {
    let say = |word: Word| word.in_language(language);
    let mut out = String::new();
    // A write to a string cannot fail.
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"{tag}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>{page}{picture}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n\
         <p class=\"lead\">{lead}</p>\n<p>{summary}</p>\n</header>\n",
        tag = language.tag(),
        title = say(Word::PageTitle),
        page = style::PAGE,
        picture = style::PICTURE,
        lead = say(Word::PageLead),
        summary = summary(told, language),
    );
    contents(&mut out, told, language);
    out.push_str("<main>\n");
    for told in told {
        scenario(&mut out, told, language);
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn summary(told: &[Told], language: Language) -> String {
    let parts = told.iter().flat_map(|told| &told.parts);
    let wrong = parts.filter(|played| !played.verdict.is_as_told()).count();
    if wrong == 0 {
        return Word::AllAsTold.in_language(language).to_owned();
    }
    format!(
        "<strong class=\"unexpected\">{wrong} {}</strong>",
        Word::NotAsTold.in_language(language)
    )
}

fn contents(out: &mut String, told: &[Told], language: Language) {
    let say = |word: Word| word.in_language(language);
    let head = [Word::Scenario, Word::Part, Word::Judged, Word::Took].map(say);
    let _ = write!(
        out,
        "<nav aria-label=\"{contents}\">\n<h2>{contents}</h2>\n<div class=\"scroll\"><table>\n<thead><tr>",
        contents = say(Word::Contents)
    );
    for word in head {
        let _ = write!(out, "<th scope=\"col\">{word}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for told in told {
        for played in &told.parts {
            let _ = writeln!(
                out,
                "<tr><td><a href=\"#{}\">{}</a></td><td><a href=\"#{}\">{}</a></td><td>{}</td><td>{}</td></tr>",
                escape(told.scenario.name),
                escape(language.of(&told.scenario.title)),
                anchor(told, played),
                escape(played.part.name),
                badge(played, language),
                time(nanos(played.took)),
            );
        }
    }
    out.push_str("</tbody>\n</table></div>\n</nav>\n");
}

fn scenario(out: &mut String, told: &Told, language: Language) {
    let (scenario, say) = (told.scenario, |word: Word| word.in_language(language));
    let _ = write!(
        out,
        "<section id=\"{}\">\n<h2>{}</h2>\n<details open>\n<summary>{}</summary>\n<p>{}</p>\n\
         <p class=\"soft\">{}: {}</p>\n</details>\n",
        escape(scenario.name),
        escape(language.of(&scenario.title)),
        say(Word::Story),
        escape(language.of(&scenario.story)),
        say(Word::Shows),
        escape(scenario.proves),
    );
    for played in &told.parts {
        part(out, told, played, language);
    }
    out.push_str("</section>\n");
}

fn part(out: &mut String, told: &Told, played: &Played, language: Language) {
    let say = |word: Word| word.in_language(language);
    let title = format!(
        "{}: {}",
        language.of(&told.scenario.title),
        played.part.name
    );
    let picture = draw(&played.history, &Words::new(language, &title), "");
    let _ = write!(
        out,
        "<article id=\"{}\">\n<h3>{} {}</h3>\n\
         <dl><dt>{}</dt><dd>{}</dd><dt>{}</dt><dd>{}</dd><dt>{}</dt><dd>{}</dd></dl>\n\
         <figure><div class=\"scroll\" tabindex=\"0\">{picture}</div></figure>\n",
        anchor(told, played),
        escape(played.part.name),
        badge(played, language),
        say(Word::WhatHappened),
        escape(played.outcome.words()),
        say(Word::Why),
        escape(language.of(&played.part.why)),
        say(Word::Took),
        time(nanos(played.took)),
    );
    // What a recorder wrote can always be written.
    let lines = to_lines(&played.history).unwrap_or_default();
    let _ = write!(
        out,
        "<details><summary>{} ({} {})</summary>\n<pre tabindex=\"0\">{}</pre></details>\n</article>\n",
        say(Word::History),
        played.history.len(),
        say(Word::Events),
        escape(&lines),
    );
}

fn badge(played: &Played, language: Language) -> String {
    let class = if played.verdict.is_as_told() {
        "expected"
    } else {
        "unexpected"
    };
    let words = verdict(played.verdict).in_language(language);
    format!("<span class=\"verdict {class}\">{words}</span>")
}

fn anchor(told: &Told, played: &Played) -> String {
    escape(&format!("{}-{}", told.scenario.name, played.part.name))
}
