//! A file: replaced through the fence, beside the same atomic replacement without it.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use lockkeeper_fence::file::FileFence;

use super::{Pair, pass, value};
use crate::Result;
use crate::figures::local::runtime;
use crate::place::Place;
use crate::report::Figure;

const PER_ROUND: u64 = 20;

pub(super) fn measure(place: &Place) -> Result<Vec<Figure>> {
    let room = place.room("fence-file")?;
    let plain = room.join("plain");
    runtime()?.block_on(async {
        let (held, taken) = (
            FileFence::new(room.join("held")),
            FileFence::new(room.join("taken")),
        );
        let one_holder = Pair::new("a file, one holder writes on", PER_ROUND).measure(
            async |n| replace(&plain, value(n).as_bytes()),
            async |n| Ok(held.replace(&pass(1)?, value(n).as_bytes())?),
        );
        let one_holder = one_holder.await?;
        let new_holders =
            Pair::new("a file, every write a new holder's", PER_ROUND).without_target();
        let new_holders = new_holders.measure(
            async |n| replace(&plain, value(n).as_bytes()),
            async |n| Ok(taken.replace(&pass(n)?, value(n).as_bytes())?),
        );
        Ok(vec![one_holder, new_holders.await?])
    })
}

/// What a careful program does without a fence: all of the file or nothing, and on the disk.
fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let draft = path.with_extension("draft");
    let mut file = File::create(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    let directory = path.parent().ok_or("a file is in a directory")?;
    Ok(File::open(directory)?.sync_all()?)
}
