//! Many who do the same at once: tasks of this process, with connections and sessions of their own.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use super::Hands;
use crate::Result;
use crate::actor::deeds::{Answer, Deed};

/// What those who are done were answered. Whatever they hold, they hold as long as this process lives.
#[derive(Default)]
pub(super) struct Crowd {
    answers: Arc<Mutex<Vec<Answer>>>,
}

impl Crowd {
    pub(super) fn begin(&self, label: &str, size: usize, deed: &Deed) {
        for number in 1..=size {
            let hands = Hands::new(&format!("{label} {number}"));
            tokio::spawn(act(hands, deed.clone(), Arc::clone(&self.answers)));
        }
    }

    pub(super) fn done(&self) -> Result<Answer> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let ill = |answer: &&Answer| !(answer.is_granted() || answer.text().is_some());
        match answers.iter().find(ill) {
            Some(answer) => Ok(Answer::Failed(answer.words())),
            None => Ok(Answer::Text(answers.len().to_string())),
        }
    }
}

/// A box, because one of the crowd could be told to be a crowd.
fn act(
    mut hands: Hands,
    deed: Deed,
    answers: Arc<Mutex<Vec<Answer>>>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let answer = hands.perform(deed).await;
        let answer = answer.unwrap_or_else(|error| Answer::Failed(error.to_string()));
        note(&answers, answer);
        // Its hands stay full: dropping them would give back what they hold.
        std::future::pending::<()>().await;
        drop(hands);
    })
}

fn note(answers: &Mutex<Vec<Answer>>, answer: Answer) {
    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    answers.push(answer);
}
