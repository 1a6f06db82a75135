//! Writes what was told to a directory: the page in both languages, every picture, every history.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::history::to_lines;
use crate::picture::{Language, page, svg};
use crate::told::{Played, Told};

/// Writes everything; the directory is made if it is not there.
///
/// # Errors
/// When a file cannot be written.
pub fn write(directory: &Path, told: &[Told]) -> Result<()> {
    fs::create_dir_all(directory)?;
    for Told { scenario, parts } in told {
        for played in parts {
            let stem = directory.join(format!("{}.{}", scenario.name, played.part.name));
            write_part(&stem, played)?;
        }
    }
    fs::write(directory.join("index.html"), page(told, Language::English))?;
    fs::write(directory.join("index.zh-CN.html"), page(told, Language::Chinese))?;
    Ok(())
}

fn write_part(stem: &Path, played: &Played) -> Result<()> {
    let named = |ending: &str| {
        let mut path = stem.as_os_str().to_owned();
        path.push(ending);
        path
    };
    fs::write(named(".svg"), svg(&played.history, Language::English))?;
    fs::write(named(".jsonl"), to_lines(&played.history)?)?;
    Ok(())
}
