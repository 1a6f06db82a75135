//! What a scenario is, and how it is judged.

use crate::Result;
use crate::stage::Stage;

/// A story of the field, played in parts: at least one in which the harm must be seen, and at least one in which it
/// must not.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// What one types.
    pub name: &'static str,
    /// A line for a list.
    pub title: Text,
    /// The story: what goes wrong, and when it did in the field.
    pub story: Text,
    /// The requirement and bug numbers that it shows.
    pub proves: &'static str,
    /// The parts, in the order in which they are told.
    pub parts: &'static [Part],
}

/// In both languages of the guide.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// English.
    pub en: &'static str,
    /// Chinese.
    pub zh: &'static str,
}

/// One way to play the story.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Names the file of its picture: `naive`, `lockkeeper`, `fence`, …
    pub name: &'static str,
    /// Whether the harm must be seen in it.
    pub expects: Expects,
    /// Why it ends as it does, in one sentence.
    pub why: Text,
    /// Plays it.
    pub play: fn(&Stage) -> Result<Outcome>,
}

/// What a part is there to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expects {
    /// The naive way: without harm it proves nothing.
    Harm,
    /// The way out.
    NoHarm,
}

/// What was seen, in a sentence with the figures of this very run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The harm of the story happened.
    Harm(String),
    /// It did not, because nobody who should not hold believed to hold.
    Prevented(String),
    /// Somebody believed wrongly, and the resource refused.
    Refused(String),
}

/// How a part is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The naive way did harm, as it must.
    HarmSeen,
    /// The way out did none.
    HarmPrevented,
    /// The naive way did no harm this time: the part shows nothing, and fails.
    NotReproduced,
    /// The way out did harm: it is none.
    HarmDone,
}

impl Verdict {
    /// What this outcome means for a part with this expectation.
    #[must_use]
    pub fn of(expects: Expects, outcome: &Outcome) -> Verdict {
        match (expects, outcome) {
            (Expects::Harm, Outcome::Harm(_)) => Verdict::HarmSeen,
            (Expects::Harm, _) => Verdict::NotReproduced,
            (Expects::NoHarm, Outcome::Harm(_)) => Verdict::HarmDone,
            (Expects::NoHarm, _) => Verdict::HarmPrevented,
        }
    }

    /// Whether the part showed what it is there for.
    #[must_use]
    pub fn is_as_told(self) -> bool {
        matches!(self, Verdict::HarmSeen | Verdict::HarmPrevented)
    }

    /// As people say it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Verdict::HarmSeen => "harm seen",
            Verdict::HarmPrevented => "harm prevented",
            Verdict::NotReproduced => "NOT REPRODUCED",
            Verdict::HarmDone => "HARM DONE",
        }
    }
}

impl Outcome {
    /// The sentence.
    #[must_use]
    pub fn words(&self) -> &str {
        let (Outcome::Harm(words) | Outcome::Prevented(words) | Outcome::Refused(words)) = self;
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_naive_part_without_harm_is_a_failure() {
        let none = Outcome::Prevented(String::new());
        let harm = Outcome::Harm(String::new());
        assert_eq!(Verdict::of(Expects::Harm, &none), Verdict::NotReproduced);
        assert_eq!(Verdict::of(Expects::NoHarm, &harm), Verdict::HarmDone);
        assert!(!Verdict::NotReproduced.is_as_told() && !Verdict::HarmDone.is_as_told());
        assert!(Verdict::of(Expects::Harm, &harm).is_as_told());
        assert!(Verdict::of(Expects::NoHarm, &none).is_as_told());
    }
}
