//! How a worker talks with the process that started it: a word per line comes in, numbers go out.

use std::io::{BufRead, Write};

use tokio::sync::mpsc::UnboundedReceiver;

use crate::Result;

/// The words that come in, until there are no more. They are read on a thread of their own: a lock
/// that the worker holds must be kept alive while it waits for a word.
pub(super) struct Words(UnboundedReceiver<String>);

impl Words {
    pub(super) fn listen() -> Self {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let lines = std::io::stdin().lock().lines();
            lines.map_while(std::result::Result::ok).for_each(|line| {
                let _ending = sender.send(line);
            });
        });
        Self(receiver)
    }

    pub(super) async fn next(&mut self) -> Option<Word> {
        let line = self.0.recv().await.filter(|line| line != "end")?;
        Some(Word(line.split_whitespace().map(str::to_owned).collect()))
    }
}

/// One line: what to do, and numbers.
pub(super) struct Word(Vec<String>);

impl Word {
    pub(super) fn is(&self, verb: &str) -> bool {
        self.0.first().is_some_and(|word| word == verb)
    }

    pub(super) fn number(&self, place: usize) -> Result<u64> {
        let word = self.0.get(place).ok_or("a number is missing")?;
        Ok(word.parse()?)
    }
}

pub(super) fn say(numbers: &[u64]) -> Result<()> {
    let words: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let line = words.join(" ") + "\n";
    Ok(std::io::stdout().lock().write_all(line.as_bytes())?)
}
