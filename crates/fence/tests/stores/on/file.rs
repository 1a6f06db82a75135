//! A file: the fence, and the same without its lock.

use std::fs;
use std::time::Duration;

use lockkeeper_fence::Pass;
use lockkeeper_fence::file::FileFence;

use super::{Seen, Store, text, writer_of};
use crate::history::Verdict;
use crate::writer::{compared, now, verdict};

pub(crate) struct Fenced(FileFence);

impl Store for Fenced {
    async fn open(target: &str) -> Result<Self, String> {
        Ok(Self(FileFence::new(target)))
    }

    async fn write(&mut self, pass: &Pass, value: &str) -> Verdict {
        verdict(self.0.replace(pass, value.as_bytes()))
    }

    async fn write_in_two_steps(&mut self, pass: &Pass, value: &str, pause: Duration) -> Verdict {
        let (_, highest) = self.read().await.unwrap();
        if let Some(refused) = compared(pass, highest, pause).await {
            return refused;
        }
        let path = self.0.path();
        let draft = path.with_extension(now().to_string());
        fs::write(&draft, value).unwrap();
        fs::rename(draft, path).unwrap();
        Verdict::Accepted
    }

    /// In two steps the value is its own record.
    async fn read(&mut self) -> Result<Seen, String> {
        let value = fs::read_to_string(self.0.path()).unwrap_or_default();
        let value = writer_of(&value);
        let fence = self.0.highest().map_err(text)?;
        Ok((fence.or(value), value))
    }
}
